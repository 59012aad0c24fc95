#!/usr/bin/perl

# Copyright (C) mcds authors

# Clients of mcds_log_api follow=1, and the tool, get all lines, each once, if
# more lines of the last seconds are there at a time than a worker holds back
# until they are in order.

use warnings;
use strict;

use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ frame post /;
use Test::Mcds::Tool;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

my $m = $t->memcached('m', memory => 256);

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 20s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /log {
            mcds_log_api     log chunk=60s;
            mcds_api_methods GET POST;
        }
    }
}
EOC

# lines that a host has written whose clock is ahead: as long as a worker waits
# for earlier ones, even on a busy machine

my $n = 101_000;
my $each = 10_100;
my $ahead = int(1000 * Time::HiRes::time()) + 1000 * 20 * $t->slow();
my $chunk = int($ahead / 60_000);

for my $part (0 .. $n / $each - 1) {
    my $i = $part * $each;

    $m->set("log:$chunk" . ($part ? ":$part" : ''), frame(writer => 7,
        seq => $i + 1, host => 'a', lines => [map { [$ahead, $i + $_] }
            1 .. $each]), 3600);
}

my $mcds = Test::Mcds::Tool->new($t, '-c', $h->dir() . '/nginx.conf');
my $tool = $mcds->start('log', 'follow', 'log', '--since', '1m');

my %client = map { $_ => Test::Mcds::Follow->new($h, "/log?follow=1$_") }
    '', '&first=-60';

my $all = join ' ', 1 .. $n;

for my $args (sort keys %client) {
    my $c = $client{$args};

    ok($c->seen($n, 60), "follow=1$args: all lines")
        or diag($c->count());
    ok($c->lines() eq $all, "follow=1$args: in order");
    is($c->wrong(), 0, "follow=1$args: each once");
}

# a client that comes when the others have got the lines, and another line is
# held back until it is in order

is(post($h, '/log', 'held')->status(), 204, 'a line that is held back');

my $late = Test::Mcds::Follow->new($h, '/log?follow=1&first=-60');

ok($late->seen($n + 1, 60), 'later: all lines') or diag($late->count());
is($late->wrong(), 0, 'later: each once');

for my $args (sort keys %client) {
    ok(wait_for(sub { $client{$args}->lines() =~ / held$/ }),
        "follow=1$args: the line that was held back");
}

ok(wait_for(sub { $tool->lines() > $n }, 60), 'the tool: all lines');

is(post($h, '/log', 'new')->status(), 204, 'a new line');

for my $c ($late, map { $client{$_} } sort keys %client) {
    ok(wait_for(sub { $c->lines() =~ / new$/ }), 'is seen');
    is($c->count(), $n + 2, 'once');
    $c->close();
}

ok(wait_for(sub { $tool->lines() > $n + 1 }), 'the tool: the new line');
is(join(' ', $tool->lines()), "$all held new", 'the tool: each once, in order');
is($tool->stop(), 0, 'the tool ends');

$t->done();
