#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached closes connections that were idle for a second: requests that come
# now and then see nothing of it.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', args => ['-o', 'idle_timeout=1']);
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => "page of %u, " x 4000 . "end of %u\n" });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server    127.0.0.1:%%PORT_m%%;
        timeout   5s;
        max_fails 1;
    }
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / {
            mcds_counter $n key=n;
            mcds_cache on;
            mcds_cache_key page:$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache $mcds_cache_status;
            add_header X-Number $n;
        }
    }
}
EOT

$h->get('/page') for 1 .. 6;
ok(wait_for(sub { defined $m->get('page:/page') }), 'stored');
$h->get('/page') for 1 .. 20;

my $n = $m->get('n');
my ($asked, %wrong) = (0);

sub ask {
    my $res = $h->get('/page');

    $asked++;
    $wrong{status}++ if $res->status() != 200;
    $wrong{body}++ if $res->body() !~ /^page of .*end of .page\n\z/;
    $wrong{number}++ if ($res->header('X-Number') // 'none') ne ++$n;
    $wrong{miss}++ if $res->header('X-Cache') ne 'HIT';
    $wrong{slow}++ if $res->time() > 1;
}


# all of them were closed

for my $round (1 .. $t->size(1, 50)) {
    $m->hang_up();
    ok(wait_for(sub { idle() == 0 }, 20), "round $round: all were closed");
    ask() for 1 .. 10;
}

is_deeply(\%wrong, {}, "$asked requests after a pause: none saw it");


# just when they are being closed: a command that had left is lost with its
# connection, and is not sent again, since it may have been done

my $end = time() + $t->size(1.5, 600);

while (time() < $end) {
    sleep 0.9 + rand 0.25;
    ask();
}

cmp_ok($wrong{number} // 0, '<=', 1 + $asked / 100,
    "$asked requests: hardly any was hit by the end of its connection");
delete $wrong{$_} for qw/ number miss /;
is_deeply(\%wrong, {}, 'and all were answered at once');

ok($h->log_lacks(qr/is down/), 'what was idle is no failure');

$t->done();


# the connections of nginx that are there

sub idle {
    my $port = sprintf '%04X', $m->port();

    sleep 0.05;
    open my $fh, '<', '/proc/net/tcp' or return 0;

    return scalar grep { /^\s*\d+: \w+:\w+ \w+:$port 01/ } <$fh>;
}
