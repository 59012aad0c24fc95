#!/usr/bin/perl

# Copyright (C) mcds authors

# A page is purged by its own request with another method, or by its key in a
# location for that: marked stale, deleted, or rebuilt; on all hosts at once.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->allow(qr/access forbidden|purge failed/);
$t->needs('mcds tags');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'answer %k' });

my @h = map { $t->nginx($_, <<'EOT') } 'one', 'two';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool nowhere { server 127.0.0.1:%%PORT_nowhere%%; }
    mcds_use main;
    map $http_x_purge $purge { default 0; yes 1; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        error_page 403 = @other;
        location / {
            mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /delete {
            mcds_purge_api method=PURGE $purge mode=delete;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /refresh {
            mcds_purge_api method=PURGE mode=refresh;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /guarded {
            mcds_purge_api method=PURGE;
            limit_except GET { allow 127.0.0.2; deny all; }
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /denied {
            mcds_purge_api method=PURGE;
            deny all;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @other {
            mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off {
            mcds_purge_api off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge {
            mcds_cache off;
            mcds_purge_api on;
        }
        location = /purge/delete {
            mcds_cache off;
            mcds_purge_api on mode=delete;
        }
        location = /purge/down {
            mcds_cache off;
            mcds_use nowhere;
            mcds_purge_api on;
        }
    }
}
EOT

my $h = $h[0];

sub url { 'http://localhost' . shift }
sub key { '<>' . url(shift) }
sub status { join ' ', $_[0]->header('X-Cache') // 'none', $_[0]->body() }
sub purge { $h->get(shift, method => 'PURGE', @_) }
sub fill { $_->get($_[0]) for @h; page_wait($m, key($_[0])) }

# by its own request

my $r = purge('/a');
is($r->status(), 404, 'nothing to purge');
is($r->header('Content-Type'), 'application/problem+json', 'as a problem');
is(decode_json($r->body())->{detail}, 'there is no such page', 'it says what');

fill('/a');
is(status($h[1]->get('/a')), 'HIT answer 1', 'a page');

$r = purge('/a');
is($r->status(), 200, 'purged');
is_deeply(decode_json($r->body()), { mode => 'invalidate',
    refresh => JSON::PP::false,
    purged => [{ key => url('/a'), found => JSON::PP::true }] }, 'what was');
is($r->header('Cache-Control'), 'no-store', 'not to be kept');
is($o->count('/a'), 1, 'the origin knows nothing of it');

my $e = page_decode($m->get(key('/a')));
ok($e->{valid}, 'the page is there');
is($e->{flags} & 4, 4, 'and marked');

like(status($h[1]->get('/a')), qr/^(?:STALE|UPDATING) answer 1/,
    'one shows it and rebuilds it');
ok(wait_for(sub { status($h[1]->get('/a')) eq 'HIT answer 2' }), 'rebuilt');
is(page_decode($m->get(key('/a')))->{flags} & 4, 0, 'the mark is gone');
is(status($_->get('/a')), 'HIT answer 2', 'new on ' . $_->name()) for @h;
is($o->count('/a'), 2, 'built once');

# deleted

fill('/delete/a');
is(decode_json(purge('/delete/a')->body())->{mode}, 'delete', 'deleted');
is(page_decode($m->get(key('/delete/a')))->{kind}, 3, 'this is left of it');
cmp_ok($m->ttl(key('/delete/a')), '>', 3000, 'for some time');
is(purge('/delete/a')->status(), 404, 'nothing is there any more');
is(status($h[1]->get('/delete/a')), 'MISS answer 2', 'and it is built');
page_wait($m, key('/delete/a'));
is(status($_->get('/delete/a')), 'HIT answer 2', 'and stored') for @h;

is($h->get('/delete/a', headers => { 'X-Purge' => 'yes' })->status(), 200,
    'by a condition');
is(status($h[1]->get('/delete/a', headers => { 'X-Purge' => 'no' })),
    'MISS answer 3', 'which must be true');

# rebuilt at once

fill('/refresh/a');
ok(decode_json(purge('/refresh/a')->body())->{refresh}, 'it is being rebuilt');
ok($o->wait_requests(2, '/refresh/a'), 'by itself');
is(($o->requests('/refresh/a'))[1]->{method}, 'GET', 'as a page');
ok(wait_for(sub { page_decode(page_wait($m, key('/refresh/a')))->{body} eq
    'answer 2' }), 'and stored');
is(status($h[1]->get('/refresh/a')), 'HIT answer 2', 'it is new');
is(purge('/refresh/none')->status(), 404, 'what is not there');
is($o->count('/refresh/none'), 0, 'is not built');

# who may

fill('/guarded');
unlike(purge('/guarded')->body(), qr/purged/, 'not everybody');
is(page_decode($m->get(key('/guarded')))->{flags} & 4, 0, 'it is untouched');
is(purge('/guarded', local => '127.0.0.2')->status(), 200, 'who may');

$m->set(key('/denied'), page_encode(key => key('/denied'), body => 'x'));
purge('/denied');
is(page_decode($m->get(key('/denied')))->{flags} & 4, 0,
    'an error page purges nothing');

fill('/off');
$o->mark();
purge('/off');
is($o->count('/off'), 1, 'off: the origin gets that method');

# by its key

fill('/b');
fill('/c?d=e&f=g');
my $c = 'http%3a//localhost/c?d=e%26f=g';
$r = $h->get("/purge?key=http://localhost/b&key=$c&key=none");
is_deeply(decode_json($r->body()), { mode => 'invalidate', purged => [
    { key => url('/b'), found => JSON::PP::true },
    { key => url('/c?d=e&f=g'), found => JSON::PP::true },
    { key => 'none', found => JSON::PP::false } ] }, 'several keys');
like(status($h[1]->get('/b')), qr/^(?:STALE|UPDATING) answer 1/, 'stale');
like(status($h[1]->get('/c?d=e&f=g')), qr/^(?:STALE|UPDATING) answer 1/,
    'stale, too');

fill('/e');
$r = http_post($h->port(), '/purge', 'key=http%3A%2F%2Flocalhost%2Fe&mode='
    . 'delete', headers => {
    'Content-Type' => 'application/x-www-form-urlencoded' });
is(decode_json($r->body())->{mode}, 'delete', 'as a form');
is(status($h[1]->get('/e')), 'MISS answer 2', 'deleted');

# in chunks that nginx leaves apart

fill('/g');
my @chunks = ('key=http://localhost/g&mo', 'de=delete&key=' . 'x' x 150, '');
$r = http_request($h->port(), '/purge', method => 'POST',
    body => join('', map { sprintf "%x\r\n%s\r\n", length, $_ } @chunks),
    headers => ['Transfer-Encoding' => 'chunked', 'Content-Length' => []]);
is(decode_json($r->body())->{mode}, 'delete', 'as a form in chunks');
is(status($h[1]->get('/g')), 'MISS answer 2', 'deleted, too');

fill('/f');
is(decode_json($h->get('/purge/delete?key=' . url('/f'))->body())->{mode},
    'delete', 'the mode of the location');
is($h->get('/purge?key=none')->status(), 404, 'no such page');
is(decode_json($h->get('/purge?key=a%22%3cb')->body())->{status}, 404,
    'odd keys');

my @wrong = (
    ['', 'say what to purge: key=, tag=, host= or all'],
    ['key=', 'a key is empty'],
    ['tag=a,b', 'a tag is empty, too long, or has blanks or commas'],
    ['host=', 'a host is empty, too long, or has blanks or commas'],
    ['tags=a', 'there is an argument that is not key, site, tag, host, all or '
        . 'mode'],
    ['key=a&site=a>b', 'a site is too long, or has blanks or a greater-than '
        . 'sign'],
    ['key=a&mode=refresh', 'mode must be invalidate or delete'],
    ['key=%4', 'an argument is not well encoded'],
    [join('&', map { "key=$_" } 1 .. 201), 'that is too much for one request'],
);

for (@wrong) {
    $r = $h->get("/purge?$_->[0]");
    is($r->status(), 400, 'wrong: ' . substr $_->[0], 0, 20);
    is(decode_json($r->body())->{detail}, $_->[1], 'and why');
}

is($h->get('/purge?key=a', method => 'PUT')->status(), 405, 'method');
is($h->get('/purge/down?key=a')->status(), 503, 'no answer of memcached');

# what is there is no page

$m->set(key('/garbage'), 'garbage');
is(purge('/garbage')->status(), 404, 'garbage');
is(status($h->get('/garbage')), 'MISS answer 1', 'is replaced');
ok(wait_for(sub { page_decode($m->get(key('/garbage')))->{body} eq
    'answer 1' }), 'well');

# configuration

my @conf = (
    ['off on', 'needs "on", "off", or "method=" and conditions'],
    ['mode=delete', 'needs "on", "off", or "method=" and conditions'],
    ['PURGE', 'invalid value "PURGE" in "mcds_purge_api", it must be a '
        . 'condition with a variable'],
    ['method=GET', 'invalid value "method=GET" in "mcds_purge_api", it '
        . 'must be another method than GET and HEAD'],
    ['on mode=refresh', 'has "mode=refresh" in a location of its own'],
    ['on mode=x', 'invalid value "mode=x" in "mcds_purge_api", it must '
        . 'be "invalidate", "delete" or "refresh"'],
    ['off mode=delete', 'has a mode and "off"'],
);

like($t->conf_error(location => "mcds_purge_api $_->[0];"),
    qr/\Q$_->[1]\E/, "configuration: $_->[0]") for @conf;
like($t->conf_error(server => 'mcds_purge_api on;'),
    qr/can be "on" in a location only/, 'configuration: on in a server');

$t->done();
