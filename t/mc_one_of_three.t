#!/usr/bin/perl

# Copyright (C) mcds authors

# One of three memcached dies: only its keys are missing, on all hosts the same
# ones; counters and locks on it are unavailable and never move to another; when
# it is back, it has its keys again.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1);

$t->not_in('two many', 'it looks at one worker');

my @m = map { $t->memcached("m$_") } 0 .. 2;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    delay => 0.01 });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server          127.0.0.1:%%PORT_m0%%;
        server          127.0.0.1:%%PORT_m1%%;
        server          127.0.0.1:%%PORT_m2%%;
        timeout         5s;
        connect_timeout 5s;
        fail_timeout    300ms;
        distribution    %%DISTRIBUTION%%;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=n:$uri;
            mcds_counter_durable $n off;
            mcds_counter_buffer $n off;
            mcds_return "$n";
        }
        location /page {
            mcds_cache on;
            mcds_cache_key page:$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache $mcds_cache_status;
        }
    }
}
EOT

for my $distribution (qw/ modula ketama /) {
    my @hosts = map {
        $t->nginx("$distribution$_", $conf =~ s/%%DISTR\w+%%/$distribution/r)
    } 0 .. 1;

    my $keys = $t->size(200, 100000);

    # the same key is on the same server for both hosts

    my (@numbers, %on);

    for my $h (@hosts) {
        @numbers = map { $_->body() }
            many($keys, sub { [$h->port(), "/$distribution$_[0]"] },
            concurrency => 32, timeout => 600);
    }

    is(scalar(grep { $_ ne 2 } @numbers), 0,
        "$distribution: both hosts count the same $keys keys");

    for my $i (0 .. 2) {
        $on{$_} = $i for grep { /^n:.$distribution/ } $m[$i]->keys();
    }

    is(scalar keys %on, $keys, "$distribution: each on one server");

    for my $i (0 .. 2) {
        my $share = grep { $_ == $i } values %on;
        cmp_ok($share, '>', $keys / 20, "$distribution: $share on server $i");
    }

    my @pages = map { "/page/$distribution$_" } 1 .. 60;
    $hosts[$_ % 2]->get($pages[$_]) for 0 .. $#pages;

    ok(wait_for(sub { @pages == grep { /^<>page:.page.$distribution\d+$/ }
        map { $_->keys() } @m }), "$distribution: pages are stored");

    my %page = map { my $i = $_; map { $_ => $i }
        grep { /^<>page:.page.$distribution\d+$/ } $m[$i]->keys() } 0 .. 2;


    # dead: known to both hosts after some failures

    my $dead = 1;
    my @were = map { $_ == $dead ? 0 : scalar $m[$_]->keys() } 0 .. 2;

    $m[$dead]->kill9();

    my ($gone) = grep { $on{$_} == $dead } sort keys %on;

    for my $h (@hosts) {
        ok(wait_for(sub { $h->get(substr $gone, 2);
            $h->log_has(qr/is down/) }), "$distribution: noticed");
    }

    my %wrong;
    my @some = (sort keys %on)[0 .. 199];

    for my $key (@some) {
        my $res = $hosts[rand 2]->get(substr $key, 2);
        my $want = $on{$key} == $dead ? '' : 3;

        $wrong{status}++ if $res->status() != 200;
        $wrong{counted}++ if $want eq '' && $res->body() ne '';
        $wrong{missing}++ if $want ne '' && $res->body() ne $want;
        $wrong{slow}++ if $res->calm() > 0.3 * $t->slow();
    }

    is_deeply(\%wrong, {}, "$distribution: only its counters are missing");

    for my $uri (@pages) {
        my $res = $hosts[rand 2]->get($uri);
        my $want = $page{"<>page:$uri"} == $dead ? 'MISS' : 'HIT';

        $wrong{status}++ if $res->status() != 200;
        $wrong{lc $want}++ if $res->header('X-Cache') ne $want;
    }

    is_deeply(\%wrong, {}, "$distribution: only its pages are missing");
    is(join(' ', map { $_ == $dead ? 0 : scalar $m[$_]->keys() } 0 .. 2),
        "@were", "$distribution: nothing has moved to the others");


    # back, and empty

    $m[$dead]->restart();

    for my $h (@hosts) {
        ok(wait_for(sub { $h->get(substr $gone, 2)->body() ne '' },
            3 * $t->slow()), "$distribution: back");
    }

    my ($other) = grep { $on{$_} == $dead && $_ ne $gone } sort keys %on;

    is($hosts[0]->get(substr $other, 2)->body(), 1, "$distribution: from 1");
    is($hosts[1]->get(substr $other, 2)->body(), 2, "$distribution: both");
    is($m[$dead]->get($other), 2, "$distribution: on its own server");

    $_->quit() for @hosts;
}

$t->done();
