#!/usr/bin/perl

# Copyright (C) mcds authors

# A purge request behind try_files is one whatever the location before has asked
# memcached; and a location whose key is not that of the page does not purge.

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
    return $q->{method} eq 'PURGE' ? { status => 405 }
        : { headers => ['Cache-Control' => 'max-age=600'] };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /counter/ {
            mcds_counter $hits key=n$uri;
            try_files /none @app;
        }
        location /login/ {
            auth_request /ok;
            try_files /none @app;
        }
        location /cache/ {
            mcds_cache on;
            mcds_cache_key first$uri;
            try_files /none @app;
        }
        location /bypass/ {
            mcds_cache on;
            mcds_cache_invalidate off;
            try_files /none @app;
        }
        location /off/ {
            mcds_cache on;
            mcds_cache_key first$uri;
            mcds_purge_api off;
            try_files /none @app;
        }
        location @app {
            mcds_cache on;
            mcds_cache_shared on;
            mcds_cache_key $uri;
            mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /ok { return 204; }
    }
}
EOT

for my $way (qw/ counter login cache bypass off /) {
    my $uri = "/$way/page";

    $h->get($uri);
    page_wait($m, $uri) or die "$uri is not stored\n";
    is($h->get($uri)->header('X-Cache'), 'HIT', "$uri: is stored");

    my $r = $h->get($uri, method => 'PURGE');
    is($r->status(), 200, "$uri: 200");
    like($r->body(), qr/"key":"\Q$uri\E","found":true/, "$uri: is purged");
    is($r->header('X-Cache'), undef, "$uri: no status of the cache");

    is(scalar(grep { $_->{method} eq 'PURGE' } $o->requests($uri)), 0,
        "$uri: the origin is not asked");
    isnt($h->get($uri)->header('X-Cache'), 'HIT', "$uri: the next one");
}

$t->done();
