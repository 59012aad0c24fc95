#!/usr/bin/perl

# Copyright (C) mcds authors

# eject on: while the server of a page is down, mcds finds and purges the page
# that another one has for it, which nginx serves, and says that this is not
# all: the page of the first server may be there again when it returns.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my @m = map { $t->memcached("m$_") } 0 .. 2;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => 'answer %k' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server          127.0.0.1:%%PORT_m0%%;
        server          127.0.0.1:%%PORT_m1%%;
        server          127.0.0.1:%%PORT_m2%%;
        distribution    ketama;
        eject           on;
        timeout         10s;
        connect_timeout 10s;
        fail_timeout    300ms;
    }
    server {
        listen     127.0.0.1:%%PORT%%;
        mcds_cache main;
        add_header X-Cache $mcds_cache_status;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

my $mcds = Test::Mcds::Tool->new($t, '-c', $h->dir() . '/nginx.conf');

sub url { 'http://localhost' . shift }

# the server that has a page

sub where {
    my ($uri) = @_;

    my ($i) = grep { $m[$_]->pid() && $m[$_]->get('<>' . url($uri)) } 0 .. 2;

    return $i;
}

sub status { $h->get(shift)->header('X-Cache') }

# a page on each of the servers, and two on the one that will be down

my @uris;

for (my $n = 1; grep { !$_ } map { $uris[$_] && @{$uris[$_]} > 1 } 0 .. 2;
    $n++)
{
    my ($uri, $i) = "/page/$n";

    $h->get($uri);
    wait_for(sub { defined($i = where($uri)) });
    push @{$uris[$i]}, $uri;
}

is($mcds->run('purge', url($uris[1][1]))->{code}, 0,
    'all of them are up');

$m[1]->stop();

my ($gone, $late) = @{$uris[1]};

ok(wait_for(sub {
    $h->get($gone);
    $h->log_has(qr/" of pool "main" is down after/);
}), 'one of them is down');

ok(wait_for(sub { status($gone) eq 'HIT' }), 'another one has its page');

my $i = where($gone);

# what is served is shown

my $p = $mcds->json('get', url($gone))->[0];

is($p->{state}, 'fresh', 'mcds finds it');
is($p->{server}, '127.0.0.1:' . $m[$i]->port(), 'there');
is($mcds->run('get', '--body', url($gone))->{out}, $h->get($gone)->body(),
    'and shows what nginx serves');

# and purged

for my $mode ([], ['--delete']) {
    for my $uri ($gone, $uris[0][0]) {
        ok(wait_for(sub { status($uri) eq 'HIT' }), "@$mode: a page is served");
    }

    my $r = $mcds->run('--json', 'purge', @$mode, url($gone), url($uris[0][0]));

    is($r->{code}, 3, "@$mode: not on all servers");
    is_deeply([map { $_->{purged} ? 1 : 0 }
        @{JSON::PP::decode_json($r->{out})}], [0, 1],
        "@$mode: which is said of this page");
    like($r->{err}, qr{^mcds purge: \S+\Q$gone\E: }m, "@$mode: and why");
    isnt(status($gone), 'HIT', "@$mode: it is purged on the one that has it");
    isnt(status($uris[0][0]), 'HIT', "@$mode: and so is the other one");
}

is($mcds->run('purge', url($uris[2][0]))->{code}, 0,
    'on a server that is up all is done');
is($mcds->run('purge', url($late))->{code}, 3, 'nothing there');

# the server is back, empty

$m[1]->restart();

ok(wait_for(sub { $h->log_has(qr/is up again/) }), 'the server is back');
ok(wait_for(sub {
    status($gone) eq 'HIT' && $m[1]->get('<>' . url($gone));
}), 'it has the page');
is($mcds->run('purge', '--delete', url($gone))->{code}, 0, 'purged there');
isnt(status($gone), 'HIT', 'and gone');

$t->done();
