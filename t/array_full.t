#!/usr/bin/perl

# Copyright (C) mcds authors

# An array that is full, and a memcached that accepts large items: appends are
# refused, although an append does not know how much the array has, and the
# array can be read, changed and emptied.  So can one whose first item is large.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', memory => 256, args => ['-I', '4m']);

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 20s; }
    mcds_api_methods GET POST PUT PATCH DELETE;
    client_max_body_size 2m;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /list { mcds_array_api list; }
        location = /large { mcds_array_api large; }
        location /t/ { mcds_table_api t; }
    }
}
EOC


# full

my $n = 0;

$n++ while $n < 30 && post('/list', 20, 50_000) == 204;
cmp_ok($n, '>', 14, 'nearly 16 MB');
$n++ while $n < 1000 && post('/list', 2, 8_000) == 204;
cmp_ok($n, '<', 100, 'small values until it is full');
is(post('/list', 2, 8_000), 507, 'no more of them') for 1 .. 3;
cmp_ok(length $m->get('list'), '<', 200_000, 'the first item is small');

is($h->get('/list')->status(), 200, 'it can be read');
is(json('PUT', '/list', '[1]')->status(), 204, 'and be replaced');
is(post('/list', 2, 8_000), 204, 'and be appended to');
is(json('DELETE', '/list')->status(), 204, 'and be emptied');
is($h->get('/list')->body(), "[]\n", 'nothing is left');


# more than 2 MB in the first item

my $line = '"' . 'x' x 1000 . "\"\n";

$m->set('large', $line x 3500);
is(length $h->get('/large?format=ndjson')->body(), 3500 * length $line,
    'a large first item can be read');
is(json('PATCH', '/large', '{"add":["y"]}')->status(), 204,
    'it can be changed');
ok($m->get('large') =~ /^@[0-9a-f]{16} /, 'its lines move to parts');
is(length $h->get('/large?format=ndjson')->body(), 3500 * length($line) + 4,
    'all of them are there');

$m->set('t', join '', map { "+0 name-$_-" . 'x' x 1000 . "\n" } 1 .. 3000);
is($h->get('/t/')->status(), 200, 'a large list of names can be read');
is($h->get('/t/', method => 'DELETE')->status(), 204, 'and be emptied');
is($h->get('/t/')->body(), "[]\n", 'nothing is left');

$t->done();


sub post {
    my ($uri, $n, $size) = @_;

    return json('POST', $uri, '[' . join(',', ('"' . 'x' x $size . '"') x $n)
        . ']')->status();
}


sub json {
    my ($method, $uri, $body) = @_;

    return $h->get($uri, method => $method, body => $body // '',
        headers => { 'Content-Type' => 'application/json' });
}
