#!/usr/bin/perl

# Copyright (C) mcds authors

# Counters on two servers, of which one comes back empty, or which two hosts
# begin at the same moment: nothing is counted twice, and what one server alone
# has comes to the other.

use warnings;
use strict;

use List::Util qw/ none /;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my @m = map { $t->memcached("m$_") } 0 .. 1;

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution ketama;
        replicas     2;
        timeout      1s;
        fail_timeout 300ms;
    }
    mcds_pool classic {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution ketama;
        protocol     classic;
        replicas     2;
        timeout      1s;
        fail_timeout 300ms;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_use main;
        location /main/ {
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location /plain/ {
            mcds_counter $n key=$uri;
            mcds_counter_durable $n off;
            mcds_return "$n";
        }
        location /begin/ {
            mcds_counter $n key=$uri;
            mcds_counter_init $n /number;
            mcds_return "$n";
        }
        location /number { return 200 0; }
        location /classic/ {
            mcds_use classic;
            mcds_counter $n key=$uri;
            mcds_counter_durable $n off;
            mcds_return "$n";
        }
    }
}
EOT

my @h = map { $t->nginx("h$_", $conf) } 0 .. 1;
my @ways = qw/ main plain begin classic /;


# what the servers have: "4 4"; one that was lowered may end in blanks

sub both {
    my ($key) = @_;

    return join ' ', map { ($_->get($key) // '-') =~ s/ //r } @m;
}

sub differ {
    my ($want, @keys) = @_;

    return grep { both($_) ne "$want $want" } @keys;
}


# two hosts begin counters at the same moment: each finds one of the servers
# behind the other, by what is on its way

my $n = $t->size(120, 5000);
my @begun = map { my $i = $_; map { "/$_/begun$i" } @ways } 1 .. $n;

many(4 * @begun, sub {
    my ($i) = @_;
    return [$h[$i % 2]->port(), $begun[$i / 4]];
}, concurrency => 32);

is(scalar(grep { both($_) =~ /[5-9]/ } @begun), 0,
    'begun by two hosts: nothing is counted twice');

# (where it starts from a location, each server may miss the count of another
# host: the start is there on one of them first)

ok(wait_for(sub {
    none { both($_) !~ (m{^/begin} ? qr/^([1-4]) \1$/ : qr/^4 4$/) } @begun
}, 40), 'each server has all');


# one server is emptied; what happens to the counters before it has them again

my @kinds = qw/ busy quiet set down gone more /;
my %key = map { my $way = $_; map { ("$way $_" => "/$way/$_") } @kinds } @ways;

for my $key (values %key) {
    $h[$_ % 2]->get($key) for 1 .. 10;
}

is(scalar(differ(10, values %key)), 0, 'others: each server has all');

$m[1]->flush();

# the number that the other server has is shown at once

is(scalar(grep { $h[0]->get($_)->body() ne 11 } values %key), 0,
    'one server is empty: shown as before');

# (one that starts from a location is not begun where it is missing)

is(scalar(grep { both($_) ne (m{^/begin} ? '11 -' : '11 1') } values %key), 0,
    'it begins anew');

for my $way (@ways) {
    $h[$_ % 2]->get($key{"$way busy"}) for 1 .. 4;

    for my $m (@m) {
        $m->set($key{"$way set"}, 3);
        $m->set($key{"$way more"}, 70);
        $m->mc('md ' . $key{"$way gone"});
        $m->mc('ma ' . $key{"$way down"} . ' D5 MD v');
    }
}

ok(wait_for(sub { !differ(11, map { $key{"$_ quiet"} } @ways) }, 30),
    'it gets what the other one has');
ok(wait_for(sub { !differ(15, map { $key{"$_ busy"} } @ways) }, 30),
    'what was counted meanwhile, too');
is(scalar(differ(3, map { $key{"$_ set"} } @ways)), 0,
    'one that was set lower is left alone');
is(scalar(differ(70, map { $key{"$_ more"} } @ways)), 0, 'one set higher, too');
is(scalar(differ('-', map { $key{"$_ gone"} } @ways)), 0,
    'one that was deleted, too');
is(scalar(grep { both($_) !~ /^6 [0-]$/ } map { $key{"$_ down"} } @ways), 0,
    'and one that went down');


# counted all the time: never twice

my @hot = map { "/$_/hot" } @ways;
my %sum;

for my $i (1 .. 10) {
    $m[$i % 2]->flush() if $i % 3 == 0;

    many(300, sub {
        my ($n) = @_;
        my $uri = $hot[$n % @hot];
        $sum{$uri}++;
        return [$h[int($n / @hot) % 2]->port(), $uri];
    }, concurrency => 16);
}

my $there = sub {
    return grep { my $uri = $_; grep { ($_->get($uri) // 0) > $sum{$uri} } @m }
        @hot;
};

is(scalar($there->()), 0, 'counted all the time: nothing twice');
ok(wait_for(sub {
    return 0 if $there->();
    return !grep { my ($a, $b) = split ' ', both($_); $a ne $b } @hot;
}, 40), 'and in the end both have the same');
is(scalar($there->()), 0, 'nothing twice then');


# a server that is away, and a worker that ends meanwhile

$h[0]->get('/main/last') for 1 .. 5;
$m[1]->flush();
is($h[0]->get('/main/last')->body(), 6, 'a server hangs before it has it');
$m[1]->freeze();
my $late = $h[0]->log_count(qr/timed out/);
ok(wait_for(sub { $h[0]->log_count(qr/timed out/) > $late }, 30),
    'it does not answer');
$m[1]->cont();
ok(wait_for(sub { !differ(6, '/main/last') }, 30),
    'it gets it when it goes on');

$h[0]->get('/main/exit') for 1 .. 5;
$m[1]->flush();
is($h[0]->get('/main/exit')->body(), 6, 'the worker ends before it has it');
$h[0]->reload(wait_old => 1);
is(both('/main/exit'), '6 1', 'nobody waits for that');
is($h[1]->get('/main/exit')->body(), 7, 'and nothing is shown lower');

$t->done();
