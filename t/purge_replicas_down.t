#!/usr/bin/perl

# Copyright (C) mcds authors

# A replica that the configuration keeps down does not come back with what it
# had: purges are done without it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my @m = map { $t->memcached("m$_") } 0 .. 2;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%% down;
        server       127.0.0.1:%%PORT_m2%%;
        distribution ketama;
        replicas     2;
    }
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge {
            mcds_use main;
            mcds_purge_api on;
        }
    }
}
EOT

for my $mode ('invalidate', 'delete') {
    for my $n (1 .. 10) {
        my $uri = "/$mode$n";
        $h->get($uri);
        ok(wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' }),
            "$uri: stored");
        is($h->get("/purge?key=http://localhost$uri&mode=$mode")->status(), 200,
            "$uri: purged");
        isnt($h->get($uri)->header('X-Cache'), 'HIT', "$uri: not fresh");
    }
}

is($h->get('/purge?tag=a')->status(), 200, 'a tag')
    if $t->has('mcds tags');

$t->done();
