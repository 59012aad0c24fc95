#!/usr/bin/perl

# Copyright (C) mcds authors

# A counter that memcached has lost, by a restart, a flush, an eviction or a
# delete, goes on from the highest number that the host knows, which outlives
# workers and reloads.  It is never too high.  What is lost is what was counted
# on the new one until a host that knows more has raised it, t/counter_raise.t.

use warnings;
use strict;

use Test::More;

use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $small = $t->memcached('small', memory => 3);
my $one = $t->memcached('one');
my $two = $t->memcached('two');

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        timeout      5s;
        fail_timeout 100ms;
    }
    mcds_pool other    { server 127.0.0.1:%%PORT_m%%; prefix other:; }
    mcds_pool small    { server 127.0.0.1:%%PORT_small%%; }
    mcds_pool replicas {
        server   127.0.0.1:%%PORT_one%%;
        server   127.0.0.1:%%PORT_two%%;
        distribution modula;
        replicas 2;
        timeout 3s;
        fail_timeout 100ms;
    }
    mcds_use main;
    keepalive_requests 1000000;
    log_format number "$uri [$n]";
    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/numbers number;
        location / {
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location = /start {
            mcds_counter $n key=start;
            mcds_counter_init $n 1000;
            mcds_return "$n";
        }
        location = /today {
            mcds_counter $n key=views period=1d;
            mcds_return "$n";
        }
        location = /async {
            mcds_counter $n key=async async=20ms;
            mcds_return "$n";
        }
        location = /off {
            mcds_counter $n key=off;
            mcds_counter_durable $n off;
            mcds_return "$n";
        }
        location = /ttl {
            mcds_counter $n key=ttl ttl=1h;
            mcds_return "$n";
        }
        location = /by {
            mcds_counter $n key=by by=$arg_n;
            mcds_return "$n";
        }
        location = /read {
            mcds_counter $n key=$arg_k read;
            mcds_return "$n";
        }
        location = /read-off {
            mcds_counter $n key=$arg_k read;
            mcds_counter_durable $n off;
            mcds_return "$n";
        }
        location = /other {
            mcds_use other;
            mcds_counter $n key=/a;
            mcds_return "$n";
        }
        location /small {
            mcds_use small;
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location = /replicas {
            mcds_use replicas;
            mcds_counter $n key=r;
            mcds_return "$n";
        }
    }
}
EOT

my $h = $t->nginx('h', $conf);
my $x = $t->nginx('x', $conf);


# all ways to lose it, all kinds that are to go on, and those that are not

my %at;
my @kept = qw{ /a /b /start /today };

for my $how ('flush', 'restart', 'delete') {
    for my $uri (@kept, '/off', '/ttl') {
        $at{$uri} = get($uri) for 1 .. 5;
    }

    $at{'/by'} = get('/by?n=3');
    lose($how);

    is(get($_), $at{$_} + 1, "$how: $_ goes on") for @kept;
    is(get($_), 1, "$how: $_ begins anew") for '/off', '/ttl';
    is(get('/by?n=3'), 3, "$how: one that could go down, too");
    is(get('/a'), $at{'/a'} + 2, "$how: counts on");
    is($m->get('/a'), $at{'/a'} + 2, "$how: memcached has it");
}

cmp_ok($m->ttl((grep { /^views:/ } $m->keys())[0]), '>', 0,
    'a period still ends');

