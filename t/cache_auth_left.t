#!/usr/bin/perl

# Copyright (C) mcds authors

# error_page leads a request on from a location where auth_request has asked
# about the client: what the request gets there is for this client.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $auth = $t->origin('auth', sub {
    my ($auth, $q) = @_;

    return { status => $q->{path} eq '/deny' ? 403 : 204,
        headers => ['X-Name' => $q->{headers}{'x-user'}] };
});
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Content-Type' => 'text/html',
            'Cache-Control' => 'no-store'],
        body => '<!--# include virtual="/part" -->' }
        if $q->{path} =~ m{^/ssi/};

    return { headers => ['Cache-Control' => ($q->{path} =~ /public/
            ? 'public, ' : '') . 'max-age=600'],
        body => $q->{headers}{'x-name'} || 'nobody' };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_use main;
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_key $request_uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_set_header X-Name $name;
        auth_request_set $name $upstream_http_x_name;
        location /denied/ {
            auth_request /deny;
            error_page 403 = @page;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /uncached/ {
            mcds_cache off;
            auth_request /deny;
            error_page 403 = /page$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi/ {
            auth_request /deny;
            error_page 403 = @ssi;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /busy/ {
            auth_request /allow;
            mcds_lock lock;
            error_page 423 = @page;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /shared/ {
            auth_request /deny;
            error_page 403 = @shared;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ruled/ {
            deny all;
            error_page 403 = @page;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @page {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /page/ {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @ssi {
            ssi on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /part {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @shared {
            mcds_cache_shared on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location ~ ^/(?:deny|allow)$ {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_auth%%;
        }
    }
}
EOT

sub ask {
    my ($uri, $user) = @_;

    my $r = $h->get($uri, headers => ['X-User' => $user]);

    return join ' ', $r->header('X-Cache') // '-', $r->body();
}

$o->hold_path('/busy/held');
my $p = start_get($h->port(), '/busy/held', headers => ['X-User' => 'carol']);
$o->wait_requests(1, '/busy/held');

for my $uri ('/denied/1', '/uncached/1', '/busy/1') {
    is(ask($uri, 'alice'), 'MISS authorization alice', "$uri: led on");
    is(ask($uri, 'bob'), 'MISS authorization bob',
        "$uri: not the page of another client");
}

is(ask('/ssi/1', 'alice'), 'MISS no-store alice', 'a part of a page');
is(ask('/ssi/2', 'bob'), 'MISS no-store bob', 'not that of another client');

for my $uri ('/denied/public', '/uncached/public', '/busy/public', '/shared/1')
{
    is(ask($uri, 'alice'), 'MISS absent alice', "$uri: may be shared");
    ok(wait_for(sub { ask($uri, 'bob') eq 'HIT fresh alice' }),
        "$uri: and is");
}

is(ask('/ruled/1', 'alice'), 'MISS absent nobody', 'only an access rule');
ok(wait_for(sub { ask('/ruled/1', 'bob') eq 'HIT fresh nobody' }),
    '... shared');

$o->release('/busy/held');
is(finish($p)->body(), 'carol', 'the request that had the lock');

$t->done();
