#!/usr/bin/perl

# Copyright (C) mcds authors

# An origin that speaks HTTP/2, with and without TLS: its pages are stored,
# served and refreshed as those of any other.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new()->needs('http_v2', 'http_ssl', 'openssl')
    ->since('1.29.4', 'HTTP/2 to the origin');

$t->cert('localhost');

my $large = join '', map { pack 'N', $_ } 1 .. 600_000;

my $m = $t->memcached('m', memory => 128);
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my @cc = ('Cache-Control' => 'max-age=60');

    return { headers => \@cc, body => $large } if $req->{path} =~ /large/;
    return { raw => "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
        . "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
        . "5\r\nwhole\r\n0\r\nX-Sum: 5\r\n\r\n" } if $req->{path} =~ /trailer/;
    return { headers => \@cc, body => "answer $req->{n}\n$req->{method} "
        . "$req->{uri}\n$req->{head}\n" };
});

# one that speaks HTTP/2 in front of the one that puts down what it was asked

$t->nginx('b', <<'EOT', mode => 0);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_tls%% ssl;
        http2  on;

        ssl_certificate     %%TMP%%/localhost.crt;
        ssl_certificate_key %%TMP%%/localhost.key;

        proxy_pass_trailers on;
        proxy_set_header    Host $http_host;
        proxy_set_header    X-By "$server_protocol|$https|$http_te";
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /conn {
            add_header Cache-Control max-age=60;
            return     200 $connection;
        }
    }
}
EOT

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    upstream b   { server 127.0.0.1:%%PORT_b%%; keepalive 4; }
    upstream tls { server 127.0.0.1:%%PORT_tls%%; keepalive 4; }

    # nginx does not free the session that it keeps when the worker ends

    proxy_ssl_session_reuse off;

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache          on;
        mcds_cache_key      $request_uri;
        mcds_cache_max_size 8m;
        add_header          X-Cache $mcds_cache_status always;
        proxy_http_version  2;
        proxy_pass_trailers on;
        proxy_set_header    Host $host;
        proxy_set_header    TE $http_te;

        location /      { proxy_pass http://b; }
        location /tls/  { proxy_pass https://tls; }
        location /bare/ {
            proxy_buffering off;
            proxy_pass      http://b;
        }
    }
}
EOT

my @hop = ('TE' => 'trailers', 'Upgrade' => 'h2c', 'Keep-Alive' => '5',
    'HTTP2-Settings' => 'AAMAAA', 'Proxy-Connection' => 'keep-alive',
    'Connection' => 'TE, Upgrade, HTTP2-Settings', 'X-Kept' => 1);


# built, and refreshed by the same question

for my $case (['/page', ''], ['/tls/page', 'on'], ['/bare/page', '']) {
    my ($uri, $https) = @$case;
    my $body = refresh_same($t, $m, $uri, $uri,
        sub { $h->get($uri, headers => \@hop) });

    like($body, qr{^X-By: HTTP/2\.0\|$https\|\r?$}m,
        "$uri: by HTTP/2, without TE");
    like($body, qr/^x-kept: 1\r?$/mi, "$uri: other headers are passed");
    is($o->count($uri), 2, "$uri: asked twice");

    my $r = $h->get($uri);
    is($r->header('X-Cache') . $r->body(), "HIT$body", "$uri: a hit");
}

is(http_head($h->port(), '/page')->header('X-Cache'), 'HIT', 'HEAD: a hit');
is(http_head($h->port(), '/head')->status(), 200, 'HEAD: past the cache');
is(($o->requests('/head'))[0]{method}, 'HEAD', 'HEAD: as it came');

my $r = $h->get('/range', headers => ['Range' => 'bytes=0-5']);
is($r->status() . $r->body(), '206answer', 'Range: of a page that is built');
ok(!exists +($o->requests('/range'))[0]{headers}{range}, 'asked for whole');


# many frames

# a client that closed its connection at the last byte could end the build

my $stays = $h->conn();

for my $uri ('/large', '/tls/large', '/bare/large') {
    is($stays->get($uri)->body() eq $large, 1, "$uri: built");
    ok(page_wait($m, $uri), "$uri: stored");
    $r = $h->get($uri);
    is($r->header('X-Cache'), 'HIT', "$uri: a hit");
    is($r->body() eq $large, 1, "$uri: right");
}


# memcached is slower than the origin

for my $uri ('/bare/large/slow', '/tls/large/slow') {
    $o->hold_path($uri);
    my $p = start_get($h->port(), $uri, keepalive => 1);
    $o->wait_requests(1, $uri);
    $m->freeze();
    $o->release($uri);
    ok(wait_for(sub { $p->fill(0.1); length $p->{in} > 100_000 }),
        "$uri: under way");
    $m->cont();
    is($p->response()->body() eq $large, 1, "$uri: built");
    ok(page_wait($m, $uri), "$uri: stored");
    is($h->get($uri)->header('X-Cache'), 'HIT', "$uri: a hit");
    $p->close();
}


# trailers are of the answer, and not of the page

my $raw = http_raw($h->port(), "GET /trailer HTTP/1.1\r\nHost: localhost\r\n"
    . "TE: trailers\r\nConnection: close, TE\r\n\r\n");
like($raw, qr/\r\n0\r\nX-Sum: 5\r\n\r\n\z/i, 'trailers are passed');
page_wait($m, '/trailer');
$r = $h->get('/trailer');
is($r->header('X-Cache') . $r->body(), 'HITwhole', 'and the page is stored');


# connections are kept, by builds and refreshes

my $first = $h->get('/conn')->body();

page_expire($m, '/page', 1000);
$h->get('/page');
ok(refresh_wait($m, '/page', 5 * $t->slow()), 'a refresh');
$h->get('/more');
page_expire($m, '/conn', 1000);
$h->get('/conn');
is((refresh_wait($m, '/conn', 5 * $t->slow()) // {})->{body}, $first,
    'builds and refreshes leave one connection behind');


# the connections that are kept are those of the old worker

ok($h->reload(wait_old => 1), 'reload');
$t->done();
