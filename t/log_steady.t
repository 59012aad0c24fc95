#!/usr/bin/perl

# Copyright (C) mcds authors

# A client that follows a log and reads all the time, but more slowly than the
# lines come, so that data waits for it all the time: send_timeout is the time
# between two reads, and does not end it.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $f = $t->fake('f', sub { return });
my $timeout = 3 * $t->slow();

my $h = $t->nginx('h', <<'EOC' =~ s/%%TIMEOUT%%/$timeout/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 5s; }

    log_format large '$arg_n $http_x_large';

    server {
        listen 127.0.0.1:%%PORT%% sndbuf=16k;
        location = /large { mcds_log log large; return 204; }
        location = /log { send_timeout %%TIMEOUT%%s; mcds_log_api log; }
    }
}
EOC

# the client reads more slowly than the lines come

my $rate = 60_000 / $t->slow();
my $last = time();
my $steady = Test::Mcds::Follow->new($h, '/log?follow=1', rcvbuf => 16384);

ok(wait_for(sub { $f->count(qr/^mg log:\d+ /) > 6 }, 10), 'it looks');

$t->load(port => $h->port(), uri => '/large?n=large', clients => 4,
    requests => 130, header => 'X-Large: ' . 'x' x 7000);

ok(wait_for(sub { some(); length $steady->{rest} }), 'the lines come');

my $end = time() + 2.5 * $timeout;

while (time() < $end && !$steady->{ended}) {
    some();
    sleep(0.05);
}

ok(!$steady->{ended}, 'it is still there');

my $got = length($steady->{text}) + length $steady->{rest};

ok($steady->seen(130, 20), 'and gets all lines')
    or diag($steady->count());
cmp_ok(length($steady->{text}) - $got, '>', 100_000,
    'some of which have waited until now');
ok(!$steady->ended(), 'it can follow the log further');

$steady->close();
$t->done();


# as much as the client reads in the time since it read last

sub some {
    my $now = time();

    $steady->drain(1 + int($rate * ($now - $last)));
    $last = $now;
}
