#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached is killed under 200 clients and comes back at once or later, and is
# restarted again and again: no client sees an error or a wrong page, and no
# descriptor or memory is left.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('nofile',
    'many pages are built at once');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=2'],
    body => "page of %u\n" . 'x' x 3000 . "end of %u\n" });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { worker_connections 1024; }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        timeout      200ms;
        fail_timeout 500ms;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $views key=views;
            mcds_visitor_counter $online key=online visitor=$connection
                                 window=60s slots=1 interpolate=off;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache $mcds_cache_status;
            add_header X-Views $views;
        }
    }
}
EOT

my @uris = map { "/$_" } 'a' .. 'h';

sub load {
    my ($seconds) = @_;

    return $t->load(port => $h->port(), uris => \@uris, clients => 200,
        rate => 5, seconds => $seconds, expect => 'end of /',
        background => 1), $t->lost();
}

# counted and cached, by both workers

sub works {
    for (1 .. 12) {
        my $res = $h->get($uris[$_ % 8]);
        return 0 if ($res->header('X-Views') // '') !~ /^\d+$/
            || ($res->header('X-Cache') // '') !~ /HIT|STALE|UPDATING/;
    }

    return 1;
}

sub check {
    my ($name, $limit, $load, $lost) = @_;
    my $r = $load->wait();

    # without what the machine has taken, in ms

    $r->{max} -= 1000 * ($t->lost() - $lost);

    cmp_ok($r->{requests}, '>', 200, "$name: $r->{requests} requests");
    is($r->{ok}, $r->{requests}, "$name: all answered with 200");
    is($r->{wrong} + $r->{errors}, 0, "$name: with the right page");
    cmp_ok($r->{max}, '<', $limit * $t->slow(), "$name: none waits for long")
        if $limit;

    return $r;
}

ok(wait_for(sub { works() }), 'it works');

# M01: away for so many seconds.  Refused is refused at once: no more than in a
# calm second, and a part of a timeout; a machine that is busy elsewhere may
# hold up some of the rounds, those who wait for memcached hold up each

for my $away ($t->full() ? (0, 1, 10, 60) : (0, 0.7)) {
    my ($calm, $r);

    for my $round (1 .. 5) {
        $calm = check('calm', 0, load(1));
        my @load = load($away + 1.2);

        sleep 0.4;
        $m->kill9();
        sleep $away;
        $m->restart();

        ok(wait_for(sub { works() }, 2 * $t->slow()), "away $away s: back");

        # in flight: one timeout for the counters and one for the lock

        $r = check("away $away s", 1000, @load);
        note("p90 $r->{p90} ms, calm $calm->{p90} ms");

        last if $r->{p90} < $calm->{p90} + 60 * $t->slow();
    }

    cmp_ok($r->{p90}, '<', $calm->{p90} + 60 * $t->slow(),
        "away $away s: nearly all at once");
}


# M03: again and again

my @fds = map { $h->fds($_) } $h->workers();
my @workers = $h->workers();
my $rss = rss();

my $times = $t->size(5, 100);
my @load = load($times * ($t->full() ? 1 : 0.35) + 0.5);

for (1 .. $times) {
    sleep($t->full() ? 0.9 : 0.3);
    $m->restart();
}

check("$times restarts", 1000, @load);
ok(wait_for(sub { works() }, 2 * $t->slow()), 'restarts: back');

is(join(' ', $h->workers()), "@workers", 'restarts: the same workers');

# each worker may have its two connections to memcached

ok(wait_for(sub { !grep { $h->fds($workers[$_]) > $fds[$_] + 2 }
    0 .. $#workers }), 'restarts: no descriptor is left');

SKIP: {
    skip 'sanitizers keep what is freed', 1 if $t->watched();
    cmp_ok(rss() - $rss, '<', 1500 * @workers, 'restarts: nor memory');
}

$t->done();


# KB of all workers

sub rss {
    my $sum = 0;

    for my $pid ($h->workers()) {
        $sum += 4 * (split / /, $t->run('cat', "/proc/$pid/statm"))[1];
    }

    return $sum;
}
