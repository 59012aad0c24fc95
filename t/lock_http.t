#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_lock_api: locks as resources of HTTP: acquired, waited for, extended,
# released, and told about; what is refused, and how.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use JSON::PP ();

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', {});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }

    server {
        listen 127.0.0.1:%%PORT%%;
        location /look/ { mcds_lock_api; }
        location /all/ {
            mcds_lock_api ttl=10m max_ttl=20m max_wait=10s;
            mcds_api_methods GET POST PUT DELETE;
        }
        location = /one { mcds_lock_api; mcds_api_methods GET POST; }
        location /page/ {
            mcds_lock $uri wait=20s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOC

my ($h, $other) = map { $t->nginx($_, $conf) } qw/ a b /;
my ($r, $lock, $p);


# acquire, look, extend, release

($r, $lock) = ask('GET', '/look/x');
is($r->status() . $r->body(), qq(200{"name":"x","held":false}\n), 'free');
is($r->header('Content-Type'), 'application/json', 'type');
is($r->header('Cache-Control'), 'no-store', 'not to be kept');

($r, $lock) = ask('POST', '/all/x');
is($r->status(), 200, 'acquired');
like($lock->{owner}, qr/^[0-9a-f]{32}$/, 'an owner is made');
like($lock->{token}, qr/^\d{16}$/, 'a token');
is($lock->{ttl}, 600, 'its time');
is($m->get('x'), "$lock->{token} $lock->{owner}", 'what lies in memcached');

my ($mine, $token) = ($lock->{owner}, $lock->{token});

for ($h, $other) {
    ($r, $lock) = ask('GET', '/look/x', undef, $_);
    is("$lock->{held} $lock->{owner} $lock->{token}", "1 $mine $token", 'held');
    cmp_ok($lock->{ttl}, '>', 500, 'so long');
    is($_->get('/look/x', method => 'HEAD')->status(), 200, 'HEAD');

    ($r) = ask('POST', '/all/x', '{"owner": "me"}', $_);
    is($r->status(), 423, 'another one is refused');
    is($r->header('Content-Type'), 'application/problem+json', 'a problem');
    is($r->header('Retry-After'), 1, 'try again');

    for my $method ('PUT', 'DELETE') {
        ($r) = ask($method, '/all/x?owner=me', undef, $_);
        is($r->status(), 409, "$method: another owner");

        for my $wrong ($token + 1, $token - 1, 1) {
            ($r) = ask($method, "/all/x?owner=$mine&token=$wrong", undef, $_);
            is($r->status(), 409, "$method: another token, $wrong");
        }

        ($r) = ask($method, '/all/x', undef, $_);
        is($r->status(), 400, "$method: no owner");
    }
}

($r, $lock) = ask('PUT', "/all/x?owner=$mine&ttl=20m", undef, $other);
is($r->status() . " $lock->{ttl} $lock->{token}", "200 1200 $token",
    'extended');
cmp_ok($m->ttl('x'), '>', 1100, 'so it is');
($r, $lock) = ask('PUT', '/all/x', qq({"owner": "$mine", "token": $token,
    "ttl": 700}));
is($r->status() . " $lock->{ttl}", '200 700', 'the same in JSON');
is(ask('POST', '/one?name=x')->status(), 423, 'a name as an argument');
is(ask('DELETE', "/all/x?owner=$mine&token=$token")->status(), 204,
    'released');
ok(!defined $m->get('x'), 'it is gone');
is(ask('DELETE', "/all/x?owner=$mine")->status(), 404, 'released: twice');
is(ask('PUT', "/all/x?owner=$mine")->status(), 404, 'extended: too late');

($r, $lock) = ask('POST', '/all/x', '{"owner": "me", "ttl": 2, "wait": 0.1}');
is("$lock->{owner} $lock->{ttl}", 'me 2', 'what was asked for');
cmp_ok($lock->{token}, '>', $token, 'a larger token');


# waiting: for its end, for a release here and elsewhere

($r, $lock) = ask('POST', '/all/x', '{"wait": 9}', $other);
is($r->status(), 200, 'waited for its end');

for my $from ($h, $other) {
    my $owner = $lock->{owner};

    $p = start_get($h->port(), '/all/x', method => 'POST',
        body => '{"wait": "9s"}',
        headers => { 'Content-Type' => 'application/json' });
    $h->get('/look/x');
    is(ask('DELETE', "/all/x?owner=$owner", undef, $from)->status(), 204,
        'released');
    $lock = JSON::PP::decode_json(finish($p)->body());
    isnt($lock->{owner}, $owner, 'another has it');
}

# who leaves while it waits does not get it

$p = start_get($h->port(), '/all/x', method => 'POST',
    body => '{"owner": "left", "wait": 9}',
    headers => { 'Content-Type' => 'application/json' });
$h->get('/look/x');
$p->close();
$p = start_get($h->port(), '/all/x', method => 'POST',
    body => '{"owner": "stays", "wait": 9}',
    headers => { 'Content-Type' => 'application/json' });
$h->get('/look/x');
ask('DELETE', "/all/x?owner=$lock->{owner}");
is(JSON::PP::decode_json(finish($p)->body())->{owner}, 'stays',
    'who has left does not get it');
($r) = ask('POST', '/all/x', '{"wait": 0.05}');
is($r->status(), 423, 'waited in vain');
ask('DELETE', '/all/x?owner=stays');


# with mcds_lock

$o->hold_path('/page/x');
$p = start_get($h->port(), '/page/x');
$o->wait_requests(1, '/page/x');
($r, $lock) = ask('GET', '/look/?name=%2Fpage%2Fx', undef, $other);
is($lock->{held}, 1, 'held by a request');
is(ask('POST', '/all/?name=/page/x')->status(), 423, 'it is');
is(ask('DELETE', "/all/?name=/page/x&owner=$lock->{owner}")->status(), 204,
    'taken away from a request');
$o->release('/page/x');
is(finish($p)->status(), 200, 'which ends all the same');

($r, $lock) = ask('POST', '/all/?name=/page/y');
$p = start_get($other->port(), '/page/y');
$other->get('/look/x');
is($o->count('/page/y'), 0, 'a request waits');
ask('DELETE', "/all/?name=/page/y&owner=$lock->{owner}");
is(finish($p)->status(), 200, 'then it runs');


# what is refused

for my $row (
    [405, 'POST', '/look/x'], [405, 'DELETE', '/look/x?owner=a'],
    [405, 'PATCH', '/all/x'], [404, 'GET', '/look/'], [404, 'GET', '/one'],
    map({ [400, $_, '/all/?name='], [400, $_, '/all/z?name=&owner=a'],
        [400, $_, '/all/z?owner=a&name'] }
        'GET', 'POST', 'PUT', 'DELETE'),
    [400, 'GET', '/look/' . 'x' x 1025], [400, 'GET', '/look/%00'],
    [400, 'GET', '/look/%ff'], [400, 'POST', '/all/z?ttl=1s'],
    [400, 'POST', '/all/z?ttl=21m'], [400, 'POST', '/all/z?ttl=x'],
    [400, 'POST', '/all/z?wait=11s'], [400, 'POST', '/all/z?owner='],
    [400, 'POST', '/all/z?owner=a%20b'], [400, 'POST', '/all/z?token=x'],
    [400, 'POST', '/all/z?owner=' . 'o' x 65], [400, 'POST', '/all/z', '[]'],
    [400, 'POST', '/all/z', '{'], [400, 'POST', '/all/z', '{"ttl": 1}'],
    [400, 'POST', '/all/z', '{"ttl": 2.5}'],
    [400, 'POST', '/all/z', '{"ttl": 1e30}'],
    [400, 'POST', '/all/z', '{"wait": -1}'],
    [400, 'POST', '/all/z', '{"wait": null}'],
    [400, 'POST', '/all/z', '{"token": -1}'],
    [400, 'POST', '/all/z', '{"owner": 1}'],
    [400, 'POST', '/all/z', '{"other": "x"}'],
) {
    my ($status, $method, $uri, $body) = @$row;

    is(ask($method, $uri, $body)->status(), $status,
        "$status: $method " . substr($uri, 0, 40) . ' ' . ($body // ''));
}

is($h->get('/all/z', method => 'POST', body => 'a=b', headers =>
    { 'Content-Type' => 'application/x-www-form-urlencoded' })->status(), 415,
    'what pages of other sites can send');
is($h->get('/all/z', method => 'POST', body => '')->status(), 415,
    'the same without a body');
ok(!grep({ /z/ } $m->keys()), 'none of them did anything');


# what is in memcached is no lock of ours

for my $value ('', 'x', '1', '1 ', ' a', "1 a\nb", 'x' x 100000) {
    $m->set('odd', $value);
    is($h->get('/look/odd')->body() =~ s/,"ttl":\d+//r,
        qq({"name":"odd","held":true}\n), 'odd: ' . substr($value, 0, 9));
    is(ask('POST', '/all/odd')->status(), 423, 'it is not free');
    is(ask('DELETE', '/all/odd?owner=a')->status(), 409, 'not released');
}

$m->set('odd', '0 me');
is(ask('PUT', '/all/odd?owner=me')->status(), 409, 'one without a number');
$m->delete('odd');
$m->set('odd:fence', 'x');
is(ask('POST', '/all/odd')->status(), 503, 'no number is counted');
ok(wait_for(sub { !defined $m->get('odd') }), 'then it is not kept');
$t->allow(qr/"odd:fence" holds no number, the lock cannot be used/);

$t->done();


sub ask {
    my ($method, $uri, $body, $host) = @_;

    my $r = ($host // $h)->get($uri, method => $method,
        $method =~ /^P/ ? (body => $body // '',
            headers => { 'Content-Type' => 'application/json' }) : ());

    return $r if !wantarray;
    return ($r, eval { JSON::PP::decode_json($r->body()) });
}
