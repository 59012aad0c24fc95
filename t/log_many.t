#!/usr/bin/perl

# Copyright (C) mcds authors

# N10: 64 writers on two hosts, many lines, two memcached servers: none is torn
# or lost, all are read back in order, those of each writer in theirs; and seen
# by who follows.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $workers = $t->workers($t->size(4, 32));
my $n = $t->size(20_000, 1_000_000);

# room for all of it

my $m = $t->memcached('m', args => ['-m', 1024]);
my $o = $t->memcached('o', args => ['-m', 1024]);

my $conf = <<"EOC";
%%GLOBALS%%
worker_processes $workers;
events { accept_mutex on; }
http {
    %%HTTP%%
    keepalive_requests 100000;

    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        server       127.0.0.1:%%PORT_o%%;
        distribution ketama;
        timeout      20s;
    }

    log_format n '\$pid \$request_id \$arg_n';

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location = /n { mcds_log log n chunk=5s chunks=400 max_chunk=64k;
                        return 204; }
        location = /log { mcds_log_api log; }
    }
}
EOC

my @hosts = map { $t->nginx($_, $conf) } qw/ a b /;

my $load = $t->load(ports => [map { $_->port() } @hosts], clients => 128,
    uris => [map { "/n?n=$_" } 1 .. 64], requests => $n);

is($load->{status}{204}, $n, "$n requests");

# all are written within moments

my $uri = '/log?first=-3600&last=9999999999&limit=10000';

ok(wait_for(sub { total() == $n }, 30), 'as many lines');

my (%seen, %last, %pids, $after, $wrong);
my ($order, $lines, $previous) = (0, 0, '');

for (1 .. $n / 10_000 + 2) {
    my $r = $hosts[$_ % 2]->get($uri . ($after ? "&after=$after" : ''));

    last if $r->status() != 200 || $r->body() eq '';

    for (split /\n/, $r->body()) {
        my ($pid, $id)
            = /"line":"(\d+) [0-9a-f]{32} \d+","id":"(.*?)"}$/
            or $wrong++, next;
        my ($time, $writer, $seq) = split /-/, $id;

        $lines++;
        $pids{$writer} = $pid;
        vec($seen{$writer}, $seq, 1) = 1;

        # a writer's lines come in order, one for each number

        $order++ if $seq != ($last{$writer} // 0) + 1;
        $last{$writer} = $seq;

        my $place = sprintf '%020d %16s %020d', $time, $writer, $seq;

        $order++ if $place le $previous;
        $previous = $place;
    }

    $after = $r->header('X-Log-Cursor');
}

is($lines, $n, 'all are read back, page by page, from both hosts');
is($wrong // 0, 0, 'none is torn');
is($order, 0, 'in order of time, and of each writer');

my $sum = 0;

$sum += $_ for values %last;
is($sum, $n, 'each number of each writer');
cmp_ok(scalar(keys %last), '>=', $workers + ($workers > 1),
    'writers of both hosts');
cmp_ok(scalar(keys %last), '<=', 2 * $workers, 'one for each worker');


# as it lies in memcached

my $parts = 0;
my @sizes;

for my $server ($m, $o) {
    for my $key (grep { /^log:\d+(:\d+)?$/ } $server->keys()) {
        push @sizes, length $server->get($key);
        $parts++ if $key =~ /:\d+:/;
    }
}

# each writer has a frame under way when it hears of the size, and one alone
# stops by itself; while the server that has the size is late, no writer hears
# of it

my $writers = 2 * ($workers > 1 ? $workers : 2);
my ($large, $most) = (sort { $a <=> $b } @sizes)[-1, $#sizes / 2];

cmp_ok($parts, '>', 1, 'chunks go on in other items');
cmp_ok($most, '<=', (64 + $writers * 32) * 1024,
    'most are not much larger than they should be');
cmp_ok($large, '<=', $writers * (64 + 32) * 1024, 'as each writer stops');

$t->done();


sub total {
    my ($lines, $after) = (0, '');

    while (1) {
        my $r = $hosts[0]->get("$uri&format=text$after");

        return $lines if $r->status() != 200 || $r->body() eq '';

        $lines += $r->body() =~ tr/\n//;
        $after = '&after=' . $r->header('X-Log-Cursor');
    }
}
