#!/usr/bin/perl

# Copyright (C) mcds authors

# Owners that stand still for longer than their locks live: others take the
# locks, and keep them when the first ones go on, extend and release.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', {});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_lock $uri ttl=%%TTL%%;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOC

# the second owners keep theirs for as long as the test takes

my $h = $t->nginx('a', $conf =~ s/%%TTL%%/2s/r);
my $other = $t->nginx('b', $conf =~ s/%%TTL%%/5m/r);

my $n = 20;
my $rounds = $t->size(1, 50);
my ($survived, $rising) = (0, 0);

$o->hold_path('*');

for my $round (1 .. $rounds) {
    my @uris = map { "/$round/$_" } 1 .. $n;

    my @first = map { start_get($h->port(), $_) } @uris;
    $o->wait_requests(1, $_) for @uris;
    my %first = map { $_ => $m->get($_) } @uris;

    $h->freeze();

    ok(wait_for(sub { !grep { defined $m->get($_) } @uris }, 20),
        "round $round: their time is over");

    my @second = map { start_get($other->port(), $_) } @uris;
    $o->wait_requests(2, $_) for @uris;
    my %second = map { $_ => $m->get($_) } @uris;

    # the answers of half of the requests have come when the owner goes on; the
    # others learn first that they have lost the lock

    $o->let($_, 1) for @uris[0 .. $n / 2 - 1];
    $h->cont();
    finish($first[$_]) for 0 .. $n / 2 - 1;
    ok(wait_for(sub { $h->log_count(qr/has lost "\/$round\//) >= $n / 2 }, 20),
        "round $round: others learn that they have lost it");
    $o->let($_, 1) for @uris[$n / 2 .. $n - 1];
    finish($first[$_]) for $n / 2 .. $n - 1;

    # when the old workers have left they have said all that they had to say

    ok($h->reload(wait_old => 1), "round $round: the first owners leave");

    for (@uris) {
        $survived++ if ($m->get($_) // '') eq $second{$_};
        $rising++ if ($second{$_} =~ /^(\d+)/)[0] > ($first{$_} =~ /^(\d+)/)[0];
    }

    $o->let($_, 1) for @uris;
    finish($_) for @second;
}

my $all = $n * $rounds;

is($survived, $all, "all $all locks of others are as they were");
is($rising, $all, 'their numbers are larger');

$t->done();
