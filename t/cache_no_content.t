#!/usr/bin/perl

# Copyright (C) mcds authors

# An answer 204 is stored like others: it has no body and no Content-Length
# (RFC 9110, 8.6), over HTTP/1.1 and HTTP/2, for GET and HEAD; it takes the
# place of a page, and a page takes its place.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;
use Test::Mcds::Http2;

my $t = Test::Mcds->new()->needs('http_v2');

my @life = ('Cache-Control' => 'max-age=60');
my $none = { status => 204, headers => [@life, ETag => '"1"', 'X-A' => 1] };

my $m = $t->memcached('m');
my $o = $t->origin('o', $none);
my $f = $t->origin('f', $none, fastcgi => 1);

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_h2%% http2;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /named/ {
            mcds_cache_valid 204 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /wait/ {
            mcds_cache_background_update off;
            mcds_cache_wait 30s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /unbuffered/ {
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /compress/ {
            mcds_cache_compress gzip min_length=1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fast/ {
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_pass 127.0.0.1:%%PORT_f%%;
        }
        location = /page {
            mcds_cache off;
            ssi on;
            ssi_types text/plain;
            return 200 '<!--# include virtual="/part" -->.';
        }
    }
}
EOT

sub which {
    my ($r) = @_;
    return join ' ', $r->status(), $r->header('X-Cache') // '-',
        map { $r->header($_) // '-' } qw/ Content-Length Transfer-Encoding /;
}

sub entry {
    my ($uri) = @_;
    page_wait($m, key($uri));
    return page_decode($m->get(key($uri)));
}

# stored, whatever the way to it

my $long = "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n"
    . "Cache-Control: max-age=60\r\n\r\n";

$o->set('/raw', { raw => $long });
$o->set('/compress/1', { %$none, headers => [@life,
    'Content-Type' => 'text/html'] });

for my $uri ('/1', '/raw', '/unbuffered/1', '/compress/1', '/fast/1') {
    is($a->get($uri)->header('X-Cache'), 'MISS', "$uri: the first");

    my $e = entry($uri);
    is("$e->{kind} $e->{status} $e->{length}", '0 204 0', "$uri: stored");
    is($e->{body}, '', "$uri: without a body");
    is(which($a->get($uri)), '204 HIT - -', "$uri: from the cache");
    is(which($a->get($uri, method => 'HEAD')), '204 HIT - -', "$uri: HEAD");
}

$o->set('/named/1', { status => 204, headers => [] });
$a->get('/named/1');
is(entry('/named/1')->{status}, 204, 'a lifetime of the configuration');
$o->set('/lifeless', { status => 204, headers => [] });
$a->get('/lifeless') for 1 .. 2;
is($o->count('/lifeless'), 2, 'without a lifetime: not stored');

# its headers stay, no part is made of it, and its connection is good

my $c = $a->conn();
my $r = $c->get('/1', headers => [Range => 'bytes=0-1']);
is(which($r), '204 HIT - -', 'Range');
is(join(' ', map { $r->header($_) // '-' } qw/ ETag X-A Accept-Ranges /),
    '"1" 1 -', 'headers');
is(which($c->get('/1', headers => ['If-None-Match' => '"2"'])), '204 HIT - -',
    'a condition');
is($c->get('/page')->body(), '.', 'in a page, and on the same connection');
is($c->get('/page')->body(), '.', 'in a page, from the cache');
is($o->count('/part'), 1, 'in a page: asked once');

# HTTP/2

my $h = Test::Mcds::Http2->new($t->port('h2'));

for my $uri ('/h2', '/h2', '/1') {
    my $r = $h->response($h->request($uri));
    is(join(' ', $r->status(), $r->complete() ? 'complete' : 'cut off',
        $r->header('content-length') // '-', length $r->body()),
        '204 complete - 0', "HTTP/2: $uri");
    entry($uri);
}

is($o->count('/h2'), 1, 'HTTP/2: asked once');

# those who wait

$o->hold_path('/herd');
my @p = map { start_get($a->port(), '/herd') } 1 .. 20;
$o->wait_requests(1, '/herd');
$a->get('/1') for 1 .. 4;
$o->release('/herd');
is(scalar(grep { which($_) =~ /^204 \w+ - -$/ } map { finish($_) } @p), 20,
    'all who wait get it');
is($o->count('/herd'), 1, 'one request');

# a page before, or after

my $page = { status => 200, headers => [@life], body => 'page' };

for my $where ('wait', 'behind') {
    for my $turn ([$page, $none], [$none, $page]) {
        my ($old, $new) = map { $_ == $none ? 204 : 200 } @$turn;
        my $uri = "/$where/$old";
        my $name = "$where: $new after $old";

        $o->set($uri, $turn->[0]);
        $a->get($uri);
        is(entry($uri)->{status}, $old, "$name: before");
        page_expire($m, key($uri), 1000);
        $o->set($uri, $turn->[1]);

        is($a->get($uri)->status(), $where eq 'wait' ? $new : $old,
            "$name: the one who finds it");
        ok(wait_for(sub {
            my $r = $a->get($uri);
            return $r->status() == $new && $r->header('X-Cache') eq 'HIT'
                && $r->body() eq ($new == 204 ? '' : 'page');
        }), "$name: replaced");
    }
}

$t->done();
