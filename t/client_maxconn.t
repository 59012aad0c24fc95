#!/usr/bin/perl

# Copyright (C) mcds authors

# A memcached that has as many connections as it may have says so in words of
# its own; it is down until it has room, and no foreign server.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', args => ['-c', '40', '-o', 'maxconns_fast']);
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

# all that it may have, and a few that it has turned away

my @taken = map { conn($m->port()) } 1 .. 60;
ok(wait_for(sub { $m->stats()->{rejected_connections} }), 'memcached is full');

my $r = $h->get('/a');
is($r->status() . $r->header('X-Cache'), '200MISS', 'the page is there');
ok($h->wait_log(qr/\[warn\].*memcached said "ERROR Too many open connections"/),
    'the log has what it said');
ok($h->log_lacks(qr/does not speak/), 'and nothing of a foreign server');

$r = $h->get('/b') for 1 .. 5;
is($r->status(), 200, 'pages are there all the time');

# it has room again

$_->close() for @taken;
ok(wait_for(sub { $h->get('/a')->header('X-Cache') eq 'HIT' },
    10 * $t->slow()), 'it is used as soon as it has room');
ok($h->log_lacks(qr/does not speak/), 'still no foreign server');

$t->done();
