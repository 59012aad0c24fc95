#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_table_api: a table and its elements as resources of HTTP: elements read,
# set and deleted, many at once, the list of names; names of all kinds.

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
        location /u { mcds_table_api table; }
        location /other/ { mcds_table_api other; }
        location = /exact { mcds_table_api table; }
        location ~ ^/regex/(.*) { mcds_table_api table$1; }
        location /named/ { mcds_table_api $arg_table; }
    }
}
EOC

# elements

my $r = $h->get('/t/');

is($r->status() . $r->body(), "200[]\n", 'an empty table');
is($h->get('/t/a')->status(), 404, 'no such element');
like($h->get('/t/a')->body(), qr/"status":404/, 'a problem');

is(put('/t/a', 'one')->status(), 204, 'put');
is($m->get('table:a'), 'one', 'what lies in memcached');
is($m->get('table'), "+0 a\n", 'and the list');

$r = $h->get('/t/a');
is($r->body(), qq{"one"\n}, 'get');
is($r->header('Content-Type'), 'application/json', 'as JSON');
is($r->header('Cache-Control'), 'no-store', 'not to be kept');
is($r->header('X-TTL'), undef, 'without end');
is($h->get('/t/a?format=text')->body(), "one\n", 'as text');
is($h->get('/u/a')->body(), qq{"one"\n}, 'a location without a slash');
is($h->get('/ua')->status(), 404, 'something else');
like($h->get('/ua')->body(), qr/"status":404/, 'a problem, too');
is($h->get('/exact?name=a')->body(), qq{"one"\n}, 'as an argument');
is($h->get('/regex/?name=a')->body(), qq{"one"\n}, 'in a regex location');
is($h->get('/exact')->body(), qq{["a"]\n}, 'the list');

is(put('/t/b', '{"x": [1.5, "y"]}', 'application/json')->status(), 204,
    'put JSON');
is($m->get('table:b'), '{"x":[1.5,"y"]}', 'it is kept as text');
put('/t/c', '"a string"', 'application/json; charset=utf-8');
is($m->get('table:c'), 'a string', 'a string is without quotes');
put('/t/d', '');
is($m->get('table:d'), '1', 'nothing is 1');

is($h->get('/t/')->body(), qq{["a","b","c","d"]\n}, 'names');
is($h->get('/t/?values=1')->body(), '{"a":"one","b":"{\"x\":[1.5,\"y\"]}",'
    . '"c":"a string","d":"1"}' . "\n", 'names and values');
is($h->get('/t/?format=text')->body(), "a\nb\nc\nd\n", 'names as text');
is($h->get('/t/?format=text&values=1')->body() =~ s/.*\n(?=c)//sr,
    "c a string\nd 1\n", 'names and values as text');
is($h->get('/t/?format=ndjson&values=1')->body() =~ s/.*\n(?=\{"c)//sr,
    qq({"c":"a string"}\n{"d":"1"}\n), 'names and values as lines');

is(delete_('/t/b')->status(), 204, 'delete');
is($m->get('table:b'), undef, 'it is gone');
is(delete_('/t/b')->status(), 404, 'delete again');
is($h->get('/t/')->body(), qq{["a","c","d"]\n}, 'its name is gone');


# names

for my $name ('a b', "\xc3\xa9", '"\\', '2001:db8::1', 'x' x 300, '/p/q?r=s&t')
{
    my $uri = '/t/?name=' . ($name =~ s/([^\w])/sprintf('%%%02x', ord $1)/ger);

    is(put($uri, "value of $name")->status(), 204, "put $name");
    is($h->get("$uri&format=text")->body(), "value of $name\n", 'get');
    is($h->get('/t/?format=text')->body() =~ /^\Q$name\E$/m, 1, 'its name');
    is(delete_($uri)->status(), 204, 'delete');
}

is(put('/t/?name=a%0ab', 1)->status(), 400, 'a line feed');
is(put('/t/?name=%ff', 1)->status(), 400, 'not UTF-8');
is(put('/t/?name=' . 'x' x 1025, 1)->status(), 400, 'too long');
is(put('/t/?name=' . 'x' x 1024, 1)->status(), 204, 'long');
is($h->get('/named/x')->status(), 404, 'a table without a name');

my $names = "+0 a\n+0 " . 'x' x 1025 . "\n-" . 'y' x 70000 . "\n+0 "
    . 'z' x 70000 . "\n";

for my $uri ('/other/', '/other/?values=1', '/other/?format=text') {
    $m->set('other', $names);
    $m->set('other:a', 1);
    is($h->get($uri)->body() =~ s/:"1"/:1/r,
        $uri =~ /text/ ? "a\n" : $uri =~ /values/ ? qq({"a":1}\n)
                       : qq(["a"]\n),
        "$uri: names in memcached that are too long");
}

is(delete_('/other/')->status(), 204, 'such a table is deleted');
is($m->get('other:a'), undef, 'with its elements');
is($h->get('/other/')->body(), "[]\n", 'it is empty');
is($h->get('/named/?table=table&name=a')->body(), qq{"one"\n},
    'a table of some name');

for my $uri ('/t/?name=', '/t/x?name=', '/t/?values=1&name=', '/exact?name=',
    '/t/?name', '/t/x?Name&values=1')
{
    for my $method (qw/ GET HEAD PUT POST DELETE /) {
        $r = $h->get($uri, method => $method, body => '{"x": null}',
            headers => { 'Content-Type' => 'application/json' });
        is($r->status(), 400, "$method $uri: an empty name");
        like($r->body(), qr/"detail":"the argument name is empty"/,
            "$method $uri: says so") if $method ne 'HEAD';
    }
}

is($h->get('/t/a')->body(), qq{"one"\n}, 'an empty name deletes nothing');
is(scalar split(/,/, $h->get('/t/?names=')->body()), 4, 'another argument');


# many

is(delete_('/t/')->status(), 204, 'delete all');
is(join(' ', $m->keys()), '', 'nothing is left');
is($h->get('/t/')->body(), "[]\n", 'the list is empty');

is(post('/t/', '{"a": "1", "b": 2, "c": true, "d": {"e": null}}')->status(),
    204, 'post an object');
is($h->get('/t/?values=1')->body(),
    qq({"a":"1","b":"2","c":"true","d":"{\\"e\\":null}"}\n), 'all are there');
is(post('/t/', '["e", "f"]')->status(), 204, 'post names');
is(post('/t/', '{"a": null, "e": null, "g": null, "h": "8"}')->status(), 204,
    'post nulls');
is($h->get('/t/')->body(), qq{["b","c","d","f","h"]\n}, 'they are deleted');
is(post('/t/', '{}')->status(), 204, 'post nothing');

my @names = map { "name-$_" } 1 .. 5000;

is(post('/t/', '["' . join('","', @names) . '"]')->status(), 204, 'post many');
is(scalar split(/,/, $h->get('/t/')->body()), 5005, 'all have names');
is(scalar split(/,/, $h->get('/t/?values=1')->body()), 5005, 'and values');
is($h->get('/t/name-5000')->body(), qq{"1"\n}, 'the last');
is(delete_('/t/')->status(), 204, 'delete many');
is(join(' ', $m->keys()), '', 'nothing is left');

$t->done();


sub put {
    my ($uri, $body, $type) = @_;

    return $h->get($uri, method => 'PUT', body => $body,
        headers => { $type ? ('Content-Type' => $type) : () });
}


sub post {
    my ($uri, $body) = @_;

    return $h->get($uri, method => 'POST', body => $body,
        headers => { 'Content-Type' => 'application/json' });
}


sub delete_ { return $h->get($_[0], method => 'DELETE') }
