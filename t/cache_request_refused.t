#!/usr/bin/perl

# Copyright (C) mcds authors

# Requests that do not accept a fresh page build it, one after another.  A
# response that concerns only its request, such as 429, leaves the page, even if
# the next request that has waited gets such a response as well.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');

# the responses to requests that do not accept the page are held

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $again = exists $q->{headers}{'cache-control'};

    return {
        status => $again && $q->{path} !~ /rule/ ? 429 : 200,
        headers => ['Cache-Control' => 'max-age=600', ETag => '"1"'],
        hold => $again,
    };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 20s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_request_control on;
    mcds_cache_lock_age 60s;
    mcds_cache_lock_timeout 60s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /rule/ {
            mcds_no_cache $http_cache_control;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /next { return 204; }
    }
}
EOT

for my $c (
    ['/plain', 429],
    ['/conditional', 429, 'If-None-Match' => '"other"'],
    ['/rule/plain', 200],
    ['/rule/conditional', 200, 'If-None-Match' => '"other"'],
) {
    my ($uri, $status, @more) = @$c;
    my @p;

    $h->get($uri);
    ok(page_wait($m, $uri), "$uri: stored");

    for (1 .. 3) {
        push @p, start_get($h->port(), $uri,
            headers => { 'Cache-Control' => 'no-cache', @more });
        $h->get('/next') for 1 .. 3;
    }

    for my $n (2 .. 4) {
        ok($o->wait_requests($n, $uri), "$uri: request $n for the origin");
        $o->release($uri);
    }

    is(join(' ', map { finish($_)->status() } @p), "$status $status $status",
        "$uri: the responses");
    is($o->most($uri), 1, "$uri: one at a time");

    is(page_decode(page_wait($m, $uri))->{kind}, 0, "$uri: the page stays");
    is($h->get($uri)->header('X-Cache'), 'HIT fresh', "$uri: and is served");
}

$t->done();
