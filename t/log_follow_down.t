#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log_api follow=1 while one of three servers is down: clients get the new
# lines that the others have, and are told that older lines cannot be read; the
# worker reads these a few times only.  Once the server is back, clients have
# each line once, and older lines can be read again.

use warnings;
use strict;

use List::Util qw/ max /;
use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ post /;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

$t->allow(qr/memcached server .* is down|is back|Connection refused/);

my @f = map { $t->fake($_, sub { return }) } qw/ f g /;
my $gone = $t->memcached('gone');

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_f%%;
        server 127.0.0.1:%%PORT_g%%;
        server 127.0.0.1:%%PORT_gone%%;
        distribution ketama;
        timeout 2s;
        fail_timeout 1s;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /log {
            mcds_log_api     log chunk=1s chunks=60 pool=main;
            mcds_api_methods GET POST;
        }
    }
}
EOC

my $n = 0;

add('?time=-20') for 1 .. 3;
$gone->stop();
$_->mark() for @f;

my $start = Time::HiRes::time();
my $new = Test::Mcds::Follow->new($h, '/log?follow=1');
my %old = map { $_ => Test::Mcds::Follow->new($h, "/log?follow=1&$_") }
    qw/ limit=2 first=-3600 /;


# only lines that come after the first look are new

ok(wait_for(sub { max(map { $_->count(qr/^mg log:/) } @f) > 20 }),
    'the worker looks');

my $first = $n + 1;

add() for 1 .. 3;
ok(wait_for(sub { $new->lines() =~ /\b$n\b/ }), 'new lines are seen')
    or diag($new->text());

for my $name (sort keys %old) {
    my $c = $old{$name};

    ok(wait_for(sub { $c->text() =~ /^: older lines cannot be read/m }, 20),
        "$name: the client is told that older lines cannot be read");
    ok(wait_for(sub { $c->lines() =~ /\b$n\b/ }),
        "$name: it gets the new ones") or diag($c->text());
}

# an attempt of a client reads each chunk once, or not at all, as it ends at one
# whose server is down; the look for new lines does not read a chunk that is 15
# seconds old

my $time = Time::HiRes::time() - $start;
my $old = int($start) - 15;
my %reads;

for (map { $_->log() } @f) {
    $reads{$1}++ if ($_->{key} // '') =~ /^log:(\d+)$/ && $1 < $old;
}

cmp_ok(max(0, values %reads), '<=', 12, "a few reads in $time seconds");

$_->mark() for @f;
add() for 1 .. 2;
ok(wait_for(sub { $new->lines() =~ /\b$n\b/ }), 'more lines');
is(scalar(grep { ($_->{key} // '') =~ /^log:(\d+)$/ && $1 < $old }
    map { $_->log() } @f), 0, 'the read of older ones has ended');


# the server is back

$gone->restart();
ok(wait_for(sub { $h->get('/log')->status() == 200 }, 20), 'back');
add();

for my $c ($new, values %old) {
    ok(wait_for(sub { $c->lines() =~ /\b$n\b/ }), 'the next line is seen');
    is(join(' ', sort { $a <=> $b } split / /, $c->lines()),
        join(' ', $first .. $n), 'each new line once');
    is($c->wrong(), 0, 'their ids rise');
    is(() = $c->text() =~ /^: older/mg, $c == $new ? 0 : 1, 'what it is told');
    $c->close();
}

my $c = Test::Mcds::Follow->new($h, "/log?follow=1&limit=2");

ok($c->seen(2), 'older lines can be read');
$c->close();
$t->done();


# writes a line; the server of its chunk may be down

sub add {
    my ($args) = @_;

    $n++;
    ok(wait_for(sub { post($h, '/log' . ($args // ''), $n)->status() == 204 },
        20),
        "line $n");
}
