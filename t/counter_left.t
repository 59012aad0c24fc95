#!/usr/bin/perl

# Copyright (C) mcds authors

# A worker that nginx has told to leave counts while memcached is down, keeps
# the count in the zone, and exits: another worker, which has kept nothing
# itself, adds the count when memcached is up again.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('single', 'there is one process');

my $m = $t->memcached('m');
my $o = $t->origin('o', 'answer');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_zone 1m;
    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        max_fails    1;
        fail_timeout 100ms;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=answers statuses=any;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

$o->hold_path('/late');

my $late = start_get($h->port(), '/late');

ok($o->wait_requests(1, '/late'), 'a request waits for the origin');
ok($h->reload(), 'reload');
ok(wait_for(sub { $h->leaving() }), 'its worker leaves');

$m->kill9();
$o->release('/late');
is(finish($late)->status(), 200, 'the request ends');
ok(wait_for(sub { !$h->leaving() }), 'and the worker');
ok($h->log_lacks(qr/counts are lost/), 'it has lost no count');

$m->restart();
ok(wait_for(sub { ($m->get('answers') // 0) == 1 }, 30),
    'the other worker adds its count');

$t->allow(qr/is down/);
$t->done();
