#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log_api follow=1 of a client that asks for more older lines than may be
# read at once: it is told so, and gets the new ones.

use warnings;
use strict;

use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ frame /;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

my $m = $t->memcached('m', memory => 256);

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_zone 8m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 10s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /log {
            mcds_log_api     log chunk=60s;
            mcds_api_methods GET POST;
        }
        location = /status { mcds_status; }
    }
}
EOC

# 75 items of 900 KB, some minutes ago

my $chunk = int(Time::HiRes::time() / 60) - 5;
my $items = join '', map {
    frame(writer => 7, seq => $_, host => 'a',
        lines => [[$chunk * 60_000 + $_, 'x' x 16_000]])
} 1 .. 56;

$m->set("log:$chunk" . ($_ ? ":$_" : ''), $items, 3600) for 0 .. 74;

is($h->get('/log?limit=1')->status(), 507, 'too large');

my %client = (
    'limit' => Test::Mcds::Follow->new($h, '/log?follow=1&limit=1'),
    'first' => Test::Mcds::Follow->new($h, '/log?follow=1&first=-3600'),
);

for my $name (sort keys %client) {
    my $c = $client{$name};

    ok(wait_for(sub { $c->drain(); $c->text() =~ /^: older lines are too/m },
        30), "$name: it is told");
}

is(http_post($h->port(), '/log', '"new"',
    headers => { 'Content-Type' => 'application/json' })->status(), 204,
    'a new line');

for my $name (sort keys %client) {
    my $c = $client{$name};

    ok($c->seen(1, 30), "$name: a line");
    is($c->lines(), 'new', "$name: the new one");
    is(() = $c->text() =~ /^: older/mg, 1, "$name: it is told once");
    $c->close();
}

my ($log) = grep { $_->{name} eq 'log' } @{status($h)->{logs}};

is($log->{failures}{too_large}, 3, 'each is counted')
    or diag(explain($log));

$t->done();
