#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_top through all that happens to workers and memcached: nothing
# is counted twice, and nothing is lost but what is said to be.

use warnings;
use strict;

use JSON::PP;
use List::Util qw/ max /;
use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', args => ['-I', '65536',
    '-o', 'slab_chunk_max=32768']);

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 4;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        timeout 5s;
        fail_timeout 1s;
    }

    mcds_counter_top quick flush=100ms;
    mcds_counter_top slow flush=60s;
    mcds_counter_top short flush=100ms window=4s slots=2;
    mcds_counter_top large flush=100ms size=100;

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location /quick/ { mcds_counter $n key=$uri top=quick; mcds_return; }
        location /slow/ { mcds_counter $n key=$uri top=slow; mcds_return; }
        location /short/ { mcds_counter $n key=$uri top=short; mcds_return; }
        location /large/ { mcds_counter $n key=$uri top=large; mcds_return; }

        location = /quick.json { mcds_counter_api top=quick; }
        location = /slow.json { mcds_counter_api top=slow; }
        location = /short.json { mcds_counter_api top=short; }
        location = /large.json { mcds_counter_api top=large; }
    }
}
EOT

$conf =~ s/mcds_return;/mcds_return 200 "\$n";/g;

my ($a, $b) = map { $t->nginx($_, $conf) } qw/ a b /;

$t->allow(qr/is down after|counts for the most viewed|are too large/);


# eight workers that merge into one item all the time

my $n = $t->size(2000, 50000);
my @load = map {
    $t->load(port => $_->port(), clients => 16, requests => $n / 2,
        uris => [map { "/quick/$_" } 1 .. 20], background => 1)
} $a, $b;
my $ok = 0;
$ok += $_->wait()->{ok} for @load;

is($ok, $n, 'merged: all requests');
is(total($a, 'quick', $n), $n, 'merged: all are counted');

my $sum = 0;
$sum += $m->get("/quick/$_") for 1 .. 20;
is($sum, $n, 'merged: as the counters');

# not all workers have read the last of it yet

ok(wait_for(sub {
    my $list = decode_json($a->get('/quick.json')->body())->{keys};
    @$list == 10 && !grep { $_->{count} != $m->get($_->{key}) } @$list;
}, 10), 'merged: each of them');


# an old slot goes

sleep 2 - time() % 2 + 0.2;
$a->get('/short/x') for 1 .. 5;
is(total($a, 'short', 5), 5, 'short: there');
my $slot = max(map { /^short:top:(\d+)/ } $m->keys());
wait_for(sub { time() >= 2 * ($slot + 2) + 0.2 }, 10);
is(total($_, 'short'), 0, 'short: over') for $a, $b;
$a->get('/short/x');
is(total($b, 'short', 1), 1, 'short: anew');


# at a reload, and at the end of a worker

$t->not_in('single', 'nginx does not wait at QUIT then');

get($_, '/slow/x', 10) for $a, $b;
is(stored('slow'), 0, 'slow: nothing was given away');
my $watch = $t->stopwatch();
$a->reload(wait_old => 1);
cmp_ok($watch->(), '<', 20 * $t->slow(), 'reload: does not take a minute');
is(stored('slow'), 10, 'reload: given away');
ok($b->quit(), 'quit');
is(stored('slow'), 20, 'quit: given away');
$b->up();
is(total($b, 'slow', 20), 20, 'a new worker reads it when it starts');

get($a, '/slow/x', 10);
$a->kill_worker($_) for $a->workers();
is(stored('slow'), 20, 'killed: what was not given away is lost');


# memcached goes and comes

$m->stop();
get($a, '/quick/down', 30);
ok($a->wait_log(qr/is down after/, 10), 'down');
sleep 0.3;
$m->restart();
ok(wait_for(sub { stored('quick') == 30 }, 10), 'back: nothing is lost');

$m->stop();
get($a, '/slow/x', 10);
$watch = $t->stopwatch();
$a->reload(wait_old => 1);
cmp_ok($watch->(), '<', 20 * $t->slow(),
    'down: workers exit all the same');
ok($a->wait_log(qr/counts for the most viewed "slow" are lost/, 10),
    'down: that is logged');
$m->restart();
is(stored('slow'), 0, 'down: nothing is stored');


# more than an item holds

$a->get('/large/' . 'x' x 200 . $_) for 1 .. 400;
$a->get('/large/first') for 1 .. 5;
is(total($a, 'large', 405), 405, 'large: counted');
ok(wait_for(sub {
    my $first = decode_json($a->get('/large.json')->body())->{keys}[0];
    ($first->{key} // '') eq '/large/first' && $first->{count} >= 5
        && $first->{count} - $first->{error} <= 5;
}, 10), 'large: the first ones are there');
ok($a->log_has(qr/most viewed "large" are too large for an item/),
    'large: logged');


# something else in its place

$m->set('quick:top:' . int(time() / 3600), 'something else');
get($a, '/quick/again', 5);
ok(wait_for(sub { stored('quick') == 5 }, 10), 'foreign: replaced');
ok($a->wait_log(qr/is not a list of keys, it is replaced/, 10),
    'foreign: logged');
is(total($a, 'quick', 5), 5, 'foreign: read');

$t->done();


sub get {
    my ($host, $uri, $n) = @_;

    many($n, sub { [$host->port(), $uri] });
}


# the total of what lies in memcached

sub stored {
    my ($name) = @_;
    my $total = 0;

    for my $value (map { $m->get($_) } grep { /^$name:top:/ } $m->keys()) {
        $total += unpack 'x16 Q<', $value if $value =~ /^MCDT/;
    }

    return $total;
}


# the total of a list when it has come so far

sub total {
    my ($host, $name, $want) = @_;
    my $total;

    wait_for(sub {
        $total = decode_json($host->get("/$name.json")->body())->{total};
        defined $total && (!defined $want || $total >= $want);
    }, 15);

    return $total;
}
