#!/usr/bin/perl

# Copyright (C) mcds authors

# The counter and the records of purges are on each server of a pool: a page
# with tags is read, with all that says whether it was purged, by one write to
# one server; a purge moves all counters on to one number, which is above that
# of any page, whatever server it is of.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Tool;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/purge failed/);
$t->needs('mcds vary');

my @f = map {
    $t->fake($_, sub {
        my ($f, $c, $line) = @_;
        return $f->mode() eq 'full' && $line =~ /^m[as] <mcds:/
            ? "SERVER_ERROR out of memory\r\n" : ();
    })
} 'f0' .. 'f2';

my @headers = ('Cache-Control' => 'max-age=60', 'Cache-Tag' => 'a,b');

my $o = $t->origin('o', { body => 'answer %k', headers => \@headers }, paths =>
    { '/vary' => { headers => [@headers, Vary => 'X-A'] } });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_f0%%;
        server 127.0.0.1:%%PORT_f1%%;
        server 127.0.0.1:%%PORT_f2%%;
        distribution ketama;
    }
    mcds_pool half {
        server 127.0.0.1:%%PORT_f0%%;
        server 127.0.0.1:%%PORT_none%% down;
        distribution modula;
    }
    mcds_use main;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_tag $upstream_http_cache_tag;
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /purge { mcds_cache off; mcds_purge_api on; }
        location = /half { mcds_use half; mcds_cache off;
            mcds_purge_api on; }
    }
}
EOT

my $counter = '<mcds:purges';
my $record = '<mcds:tag:a';

sub status { $h->get(@_)->header('X-Cache') }
sub purge { $h->get("/purge?$_[0]")->status() }

# of each server: what it has under a key

sub all { map { $_->get($_[0]) // 'none' } @f }

# pages, one on each server

my @uri;

for my $i (1 .. 100) {
    my ($home, $uri) = (undef, "/page-$i");

    $h->get($uri);
    wait_for(sub {
        ($home) = grep { defined $f[$_]->get("<>$uri") } 0 .. $#f;
        return defined $home;
    }) or die $uri;

    $uri[$home] //= $uri;
    last if 3 == grep { defined } @uri[0 .. $#f];
}

# the cost of a hit

for my $i (0 .. $#f) {
    ok(wait_for(sub { status($uri[$i]) eq 'HIT fresh' }), "$uri[$i]: a hit");

    $_->mark() for @f;
    is(status($uri[$i]), 'HIT fresh', 'another one');

    my @log = map { [grep { $_->{cmd} !~ /^(?:version|mn)$/ } $_->log()] } @f;

    is_deeply([map { scalar(@$_) } @log], [map { $_ == $i ? 6 : 0 } 0 .. 2],
        'asks its own server') or diag(explain(\@log));
    is(scalar(keys %{ { map { ("$_->{conn} $_->{read}" => 1) }
        @{$log[$i]} } }), 1, 'in one batch');
}

# counters that differ agree after a purge

my ($n) = sort { $b <=> $a } all($counter);

$f[1]->set($counter, $n + 1_000_000);
$f[2]->delete($counter);

is(purge('tag=a&mode=delete'), 200, 'purged');
is_deeply([all($counter)], [($n + 1_000_001) x 3],
    'all counters are the largest');
is_deeply([all($record)], [($n + 1_000_001 . ' ' . ($n + 1_000_001)) x 3],
    'so are the records');

for my $uri (@uri) {
    is(status($uri), 'MISS purged', "$uri is gone");
    ok(wait_for(sub { status($uri) eq 'HIT fresh' }), 'and new');
}

# a page has the number of another server, as after it has moved

$f[1]->set($counter, $n + 5_000_000);

$f[0]->set("<>$uri[0]", page_encode(key => "<>$uri[0]", body => 'moved',
    ext => pack('vVQ<', 2, 17, $n + 5_000_000) . 'all tag:a',
    expire => int(time() * 1000) + 600000));

is($h->get($uri[0])->body(), 'moved', 'it is found');
is(purge('tag=b'), 200, 'another tag is purged');
is($h->get($uri[0])->body(), 'moved', 'it is still there');

$f[1]->set($counter, $n + 5_000_000);

is(purge('tag=a'), 200, 'its tag is purged');
is(status($uri[0]), 'STALE purged', 'it is not missed');

# variants lie on other servers than their list

my $variants = 6;

sub variants {
    return map { status('/vary', headers => { 'X-A' => $_ }) } 1 .. $variants;
}

sub all_hit {
    return wait_for(sub {
        $variants == grep { $_ eq 'HIT fresh' } variants();
    });
}

ok(all_hit(), 'all variants are stored');

# the names of the servers are random, so all six may lie on one of them

my $several;

for (1 .. 20) {
    $_->mark() for @f;
    variants();

    $several = grep { $_->count(qr/:vary:/) } @f;
    last if $several > 1;

    $variants++;
    all_hit();
}

cmp_ok($several, '>', 1, 'on several servers');

is(purge('tag=b&mode=delete'), 200, 'their tag is purged');
is_deeply([variants()], [('MISS purged') x $variants], 'all are gone');
ok(all_hit(), 'and new');


# as good as the worst server

for my $uri (@uri) {
    ok(wait_for(sub { status($uri) eq 'HIT fresh' }), "$uri is new");
}

$f[2]->tell('full');

is(purge('tag=a&mode=delete'), 503, 'one of them cannot');
is(status($uri[$_]), 'MISS purged', 'others have') for 0, 1;

my $tool = Test::Mcds::Tool->new($t, '-c', $h->dir() . '/nginx.conf');
my $r = $tool->run('purge', '--tag', 'a', '--delete');
isnt($r->{code}, 0, 'the tool says so, too');
like($r->{err}, qr/SERVER_ERROR|server error/i, 'and why');

$f[2]->tell('');

$r = $tool->run('purge', '--tag', 'a', '--delete');
is($r->{code}, 0, 'then it can');
is(status($uri[2]), 'MISS purged', 'and has');

# one that the configuration keeps down does not count

is($h->get('/half?tag=a')->status(), 200, 'no server is missing');


# the pool of "on" is that of mcds_cache, or the one of mcds_use

my $pools = join ' ', map { "mcds_pool $_ { server 127.0.0.1:1; }" } qw/ a b /;

is($t->conf_error(http => $pools, location => 'mcds_cache a;
    mcds_purge_api on;'), '', 'the pool of mcds_cache');
like($t->conf_error(http => $pools, location => 'mcds_purge_api on;'),
    qr/"mcds_purge_api" .*"mcds_use"/, 'without it, mcds_use is needed');

$t->done();
