#!/usr/bin/perl

# Copyright (C) mcds authors

# A request for another protocol, such as a WebSocket, goes through a location
# that has a cache as through any other; one that only offers h2c is answered
# with the page, and builds it.

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

    my $protocol = $q->{headers}{upgrade};

    return { raw => "HTTP/1.1 101 Switching Protocols\r\n"
        . "Upgrade: $protocol\r\nConnection: Upgrade\r\n\r\nhello" }
        if defined $protocol;

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
            mcds_cache_bypass $arg_bypass;
            mcds_cache_request_control on;
            add_header     X-Cache $mcds_cache_status;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $protocol ('websocket', 'chat/2', 'foo, h2c') {
    my $uri = '/new/' . ($protocol =~ s/\W.*//r);
    my $name = "Upgrade: $protocol";

    like(upgrade($uri, $protocol), qr/ 101 .*\r\n\r\nhello/s,
        "$name, where nothing is stored");
    like(upgrade($uri, $protocol), qr/ 101 .*\r\n\r\nhello/s,
        "$name, and again");
    like(upgrade("$uri?bypass=1", $protocol), qr/ 101 .*\r\n\r\nhello/s,
        "$name, past the cache");
    is($m->get("<>$uri"), undef, "$name, is not stored");
}

$h->get('/page');
page_wait($m, '/page');
page_expire($m, '/page', 1_000_000);

like(upgrade('/page', 'websocket'), qr/ 101 .*\r\n\r\nhello/s,
    'where an old page is');
is($h->get('/page')->body(), 'a page', 'which stays');

# h2c

for my $status ('MISS', 'HIT') {
    my $in = upgrade('/h2c', 'h2c', "HTTP2-Settings: AAMAAABkAAQAAP__\r\n");

    like($in, qr/ 200 .*^X-Cache: $status\r\n.*a page/ms, "h2c: $status");
    page_wait($m, '/h2c');
}

is(scalar(grep { exists $_->{headers}{'http2-settings'} } $o->requests()), 0,
    'h2c is not offered to the origin');

# HTTP/1.0 has no other protocols

like(upgrade('/old', 'foo', '', '1.0'), qr/ 200 .*X-Cache: MISS/s, 'HTTP/1.0');
ok(page_wait($m, '/old'), 'HTTP/1.0: stored');

# what a request says that must not be stored is not stored past the cache

$h->get('/none?bypass=1', headers => ['Cache-Control' => 'no-store']);
$h->get('/some?bypass=1');
ok(page_wait($m, '/some'), 'past the cache: stored');
is($m->get('<>/none'), undef, 'past the cache with no-store: not stored');

$t->done();


sub upgrade {
    my ($uri, $protocol, $more, $version) = @_;

    my $c = $h->conn();

    $version //= '1.1';
    $more //= '';

    $c->send("GET $uri HTTP/$version\r\nHost: localhost\r\n"
        . "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: $protocol\r\n"
        . "$more\r\n");

    wait_for(sub { $c->fill(0.05); $c->{in} =~ /hello|\r\n\r\n./s });

    my $in = $c->{in};
    $c->close();

    return $in;
}
