#!/usr/bin/perl

# Copyright (C) mcds authors

# An unsafe request that passes through several locations: whether it
# invalidates its page is said by the location that responds, unless that is an
# error page, or X-Accel-Redirect leads there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { status => 500 } if $q->{headers}{'x-fail'};

    return { headers => ['Cache-Control' => 'max-age=600',
        $q->{headers}{'x-accel'}
        ? ('X-Accel-Redirect' => $q->{headers}{'x-accel'}) : ()] };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    proxy_intercept_errors on;
    recursive_error_pages %%RECURSIVE%%;
    mcds_cache on;
    mcds_cache_key $request_uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /on/on/ { try_files /none @on; }
        location /on/off/ { try_files /none @off; }
        location /off/on/ {
            mcds_cache_invalidate off;
            try_files /none @on;
        }
        location /off/key/ {
            mcds_cache_invalidate off;
            mcds_cache_key first$request_uri;
            try_files /none @on;
        }
        location /off/stale/ {
            mcds_cache_invalidate off;
            try_files /none @stale;
        }
        location /off/off/ {
            mcds_cache_invalidate off;
            try_files /none @off;
        }
        location /off/uncached/ {
            mcds_cache_invalidate off;
            try_files /none @uncached;
        }
        location /on/uncached/ { try_files /none @uncached; }
        location /off/error/ {
            mcds_cache_invalidate off;
            error_page 500 =200 @on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off/alone/ {
            mcds_cache_invalidate off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @on { proxy_pass http://127.0.0.1:%%PORT_s%%; }
        location @off {
            mcds_cache_invalidate off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @stale {
            mcds_cache_invalidate stale;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @uncached {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /to-on { mcds_return 200 done; }
        location = /to-key {
            mcds_cache_key other$request_uri;
            mcds_return 200 done;
        }
        location = /to-off {
            mcds_cache_invalidate off;
            mcds_return 200 done;
        }
    }
}
EOC

my $s = $t->origin('s', { headers => ['Cache-Control' => 'max-age=600'] });

for my $recursive (qw/ off on /) {
    my $h = $t->nginx("recursive-$recursive",
        $conf =~ s/%%RECURSIVE%%/$recursive/r);

    for my $case (
        ['/on/on/', 'MISS'],
        ['/on/off/', 'HIT'],
        ['/off/on/', 'MISS'],
        ['/off/key/', 'MISS'],
        ['/off/stale/', 'STALE'],
        ['/off/stale/', 'STALE', 'X-Accel' => '/to-key'],
        ['/off/off/', 'HIT'],
        ['/off/error/', 'HIT', 'X-Fail' => 1],
        ['/on/', 'MISS', 'X-Accel' => '/to-off'],
        ['/off/alone/', 'HIT', 'X-Accel' => '/to-on'])
    {
        my ($where, $status, @more) = @$case;
        my $uri = "$where$recursive";

        $h->get($uri);
        ok(page_wait($m, $uri), "$uri: is stored");
        is($h->get($uri)->header('X-Cache'), 'HIT', "$uri: is a hit");

        is($h->get($uri, method => 'POST', body => 'x', headers => [@more])
            ->status(), 200, "$uri: POST");
        is($h->get($uri)->header('X-Cache'), $status, "$uri: $status");
    }

    # the page of a request that an uncached location answers is that of a key

    for my $case (['/on/uncached/', 1], ['/off/uncached/', 0]) {
        my ($where, $gone) = @$case;
        my $uri = "$where$recursive";

        $h->get("/filled$recursive");
        page_wait($m, "/filled$recursive");
        $m->set("<>$uri", $m->get("<>/filled$recursive"));
        $h->get($uri, method => 'POST', body => 'x');

        my $e = $m->get("<>$uri");
        is(!defined $e || page_decode($e)->{kind} != 0 ? 1 : 0, $gone,
            "$uri: " . ($gone ? 'is gone' : 'stays'));
    }
}

$t->done();
