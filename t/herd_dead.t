#!/usr/bin/perl

# Copyright (C) mcds authors

# Without memcached one worker of a host builds a page, and the others wait for
# it.  A request that waits for a build is served its page, also if the next
# build has begun before its worker looks.  If the worker that builds dies the
# next request builds at once, long before its lock would be taken for one that
# was left behind.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('single one many',
    'it looks at two workers')->allow(qr/is down after|exited on signal 9/);

# without it, a worker that cannot get a lock builds by itself

$t->needs('mcds local');

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_zone 8m;
    mcds_pool main { server 127.0.0.1:%%PORT_none%%; max_fails 1; }
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / {
            mcds_cache on;
            mcds_cache_lock_age 10m;
            mcds_cache_lock_timeout 10m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /pid { return 200 $pid; }
    }
}
EOT

# a connection to each worker, which both know that memcached is away

my %conn;
my ($first, $second);

# the second worker has looked at a page when it has answered what comes behind

sub waits {
    my $next;

    ok(wait_for(sub {
        $next = $h->conn();
        return $next->get('/pid')->body() eq $second;
    }), 'another connection');
    $next->get('/pid') for 1 .. 5;
}

ok(wait_for(sub {
    my $c = $h->conn();
    $conn{$c->get('/pid')->body()} //= $c;
    return 2 == keys %conn;
}), 'a connection to each worker');

$_->get('/other') for (values %conn) x 3;

($first, $second) = sort keys %conn;

# the other one is stopped while one build ends and the next begins

$o->hold_path('/busy');
$conn{$first}->request('/busy');
ok($o->wait_requests(1, '/busy'), 'busy: one worker builds');

$conn{$second}->request('/busy');
waits();
is($o->count('/busy'), 1, 'busy: the other one waits');

kill 'STOP', $second;
wait_for(sub { Test::Mcds::stopped($second) });
$o->let('/busy');
my $built = $conn{$first}->response()->body();
like($built, qr{of /busy}, 'busy: the build ends');
$conn{$first}->request('/busy');
ok($o->wait_requests(2, '/busy'), 'busy: the next one begins');
kill 'CONT', $second;

my $r = $conn{$second}->response();
is($r->status() . ' ' . $r->body(), "200 $built",
    'busy: the request that waited for the first is served its page');
$o->release('/busy');
isnt($conn{$first}->response()->body(), $built, 'busy: the next one ends');

$o->hold_path('/page');
$conn{$first}->request('/page');
ok($o->wait_requests(1, '/page'), 'one worker builds');

$conn{$second}->request('/page');
waits();
is($o->count('/page'), 1, 'the other one waits');

my @workers = $h->workers();

$h->kill_worker((grep { $workers[$_] eq $first } 0, 1)[0]);
ok($o->wait_requests(2, '/page'), 'and builds, when the first one has died');
$o->release('/page');
is($conn{$second}->response()->status(), 200, 'its client is answered');

$t->done();
