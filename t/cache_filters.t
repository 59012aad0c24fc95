#!/usr/bin/perl

# Copyright (C) mcds authors

# What runs around a cached page: SSI, gzip and others on each hit, pages in
# pages, try_files and other redirects; a page is never stored under the key
# of another one.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $long = ['Cache-Control' => 'max-age=60'];
my $html = ['Cache-Control' => 'max-age=60', 'Content-Type' => 'text/html',
            'ETag' => '"e"'];

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => $long }, paths => {
    '/ssi/page' => { headers => $html, body => '%k:<!--# echo var="arg_x" -->'
        . ':<!--# include virtual="/part/1" -->'
        . ':<!--# include virtual="/part/2?y" -->:' },
    '/ssi/set' => { headers => $html, body =>
        '<!--# include virtual="/part/3" set="p" -->'
        . '%k:<!--# echo var="p" -->' },
    '/gzip' => { headers => $html, body => 'compress me ' x 1000 },
    '/sub' => { headers => $html, body => 'time is TIME' },
    '/part/1' => { body => 'one%k' },
    '/part/2' => { body => 'two%k' },
    '/part/3' => { body => 'three%k' },
    '/sorry' => { body => 'sorry' },
    '/static.txt' => { body => 'a file' },
});

my $php = $t->origin('php', sub {
    my ($o, $q) = @_;
    my $uri = $q->{params}{REQUEST_URI};
    my @more = $uri =~ m{^/accel/(\w+)}
        ? ('X-Accel-Redirect' => '/internal/static.txt') : ();
    push @more, 'Cache-Control' => 'private' if $uri =~ /private/;
    push @more, 'Set-Cookie' => 'a=b' if $uri =~ /cookie/;
    return { headers => [@$long, @more], body => "php $uri" };
}, fastcgi => 1);

