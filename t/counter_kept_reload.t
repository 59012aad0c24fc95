#!/usr/bin/perl

# Copyright (C) mcds authors

# Counts are kept while the server of a pool is down.  A reload gives the pool
# another server: workers of before, which a slow client keeps, leave these
# counts to the new workers.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->allow(qr/memcached/)
    ->not_in('single', 'there are no workers of before');

my $m = $t->memcached('m');
my $m2 = $t->memcached('m2');
my $o = $t->origin('o');

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_zone 8m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; fail_timeout 100ms; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=n;
            mcds_return $n;
        }
        location = /slow {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $h = $t->nginx('h', $conf);

is($h->get('/')->body(), 1, 'a count');

$o->hold_path('/slow');
my $slow = start_get($h->port(), '/slow');
ok($o->wait_requests(1, '/slow'), 'a slow client');

$m->stop();
$h->get('/') for 1 .. 3;

# the new server is not there yet, and the one of before is back

$m2->stop();
$h->conf($conf =~ s/PORT_m%%/PORT_m2%%/r);
ok($h->reload(), 'reload');
ok(wait_for(sub { $h->leaving() }), 'the old worker leaves');
$h->get('/') for 1 .. 5;
$m->restart();
$m2->restart();

ok(wait_for(sub { ($m2->get('n') // 0) eq "9" }, 10),
    'the counts are added on the new server')
    or diag($m2->get('n') // '');
is($m->get('n'), undef, 'and not on the one of before');

$o->release('/slow');
is(finish($slow)->status(), 200, 'the slow client');

$t->done();
