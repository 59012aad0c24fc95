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

# the same with a password

$t->write_file('users', "joe:secret\n");
$t->write_file('password', "secret\n");

my $port = $t->memcached('auth', mute => 1, args => ['-c', 40, '-o',
    'maxconns_fast', '-Y', $t->dir() . '/users'])->port();

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; max_fails 0; }
    mcds_pool auth { server 127.0.0.1:%%PORT_auth%%; auth_user joe;
                     auth_password_file %%TMP%%/password; }
    mcds_use main;
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /auth {
            mcds_cache          off;
            mcds_use            auth;
            mcds_counter        $n key=n;
            mcds_counter_buffer $n off;
            mcds_return         "<$n>";
        }
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

# all that it may have, and a few that it has turned away

my @taken = map { conn($m->port()), conn($port) } 1 .. 60;
ok(wait_for(sub { $m->stats()->{rejected_connections} }), 'memcached is full');

my $r = $h->get('/a');
is($r->status() . $r->header('X-Cache'), '200MISS', 'the page is there');
ok($h->wait_log(qr/\[warn\].*memcached said "ERROR Too many open connections"/),
    'the log has what it said');
ok($h->log_lacks(qr/does not speak/), 'and nothing of a foreign server');

$r = $h->get('/b') for 1 .. 5;
is($r->status(), 200, 'pages are there all the time');
cmp_ok($h->log_count(qr/\[warn\].*memcached said .*pool: "main"/), '<=',
    $t->workers(1), 'it is said once');

is($h->get('/auth')->body(), '<>', 'the same with a password');
ok($h->log_lacks(qr/does not speak/), 'nor is that a foreign server');

# it has room again

$_->close() for @taken;
ok(wait_for(sub { $h->get('/a')->header('X-Cache') eq 'HIT' },
    10 * $t->slow()), 'it is used as soon as it has room');
ok(wait_for(sub { $h->get('/auth')->body() eq '<1>' }, 10 * $t->slow()),
    'and with the password');
ok($h->log_lacks(qr/does not speak/), 'still no foreign server');

$t->done(leaks => 0);