$t->write_file('static.txt', 'a file');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_error_backoff off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /ssi/ {
            ssi on;
            mcds_cache_key $scheme://$host$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /gzip {
            gzip on;
            gzip_vary on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /try/ {
            alias %%TMP%%/;
            mcds_cache off;
            try_files $uri /index.php?$args;
        }
        location /all/ {
            alias %%TMP%%/;
            try_files $uri /index.php?$args;
        }
        location /files/ {
            mcds_cache_valid 200 1m;
            alias %%TMP%%/;
        }
        location = /index.php {
            fastcgi_pass 127.0.0.1:%%PORT_php%%;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
        }
        location /accel/ {
            fastcgi_pass 127.0.0.1:%%PORT_php%%;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
        }
        location /internal/ {
            internal;
            mcds_cache_valid 200 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%/;
        }
        location /rewrite/ {
            rewrite ^ /index.php last;
        }
        location /named/ {
            error_page 404 = @named;
            root %%TMP%%;
            mcds_cache off;
            log_not_found off;
        }
        location /both/ {
            error_page 404 = @named;
            root %%TMP%%;
            log_not_found off;
        }
        location @named {
            fastcgi_pass 127.0.0.1:%%PORT_php%%;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
        }
        location /fallback/ {
            proxy_intercept_errors on;
            error_page 404 500 502 = /sorry;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /intercept/ {
            proxy_intercept_errors on;
            error_page 404 500 =200 /sorry;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub cached { join ' ', $_[0]->header('X-Cache') // 'none', $_[0]->body() }

my $r;


# pages in pages: each has its own key, and the page is put together each time

$r = $h->get('/ssi/page?x=1');
is($r->body(), '1:1:one1:two1:', 'SSI: a miss');
page_wait($m, key($_)) for '/ssi/page', '/part/1', '/part/2?y';

is(join(' ', grep { !/:lock$/ } $m->keys()),
    join(' ', map { key($_) } '/part/1', '/part/2?y', '/ssi/page'),
    'SSI: three pages');
like(page_decode($m->get(key('/ssi/page')))->{body}, qr/^1:<!--# echo/,
    'SSI: stored as the origin sent it');

is(cached($h->get('/ssi/page?x=2')), 'HIT 1:2:one1:two1:', 'SSI: in a hit');
is($h->get('/part/1')->body(), 'one1', 'SSI: a part by itself');

page_expire($m, key('/part/1'), 61000);
is(cached($h->get('/ssi/page?x=3')), 'HIT 1:3:one2:two1:',
    'SSI: a part is rebuilt alone');
page_wait($m, key('/part/1'));

page_expire($m, key('/ssi/page'), 61000);
is(cached($h->get('/ssi/page?x=4')), 'EXPIRED 2:4:one2:two1:',
    'SSI: so is the page');
page_wait($m, key('/ssi/page'));

$r = $h->get('/ssi/page', headers => { 'If-None-Match' => '"e"',
    Range => 'bytes=0-1' });
is($r->status(), 304, 'SSI: as nginx does, conditions look at the page');
ok(!defined $h->get('/ssi/page')->header('ETag'), 'SSI: no ETag');

$r = $h->get('/ssi/set');
like($r->body(), qr/^1:three1$/, 'SSI: a part in memory');
page_wait($m, key($_)) for '/ssi/set', '/part/3';
is(cached($h->get('/ssi/set')), 'HIT ' . $r->body(),
    'SSI: a part in memory, from the cache');


# the body filters run on each hit

$h->get('/gzip');
page_wait($m, key('/gzip'));
$r = $h->get('/gzip', headers => { 'Accept-Encoding' => 'gzip' });
is($r->header('X-Cache') . $r->header('Content-Encoding'), 'HITgzip',
    'gzip: of a hit');
cmp_ok(length $r->body(), '<', 1000, 'gzip: compressed');
is($r->header('ETag'), 'W/"e"', 'gzip: a weak ETag');
$r = $h->get('/gzip');
is($r->body(), 'compress me ' x 1000, 'gzip: only for who takes it');
is($r->header('ETag'), '"e"', 'gzip: the ETag of the page is left alone');


# all lead to one location, and each has its page

for my $way ('try', 'all', 'rewrite', 'named', 'both') {
    for my $page (1, 2) {
        my $uri = "/$way/$page?a=$page";
        is($h->get($uri)->body(), "php $uri", "$way $page: miss");
        ok(page_wait($m, key($uri)), "$way $page: stored under its own key");
        is(cached($h->get($uri)), "HIT php $uri", "$way $page: hit");
    }
}

is($h->get("/$_/static.txt")->body(), 'a file', "$_: the file")
    for 'try', 'all', 'files';
ok(!grep({ m{/(?:try|all|files)/static} } $m->keys()), 'is not stored');
ok(!grep({ /index\.php/ } $m->keys()), 'nothing under the inner name');


# an application names the page that is its answer, and says what it is; that
# page is a variant of its own, and the application is asked each time

my $vary = $t->has('mcds vary');
my @public = $vary ? (2, 'HIT') : (1, 'MISS');

for my $c (['public', @public], ['private', 1, 'MISS'], ['cookie', 1, 'MISS']) {
    my ($way, $kind, $status) = @$c;
    my $uri = "/accel/$way";

    is($h->get($uri)->body(), 'a file', "X-Accel-Redirect, $way: the file");
    is((page_decode(page_wait($m, key($uri))) // {})->{kind}, $kind,
        "X-Accel-Redirect, $way: " . ($kind == 1 ? 'a mark' : 'variants'));
    $php->mark();
    is(cached($h->get($uri)), "$status a file",
        "X-Accel-Redirect, $way: again");
    is($php->count(), 1, "X-Accel-Redirect, $way: asked again");
}


# those who have waited for what turns out to be no page wait for that one, too

$o->mark();
$php->mark();
$php->hold_path('*');
my @herd = map { start_get($h->port(), '/accel/herd') } 1 .. 5;
$php->wait_requests(1);
$h->get('/try/static.txt');
$o->hold_path('/static.txt');
$php->release('*');
ok($php->wait_requests(5), 'X-Accel-Redirect, a herd: all ask');
$o->wait_requests(1, '/static.txt');
$h->get('/try/static.txt');
$o->release('/static.txt');
is(join(' ', map { finish($_)->body() } @herd), join(' ', ('a file') x 5),
    'X-Accel-Redirect, a herd: all have the page');
is($o->count('/static.txt'), $vary ? 1 : 5,
    'X-Accel-Redirect, a herd: built once, if it can be stored');


# what is shown in the place of an error is not the page

for my $way ('fallback', 'intercept') {
    my $uri = "/$way/x";
    my $page = $h->get($uri)->body();

    like($page, qr/^answer/, "$way: the page");
    page_expire($m, key($uri), 1000);
    $o->mark();
    $o->set($_, { status => 500 }) for $uri, "/$way/y";

    is(cached($h->get($uri)), "STALE $page", "$way: refreshed");
    $o->wait_requests(1, $uri);
    ok(wait_for(sub { $o->count('/sorry') == 1
        && !defined $m->get(key('/sorry') . ':lock') }), "$way: failed");
    is(page_decode($m->get(key($uri)))->{body}, $page, "$way: still there");

    is($h->get("/$way/y")->body(), 'sorry', "$way: nothing is there");
    ok(wait_for(sub { !defined $m->get(key("/$way/y") . ':lock') }),
        "$way: unlocked");
    ok(!defined $m->get(key("/$way/y")), "$way: nothing is stored");
}

$t->done();
