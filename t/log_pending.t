#!/usr/bin/perl

# Copyright (C) mcds authors

# A log is written, read and followed on an idle memcached whatever max_pending
# of the pool is: lines of many items and time intervals, with items that are
# missing between others.

use warnings;
use strict;

use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ frame lines post /;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

my $m = $t->memcached('m', memory => 256);

my %pools = (few => '20', bytes => '4096 16k', one => '1', least => '1 1');

my @pools = map { "mcds_pool $_ { server 127.0.0.1:%%PORT_m%%; timeout 20s;"
    . " max_pending $pools{$_}; }" } sort keys %pools;
my @places = map { "location = /$_ { mcds_use $_; mcds_log_api $_ chunk=1s"
    . ' chunks=300; mcds_api_methods GET POST; }' }
    sort keys %pools;

local $" = "\n    ";

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    @pools
    server {
        listen 127.0.0.1:%%PORT%%;
        client_max_body_size 1m;
        @places
    }
}
EOT

for my $pool (sort keys %pools) {
    my $now = int(Time::HiRes::time()) - 200;
    my @old;

    for my $i (1 .. 100) {
        for my $part (0, 1, 3) {
            $m->set("$pool:" . ($now + $i) . ($part ? ":$part" : ''),
                frame(writer => 7, seq => 4 * $i + $part, host => 'a', lines =>
                    [[1000 * ($now + $i), "old-$i-$part"]]), 3600);
            push @old, "old-$i-$part";
        }
    }

    my $new = Test::Mcds::Follow->new($h, "/$pool?follow=1");

    # more than one frame has, and several items

    my @large = map { "large-$_-" . 'x' x 16_000 } 1 .. 30;

    is(post($h, "/$pool", @large)->status(), 204, "$pool: large lines");

    my $all = Test::Mcds::Follow->new($h, "/$pool?follow=1&first=-250");

    ok($new->seen(30), "$pool: followed") or diag($new->count());
    is_list([split / /, $new->lines()], \@large, "$pool: in order");
    ok($all->seen(@old + @large), "$pool: with old lines")
        or diag($all->count());
    is_list([split / /, $all->lines()], [@old, @large], "$pool: in order");

    $_->close() for $new, $all;

    # the worker may look for new lines a last time, which one operation at a
    # time leaves no room for

    my @read;
    wait_for(sub { @read = lines($h, "/$pool?first=-250&limit=9999") });
    is_list(\@read, [@old, @large], "$pool: all are read");
    wait_for(sub { @read = lines($h, "/$pool?limit=20") });
    is_list(\@read, [@large[10 .. 29]], "$pool: the last ones, too");
}

$t->done();


sub is_list {
    my ($got, $want, $name) = @_;

    local $" = ' ';

    ok("@$got" eq "@$want", $name)
        or diag(scalar @$got, ' of ', scalar @$want);
}
