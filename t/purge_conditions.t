#!/usr/bin/perl

# Copyright (C) mcds authors

# The conditions of a purge request are about the page, and not about the
# response to the purge: the client learns what was purged.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_cache off; mcds_purge_api on; }
    }
}
EOT

my @conditions = (['If-Match' => '"x"'], ['If-None-Match' => '*'],
    ['If-Unmodified-Since' => 'Sun, 06 Nov 1994 08:49:37 GMT']);

for my $way (qw/ PURGE GET POST /) {
    for my $c (@conditions) {
        my $uri = "/$way/$c->[0]";

        $h->get($uri);
        page_wait($m, $uri) or die "$uri is not stored\n";

        my $r = $h->get($way eq 'PURGE' ? $uri : "/purge?key=$uri",
            method => $way, headers => $c);

        is($r->status(), 200, "$uri: 200");
        like($r->body(), qr/"purged":\[\{"key":"\Q$uri\E","found":true\}\]/,
            "$uri: what was purged");
        isnt($h->get($uri)->header('X-Cache'), 'HIT', "$uri: it is purged");
    }
}

$t->done();
