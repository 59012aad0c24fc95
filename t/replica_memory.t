#!/usr/bin/perl

# Copyright (C) mcds authors

# What goes to several servers is given back when the last of them has it: pages
# that are stored with replicas, and refreshed, leave nothing in the worker.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Memory;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

$t->leave('sanitizers have allocations of their own') if $t->watched();

my $size = 100_000;
my @m = map { $t->memcached("m$_") } 0 .. 1;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => 'x' x $size });

my $h = $t->nginx('h', <<'EOT', memory => 1);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution modula;
        replicas     2;
    }
    mcds_cache_key $uri;
    mcds_purge_api method=PURGE;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $memory = Test::Mcds::Memory->of($h, ($h->workers())[0]);

sub pages {
    my ($from, $to) = @_;

    for my $uri (map { "/$_" } $from .. $to) {
        is(length($h->get($uri)->body()), $size, "$uri: built");
        ok(page_wait($_, $uri), "$uri: stored") for @m;
        $h->get($uri);
    }

    $memory->quiet();
    return $memory->now()->{bytes};
}

my $before = pages(1, 20);
my $after = pages(21, 40);

cmp_ok($after - $before, '<', 10 * $size, 'twenty pages more leave nothing');

$t->done();
