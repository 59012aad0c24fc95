#!/usr/bin/perl

# Copyright (C) mcds authors

# Clients write URIs, and so keys: none of them is the lock, the count of uses
# or the size of another page or counter.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { body => 7,
    headers => ['Cache-Control' => 'max-age=60'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache_lock_timeout 5s error;
        location /page {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /own {
            mcds_cache on;
            mcds_cache_key $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /count {
            mcds_counter $n key=$uri;
            mcds_counter_init $n /begin;
            mcds_return "<$n>";
        }
        location /plain {
            mcds_counter $p key=$uri;
            mcds_return "<$p>";
        }
        location = /views {
            mcds_counter $v key=views;
            mcds_counter_init $v /begin;
            mcds_return "<$v>";
        }
        location = /views.json {
            mcds_counter_api prefix=views: count=on;
        }
        location = /api {
            mcds_counter_api prefix=/ count=on;
        }
        location /lock {
            mcds_lock $uri;
            mcds_return $mcds_lock_status;
        }
        location = /locks {
            mcds_api_methods GET POST;
            mcds_lock_api;
        }
        location = /begin { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

for my $suffix (qw/ lock size uses /) {
    for my $uri ("/page?a=$suffix", "/page/$suffix", "/own/$suffix") {
        is($h->get("$uri:$suffix")->header('X-Cache'), 'BYPASS key',
            "$uri:$suffix");
        is($h->get($uri)->header('X-Cache'), 'MISS absent',
            "$uri: is made");
        page_wait($m, ($uri =~ /own/ ? '' : 'http://localhost') . $uri);
        is($h->get($uri)->header('X-Cache'), 'HIT fresh',
            "$uri: and kept");
    }
}

is($h->get('/page:lock/x')->header('X-Cache'), 'MISS absent',
    'only at the end');

is($h->get('/count:lock')->body(), '<>', 'the lock of a counter is none');
is($h->get('/count')->body(), '<8>', 'a counter that begins');
is($h->get('/plain:lock')->body(), '<1>', 'others have no lock');

is($h->get('/api?key=count/2:lock', method => 'POST')->status(), 400,
    'nor is it written over HTTP');
is($h->get('/api?key=count/2:lock')->status(), 200, 'but read');
is($h->get('/count/2')->body(), '<8>', 'one that begins after that');

is($h->get('/views.json?key=lock', method => 'POST')->status(), 400,
    'nor if a part of the suffix is in the prefix');
is($h->get('/views.json?key=lock')->status(), 200, 'which is read');
is($h->get('/views')->body(), '<8>', 'a counter begins after that, too');
is($h->get('/views.json?key=1', method => 'POST')->status(), 200,
    'other keys are counted');

for my $key (qw{ lock/a:fence count/a:fence }) {
    is($h->get("/api?key=$key", method => 'POST')->status(), 400,
        "$key: not counted over HTTP");
}
is($h->get('/count:fence')->body(), '<>', 'nor by a counter that begins');
is($m->get('/lock/a:fence') // 'none', 'none', 'so it is not there');

is($h->get('/lock/a')->body(), 'acquired', 'a lock');
cmp_ok($m->get('/lock/a:fence'), '>', 1e15, 'its number is of the time');
is($h->get('/lock/a:fence')->status(), 400, 'what counts its owners is none');
is($h->get('/locks?name=a:fence', method => 'POST',
    headers => ['Content-Type' => 'application/json'], body => '{}')
    ->status(), 400, 'nor over HTTP');

$t->done();
