#!/usr/bin/perl

# Copyright (C) mcds authors

# Modules with filters that are loaded after mcds: a page is stored as the
# origin has sent it, and filters see it once, whatever the order in which the
# modules are loaded.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

$t->needs('ndk_http_module.so', 'ngx_http_lua_module.so',
    'ngx_http_echo_module.so');

my $modules = join '', map { "load_module $_;\n" } map { $t->has($_) }
    'ndk_http_module.so', 'ngx_http_lua_module.so', 'ngx_http_echo_module.so';

my $m = $t->memcached('m');
my $o = $t->origin('o', {
    headers => ['Cache-Control' => 'max-age=60', 'Content-Type' => 'text/html'],
    body => 'Hello, NAME',
});

my $plain = 0;

for my $order ('before', 'after') {
    my $first = $order eq 'before' ? $modules : '';
    my $last = $order eq 'after' ? $modules : '';

    my $h = $t->nginx($order, "$first%%GLOBALS%%\n$last"
        . <<'EOT' =~ s/ORDER/$order/r);
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache     on;
        mcds_cache_key ORDER$uri;
        add_header     X-Cache "$mcds_cache_status";

        location /hello {
            header_filter_by_lua_block { ngx.header.content_length = nil }
            body_filter_by_lua_block {
                ngx.arg[1] = ngx.arg[1]:gsub("NAME", ngx.var.cookie_name)
            }
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /cookie {
            header_filter_by_lua_block {
                ngx.header["Set-Cookie"] = "id=" .. ngx.var.cookie_name
            }
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /echo {
            echo_after_body "<footer>";
            proxy_pass      http://127.0.0.1:%%PORT_o%%;
        }
        location /capture {
            mcds_cache off;
            content_by_lua_block {
                ngx.print(ngx.location.capture("/plain").body)
            }
        }
        location /plain { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

    for my $reload (0, 1) {
        my $say = "mcds is loaded $order" . ($reload ? ', reload' : '');
        my $uri = "/hello$reload";

        $h->reload() if $reload;

        is(hello($h, $uri, 'Alice')->body(), 'Hello, Alice', "$say: a miss");
        page_wait($m, "$order$uri");

        my $r = hello($h, $uri, 'Bob');
        is($r->header('X-Cache'), 'HIT', "$say: a hit");
        is($r->body(), 'Hello, Bob', "$say: of another visitor");

        $uri = "/cookie$reload";
        hello($h, $uri, 'Alice');
        page_wait($m, "$order$uri");

        $r = hello($h, $uri, 'Bob');
        is($r->header('X-Cache'), 'HIT', "$say: the cookie of a filter");
        is($r->header('Set-Cookie'), 'id=Bob', "$say: is not stored");

        $uri = "/echo$reload";
        my $body = $h->get($uri)->body();
        page_wait($m, "$order$uri");
        is($h->get($uri)->body(), $body, "$say: one footer");
    }

    $h->get('/capture');
    page_wait($m, "$order/plain");
    is($h->get('/capture')->body(), 'Hello, NAME', "$order: a capture");
    is($o->count('/plain'), ++$plain, "$order: is stored");
}

$t->done();


sub hello {
    my ($h, $uri, $name) = @_;

    return $h->get($uri, headers => { Cookie => "name=$name" });
}
