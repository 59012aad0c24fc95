#!/usr/bin/perl

# Copyright (C) mcds authors

# A HEAD that shows a page to be the same as before does not bring back one
# that was purged by its tag: neither with mcds_cache_bypass, which does not
# look at the page, nor without.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600',
    ETag => '"1"', 'Cache-Tag' => 'a'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_use main;
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            mcds_cache_tag a;
            mcds_cache_bypass $http_x_bypass;
            mcds_cache_request_control on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_purge_api on; }
    }
}
EOT

my $n = 0;

for my $purge ('tag=a', 'tag=a&mode=delete', 'all&mode=delete') {
    for my $header (['X-Bypass' => 1], ['Cache-Control' => 'no-cache']) {
        my $uri = '/' . ++$n;
        my $name = "$purge, $header->[0]";

        $h->get($uri);
        ok(wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' }),
            "$name: stored");
        is($h->get("/purge?$purge")->status(), 200, "$name: purged");
        is($h->get($uri, method => 'HEAD', headers => $header)->status(), 200,
            "$name: HEAD");
        isnt($h->get($uri)->header('X-Cache'), 'HIT', "$name: purged still");
    }
}

# nor one that had expired by itself before it was purged

for my $purge ('none', 'tag=a', 'all') {
    my $uri = '/' . ++$n;

    $h->get($uri);
    page_wait($m, key($uri)) or die "$uri is not stored\n";
    page_expire($m, key($uri), 1000);

    is($h->get("/purge?$purge")->status(), 200, "expired, $purge: purged")
        if $purge ne 'none';
    is($h->get($uri, method => 'HEAD', headers => ['Cache-Control' =>
        'no-cache'])->status(), 200, "expired, $purge: HEAD");

    if ($purge eq 'none') {
        ok(wait_for(sub { page_decode($m->get(key($uri)))->{expire}
            > 1000 * time() }), 'expired, not purged: current again');

    } else {
        isnt($h->get($uri)->header('X-Cache'), 'HIT',
            "expired, $purge: purged still");
    }
}

$t->done();
