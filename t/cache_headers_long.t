#!/usr/bin/perl

# Copyright (C) mcds authors

# Headers and key of a page are 256 KB long together at most, and the headers
# have 4096 lines at most: a page with more is not offered to memcached, where
# no host would take it, and requests do not wait for each other to build it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();
$t->needs('mcds large', 'mcds vary');

my $large = join '', map { sprintf "%07d\n", $_ } 1 .. 250_000;

my $m = $t->memcached('m', memory => 128);

# the path says of how many lines, and of which length

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($what, $lines, $length) = $q->{path} =~ m{^/(\w+)/(\d+)/(\d+)};
    my $kind = $q->{headers}{'if-none-match'} || $q->{method} eq 'HEAD'
        ? 'Y' : 'X';

    return { status => $kind eq 'X' || $q->{method} eq 'HEAD' ? 200 : 304,
        headers => ['Cache-Control' => 'max-age=60', ETag => '"1"',
            $what eq 'vary' ? (Vary => 'X-Kind') : (),
            map { ("$kind-$_" => 'v' x $length) } 1 .. $lines],
        body => $what eq 'parts' ? $large : 'a page ' x 100 . $q->{k} };
});

my ($h, $two) = map { $t->nginx($_, <<'EOT') } 'h', 'two';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_revalidate on;
    mcds_cache_background_update off;
    large_client_header_buffers 4 512k;
    proxy_http_version 1.1;
    proxy_set_header Connection close;
    proxy_set_header X-Long "";
    proxy_buffer_size 1m;
    proxy_buffers 8 1m;
    proxy_busy_buffers_size 2m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /gzip/ {
            mcds_cache_compress gzip types=* min_length=1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /head/ {
            mcds_cache_request_control on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /key/ {
            mcds_cache_key $uri$http_x_long;
            mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $key = '<>http://localhost';

for (['page/200/1000', 1], ['page/255/1000', 1], ['page/262/1000', 0],
    ['page/500/1000', 0], ['page/4090/1', 1], ['page/4097/1', 0],
    ['parts/200/1000', 1], ['parts/500/1000', 0],
    ['gzip/200/1000', 1], ['gzip/500/1000', 0])
{
    my ($path, $stored) = @$_;
    my ($lines) = $path =~ m{/(\d+)/};

    $m->flush();

    my $r = $h->get("/$path");
    is($r->header("X-$lines") ? 1 : 0, 1, "$path: passed on");
    is($r->header('X-Cache'), $stored ? 'MISS absent' : 'MISS headers',
        "$path: how");

    ok(wait_for(sub { $m->get("$key/$path") }), "$path: memcached has it");

    my $n = $o->count();
    my $again = $two->get("/$path");

    is($again->header('X-Cache'), $stored ? 'HIT fresh' : 'MISS headers',
        "$path: on another host");
    is($o->count() - $n, $stored ? 0 : 1, "$path: asked for again");
    ok($again->header("X-$lines"), "$path: the same headers");
    is($again->body() =~ s/\d+$//r, $r->body() =~ s/\d+$//r,
        "$path: the same body");
}

# requests do not wait for a page that cannot be stored

$h->get('/page/501/1000');
ok(wait_for(sub { $m->get("$key/page/501/1000") }), 'a mark');
$o->hold_path('/page/501/1000');
my @p = map { start_get($h->port(), '/page/501/1000') } 1 .. 3;
ok($o->wait_requests(4, '/page/501/1000'), 'they do not wait for each other');
$o->release('/page/501/1000');
finish($_) for @p;

# variants

for (['vary/200/1000', 1], ['vary/500/1000', 0]) {
    my ($path, $stored) = @$_;

    for my $kind ('a', 'b') {
        $h->get("/$path", headers => { 'X-Kind' => $kind });

        my $r;

        wait_for(sub {
            $r = $two->get("/$path", headers => { 'X-Kind' => $kind });
            $r->header('X-Cache') eq ($stored ? 'HIT fresh' : 'MISS headers');
        });

        is($r->header('X-Cache'), $stored ? 'HIT fresh' : 'MISS headers',
            "$path: variant $kind");
    }
}

# the lines of a 304 come beside those that are stored: where both are too long
# the page is asked for again, as a whole

$h->get('/page/150/1000');
page_wait($m, "$key/page/150/1000");
page_expire($m, "$key/page/150/1000", 1000);

my $n = $o->count('/page/150/1000');
my $r = $h->get('/page/150/1000');

is($r->status(), 200, 'after a 304: an answer');
is($o->count('/page/150/1000') - $n, 2, 'after a 304: asked again');
is($r->body(), 'a page ' x 100 . 3, 'after a 304: the whole page');
ok(wait_for(sub {
    $two->get('/page/150/1000')->header('X-Cache') eq 'HIT fresh'
}), 'after a 304: stored');

# of a HEAD, too: the page is stale from now on

$h->get('/head/150/1000');
page_wait($m, "$key/head/150/1000");
is(http_head($h->port(), '/head/150/1000', headers => {
    'Cache-Control' => 'no-cache' })->status(), 200, 'HEAD');

my $page;

ok(wait_for(sub {
    $page = page_decode($m->get("$key/head/150/1000"));
    return $page->{expire} <= time() * 1000;
}), 'after a HEAD: expired');
is(length $page->{headers} > 150_000 && length $page->{headers} < 160_000, 1,
    'after a HEAD: with the headers it had');

# a key leaves room for what else is stored

for ([100_000, 'HIT fresh', 200], [140_000, 'BYPASS key', 400]) {
    my ($length, $how, $purge) = @$_;
    my %long = (headers => { 'X-Long' => 'k' x $length });

    $h->get('/key/1/1', %long);

    my $r;
    wait_for(sub {
        $r = $two->get('/key/1/1', %long);
        $r->header('X-Cache') eq $how
    });

    is($r->header('X-Cache'), $how, "a key of $length");
    is($r->status(), 200, "a key of $length: an answer");
    is($h->get('/key/1/1', %long, method => 'PURGE')->status(), $purge,
        "a key of $length: purged");
}

ok($_->log_lacks(qr/wrong sizes|not used/), 'no item that is not used')
    for $h, $two;

$t->done();
