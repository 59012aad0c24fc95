#!/usr/bin/perl

# Copyright (C) mcds authors

# An error page in the place of a client's error, whatever status it has: those
# who wait for the page get theirs.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Herd;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { status => 404, body => 'no' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_intercept_errors on;
        location = /spa { return 200 spa; }
        location = /other { proxy_pass http://127.0.0.1:%%PORT_p%%; }
        location /200/ {
            error_page 404 =200 /spa;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /its/ {
            error_page 404 = /spa;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /404/ {
            error_page 404 /spa;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /302/ {
            error_page 404 =302 /spa;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /other/ {
            error_page 404 = /other;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
    server {
        listen 127.0.0.1:%%PORT_p%%;
        location / { return 200 other; }
    }
}
EOT

for (['/200/', '200 spa'], ['/its/', '200 spa'], ['/404/', '404 spa'],
    ['/302/', '302'], ['/other/', '200 other'])
{
    my ($uri, $want) = @$_;

    for my $r (herd($h, $o, $uri, '/spa' => 'spa')) {
        like($r->status() . ' ' . $r->body(), qr/^$want/, "$uri: $want");
    }
}

$t->done();
