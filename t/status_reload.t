#!/usr/bin/perl

# Copyright (C) mcds authors

# The numbers of mcds_status go on over a reload and the death of workers;
# pools and servers come and go; what is open now is that of the new workers.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('single', 'nginx cannot reload then');

my $m = $t->memcached('m');
my $o = $t->origin('o');

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        server localhost:%%PORT_m%%;
        distribution modula;
        timeout 10s;
        connect_timeout 10s;
    }
    #pool
    mcds_zone 1m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_use main;
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location /slow {
            mcds_use main;
            mcds_counter $n key=$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        #place
        location = /status { mcds_status; }
    }
}
EOT

my $h = $t->nginx('h', $conf);
my $total = 0;

# keys of both servers

sub count {
    my ($n) = @_;

    many($n, sub { [$h->port(), '/' . $_[0] % 10] }, concurrency => 4);
    $total += $n;
}

sub same {
    my ($name, $pool) = @_;

    my @s;

    wait_for(sub {
        @s = @{status($h)->{pools}[0]{servers}};
        return sum('answers', 'ok', @s) == $total && !grep { $_->{pending} } @s;
    });

    is(sum('operations', 'incr', @s), $total, "$name: operations");
    is(sum('answers', 'ok', @s), $total, "$name: answers");
}

sub sum {
    my ($group, $field, @s) = @_;

    my $sum = 0;
    $sum += $_->{$group}{$field} for @s;

    return $sum;
}

# those of both servers, which are one

sub connections {
    return sum('connections', 'open', @{status($h)->{pools}[0]{servers}});
}

count(10);
same('first');

my $since = status($h)->{since};

# reloads, the old workers finish and tell what they have

for my $i (1 .. 2) {
    $h->reload(wait_old => 1);

    my $all = status($h);

    same("reload $i");
    is($all->{generation}, 1 + $i, "reload $i: generation");
    is($all->{since}, $since, "reload $i: since");
    cmp_ok($all->{loaded}, '>=', $since, "reload $i: loaded");
    is(connections(), 0, "reload $i: none open");

    count(10);
    same("after $i");
}

# a worker is killed

$h->kill_worker(0);
same('killed');
count(10);
same('killed, after');

# more workers, fewer workers

for my $workers (5, 3) {
    $h->conf($conf =~ s/worker_processes 2/worker_processes $workers/r);
    $h->reload(wait_old => 1);

    is(status($h)->{workers}, $t->workers($workers), "$workers workers");
    count(40);
    same("$workers workers");

    wait_for(sub { connections() == $m->connections() });
    is(connections(), $m->connections(), "$workers workers: connections");
}

# an old worker finishes a request: it has no say about what is open

$h->conf($conf =~ s/worker_processes 2/worker_processes 1/r, mode => 0);
$h->reload(wait_old => 1);

$o->hold_path('/slow');

my $slow = start_get($h->port(), '/slow');

$o->wait_requests(1, '/slow');
$total++;
same('before it is old');
is(connections(), 1, 'one connection');

$h->reload();

# the old one may take some of the first requests

ok(wait_for(sub { count(10); connections() == 2 }),
    'two connections of the new worker');
same('in the new worker');

$o->release('/slow');
is(finish($slow)->status(), 200, 'the old one finishes');
ok(wait_for(sub { $h->children() == 1 }, 5 * $t->slow()), 'and leaves');
same('without it');
is(connections(), 2, 'two connections of the new worker');


# pools come and go

my $more = $conf
    =~ s/#pool/mcds_pool two { prefix x:; server 127.0.0.1:%%PORT_m%%; }/r
    =~ s/#place/location \/two { mcds_use two; mcds_counter \$n; }/r;


for my $i (1 .. 2) {
    $h->conf($more)->reload(wait_old => 1);
    is(names(), 'main two', "pool $i: there");
    is(server($h, 'two')->{operations}{incr}, $i - 1, "pool $i: its numbers");
    $h->get('/two');
    is(settled($h, 'two', 0, sub { $_[0]{answers}{ok} == $i })->{answers}{ok},
        $i, "pool $i: counts");

    $h->conf($conf)->reload(wait_old => 1);
    is(names(), 'main', "pool $i: gone");
    same("pool $i: the other");
}

# what is refused changes nothing

$t->allow(qr/no pool "none"/);
$h->conf($conf =~ s/mcds_use main/mcds_use none/r);
ok(!$h->reload(), 'refused');
count(10);
same('refused');

# another size: from 0

$h->conf($conf =~ s/zone 1m/zone 2m/r)->reload(wait_old => 1);
$total = 0;
same('another size');
count(10);
same('another size, after');

# without counters there is no memory, and all is 0

$h->conf($conf =~ s/^ +mcds_(?:use|counter|return).*\n//gmr);
$h->reload(wait_old => 1);
ok(!server($h, 'main')->{statistics}, 'not used: nothing is shared');

$t->done();


sub names {
    return join ' ', map { $_->{name} } @{status($h)->{pools}};
}
