#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_array_api: a list as a resource of HTTP: read, appended to, replaced,
# patched, emptied; in other formats; what others have written in other ways.

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
        location = /unique { mcds_array_api unique:$arg_id unique; }
        location = /ulast { mcds_array_api ulast unique max=2; }
        location = /last { mcds_array_api last max=3; }
        location = /named { mcds_array_api $arg_name; }
    }
}
EOC

# reading, with nothing there

my $r = $h->get('/a');

is($r->status(), 200, 'nothing there: answered');
is($r->body(), "[]\n", 'nothing there: empty');
is($r->header('Content-Type'), 'application/json', 'type');
is($r->header('Cache-Control'), 'no-store', 'not to be kept');
is($r->header('ETag'), undef, 'nothing there: no ETag');


# appending

is(json('POST', '/a', '"one"')->status(), 204, 'append a string');
is(json('POST', '/a', '[2, 3.5, true, null, {"b": 1, "a": [0.1]}, "a\u00e9/<"]')
    ->status(), 204, 'append several');
is(list(), '["one",2,3.5,true,null,{"b":1,"a":[0.1]},"a' . "\xc3\xa9" . '/<"]',
    'they are there, in order');
is($m->get('list'), qq{"one"\n2\n3.5\ntrue\nnull\n{"b":1,"a":[0.1]}\n}
    . qq{"a\xc3\xa9/<"\n}, 'what lies in memcached');

is($h->get('/a', method => 'POST', body => qq{"x"\n\n{"y": 2}\n},
    headers => { 'Content-Type' => 'application/x-ndjson' })->status(), 204,
    'append lines');
is($h->get('/a?format=ndjson')->body() =~ s/.*<"\n//sr, qq{"x"\n{"y":2}\n},
    'and as lines');
is(json('POST', '/a', '[]')->status(), 204, 'append nothing');


# numbers, among them the largest ones, which a digit less would make too large

my $numbers = '[0.1,0.30000000000000004,4.94065645841247e-324,'
    . '1.7976931348623157e308,-1.7976931348623157e308,'
    . '[1.7976931348623157e308]]';

is(json('PUT', '/a', $numbers)->status(), 204, 'numbers');
is(list(), $numbers, 'are those that were sent');
is(json('PATCH', '/a', '{"remove": [1.7976931348623157e308, 0.1]}')->status(),
    204, 'the largest one is removed');
unlike(list(), qr/0\.1,|,1\.7976931348623157e308/, 'and is gone');

json('PUT', '/a', '["a b", "q\"q", "tab\t", 7]');
is($h->get('/a?format=text')->body(), qq{a b\nq"q\n"tab\\t"\n7\n}, 'as text');
is($h->get('/a', headers => { Accept => 'application/x-ndjson' })->body(),
    qq{"a b"\n"q\\"q"\n"tab\\t"\n7\n}, 'Accept: ndjson');
is($h->get('/a', headers => { Accept => 'text/plain' })->body(),
    qq{a b\nq"q\n"tab\\t"\n7\n}, 'Accept: text');
is($h->get('/a', headers => { Accept => 'text/html, */*' })->body(),
    qq{["a b","q\\"q","tab\\t",7]\n}, 'Accept: anything');
is($h->get('/a?format=xml')->status(), 400, 'another format');

$r = $h->get('/a', method => 'HEAD');
is($r->status() . $r->body(), '200', 'HEAD');


# what others have written in other ways

$m->set('list', qq{"a\\/b"\nplain text\n\n [1,  2]\n"\\u00e9"\n\@me\n\xff});
is(list(), qq{["a/b","plain text",[1,2],"\xc3\xa9","\@me","\xef\xbf\xbd"]},
    'lines of others');
is(json('PATCH', '/a', '{"remove": ["a/b", [1,2], "plain text", "\ufffd"],
    "add": ["z"]}')->status(), 204, 'patch them');
is($m->get('list'), qq{"\\u00e9"\n\@me\n"z"\n}, 'others are as they were');

my $zero = '{"a":"\u0000"}';

$m->set('list', qq{$zero\n["\\u0000", 0.5]\n1.7976931348623157e+308\n"b"\n});
is(list(), qq{[$zero,["\\u0000",0.5],1.7976931348623157e308,"b"]},
    'lines of others with a zero byte and a large number');
is(json('PATCH', '/a', '{"remove": ["b"]}')->status(), 204,
    'another one is removed');
is($m->get('list'), qq{$zero\n["\\u0000", 0.5]\n1.7976931348623157e+308\n},
    'they are as they were');


# replacing, patching, emptying

is(json('PUT', '/a', '[1, 2, 1, 3]')->status(), 204, 'replace');
is(list(), '[1,2,1,3]', 'replaced');
is(json('PATCH', '/a', '{"add": [4, 5], "remove": [1]}')->status(), 204,
    'patch');
is(list(), '[2,3,4,5]', 'patched');
is(json('PATCH', '/a', '{"add": [9], "remove": [8]}')->status(), 204, 'add');
is(list(), '[2,3,4,5,9]', 'added');
is(json('PATCH', '/a', '{}')->status(), 204, 'patch nothing');
is(json('PUT', '/a', '[]')->status(), 204, 'replace by nothing');
is(list() . join(' ', $m->keys()), '[]', 'nothing is left');
json('PUT', '/a', '[1]');
is($h->get('/a', method => 'DELETE')->status(), 204, 'delete');
is(list() . join(' ', $m->keys()), '[]', 'nothing is left again');


# unique, max

json('POST', '/unique?id=1', '["a", "b"]');
json('POST', '/unique?id=1', '["b", "c", "c"]');
json('PATCH', '/unique?id=1', '{"remove": ["a"], "add": ["b", "d"]}');
is($h->get('/unique?id=1')->body(), qq{["b","c","d"]\n}, 'unique');
is($h->get('/unique?id=2')->body(), "[]\n", 'another name');
is($h->get('/named')->status(), 404, 'no name');

$m->set('ulast', qq{"a"\n"b"\n"c"\n});
json('PATCH', '/ulast', '{"remove": ["x"], "add": ["a", "d"]}');
is($h->get('/ulast')->body(), qq{["c","d"]\n},
    'unique: a value beyond max is known if none is removed');
json('PATCH', '/ulast', '{"remove": ["c"], "add": ["a"]}');
is($h->get('/ulast')->body(), qq{["d","a"]\n},
    'unique: it is not known once a value is removed');

json('POST', '/last', $_) for 1 .. 40;
is($h->get('/last')->body(), "[38,39,40]\n", 'max');
cmp_ok(scalar(split /\n/, $m->get('last')), '<', 40, 'it is cut off');
json('PUT', '/last', '[1, 2, 3, 4, 5]');
is($m->get('last'), "3\n4\n5\n", 'at once when it is replaced');
$m->set('last', "1\n2\n3\n4\n5\n");
json('PATCH', '/last', '{"remove": [5]}');
is($h->get('/last')->body(), "[3,4]\n",
    'a value that is not shown does not come back');


# a body in pieces

my $body = '[' . join(',', 1 .. 20000) . ']';
my $c = conn($h->port());

$c->send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    . 'Content-Length: ' . length($body) . "\r\n\r\n");
$c->send($_) for unpack '(a7000)*', $body;
is($c->response()->status(), 204, 'a body in pieces');
is($c->get('/a')->body(), "$body\n", 'all of it');

$t->done();


sub json {
    my ($method, $uri, $body) = @_;

    return $h->get($uri, method => $method, body => $body,
        headers => { 'Content-Type' => 'application/json' });
}


sub list { return $h->get('/a')->body() =~ s/\n$//r }
