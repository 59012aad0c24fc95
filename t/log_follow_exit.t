#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log_api follow=1 in a worker that exits while it reads older lines for a
# client that has not yet got those before: the response ends where it is, and
# what memcached answers then changes nothing.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ post /;

my $t = Test::Mcds->new()->not_in('single two many',
    'it looks at one worker, which exits');

# holds the reads of items that were read before: the second read of older lines
# begins with the chunk in which the first one has ended

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    my ($key) = $line =~ /^mg (log:\S+)/;

    return if !$f->mode() || !defined $key || !defined $f->flag($line, 'v');

    my $reply = $f->default($line, $value);

    return if $reply !~ /^VA/ || !$f->{asked}{$key}++;
    return ($f->hold('old'), $reply);
});

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 60s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        client_max_body_size 1m;
        location = /log {
            mcds_log_api     log chunk=60s;
            mcds_api_methods GET POST;
        }
        location = /slow {
            limit_rate_after 500k;
            limit_rate       100;
            mcds_log_api     log chunk=60s;
        }
    }
}
EOC

my $n = 12_000;

for my $i (0 .. $n / 1000 - 1) {
    my $r = post($h, '/log?time=-' . (300 - 10 * $i),
        1000 * $i + 1 .. 1000 * $i + 1000);

    is($r->status(), 204, "lines from $i thousand") or diag $r->body();
}

# most of what the first read has found waits for the client, though less than
# the 1 MB with which the worker reads no further

$f->tell('hold');

my $slow = Test::Mcds::Follow->new($h, '/slow?follow=1&first=-3600');
my $other = Test::Mcds::Follow->new($h, '/log?follow=1');

ok(wait_for(sub { $slow->drain(); length $slow->{rest} }, 20),
    'the first lines come');
ok(wait_for(sub { $f->held('old') }, 30), 'and the worker reads the next');

# the worker exits: both responses have ended when that of the other client,
# which came later, has

ok($h->reload(), 'reload');
ok(wait_for(sub { $other->ended() }, 30), 'the response to another one ends');
ok($other->whole(), 'with its last chunk');

$f->tell('');
1 while $f->release('old');

# until the worker has long stopped to ask

my ($asked, $quiet) = (0, 0);

ok(wait_for(sub {
    my $n = $f->count(qr/^mg log:/);

    $quiet = $n == $asked ? $quiet + 1 : 0;
    $asked = $n;

    return $quiet == 20;
}, 30), 'the worker reads no further');

ok(!$slow->ended(), 'the client still waits for the lines before');
is(scalar($h->leaving()), 1, 'and the worker for the client');

$slow->close();
ok(wait_for(sub { !$h->leaving() }, 30), 'until it has gone');
$other->close();

$t->done();
