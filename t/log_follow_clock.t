#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log_api follow=1 when the clock of a host is set back, and ahead again:
# lines that are written then are sent as usual, and no line is sent twice.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ post /;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

# the chunk "k" begins

my $k = 1_700_000_000;
my $clock = Test::Mcds::Clock->new($t, $k - 40);
my $m = $t->memcached('m');

my $h = $clock->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /log {
            mcds_log_api     log chunk=10s chunks=60;
            mcds_api_methods GET POST;
        }
    }
}
EOC

my $c = Test::Mcds::Follow->new($h, '/log?follow=1');
my $n = 0;

# one look tells which lines are new

my $gets = $m->stats()->{cmd_get} + 8;

ok(wait_for(sub { $m->stats()->{cmd_get} >= $gets }), 'the worker looks');


# the worker follows from chunk k - 4 on to k

for my $at (-35, -25, -15, -5, 5) {
    $clock->set($k + $at);
    line("at $at");
}


# in each step the clock is set by so many seconds

for my $step (-20, 1, 10, 10, -30, -50, 60, 20) {
    $clock->add($step);
    line("set by $step");
}

# a client that comes after the clock was set back, in time for a new line that
# is held back until it is in order

$clock->add(-20);
is(post($h, '/log', ++$n)->status(), 204, 'a line before a client');

my $late = Test::Mcds::Follow->new($h, '/log?follow=1&first=-100');

ok(wait_for(sub { $late->lines() =~ /\b$n\b/ }), 'the client reads the line');

$gets = $m->stats()->{cmd_get} + 24;

ok(wait_for(sub { $m->stats()->{cmd_get} >= $gets }), 'the worker looks again');

$clock->add(1.6);
line('after a late client');

ok(wait_for(sub { $late->lines() =~ /\b$n\b/ }), 'the client sees it');
is($late->wrong(), 0, 'each line once for the late client')
    or diag($late->lines());
$late->close();

is($c->lines(), join(' ', 1 .. $n), 'each line once');
is($c->wrong(), 0, 'their ids do not fall');
$c->close();
$t->done();


# writes a line, which is to be seen when it has settled

sub line {
    my ($name) = @_;

    $n++;
    is(post($h, '/log', $n)->status(), 204, "$name: a line");
    $clock->add(1.6);
    ok(wait_for(sub { $c->lines() =~ /\b$n\b/ }), "$name: is seen")
        or diag($c->lines());
}
