#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_api with "count=on": a beacon counts, exactly, and only what the
# location allows.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    client_max_body_size 1m;
    lingering_timeout 1s;

    map $request_method $post { POST 1; }
    mcds_counter_top beacons flush=100ms prefix=b:;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /n { mcds_counter_api prefix=v: count=on; }
        location = /match {
            mcds_counter_api prefix=v: count=on match=^/[a-z]+$;
        }
        location = /ttl { mcds_counter_api prefix=t: count=on ttl=100s; }
        location = /own {
            mcds_counter $n key=own:$arg_k if=$post;
            mcds_counter_api $n count=on;
        }
        location = /top { mcds_counter_api prefix=b: count=on top=beacons; }
        location = /top.json { mcds_counter_api top=beacons; }
        location = /cors {
            mcds_counter_api prefix=v: count=on;
            add_header       Access-Control-Allow-Origin https://a.example;
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } qw/ a b /;
my $a = $hosts[0];


# what a POST does

is(post('/n?key=a')->body(), qq({"a":1}\r\n), 'creates');
is(post('/n?key=a&key=b')->body(), qq({"a":2,"b":1}\r\n), 'counts each');
is(post('/n?key=a&key=a')->body(), qq({"a":3}\r\n), 'twice is once');
is($a->get('/n?key=a')->body(), qq({"a":3}\r\n), 'GET does not count');
is($a->get('/n?key=%61')->body(), qq({"a":3}\r\n),
    'escapes, to the last character');
is($a->get("/n?key=a$_")->status(), 400, "half an escape: $_") for '%', '%6';
is(http_head($a->port(), '/n?key=a')->status(), 200, 'HEAD');
is($m->get('v:a'), 3, 'does not, either');
cmp_ok($m->ttl('v:a'), '>', 365 * 86400, 'lives for ever');
is(post('/ttl?key=a')->body(), qq({"a":1}\r\n), 'ttl');
ttl_between($m, 't:a', 80, 100, 'ttl: lives so long');

is(post('/match?key=/ab')->body(), qq({"/ab":1}\r\n), 'match');
is(post('/match?key=/ab&key=/1')->status(), 400, 'match: one that is not');
is($m->get('v:/ab'), 1, 'match: then none is counted');
is($m->get('v:/1'), undef, 'match: nor made');

is(post('/own?k=x')->body() . $a->get('/own?k=x')->body(),
    qq({"n":1}\r\n) x 2, 'a counter of the location');
is(post('/own?k=x', '', headers => { 'X-HTTP-Method-Override' => 'GET' })
    ->body(), qq({"n":2}\r\n), 'counts each POST');

$m->set('v:text', 'secret');
is(post('/n?key=text')->body(), qq({"text":null}\r\n), 'no number');
is($m->get('v:text'), 'secret', 'stays as it is');

my $r = $a->get('/cors', method => 'OPTIONS');
is($r->header('Allow'), 'GET, HEAD, POST, OPTIONS', 'OPTIONS');
is(post('/cors?key=c')->header('Access-Control-Allow-Origin'),
    'https://a.example', 'CORS');


# the most viewed by beacons

post('/top?key=/x&key=/y');
post('/top?key=/x');
$a->get('/top?key=/y') for 1 .. 5;
ok(wait_for(sub { $a->get('/top.json')->body() =~ m!"total":3,"keys":\[
    \{"key":"/x","count":2,"error":0\},\{"key":"/y","count":1,!x }, 10),
    'the most viewed');


my $n = $m->get('v:a');

# what is counted is told, whatever the conditions

my @conditions = (
    'If-Match' => '"x"',
    'If-None-Match' => '*',
    'If-Unmodified-Since' => 'Sun, 06 Nov 1994 08:49:37 GMT',
    'If-Modified-Since' => 'Sun, 06 Nov 2050 08:49:37 GMT',
);

while (my ($name, $value) = splice @conditions, 0, 2) {
    $r = post('/n?key=a', '', headers => { $name => $value });

    is($r->status(), 200, "$name: the status");
    is($r->body(), '{"a":' . ++$n . "}\r\n", "$name: the number");
}


# bodies do not matter

for my $body ('', 'text', 'x' x 70000, 'x' x 900000) {
    is(post('/n?key=a', $body)->body(), '{"a":' . ++$n . "}\r\n",
        'a body of ' . length $body);
}

is(post('/n?key=a', 'x' x 1100000)->status(), 413, 'too large a body');
is($m->get('v:a'), $n, 'is not counted');

my $c = $a->conn();
for my $i (1 .. 3) {
    my $r = $c->request('/n?key=a', method => 'POST', body => 'x' x 5000,
        headers => { 'Content-Type' => 'text/plain;charset=UTF-8' });
    is($c->response()->body(), '{"a":' . ++$n . "}\r\n", "keepalive $i");
}
$c->close();

# the body comes late: the answer does not wait for it, the connection lives

$c = $a->conn();
$c->send("POST /n?key=a HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
is($c->response()->body(), '{"a":' . ++$n . "}\r\n", 'half a body');
$c->send('def');
is($c->get('/n?key=a')->body(), qq({"a":$n}\r\n), 'the rest of it');
$c->close();

$c = $a->conn();
$c->send("POST /n?key=a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked"
    . "\r\n\r\n3\r\nabc\r\n");
is($c->response()->body(), '{"a":' . ++$n . "}\r\n", 'chunked');
$c->send("0\r\n\r\n");
is($c->get('/n?key=a')->body(), qq({"a":$n}\r\n), 'chunked: the end');
$c->close();


# all are counted, on two hosts with two workers each, and each number is
# given once

my $size = $t->size(400, 20000);
my @res = many($size, sub {
    my $i = shift;
    [$hosts[$i % 2]->port(), '/n?key=hot&key=k' . $i % 7,
        method => 'POST', body => 'beacon']
}, concurrency => 50);

is(scalar(grep { $_->status() == 200 } @res), $size, 'beacons: answered');
is($m->get('v:hot'), $size, 'beacons: all are counted');

my %seen = map { $_->body() =~ /"hot":(\d+)/ ? ($1 => 1) : () } @res;
is(scalar keys %seen, $size, 'beacons: each its own number');

my $sum = 0;
$sum += $m->get("v:k$_") for 0 .. 6;
is($sum, $size, 'beacons: of other keys, too');

# those who do not wait count all the same

for (1 .. 20) {
    my $p = start_get($a->port(), '/n?key=gone', method => 'POST');
    $p->close();
}

ok(wait_for(sub { ($m->get('v:gone') // 0) == 20 }, 10),
    'who leaves has counted');

$t->done();


sub post {
    my ($uri, $body, %o) = @_;

    return http_post($a->port(), $uri, $body // 'beacon', %o);
}
