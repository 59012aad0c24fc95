#!/usr/bin/perl

# Copyright (C) mcds authors

# A GET or HEAD request that a condition makes a purge request, in a location
# behind try_files or index: the location before has already asked memcached for
# the page, and the page is purged all the same, whatever memcached replies.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=600',
        $q->{path} =~ /vary/ ? (Vary => 'X-A') : ()],
        body => $q->{path} =~ /large/ ? 'large' x 500_000 : "page $q->{k}" };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 1s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $request_uri;
    mcds_cache_max_size 8m;
    mcds_cache_bypass $http_x_bypass;
    server {
        listen 127.0.0.1:%%PORT%%;
        root %%TMP%%;
        location / { try_files /none @app; }
        location /tags/ {
            mcds_cache_tag on;
            try_files /none @tags;
        }
        location /local/ {
            mcds_cache_local timed=1h;
            try_files /none @local;
        }
        location /refresh/ { try_files /none @refresh; }
        location /login/ { try_files /none @login; }
        location /index/ { index page; }
        location /index/page {
            mcds_purge_api $http_x_purge mode=delete;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /other/ {
            mcds_cache_key other$request_uri;
            try_files /none @app;
        }
        location @app {
            mcds_purge_api $http_x_purge mode=delete;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @tags {
            mcds_cache_tag on;
            mcds_purge_api $http_x_purge mode=delete;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @local {
            mcds_cache_local timed=1h;
            mcds_purge_api $http_x_purge mode=delete;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @refresh {
            mcds_purge_api $http_x_purge mode=refresh;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @login {
            auth_request /ok;
            mcds_cache_shared on;
            mcds_purge_api $http_x_purge mode=delete;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /ok { mcds_cache off; return 204; }
    }
}
EOT

my @purge = (headers => ['X-Purge' => 1]);

# index finds this file, although its location asks the origin

mkdir $t->dir() . "/index" or die "index: $!\n";
$t->write_file('index/page', 'a file');

for my $case (
    ['/fresh'],
    ['/fresh', method => 'HEAD'],
    ['/stale'],
    ($t->has('mcds vary') ? ['/vary/page'] : ()),
    ($t->has('mcds large') ? ['/large'] : ()),
    ['/tags/page'],
    ['/tags/stale'],
    ['/local/page'],
    ['/index/'],
    ['/other/page'],
    ['/login/page'],
    ['/bypass', headers => ['X-Purge' => 1, 'X-Bypass' => 1]])
{
    my ($uri, @how) = @$case;
    my $name = $uri . ($how[0] && $how[0] eq 'method' ? ' by HEAD' : '');

    $h->get($uri);
    page_wait($m, $uri) if $uri !~ /vary/;
    wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' })
        or die "$uri is not stored\n";
    page_expire($m, $uri, 1000) if $uri =~ /stale/;
    $o->mark();

    my $r = $h->get($uri, @purge, @how);
    is($r->status(), 200, "$name: 200");
    like($r->body(), qr/"key":"\Q$uri\E","found":true/, "$name: is purged")
        if $name !~ /HEAD/;
    is($r->header('Content-Type'), 'application/json', "$name: the result");
    is($r->header('X-Cache'), undef, "$name: no status of the cache");
    is($o->count(), 0, "$name: the origin is not asked");

    is($h->get($uri)->header('X-Cache'), 'MISS', "$name: the page is deleted");
}

# a page that is not stored, and a rebuild

is($h->get('/none', @purge)->status(), 404, 'no page');

$h->get('/refresh/page');
page_wait($m, '/refresh/page') or die "the page is not stored\n";

like($h->get('/refresh/page', @purge)->body(), qr/"refresh":true/,
    'a rebuild has begun');
ok(wait_for(sub { $h->get('/refresh/page')->body() eq 'page 2' }),
    'and has ended');

# not a purge request

is($h->get('/fresh', headers => ['X-Purge' => 0])->header('X-Cache'), 'HIT',
    'the condition is false');

# memcached does not reply, and is down

$h->get("/$_") for 'silent', 'down';
page_wait($m, "/$_") or die "/$_ is not stored\n" for 'silent', 'down';
$t->allow(qr/memcached|127\.0\.0\.1/);

$m->freeze();
is($h->get('/silent', @purge)->status(), 503, 'memcached is silent');
$m->cont();
ok(wait_for(sub { $h->get('/silent', @purge)->status() != 503 }),
    'memcached is back');

$m->kill9();
is($h->get('/down', @purge)->status(), 503, 'memcached is down');

# nothing is left of the requests: the host still purges

$m->restart();
ok(wait_for(sub { $h->get('/again')->header('X-Cache') eq 'HIT' }),
    'a page is stored again');
is($h->get('/again', @purge)->status(), 200, 'and is purged');

$t->done();
