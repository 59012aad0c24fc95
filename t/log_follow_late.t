#!/usr/bin/perl

# Copyright (C) mcds authors

# A client of mcds_log_api follow=1 gets a late line among the older ones, while
# the worker cannot look for new lines; once it can, it finds this line, too,
# and does not send it again.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ post /;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

# the worker looks for items that have changed without their values

my $m = $t->fake('m', sub {
    my ($f, $c, $line) = @_;
    return "SERVER_ERROR out of memory\r\n"
        if $f->mode() eq 'blind' && $line =~ /^mg \S*log:/ && $line !~ / v /;
    return;
});

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /log {
            mcds_log_api     log chunk=60s;
            mcds_api_methods GET POST;
        }
    }
}
EOC

my $now = Test::Mcds::Follow->new($h, '/log?follow=1');

is(post($h, '/log', 'first')->status(), 204, 'a line');
ok($now->seen(1), 'a client sees it');

$m->tell('blind');
is(post($h, '/log?time=-2', 'late')->status(), 204, 'a late line');

my $c = Test::Mcds::Follow->new($h, '/log?follow=1&first=-60');
ok(wait_for(sub { $c->lines() =~ /late/ }), 'it is among the older ones')
    or diag($c->lines());

# some more looks fail

$m->mark();
ok(wait_for(sub { $m->count(qr/^mg \S*log:/) > 20 }), 'looks fail');
$m->tell('');

is(post($h, '/log', 'last')->status(), 204, 'a new line');
ok(wait_for(sub { $_->lines() =~ /last/ }), 'is seen') for $c, $now;
is(join(' ', sort split / /, $_->lines()), 'first last late', 'each line once')
    for $c, $now;
is($c->wrong(), 0, 'their ids rise');

$_->close() for $c, $now;
$t->done();
