#!/usr/bin/perl

# Copyright (C) mcds authors

# Another filter refuses an answer that is just being stored: its error page is
# not the page.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

# one that does so is enough

my ($status, $load, $refuse);
my $image = $t->has('ngx_http_image_filter_module.so');

if ($image) {
    ($status, $load) = (415, "load_module $image;");
    $refuse = 'image_filter test; image_filter_buffer 1k;';

} else {
    $t->needs('ngx_http_lua_module.so', 'ndk_http_module.so');

    ($status, $load) = (403, join ' ', map { "load_module $_;" }
        map { $t->has($_) } 'ndk_http_module.so', 'ngx_http_lua_module.so');
    $refuse = 'header_filter_by_lua_block { ngx.exit(403) }';
}

my $page = 'a page, ' x 1000;

sub whole { $_[0] eq $page || $_[0] eq $page x 2 }

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => $page }, paths => {
    '/refused/chunked' => { chunked => 1 },
    '/sorry/chunked' => { chunked => 1 },
    '/refused/pieces' => { parts => [$page, [$page, 0.1]] },
});

my $conf = <<'EOT';
%%LOAD%%
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key page:$arg_id;
    proxy_http_version 1.1;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /plain/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /refused/ {
            %%REFUSE%%
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /sorry/ {
            %%REFUSE%%
            error_page 415 403 =200 /instead;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /instead { mcds_return 200 sorry; }
    }
}
EOT

my $h = $t->nginx('h', $conf =~ s/%%LOAD%%/$load/r =~ s/%%REFUSE%%/$refuse/gr);

for my $uri ('/refused/a', '/refused/chunked', '/refused/pieces', '/sorry/a',
    '/sorry/chunked')
{
    my $id = $uri =~ tr{/}{-}r;
    my $key = "<>page:$id";
    my $r = $h->get("$uri?id=$id");

    if ($uri =~ /refused/) {
        is($r->status(), $status, "$uri: refused");

    } else {
        is($r->status() . $r->body(), '200sorry', "$uri: an error page");
    }

    ok(wait_for(sub { !defined $m->get("$key:lock") }), "$uri: no lock");

    # a mark may be there, and the page, if it came whole before it was refused

    my $e = page_decode($m->get($key));
    ok(!$e || $e->{kind} == 1 || $e->{status} == 200 && whole($e->{body}),
        "$uri: nothing else is stored");

    $r = $h->get("/plain/a?id=$id");
    ok($r->status() == 200 && whole($r->body()), "$uri: others get the page");
}

$t->done();
