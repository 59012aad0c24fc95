#!/usr/bin/perl

# Copyright (C) mcds authors

# A replica that has come back empty is raised to the number that the other one
# had when the difference was seen: later counts are on their way to it, and are
# not added twice.  It is raised again if it comes back empty once more.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my @m = map { $t->memcached("m$_") } 0 .. 1;

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server   127.0.0.1:%%PORT_m0%%;
        server   127.0.0.1:%%PORT_m1%%;
        distribution modula;
        replicas 2;
        timeout  1s;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=$uri;
            mcds_counter_durable $n off;
            mcds_return $n;
        }
        location = /less {
            mcds_counter $less key=$arg_k by=-1;
            mcds_return $less;
        }
    }
}
EOT

for my $low ($t->size(1, 2) == 1 ? 1 : (0, 1)) {
    my ($a, $b) = @m[1 - $low, $low];
    my $key = "/n$low";
    my $again = "/again$low";

    $h->get($again) for 1 .. 10;
    $b->delete($again);
    $h->get($again) for 1 .. 2;
    is($a->get($again) . ' ' . $b->get($again), '12 2', "$again: they differ");

    $h->get($key) for 1 .. 10;
    is(join(' ', map { $_->get($key) } @m), '10 10', "$key: both have all");

    $b->delete($key);
    is($h->get($key)->body(), 11, "$key: one begins anew");
    is($a->get($key) . ' ' . $b->get($key), '11 1', "$key: they differ");

    # another host counts: it has told the one, and not yet the other

    $a->mc("ma $key");

    ok(wait_for(sub { $b->get($key) > 1 }), "$key: it is raised");
    is($b->get($key), 11, "$key: to the number that was seen");

    $b->mc("ma $key");
    is($a->get($key) . ' ' . $b->get($key), '12 12', "$key: then both have it");

    # in the second wait, the server comes back empty once more

    ok(wait_for(sub { $b->get($again) >= 11 }), "$again: it is raised");
    $b->delete($again);
    $h->get($again);
    is($a->get($again) . ' ' . $b->get($again), '13 1', "$again: once more");

    # a decrement, too, creates a counter

    $key = "/less$low";
    $h->get($key) for 1 .. 10;
    $b->delete($key);
    is($h->get("/less?k=$key")->body(), 9, "$key: one begins anew");
    is($a->get($key) + 0 . ' ' . $b->get($key), '9 0', "$key: they differ");
    ok(wait_for(sub { $b->get($key) == 9 }), "$key: it is raised");

    ok(wait_for(sub { $b->get($again) >= 12 }), "$again: raised once more");
}

$t->done();
