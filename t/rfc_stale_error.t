#!/usr/bin/perl

# Copyright (C) mcds authors

# RFC 5861, 4, and mcds_cache_use_stale: when the origin fails the old page
# stands in the place of the error, also for the request that rebuilds it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

# what the second answer is; the word in front says what the first one allowed

my %second = (
    (map { ($_ => { status => $_, body => 'broken' })
        } 500, 501, 502, 503, 504, 403, 404, 429),
    close => { abort => 0 },
    half => { raw => "HTTP/1.1 200 OK\r\nX-A: b\r\n", length => undef },
    bad => { raw => "HTTP/1.1 200 OK\r\nno header\r\n\r\n" },
    slow => { hold => 1 },
    long => { status => 500, body => 'x' x 300000 },
    chunked => { status => 500, chunked => 1, parts => ['a', ['b', 0.05]] },
    cut => { status => 500, body => 'x' x 1000, truncate => 100 },
);

my %first = (
    plain => 'max-age=60',
    sie => 'max-age=60, stale-if-error=600',
    short => 'max-age=60, stale-if-error=5',
    must => 'max-age=60, must-revalidate',
    proxy => 'max-age=60, proxy-revalidate',
    shared => 's-maxage=60',
    sharedsie => 's-maxage=60, stale-if-error=600',
    sharedswr => 's-maxage=60, stale-while-revalidate=600',
    mustsie => 'max-age=60, must-revalidate, stale-if-error=600',
);

my $large = 'large ' x 300000;

my %seen;

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my (undef, undef, $allowed, $how) = split m{/}, $q->{path};

    return $second{$how} if $seen{$q->{uri}}++;

    return {
        headers => ['Cache-Control' => $first{$allowed}, 'X-Page' => 1],
        body => ($q->{args} // '') =~ /parts/ ? $large : "page $q->{path}",
    };
});

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Age $mcds_cache_age always;
    mcds_cache on;
    mcds_cache_background_update off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location ~ ^/x/plain/(?:slow|half)$ {
            proxy_read_timeout 1s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off/ {
            mcds_cache_use_stale off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /more/ {
            mcds_cache_use_stale http_403 http_404 http_429 updating;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /grace/ {
            mcds_cache_grace 5s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /unbuffered/ {
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /alone/ {
            mcds_cache_lock off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /page/ {
            error_page 500 502 504 /sorry;
            proxy_intercept_errors on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /named/ {
            error_page 500 502 504 =200 @sorry;
            proxy_intercept_errors on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /gzip/ {
            gzip on;
            gzip_types text/plain;
            gzip_min_length 1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /sorry { return 200 sorry; }
        location @sorry { return 200 sorry; }
    }
}
EOT

# fills, makes it expire ms ago, asks again

sub expired {
    my ($uri, $ms, @o) = @_;

    $a->get($uri);
    page_expire($m, key($uri), $ms // 100_000);

    return $a->get($uri, @o);
}

sub is_old {
    my ($uri, $ms) = @_;

    my $r = expired($uri, $ms);

    is($r->status, 200, "$uri: 200");
    is($r->header('X-Cache'), 'STALE', "$uri: STALE");
    is($r->body, $uri =~ /parts/ ? $large : "page $uri", "$uri: the old page");
    is($r->header('X-Page'), 1, "$uri: with its headers");
    ok($r->complete, "$uri: whole");
    is(page_decode($m->get(key($uri)))->{status}, 200, "$uri: is kept");

    return $r;
}

sub is_error {
    my ($uri, $status, $ms) = @_;

    my $r = expired($uri, $ms);

    is($r->status, $status, "$uri: $status");
    unlike($r->body, qr/^page/, "$uri: not the old page");
    is($r->header('X-Page'), undef, "$uri: nor its headers");
}

# S1: an origin that fails behind an old page

is_old("/x/plain/$_") for 500, 502, 503, 504, qw/ close half bad slow long
    chunked cut /;
$o->release();

# the same however it comes

is_old("/unbuffered/plain/$_") for 500, qw/ close long chunked cut /;
is_old("/alone/plain/$_") for 500, 'close';
is_old("/page/plain/$_") for 500, 'close';
is_old("/named/plain/$_") for 500, 'close';

my $r = is_old('/x/plain/500' . ($t->has('mcds large') ? '?parts' : ''));
cmp_ok($r->header('Age'), '>=', 100, 'Age tells how old it is');

$r = expired('/gzip/plain/500', undef,
    headers => { 'Accept-Encoding' => 'gzip' });
is($r->header('Content-Encoding'), 'gzip', 'filters run on it');
is($r->header('X-Cache'), 'STALE', 'and it is the old page');

# what is not said to be an error

is_error("/x/plain/$_", $_) for 501, 403, 404, 429;
is_error('/off/plain/500', 500);
is_error('/off/plain/close', 502);
is_error('/more/plain/500', 500);
is_old("/more/plain/$_") for 403, 404, 429;

# stale-if-error of the page decides where it is given

is_old('/x/sie/500', 500_000);
is_error('/x/sie/503', 503, 700_000);
is_old('/off/sie/500', 500_000);
is_old('/off/sie/close', 500_000);
is_error('/off/sie/404', 404, 5_000);
is_old('/x/short/500', 2_000);
is_error('/x/short/503', 503, 100_000);

# s-maxage forbids it but for the time that the origin gives beside it

is_old('/x/sharedsie/500', 5_000);
is_error('/x/sharedsie/503', 503, 700_000);
is_error('/x/sharedswr/500', 500, 700_000);
is(expired('/x/sharedswr/503', 5_000)->body, 'page /x/sharedswr/503',
    'stale-while-revalidate beside s-maxage');

# what forbids it, whatever else is said

is_error("/x/$_/500", 500, 1_000) for qw/ must proxy shared mustsie /;
is_error("/x/$_/close", 502, 1_000) for qw/ must proxy shared mustsie /;
is_error('/grace/plain/500', 500, 6_000);
is_old('/grace/plain/503', 2_000);

# the connection can be used on

my $c = $a->conn();
for my $how (qw/ 503 504 cut long /) {
    $c->get("/x/plain/$how?keep");
    page_expire($m, key("/x/plain/$how?keep"), 100_000);
    is($c->get("/x/plain/$how?keep")->body, "page /x/plain/$how",
        "keepalive: $how");
    $c = $a->conn() if $how eq 'cut';
}

# S2: one attempt in a while, for all that come meanwhile

$a->get('/x/plain/503?o');
page_expire($m, key('/x/plain/503?o'), 100_000);
my $before = $o->count('/x/plain/503?o');
my @r = map { $a->get('/x/plain/503?o') } 1 .. 11;
is(scalar(grep { $_->header('X-Cache') eq 'STALE' } @r), 11, 'S2: all STALE');
cmp_ok($o->count('/x/plain/503?o') - $before, '<=', 2,
    'S2: the failing origin is not asked by each');

$t->allow(qr/upstream/);
$t->done();
