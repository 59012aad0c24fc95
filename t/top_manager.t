#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_top beside a cache of nginx: its manager and its loader, which
# nginx initializes as it does workers, read no lists.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many single',
    'it counts the connections of a worker, two at most');

my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    proxy_cache_path %%DIR%%/cache keys_zone=c:1m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_counter_top popular flush=1s;

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            mcds_counter $n key=$uri top=popular;
            mcds_return 200 "$n";
        }
        location = /top { mcds_counter_api top=popular; }
    }
}
EOT

is($h->get('/x')->body(), 1, 'a worker counts');
ok(wait_for(sub { $h->get('/top')->body() =~ m{/x} }), 'and reads the list');
ok(!wait_for(sub { $m->connections() > 2 }, 1), 'no other process does');

$t->done();
