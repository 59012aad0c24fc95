#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log_api follow=1 of a client that has much to catch up with: it gets all
# lines since the last one that it has seen, more than one read returns, each
# once and in order, and those that are written meanwhile.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ post /;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

$t->memcached('m');

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        client_max_body_size 1m;
        location = /log {
            mcds_log_api     log chunk=60s;
            mcds_api_methods GET POST;
        }
    }
}
EOC

my $n = 23_000;
my $r;

for my $i (0 .. $n / 1000 - 1) {
    $r = post($h, '/log?time=-' . (300 - 10 * $i),
        1000 * $i + 1 .. 1000 * $i + 1000);
    is($r->status(), 204, "lines from $i thousand") or diag $r->body();
}

my ($first) = $h->get('/log?first=-3600&limit=1')->body() =~ /"id":"([^"]+)"/;

my %client = (
    'first' => Test::Mcds::Follow->new($h, '/log?follow=1&first=-3600'),
    'limit' => Test::Mcds::Follow->new($h,
        '/log?follow=1&first=-3600&limit=5'),
    'back' => Test::Mcds::Follow->new($h, '/log?follow=1&limit=10',
        headers => { 'Last-Event-ID' => $first }),
    'last' => Test::Mcds::Follow->new($h, '/log?follow=1&limit=10'),
);

is(post($h, '/log', 'new')->status(), 204, 'a new line');

my %want = ('first' => $n, 'limit' => $n, 'back' => $n - 1, 'last' => 10);

for my $name (sort keys %client) {
    my $c = $client{$name};
    my $from = $n - $want{$name} + 1;

    ok($c->seen($want{$name} + 1, 30), "$name: all lines") or diag $c->count();
    ok($c->lines() eq join(' ', $from .. $n, 'new'), "$name: in order");
    is($c->wrong(), 0, "$name: their ids rise");
    $c->close();
}

$t->done();
