#!/usr/bin/perl

# Copyright (C) mcds authors

# A WebSocket goes through a location that has a cache, as through any other.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { raw => "HTTP/1.1 101 Switching Protocols\r\n"
        . "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello" }
        if ($q->{headers}{upgrade} // '') eq 'websocket';

    return { headers => ['Cache-Control' => 'max-age=60'], body => 'a page' };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    map $http_upgrade $connection_upgrade {
        default upgrade;
        ''      '';
    }

    proxy_http_version 1.1;
    proxy_set_header   Upgrade $http_upgrade;
    proxy_set_header   Connection $connection_upgrade;

    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache     on;
            mcds_cache_key $uri;
            add_header     X-Cache $mcds_cache_status;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

like(websocket('/new'), qr/ 101 .*\r\n\r\nhello/s, 'where nothing is stored');
like(websocket('/new'), qr/ 101 .*\r\n\r\nhello/s, 'and again');
is($m->get('/new'), undef, 'it is not stored');

$h->get('/page');
page_wait($m, '/page');
page_expire($m, '/page', 1_000_000);

like(websocket('/page'), qr/ 101 .*\r\n\r\nhello/s, 'where an old page is');
is($h->get('/page')->body(), 'a page', 'which stays');

$t->done();


sub websocket {
    my ($uri) = @_;

    my $c = $h->conn();

    $c->send("GET $uri HTTP/1.1\r\nHost: localhost\r\n"
        . "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        . "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        . "Sec-WebSocket-Version: 13\r\n\r\n");

    wait_for(sub { $c->fill(0.05); $c->{in} =~ /hello|\r\n\r\n./s });

    my $in = $c->{in};
    $c->close();

    return $in;
}
