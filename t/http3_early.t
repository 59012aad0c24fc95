#!/usr/bin/perl

# Copyright (C) mcds authors

# Requests in the first flight of HTTP/3 (0-RTT): a page from the cache, one
# that is built, a counter; and a refresh that outlives the connection.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Http3;

my $t = Test::Mcds->new();

Test::Mcds::Http3::needed($t);

my ($crt, $key) = $t->cert('localhost');
my $session = $t->dir() . '/session';
my $wait = 10 * $t->slow();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => { '/stale' => { headers => ['Cache-Control' => 'max-age=1'] } });

my $host = $t->nginx('a', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%% quic reuseport;
        ssl_certificate     $crt;
        ssl_certificate_key $key;
        ssl_early_data      on;

        mcds_counter \$hits key=hits:\$uri;

        location / {
            mcds_cache on;
            add_header X-Cache \$mcds_cache_status always;
            add_header X-Early "\$ssl_early_data" always;
            proxy_set_header Early-Data \$ssl_early_data;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $h = client();

$h->get('/a');
$h->get('/stale');
ok(wait_for(sub { $h->take(0.01); -s $session }, $wait), 'a session to go on');
$h->close();


# the first flight of a connection

$h = client();
my $hit = $h->request('/a');
my $miss = $h->request('/b');

$t->leave('no early data for QUIC in the TLS library of this nginx')
    if !$h->early();

my $r = $h->response($hit, $wait);
is(told($r), "200 HIT answer 1 of /a\n", 'a page of the cache');
is($r->header('x-early'), '1', 'before the handshake is over');
is(told($h->response($miss, $wait)), "200 MISS answer 3 of /b\n", 'a new one');
is(($o->requests('/b'))[0]{headers}{'early-data'}, '1', 'the origin knows');
ok(wait_for(sub { $m->get('<>https://localhost/b') }, $wait), 'it is stored');
is($m->get('hits:/a'), 2, 'they are counted');
$h->close();


# a refresh that comes of it, and goes on when the connection is gone

sleep 1.1;
$o->hold_path('/stale');
$h = client();
my $id = $h->request('/stale');
is($h->response($id, $wait)->header('x-cache'), 'STALE', 'a stale page');
ok($h->early(), 'as early');
ok($o->wait_requests(2, '/stale'), 'with a refresh behind');
is(($o->requests('/stale'))[1]{headers}{'early-data'}, '1', 'which says so');
$h->close();
$o->release('/stale');
ok(wait_for(sub { ($m->get('<>https://localhost/stale') // '')
    =~ /answer 4 of/ }, $wait), 'and is stored');

$t->done();


sub client {
    return Test::Mcds::Http3->new($t, $host->port(), session => $session);
}


sub told {
    my ($r) = @_;
    return join ' ', $r->status(), $r->header('x-cache') // '-', $r->body();
}
