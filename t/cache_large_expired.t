#!/usr/bin/perl

# Copyright (C) mcds authors

# A page in parts, or a long one that is compressed, which has expired and must
# not be served: the request that builds it gets the response as it comes, as if
# no page was stored, and does not wait for its own build.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');
$t->needs('mcds large', 'mcds compress');

my $text = join '', map { "line $_ of the page\n" } 1 .. 100_000;

sub body { "version $_[0] of $_[1]\n" . $text }

# a response is held if a request says so, that is, its copy for the build

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return {
        headers => ['Content-Type' => 'text/plain', ETag => "\"$q->{k}\"",
            'Cache-Control' => $q->{path} =~ /strict/ ? 's-maxage=600'
                : 'max-age=600'],
        body => body($q->{k}, $q->{path}),
        hold => exists $q->{headers}{'x-hold'},
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
    mcds_cache_max_size 8m;
    mcds_cache_request_control on;
    mcds_cache_background_update off;
    mcds_cache_grace 1h;
    mcds_cache_lock_age 60s;
    mcds_cache_lock_timeout 100ms error;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /waits/ {
            mcds_cache_lock_timeout 60s;
            mcds_cache_wait         60s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /waits/revalidate/ {
            mcds_cache_revalidate on;
            mcds_cache_lock_timeout 60s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /compress/ {
            mcds_cache_compress gzip;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub which {
    my ($r, $uri) = @_;
    my ($version) = $r->body() =~ /^version (\d+)/;

    return join ' ', $r->status(), $r->header('X-Cache'),
        !$version ? 'no page'
        : $r->body() eq body($version, $uri) ? $version : 'wrong';
}

# milliseconds since the page has expired, headers of the request, the response

for my $c (
    ['/strict', 1000, {}, '200 EXPIRED stale 2'],
    ['/late', 7200_000, {}, '200 EXPIRED stale 2'],
    ['/request', -60_000, { 'Cache-Control' => 'no-cache' },
        '200 BYPASS request 2'],
    ['/compress/strict', 1000, {}, '200 EXPIRED stale 2'],
    ['/compress/late', 7200_000, {}, '200 EXPIRED stale 2'],

    # the old page may be served after a failure, or confirmed

    ['/waits/grace', 1000, {}, '200 HIT built 2'],
    ['/waits/revalidate/strict', 1000, {}, '200 HIT built 2'],
) {
    my ($uri, $ago, $headers, $want) = @$c;

    is(which($h->get($uri), $uri), '200 MISS absent 1', "$uri: built");
    page_wait($m, $uri);
    page_expire($m, $uri, $ago);

    my $p = start_get($h->port(), $uri,
        headers => { %$headers, 'X-Hold' => 1 });
    ok($o->wait_requests(2, $uri), "$uri: expired, and built anew");

    # another request, which waits for the page, waits in vain

    if ($uri !~ /waits/) {
        is(which($h->get($uri, headers => $headers), $uri),
            '503 ' . ($want =~ /^\d+ (.*) \w+ \d+$/)[0] . ' timeout no page',
            "$uri: another request");
    }

    $o->release($uri);

    is(which(finish($p), $uri), $want, "$uri: $want");
    is($o->count($uri), 2, "$uri: one request for the origin");

    ok(wait_for(sub { which($h->get($uri), $uri) eq '200 HIT fresh 2' }),
        "$uri: stored");
    is($o->count($uri), 2, "$uri: and no other");
}

$t->done();
