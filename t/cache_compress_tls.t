#!/usr/bin/perl

# Copyright (C) mcds authors

# A page that is compressed at rest is sent as it is over TLS, too.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->needs('http_ssl', 'IO::Socket::SSL');

my ($crt, $key) = $t->cert('localhost');
my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'word ' x 5000 });

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_cache on;
    mcds_cache_key \$uri;
    mcds_cache_compress gzip;
    add_header X-Cache \$mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_ssl%% ssl;
        ssl_certificate $crt;
        ssl_certificate_key $key;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /sub/ {
            sub_filter word sword;
            sub_filter_types *;
            sub_filter_once off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $uri ('/page', '/sub/page') {
    $h->get($uri);
    page_wait($m, $uri);

    for (['http', $h->port()], ['https', $t->port('ssl'), ssl => 1]) {
        my ($name, $port, @o) = @$_;
        my %o = (@o, headers => { 'Accept-Encoding' => 'gzip' });

        my $r = http_get($port, $uri, %o);

        is($r->header('X-Cache'), 'HIT', "$name: $uri");

        if ($uri eq '/page') {
            is($r->header('Content-Encoding'), 'gzip', "$name: compressed");
            cmp_ok(length $r->body(), '<', 1000, "$name: short");
            next;
        }

        is($r->header('Content-Encoding'), undef, "$name: decompressed");
        ok($r->body() eq 'sword ' x 5000, "$name: for a filter");
    }
}

$t->done();
