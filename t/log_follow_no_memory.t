#!/usr/bin/perl

# Copyright (C) mcds authors

# A worker that runs out of memory while it looks for new lines of a log sends
# them to followers later: none is lost, and none is sent twice.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ post /;
use Test::Mcds::Memory;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

$t->leave('sanitizers have allocations of their own') if $t->watched();
$t->allow(qr/malloc\(\d+\) failed|posix_memalign\(\d+, \d+\) failed/);

my $m = $t->memcached('m');

my ($h, $writer) = map { $t->nginx($_, <<'EOC', memory => 1) } 'h', 'writer';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /log {
            mcds_log_api log chunk=1h;
            mcds_api_methods GET POST;
        }
    }
}
EOC

my $memory = Test::Mcds::Memory->of($h, ($h->workers())[0]);
my $c = Test::Mcds::Follow->new($h, '/log?follow=1');
my ($n, $failed, $lines) = (0, 0, 150);

# the arrays of a look for new lines grow twice with so many lines

for my $nth ($t->size(4, 1) .. $t->size(9, 40)) {
    $memory->fail($nth);

    is(post($writer, '/log', map { "$nth $_" } 1 .. $lines)->status(), 204,
        "$nth: lines are written");

    $n += $lines;
    ok($c->seen($n), "$nth: all of them are seen")
        or diag($c->count(), " of $n");
    $failed += $memory->now()->{failed};
}

is($c->wrong(), 0, 'none is seen twice');
cmp_ok($failed, '>', 3, 'allocations have failed');

$memory->fail(0);
$c->close();
$t->done();
