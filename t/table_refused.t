#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_table_api: times to live, conditions against lost updates, and what is
# refused.

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
    mcds_api_methods GET POST PUT DELETE;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /t/ { mcds_table_api table; }
        location /b/ { mcds_table_api bans ttl=10m; }
        location /read/ {
            mcds_table_api   table;
            mcds_api_methods GET;
        }
    }
}
EOC

# times to live

put('/t/a?ttl=100', 'x');
ttl_between($m, 'table:a', 80, 102, 'ttl');
like($m->get('table'), qr/^\+\d{10} a$/, 'in the list, too');
like($h->get('/t/a')->header('X-TTL'), qr/^(?:100|9\d)$/, 'X-TTL');
put('/t/a', 'x');
is($h->get('/t/a')->header('X-TTL'), undef, 'no end any more');
like($m->get('table'), qr/^\+0 a$/m, 'in the list');
put('/b/a', 'x');
cmp_ok($m->ttl('bans:a'), '>', 590, 'ttl of the table');
put('/b/a?ttl=1h', 'x');
cmp_ok($m->ttl('bans:a'), '>', 3590, 'another one');
post('/b/?ttl=1d', '["b"]');
cmp_ok($m->ttl('bans:b'), '>', 86300, 'of many');
is(put("/t/a?ttl=$_", 'x')->status(), 400, "ttl=$_")
    for '', 0, -1, 'x', '31d', 999999999999;

put('/t/short?ttl=1s', 'x');
like($h->get('/t/')->body(), qr/short/, 'a short one');
ok(wait_for(sub { $h->get('/t/')->body() !~ /short/ }, 5),
    'what has ended is not in the list');


# conditions

put('/t/a', 'one');
my $tag = $h->get('/t/a')->header('ETag');

is(put('/t/a', 'two', 'If-Match' => $tag)->status(), 204, 'If-Match');
is(put('/t/a', 'three', 'If-Match' => $tag)->status(), 412,
    'no longer that');
is(delete_('/t/a', 'If-Match' => $tag)->status(), 412, 'delete');
is(put('/t/a', 'three', 'If-Match' => '')->status(), 412, 'none');
is(delete_('/t/a', 'If-Match' => '')->status(), 412, 'delete, none');
is($h->get('/t/a')->body(), qq{"two"\n}, 'not changed');
is(put('/t/a', 'two', 'If-None-Match' => '')->status(), 204,
    'If-None-Match: none');
is(put('/t/a', 'x', 'If-None-Match' => '*')->status(), 412,
    'If-None-Match: it is there');
is(put('/t/new', 'x', 'If-None-Match' => '*')->status(), 204,
    'it is not');
is(put('/t/other', 'x', 'If-Match' => '*')->status(), 412,
    'If-Match: it is not there');
is(delete_('/t/new', 'If-Match' => $h->get('/t/new')->header('ETag'))
    ->status(), 204, 'delete it');
is($h->get('/t/a', headers => { 'If-None-Match' =>
    $h->get('/t/a')->header('ETag') })->status(), 304, 'not modified');

for my $value ($tag, '') {
    is(post('/t/', '["x"]', 'If-Match' => $value)->status(), 400,
        'of the table');
    is(delete_('/t/', 'If-Match' => $value)->status(), 400,
        'of the table, delete');
}


# what is refused

is(post('/t/', $_)->status(), 400, "post $_") for '1', '[1]', '{"a":', '[""]';
is($h->get('/t/', method => 'POST', body => '["a"]')->status(), 415, 'no type');
is(put('/t/a', '{', 'Content-Type' => 'application/json')->status(), 400,
    'not JSON');
is(put('/t/a', 'x' x 16385)->status(), 413, 'a large value');
is(put('/t/a', 'x' x 16384)->status(), 204, 'one that is not');
is(put('/t/', 'x')->status(), 405, 'put a table');
is(post('/t/a', '[]')->status(), 405, 'post an element');
is(put('/read/a', 'x')->status(), 405, 'not allowed');
is(delete_('/read/')->header('Allow'), 'GET, HEAD, OPTIONS', 'what is');
is($h->get('/t/a', method => 'OPTIONS')->header('Allow'),
    'GET, HEAD, PUT, DELETE, OPTIONS', 'of an element');
is($h->get('/t/', method => 'OPTIONS')->header('Allow'),
    'GET, HEAD, POST, DELETE, OPTIONS', 'of a table');

$t->done();


sub put {
    my ($uri, $body, %headers) = @_;

    return $h->get($uri, method => 'PUT', body => $body,
        headers => \%headers);
}


sub post {
    my ($uri, $body, %headers) = @_;

    return $h->get($uri, method => 'POST', body => $body,
        headers => { 'Content-Type' => 'application/json', %headers });
}


sub delete_ {
    my ($uri, %headers) = @_;

    return $h->get($uri, method => 'DELETE', headers => \%headers);
}
