#!/usr/bin/perl

# Copyright (C) mcds authors

# What was sent to a follower of a log is given back, even while a server is
# down; what holds nothing new is not kept.

use warnings;
use strict;

use List::Util qw/ max /;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ post /;
use Test::Mcds::Memory;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

$t->leave('sanitizers have allocations of their own') if $t->watched();
$t->allow(qr/is down after/);

my $m = $t->memcached('m');
my $blind = $t->memcached('blind', args => ['-C']);     # it has no CAS
my $gone = $t->memcached('gone');

my $h = $t->nginx('h', <<'EOC', memory => 1);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool blind { server 127.0.0.1:%%PORT_blind%%; }
    mcds_pool half {
        server 127.0.0.1:%%PORT_m%%;
        server 127.0.0.1:%%PORT_gone%%;
        distribution ketama;
    }
    mcds_use main;
    log_format n '$arg_n $http_x_long';
    large_client_header_buffers 4 16k;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /n { mcds_log log n chunk=1s chunks=5; return 204; }
        location = /log { mcds_log_api log chunk=1s chunks=5; }
        location = /blind {
            mcds_log_api blind chunk=1h pool=blind;
            mcds_api_methods GET POST;
        }
        location = /half {
            mcds_log_api half chunk=1s chunks=60 pool=half;
            mcds_api_methods GET POST;
        }
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



# items that are read each time, as nothing tells whether they have changed

is(post($h, '/blind?time=-2', ('y' x 7000) x 100)->status(), 204, 'old lines');
$c = Test::Mcds::Follow->new($h, '/blind?follow=1');
looks($blind, 5);

my $before = $memory->now()->{bytes};

looks($blind, 10);
cmp_ok($memory->now()->{bytes} - $before, '<', 3 * $per_round,
    'what is read again is not kept');
is($c->count(), 0, 'none is new');
$c->close();


# no look succeeds as long as a server is down: what the other one has is sent,
# and not kept

$gone->stop();
$c = Test::Mcds::Follow->new($h, '/half?follow=1');
looks($m, 2);
$before = $memory->now()->{bytes};
$n = 0;
ok(wait_for(sub {
    $n += 10 if post($h, '/half', ($long) x 10)->status() == 204;
    $c->drain();
    return $n >= 400;
}, 30), 'lines to the other server') or diag($n);
# a request that fails as a whole may have stored some of its lines

ok(wait_for(sub { $c->count() >= $n }, 20), 'it is sent') or diag($c->count());
looks($m, 2);
ok(wait_for(sub { $memory->now()->{bytes} - $before < $per_round }),
    'it is not kept') or diag($memory->now()->{bytes} - $before);
$c->close();
$t->done();


# waits for so many looks at the log; each asks for no more than 20 items

sub looks {
    my ($server, $looks) = @_;

    my $gets = $server->stats()->{cmd_get} + 20 * $looks;

    ok(wait_for(sub { $server->stats()->{cmd_get} > $gets }, 30),
        "$looks looks");
    $memory->quiet();
}
