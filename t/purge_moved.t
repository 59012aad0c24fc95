#!/usr/bin/perl

# Copyright (C) mcds authors

# A request that is led to another location, whose page is on another server:
# the page counts as made after what that server says was purged, not after
# what the first one says, which began to count at another time.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
$t->needs('mcds large');

my @m = map { $t->memcached("m$_") } 0 .. 2;
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @to = $q->{path} =~ m{^/accel/(.*)} ? ('X-Accel-Redirect' => "/b/$1")
        : ();
    return { headers => ['Cache-Control' => 'max-age=600', @to] };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        server       127.0.0.1:%%PORT_m2%%;
        distribution ketama;
    }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_tag on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache_key $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /try/ {
            mcds_cache_key $uri;
            try_files /none /b$uri;
        }
        location /named/ {
            mcds_cache_key a$uri;
            try_files /none @k;
        }
        location @k {
            mcds_cache_key b$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# as on servers that were asked for the first time at different times

$m[$_]->set('<mcds:purges', 1_600_000_000_000 + $_ * 1_000_000) for 0 .. 2;

for my $path ('/try/', '/named/', '/accel/') {
    for my $n (1 .. 12) {
        ok(wait_for(sub {
            $h->get("$path$n")->header('X-Cache') eq 'HIT'
        }, 5), "$path$n: is used");
    }
}

$t->done();
