#!/usr/bin/perl

# Copyright (C) mcds authors

# What was sent to a follower of a log is given back.

use warnings;
use strict;

use List::Util qw/ max /;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Memory;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

$t->leave('sanitizers have allocations of their own') if $t->watched();

my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOC', memory => 1);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    log_format n '$arg_n $http_x_long';
    large_client_header_buffers 4 16k;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /n { mcds_log log n chunk=1s chunks=5; return 204; }
        location = /log { mcds_log_api log chunk=1s chunks=5; }
    }
}
EOC

my $memory = Test::Mcds::Memory->of($h, ($h->workers())[0]);
my $c = Test::Mcds::Follow->new($h, '/log?follow=1');
my $long = 'x' x 7000;
my ($n, @bytes) = 0;

for my $round (1 .. 4) {
    for (1 .. 100) {
        $h->get("/n?n=$n", headers => { 'X-Long' => $long });
        $n++;
    }

    ok($c->seen($n), "round $round: all lines are seen");
    $memory->quiet();
    push @bytes, $memory->now()->{bytes};
}

my $per_round = 100 * length $long;

# the last lines may be on their way to the client, or not any more

cmp_ok(max(@bytes[2, 3]) - max(@bytes[0, 1]), '<', $per_round,
    'two rounds leave less than one') or diag("@bytes");

$c->close();
$t->done();
