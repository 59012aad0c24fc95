#!/usr/bin/perl

# Copyright (C) mcds authors

# More counters than anybody can remember, each of them new: what workers keep
# and share is bounded, and what memcached has to evict begins anew, or goes on
# from what the host knows, and is never anything else.

use warnings;
use strict;

use List::Util qw/ min /;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Memory;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', memory => $t->size(8, 64));

my $zone = 1024;
my $sync = join '', map { "mcds_counter \$s$_ key=s$_:\$request_id;\n" } 1 .. 5;
my $numbers = join ' ', map({ "\$s$_" } 1 .. 5), '$off', '$today';

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_zone ${zone}k;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_counter_top often size=10 window=60s;
    keepalive_requests 1000000;

    # memcached has no memory for some, now and then

    map "$numbers" \$new {
        volatile;
        "~^(1 )*1\$"        new;
        "~^(1? )*1?\$"      unknown;
        default            old;
    }
    map \$new \$old { volatile; old 1; default ""; }
    log_format numbers "$numbers";

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /many {
            # ten, and one that is always the same
            $sync
            mcds_counter \$off    key=off:\$request_id;
            mcds_counter_durable \$off off;
            mcds_counter \$today  key=today:\$request_id period=1d top=often;
            mcds_counter \$async  key=a:\$request_id async;
            mcds_counter \$async2 key=b:\$request_id async=20ms;
            mcds_visitor_counter \$online key=online visitor=\$request_id;

            mcds_counter \$hot    key=hot;
            access_log %%DIR%%/old numbers if=\$old;
            mcds_return "\$new, hot \$hot";
        }
        location = /hot {
            mcds_counter \$n key=hot read;
            mcds_return "\$n";
        }
        location /off/ {
            mcds_counter \$n key=\$uri;
            mcds_counter_durable \$n off;
            mcds_return "\$n";
        }
        location / {
            mcds_counter \$n key=\$uri;
            mcds_return "\$n";
        }
    }
}
EOT

# those that will be evicted

my @old = map { ("/old/$_", "/off/$_") } 1 .. 50;

for my $n (1 .. 3) {
    is(join(' ', map { $h->get($_)->body() } @old), join(' ', ($n) x @old),
        "old ones: $n");
}


# in four parts; in the first one all tables become full

my $requests = $t->size(8000, 250000);
my $clients = 32;
my (@rss, @shared);

for my $part (1 .. 6) {
    my $r = $t->load(port => $h, uri => '/many', clients => $clients,
        requests => $requests, expect => 'new, hot ');

    is($r->{ok}, $requests, "part $part: all answered");
    is($r->{errors}, 0, "part $part: no error");
    is($t->read_file('h/old'), '', "part $part: new ones are new");
    cmp_ok($r->{wrong}, '<=', no_memory(), "part $part: but for those that"
        . ' memcached did not take');

    # what was under way when it was evicted may be lost

    my $hot = $h->get('/hot')->body();

    cmp_ok($hot, '<=', $part * $requests, "part $part: hot");
    cmp_ok($hot, '>=', $part * ($requests - $clients), "part $part: goes on");

    my ($worker) = $h->workers();

    push @rss, memory($worker, 'RssAnon');
    push @shared, memory($worker, 'RssShmem');
    note("part $part: $rss[-1] kB, shared $shared[-1] kB; hot $hot");
}

SKIP: {
    skip 'sanitizers keep what is freed', 1 if $t->watched();
    skip 'it looks at one worker', 1 if $h->workers() > 1;

    # what memcached keeps waiting takes memory once; a leak does in each part

    cmp_ok(min(map { $rss[$_] - $rss[$_ - 1] } 2 .. 5), '<', 300,
        'the worker does not grow');
}

cmp_ok($shared[5], '<=', $zone + 64, 'nor what it shares');


# what was evicted

my $stats = $m->stats();

cmp_ok($stats->{evictions}, '>', 0, 'memcached had to evict');
note("$stats->{evictions} evicted, $stats->{curr_items} left");

my @lost = grep { !defined $m->get($_) } @old;

cmp_ok(scalar(@lost), '>', @old / 2, 'the old ones, too');

my %first = map { $_ => $h->get($_)->body() } @lost;

is(join(' ', grep { $first{$_} != 1 } grep { m{^/off} } @lost), '',
    'not durable: begins anew');
is(join(' ', grep { $first{$_} != 1 && $first{$_} != 4 } @lost), '',
    'others: anew, or from where they were');
is(join(' ', map { $h->get($_)->body() } @lost),
    join(' ', map { $first{$_} + 1 } @lost), 'and count on');
is($h->log_count(qr/worker process \d+ exited on/), 0, 'no worker has died');

# async counts faster than they can be sent find no room, which is said

$t->allow(qr/counts are lost, \d+: no room is left/);
$t->done();


sub no_memory {
    my $stats = $m->stats('items');
    my $sum = 0;

    $sum += $stats->{$_} for grep { /outofmemory$/ } keys %$stats;

    return $sum;
}
