#!/usr/bin/perl

# Copyright (C) mcds authors

# K07: many who wait for one page, on two hosts with two workers each, cost one
# origin request; those of the worker that builds are answered in the turn in
# which it is built, without memcached.  K06: memcached is restarted, and with
# it the lock is lost, while the page is built: one more on the other host, at
# most.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'page %k' });

my @hosts = map { $t->nginx($_, <<'EOT') } 'one', 'two';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 1024; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 20s; }
    add_header X-Cache  $mcds_cache_status always;
    add_header X-Worker $pid always;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / {
            mcds_cache on;
            mcds_cache_max_waiters 2000;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /pid { return 200 $pid; }
    }
}
EOT

sub herd {
    my ($n, $uri) = @_;
    return map { start_get($hosts[$_ % 2]->port(), $uri) } 1 .. $n;
}

# all workers have seen what came before

sub settle { $_->get('/other') for (@hosts) x 8 }


for my $round (1 .. $t->size(2, 10)) {
    my $uri = "/many/$round";
    my $n = $t->size(200, 1000);

    $o->hold_path($uri);
    my $first = $hosts[0]->conn();
    $first->request($uri);
    $o->wait_requests(1, $uri);

    my @waiting = herd($n, $uri);
    settle();
    is($o->held($uri), 1, "many $round: one asks the origin");

    # what is written in one turn is written before the next request is read

    $m->freeze();
    $o->release($uri);
    my $r = $first->response();
    my $pid = $first->get('/pid')->body();
    is($r->header('X-Worker'), $pid, "many $round: is answered");

    for my $c (@waiting) {
        $c->fill(0);
        $c->{at_once} = length $c->{in};
    }

    $m->cont();
    my ($there, $late, $wrong) = (0, 0, 0);

    for my $c (@waiting) {
        my $r = finish($c);
        $wrong++ if $r->status() != 200 || $r->body() ne 'page 1';
        next if ($r->header('X-Worker') // '') ne $pid;
        $c->{at_once} ? $there++ : $late++;
    }

    is($wrong, 0, "many $round: all have that page");
    is($late, 0, "many $round: who waits in its worker has it at once");
    cmp_ok($there, '>', $n / 20, "many $round: $there of them");
    is($o->count($uri), 1, "many $round: one origin request");
}


# without memcached, the workers of a host learn of each other's builds only
# with "local"

for my $round ($t->has('mcds local') ? 1 .. $t->size(2, 10) : ()) {
    my $uri = "/restart/$round";

    $o->hold_path($uri);
    my @p = start_get($hosts[0]->port(), $uri);
    $o->wait_requests(1, $uri);
    push @p, herd(20, $uri);
    settle();

    $m->restart();
    push @p, herd(40, $uri);
    settle();

    # those who have to wait for memcached's answer have it

    wait_for(sub { $_->get('/other')->header('X-Cache') eq 'HIT' }, 10)
        for (@hosts) x 8;

    cmp_ok($o->held($uri), '<=', 2, "restart $round: one on each host");
    $o->release($uri);
    is(scalar(grep { finish($_)->status() == 200 } @p), 61,
        "restart $round: all are answered");
    cmp_ok($o->count($uri), '<=', 2, "restart $round: no further one");
}

$t->done();