$m->flush();
is(get('/other'), 1, 'one of that name in another pool is another one');
is(get('/read?k=/a'), $at{'/a'} + 2, 'read: what is known');
is(get('/read-off?k=/a'), 0, 'read: what is there');
is(get('/read?k=/never'), 0, 'read: nothing is known');
is($m->get('/a') // 'none', 'none', 'read: not made');

get('/async') for 1 .. 10;
ok(wait_for(sub { ($m->get('async') // 0) == 10 }), 'async');
$m->flush();
get('/async');
ok(wait_for(sub { ($m->get('async') // 0) == 11 }), 'async: goes on');


# a worker is killed, all are replaced, nginx begins anew

$t->not_in('single', 'what nginx knows ends with the process');

my $n = get('/a');
$h->kill_worker($_) for $h->workers();
lose('flush');
is(get('/a'), ++$n, 'killed workers: goes on');
ok($h->reload(wait_old => 1), 'reload');
lose('flush');
is(get('/a'), ++$n, 'reload: goes on');
$h->quit();
$h->up();
is(get('/a'), ++$n, 'start: memcached has it');
lose('flush');
is(get('/a'), ++$n, 'start: learned again');


# set on purpose: that holds, and is what is known from then on

$m->set('/a', 0);
is(get('/a'), 1, 'set to 0: counts from there');
sleep 1.1;
is(get('/a'), 2, 'and goes on');
lose('flush');
is(get('/a'), 3, 'also when it is lost');
$m->set('/a', 1000);
is(get('/a'), 1001, 'set to 1000');
lose('flush');
is(get('/a'), 1002, 'goes on');
$m->set('/a', 'text');
is(get('/a'), '', 'not a number: left alone');
$m->delete('/a');
is(get('/a'), 1003, 'goes on');


# two hosts: what is made anew is what its maker knows, unless the other one
# knows more

for my $first ($h, $x) {
    my $second = $first == $h ? $x : $h;
    my $key = $first == $h ? '/two' : '/too';

    $h->get($key) for 1 .. 10;
    $x->get($key) for 1 .. 5;
    lose('flush');

    my $known = $first == $h ? 10 : 15;
    is($first->get($key)->body(), $known + 1, "$key: made anew");
    is($second->get($key)->body(), $first == $h ? 16 : 17,
        "$key: the other adds to the larger one");
    is($m->get($key), $first == $h ? 16 : 17, "$key: never twice");
}

my %last;

for my $i (1 .. $t->size(20, 200)) {
    $h->get("/race$i") for 1 .. 4;
    $x->get("/race$i") for 1 .. 3;
}

lose('flush');
many($t->size(20, 200) * 4, sub { my $i = int($_[0] / 4) + 1;
    [($_[0] % 2 ? $h : $x)->port(), "/race$i"] });
$last{$m->get("/race$_")}++ for 1 .. $t->size(20, 200);
is(join(' ', grep { $_ < 8 || $_ > 11 } keys %last), '',
    'racing: what one of them knew, and what both have added at most')
    or diag(join ' ', %last);


# under load, lost again and again

my @uris = map { "/hot$_" } 1 .. 4;
my $load = $t->load(ports => [$h, $x], uris => \@uris, clients => 16,
    requests => $t->size(20000, 300000), background => 1);

# as often as on an idle machine, where the load takes some two seconds

my $left = $t->size(20, 300);

while (!$load->ended()) {
    sleep 0.1;
    $m->flush() if $left-- > 0;
}

my $r = $load->wait();
my $flushes = $m->stats()->{cmd_flush};
my $sum = 0;

is($r->{ok}, $r->{requests}, 'load: all are answered');
get($_) for @uris;
$sum += $m->get($_) for @uris;
cmp_ok($sum, '<=', $r->{requests} + @uris, 'load: nothing is counted twice');
cmp_ok($sum, '>', $r->{requests} * 0.9, 'load: little is lost');
note("$flushes times lost: $sum of $r->{requests}");


# killed and restarted under load: what was answered, at least (one host)

$load = $t->load(ports => [$h], uris => ['/killed'], clients => 16,
    requests => $t->size(10000, 300000), background => 1);

while (!$load->ended()) {
    sleep 0.1;
    $m->kill9();
    sleep 0.05;
    $m->restart();
    sleep 0.2;
}

my $asked = $load->wait()->{requests};
wait_for(sub { $asked++; get('/killed') ne '' });

# nginx logs a request when its client has the answer

my ($acked, $unknown);

ok(wait_for(sub {
    ($acked, $unknown) = numbers('/killed');
    return $acked + $unknown == $asked;
}), 'killed: all are in the log') or diag("$acked + $unknown of $asked");

settle(sub { $m->get('/killed') });
$n = $m->get('/killed');
cmp_ok($n, '>=', $acked, "killed: $acked were told");
cmp_ok($n, '<=', $acked + $unknown, "killed: $unknown were not");
note("killed: $n");


# evicted by what is stored beside it

get('/small/a') for 1 .. 7;

my $i = 0;

# a get would keep it there

while ($small->mc('me /small/a') !~ /^EN/ && $i < 100000) {
    $small->set(sprintf('/small/%06d', $i++), 1) for 1 .. 2000;
}

is($small->get('/small/a') // 'none', 'none', "evicted after $i others");
is(get('/small/a'), 8, 'evicted: goes on');


# replicas: one is lost, both are lost

is(get('/replicas'), $_, "replicas: $_") for 1 .. 3;
$one->flush();
is(get('/replicas'), 4, 'one is lost');
ok(wait_for(sub { $one->get('r') == 4 && $two->get('r') == 4 }), 'and raised');
$_->flush() for $one, $two;
is(get('/replicas'), 5, 'both are lost');
ok(wait_for(sub { $one->get('r') == 5 && $two->get('r') == 5 }), 'and raised');
is(get('/replicas'), 6, 'goes on');

$t->allow(qr/memcached server .* is down/);
$t->done();


sub get {
    my ($uri) = @_;
    return $h->get($uri)->body();
}


sub lose {
    my ($how) = @_;

    return $m->flush() if $how eq 'flush';

    if ($how eq 'delete') {
        $m->delete($_) for $m->keys();
        return;
    }

    $m->kill9();
    $m->restart();

    # connections of before are noticed by what is sent on them

    wait_for(sub { get('/noticed') ne '' }) for 1 .. 20;
}


# of a host: requests with a number, and without

sub numbers {
    my ($uri) = @_;
    my ($with, $without) = (0, 0);

    for ($t->read_file('h/numbers') =~ /^\Q$uri\E \[(\d+|-)\]$/mg) {
        $_ ne '-' ? $with++ : $without++;
    }

    return ($with, $without);
}


# until it does not change any more

sub settle {
    my ($sub) = @_;
    my $last = '';

    for (1 .. 50) {
        my $now = $sub->() // '';
        return if $now eq $last;
        $last = $now;
        sleep 1.1;
    }
}
