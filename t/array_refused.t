#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_array_api: conditions against lost updates, and what is refused.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_api_methods GET POST PUT PATCH DELETE;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /a { mcds_array_api list; }
        location = /few { mcds_array_api few max=3; }

        location = /default {
            mcds_array_api   list;
            mcds_api_methods GET;
        }
        location = /small {
            mcds_array_api       list;
            client_max_body_size 100;
        }
        location = /large {
            mcds_array_api       list;
            client_max_body_size 10m;
        }
        location = /except {
            mcds_array_api list;
            limit_except GET { deny all; }
        }
        location = /if {
            if ($arg_x) { set $y 1; }
            mcds_array_api list;
        }
    }
}
EOC

# conditions

json('PUT', '/a', '["x"]');

my $tag = $h->get('/a')->header('ETag');
my $r;

like($tag, qr/^"[0-9a-f]+-[0-9a-f]{8}"$/, 'ETag');
$r = json('PUT', '/few', '[1, 2, 3, 4, 5]');
is($r->status(), 204, 'PUT of more than is kept');
is($r->header('ETag'), undef, 'no ETag: the array is not the body');
is($h->get('/a', headers => { 'If-None-Match' => $tag })->status(), 304,
    'not modified');

$r = json('PATCH', '/a', '{"add": ["y"]}', 'If-Match' => $tag);
is($r->status(), 204, 'If-Match: it is that');

my $next = $r->header('ETag');

isnt($next, $tag, 'another ETag');
is($h->get('/a')->header('ETag'), $next, 'that of what was written');

for my $method (qw/ POST PUT PATCH DELETE /) {
    my $body = $method eq 'PATCH' ? '{"add": [1]}' : '[1]';

    for my $row ([$tag, 'no longer that'], ['', 'none'], [',', 'a comma']) {
        my ($value, $what) = @$row;

        $r = json($method, '/a', $body, 'If-Match' => $value);
        is($r->status(), 412, "$method: $what");
        like($r->body(), qr/"status":412/, "$method: $what, a problem");
    }
}

is(list(), '["x","y"]', 'nothing was changed');
is(json('POST', '/a', '["z"]', 'If-Match' => qq{"1", W/$next})->status(), 204,
    'one of several');
is(json('PUT', '/a', '[]', 'If-None-Match' => '*')->status(), 412,
    'If-None-Match: it is there');
is($h->get('/a', method => 'DELETE', headers => { 'If-Match' => '*' })
    ->status(), 204, 'If-Match: any');
is(json('PUT', '/a', '[1]', 'If-Match' => '*')->status(), 412,
    'If-Match: not there');
is(json('PUT', '/a', '[1]', 'If-Match' => '')->status(), 412,
    'If-Match: none of what is not there');
is(json('PUT', '/a', '[1]', 'If-None-Match' => '*')->status(), 204,
    'If-None-Match: not there');
is(json('PUT', '/a', '[1]', 'If-None-Match' => '')->status(), 204,
    'If-None-Match: none');

# a CAS may come again after a restart

$tag = $h->get('/a')->header('ETag') =~ s/-.*//r;
is(json('PUT', '/a', '[2]', 'If-Match' => $tag . '-00000000"')->status(), 412,
    'the same CAS with something else');


# what is refused

for my $row (
    ['not JSON', 'POST', '["a"', 400],
    ['two texts', 'POST', '1 2', 400],
    ['empty', 'POST', '', 400],
    ['a name twice', 'POST', '{"a":1,"a":2}', 400],
    ['a zero byte', 'POST', '"\u0000"', 400],
    ['not UTF-8', 'POST', "\"\xff\"", 400],
    ['too large a number', 'POST', '1' x 30, 400],
    ['too deep', 'POST', '[' x 100000, 400],
    ['no array', 'PUT', '1', 400],
    ['no patch', 'PATCH', '[]', 400],
    ['another patch', 'PATCH', '{"set": []}', 400],
    ['no array in it', 'PATCH', '{"add": 1}', 400],
    ['a large value', 'POST', '"' . ('x' x 70000) . '"', 413],
) {
    my ($name, $method, $body, $status) = @$row;

    $r = json($method, '/a', $body);

    is($r->status(), $status, $name);
    like($r->header('Content-Type'), qr{^application/problem\+json$},
        "$name: a problem");
    like($r->body(), qr/^\{"type":"about:blank",.*"status":$status,.*\}\r\n$/,
        "$name: what it says");
}

is($h->get('/a', method => 'POST', body => '1')->status(), 415, 'no type');
is($h->get('/a', method => 'POST', body => '1',
    headers => { 'Content-Type' => 'text/plain' })->status(), 415, 'text');
is($h->get('/a', method => 'POST', body => '1', headers =>
    { 'Content-Type' => 'text/plain; application/json' })->status(), 415,
    'text with a parameter, which browsers send to other sites unasked');
is($h->get('/a', method => 'POST', body => '1', headers =>
    { 'Content-Type' => 'x-application/json' })->status(), 415, 'another type');

$r = json('POST', '/default', '1');
is($r->status(), 405, 'not allowed');
is($r->header('Allow'), 'GET, HEAD, OPTIONS', 'what is');
is($h->get('/a', method => 'OPTIONS')->header('Allow'),
    'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS', 'OPTIONS');
is($h->get('/except')->body(), "[1]\n", 'limit_except: GET');
is(json('POST', '/except', '1')->status(), 403, 'limit_except: POST');
is($h->get('/if?x=1')->body(), "[1]\n", 'in an "if"');

is(json('POST', '/small', '"' . ('x' x 100) . '"')->status(), 413,
    'client_max_body_size');
is(json('POST', '/large', '"' . ('x' x 1048576) . '"')->status(), 413,
    'our own limit');
is(http_raw($h->port(), "POST /large HTTP/1.1\r\nHost: a\r\n"
    . "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    . join('', map { "10000\r\n" . (' ' x 65536) . "\r\n" } 1 .. 20)
    . "0\r\n\r\n") =~ m{^HTTP/1.1 (\d+)} && $1, 413, 'in chunks');
is(list(), '[1]', 'nothing was changed');

$t->done();


sub json {
    my ($method, $uri, $body, %headers) = @_;

    return $h->get($uri, method => $method, body => $body,
        headers => { 'Content-Type' => 'application/json', %headers });
}


sub list { return $h->get('/a')->body() =~ s/\n$//r }
