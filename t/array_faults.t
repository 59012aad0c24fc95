#!/usr/bin/perl

# Copyright (C) mcds authors

# What arrays and tables say and do when memcached answers badly or not at all,
# and when clients leave: nothing is sent twice, nothing that was begun is left
# half done, and what is not known is said to be so.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

# mode: a regex of commands, and what is to happen to them

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;
    my ($what, $re) = split ' ', $f->mode() // '', 2;

    return if !defined $re || $line !~ /$re/;
    return $f->stall() if $what eq 'stall';
    return $f->fin() if $what eq 'fin';
    return "SERVER_ERROR out of memory storing object\r\n" if $what eq 'full';
    return ($f->hold('held'), $f->default($line, $value)) if $what eq 'hold';

    # stored, and not answered, or not rightly

    if ($what =~ /^stored-(fin|stall|odd)$/) {
        $f->default($line, $value);
        return $1 eq 'odd' ? "HD O1\r\n" : $1 eq 'fin' ? $f->fin()
            : $f->stall();
    }

    # others change it before each compare-and-swap

    if ($what eq 'change') {
        $f->default('ms /a 4 MA', "\"x\"\n");
        return;
    }

    # ... or replace the array before its part is read

    if ($what eq 'replace') {
        $f->default('md /re:0123456789abcdef');
        $f->default('ms /re 6', "\"new\"\n");
        return;
    }

    # as with memcached -C

    return $f->default($line, $value) =~ s/ c\d+/ c0/r if $what eq 'nocas';
});

my $c = $t->memcached('c', args => ['-C']);

my $conf = <<'EOC';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; max_fails 0; }
    mcds_pool patient { server 127.0.0.1:%%PORT_f%%; timeout 20s; }
    mcds_pool c { server 127.0.0.1:%%PORT_c%%; }
    mcds_use main;
    mcds_api_methods GET POST PUT PATCH DELETE;

    server {
        listen 127.0.0.1:%%PORT%%;

        location / { mcds_array_api $uri; }
        location /t/ { mcds_table_api /t; }
        location /h { mcds_use patient; mcds_array_api $uri; }
        location /ht/ { mcds_use patient; mcds_table_api /ht; }
        location /c { mcds_use c; mcds_array_api $uri; }
        location /ct/ { mcds_use c; mcds_table_api /ct; }
    }
}
EOC

my $h = $t->nginx('h', $conf);
my $other = $t->nginx('other', $conf);
my $r;


# no answer: it is not known

for my $row (
    ['POST', '/p', '"a"', 'ms /p \d+ (?:k O\d+ )?MA'],
    ['PATCH', '/p', '{"add":["a"]}', 'ms /p .* C\d+'],
    ['PUT', '/t/x', '', 'ms /t:x'],
    ['DELETE', '/t/x', '', 'md /t:x'],
) {
    my ($method, $uri, $body, $re) = @$row;

    $f->tell('');
    $f->set('/p', qq{"old"\n});
    $f->set('/t:x', 1);
    $f->tell("stall $re");
    $f->mark();
    $r = json($method, $uri, $body);
    is($r->status(), 503, "$method $uri: no answer");
    like($r->body(), qr/it is not known whether it was done/,
        "$method $uri: said so");
    is($r->header('Retry-After'), 1, "$method $uri: try again");
    is($f->count(qr/$re/), 1, "$method $uri: sent once")
        or diag(join "\n", $f->commands());
}

$f->tell('stall ^mg');

for my $uri ('/p', '/t/', '/t/x') {
    $r = $h->get($uri);
    is($r->status(), 503, "GET $uri: no answer");
    like($r->body(), qr/memcached has not answered"/, "GET $uri: said so");
}


# no answer to a read before the change: nothing was done

for my $row (
    ['PUT', '/p', '[1]'],
    ['DELETE', '/p', ''],
    ['PATCH', '/p', '{"add":["a"]}'],
    ['DELETE', '/t/', ''],
    ['PUT', '/t/x', '"x"', 'If-Match' => '*'],
    ['DELETE', '/t/x', '', 'If-Match' => '*'],
) {
    my ($method, $uri, $body, %headers) = @$row;

    $f->mark();
    $r = $h->get($uri, method => $method, body => $body,
        headers => { 'Content-Type' => 'application/json', %headers });
    is($r->status(), 503, "$method $uri: no answer to a read");
    like($r->body(), qr/nothing was done/, "$method $uri: said so");
    is($f->count(qr/^m[sd] /), 0, "$method $uri: nothing was sent");
}


# not asked: nothing was done

$f->tell('');
$f->refuse(1);
$f->close_all();

for my $row (['POST', '/p', '1'], ['PUT', '/p', '[]'], ['PUT', '/t/x', 'x'],
    ['POST', '/t/', '["y"]'], ['GET', '/p'], ['GET', '/t/?values=1'])
{
    my ($method, $uri, $body) = @$row;

    $r = json($method, $uri, $body);
    is($r->status(), 503, "$method $uri: memcached is away");
}

$f->refuse(0);
ok(wait_for(sub { $h->get('/p')->status() == 200 }, 5), 'it is back');


# out of memory

$f->tell('full ^ms');
is(json('POST', '/full', '1')->status(), 503, 'out of memory: POST');
is(json('PUT', '/full', '[1]')->status(), 503, 'out of memory: PUT');
is(json('PUT', '/t/full', '1')->status(), 503, 'out of memory: an element');
$f->tell('');


# others are always faster

$f->set('/a', "\"x\"\n");
$f->tell('change ^ms /a .* C\d+');
$f->mark();
$r = json('PATCH', '/a', '{"add": ["never"]}');
is($r->status(), 409, 'others are faster: a conflict');
cmp_ok($f->count(qr{^ms /a .* C\d+}), '<=', 30, 'tried a few times');
unlike($f->get('/a'), qr/never/, 'not done');
$f->tell('');
is(json('PATCH', '/a', '{"add": ["at last"]}')->status(), 204, 'then it is');


# the array is replaced while it is read

$f->set('/re', "\@0123456789abcdef 1 6\n\"two\"\n");
$f->set('/re:0123456789abcdef', "\"one\"\n");
is($h->get('/re')->body(), qq{["one","two"]\n}, 'an array with a part');
$f->tell('replace ^mg /re:');
is($h->get('/re')->body(), qq{["new"]\n}, 'is read again when it has gone');
$f->tell('');


# a part cannot be written: the array stays as it was

$f->set('/parts', "\"old\"\n");
$f->tell('full ^ms /parts:');
$r = json('PUT', '/parts', '["' . ('x' x 20000) . '","' . ('y' x 20000) . '"]');
is($r->status(), 503, 'a part is not stored');
is($f->get('/parts'), "\"old\"\n", 'the array is as it was');
$f->tell('stall ^ms /parts:');
$r = json('PUT', '/parts', '["' . ('x' x 20000) . '","' . ('y' x 20000) . '"]');
like($r->body(), qr/nothing was done/, 'a part is not answered');
is($f->get('/parts'), "\"old\"\n", 'the array is as it was, again');
$f->tell('');


# the head was stored, and that is not known: it has its parts

for my $how (qw/ fin stall odd /) {
    my $list = '["' . ('x' x 20000) . '","' . ("$how " x 5000) . '"]';

    $f->set("/stored-$how", "\"old\"\n");
    $f->tell("stored-$how ^ms /stored-$how \\d");
    $r = json('PUT', "/stored-$how", $list);
    like($r->body(), qr/it is not known whether it was done/,
        "stored-$how: is not known");
    $f->tell('');
    ok($h->get("/stored-$how")->body() eq "$list\n",
        "stored-$how: it was, and is whole");
}


# so with an element: its name is on the list

for my $how (qw/ fin stall odd /) {
    $f->tell("stored-$how ^ms /t:by-$how ");
    $r = json('PUT', "/t/by-$how", 'x');
    like($r->body(), qr/it is not known whether it was done/,
        "stored-$how: an element is not known");
    $f->tell('');
    ok(wait_for(sub { $h->get('/t/')->body() =~ /"by-$how"/ }),
        "stored-$how: it is listed");
}


# the client leaves, the change is done

$f->tell('hold ^mg /h1');

my $p = start_get($h->port(), '/h1', method => 'PATCH',
    body => '{"add": ["left"]}',
    headers => { 'Content-Type' => 'application/json' });

ok(wait_for(sub { $f->held('held') == 1 }), 'a client');
$p->reset();
$f->tell('');
$f->release('held');
ok(wait_for(sub { ($f->get('/h1') // '') eq "\"left\"\n" }),
    'what it wanted is done');

# its condition is judged all the same, in memory that is not the request's

for my $match ('"0000"', '*') {
    $f->tell('hold ^mg /h1');
    $p = start_get($h->port(), '/h1', method => 'PUT', body => '["if"]',
        headers => { 'Content-Type' => 'application/json',
            'If-Match' => $match });
    ok(wait_for(sub { $f->held('held') == 1 }), "If-Match: $match");
    my $left = left();
    $p->reset();
    ok(wait_for(sub { left() > $left }), 'the client has left');
    $f->tell('');
    $f->release('held');
    $h->get('/h1');
    is($f->get('/h1'), $match eq '*' ? "\"if\"\n" : "\"left\"\n",
        'judged by its own text');
}

$f->tell('hold ^mg /ht:e');
$p = start_get($h->port(), '/ht/e', method => 'PUT', body => 'e');
ok(wait_for(sub { $f->held('held') == 1 }), 'another one, half done');
$p->close();
$f->tell('');
$f->release('held');
ok(wait_for(sub { $h->get('/ht/')->body() =~ /"e"/ }), 'the list has it');

# another host changes an element before the list has been written

for my $row (
    ['an end', ['PUT', '/ht/both?ttl=1h', 'x'], 'ms /ht:both .*T3602',
        ['PUT', '/ht/both', 'y'], '+0 both'],
    ['it is there', ['DELETE', '/ht/both', ''], 'md /ht:both',
        ['PUT', '/ht/both', 'y'], '+0 both'],
    ['it is not', ['PUT', '/ht/both', 'x'], 'ms /ht:both',
        ['DELETE', '/ht/both'], '-both'],
) {
    my ($name, $first, $re, $second, $line) = @$row;

    $f->tell("hold ^$re");

    my ($method, $uri, $body) = @$first;

    $p = start_get($h->port(), $uri, method => $method, body => $body);
    ok(wait_for(sub { $f->held('held') == 1 }), "$name: one host changes");
    $f->tell('');

    ($method, $uri, $body) = @$second;

    is($other->get($uri, method => $method, body => $body)->status(), 204,
        "$name: another one, too");
    $f->release('held');
    is(finish($p)->status(), 204, "$name: then the first is answered");
    is((split /\n/, $f->get('/ht'))[-1], $line, "$name: so says the list");
}

$f->tell('hold ^mg /h2');
$p = start_get($h->port(), '/h2');
ok(wait_for(sub { $f->held('held') == 1 }), 'one that reads');
$p->close();
$f->tell('');
$f->release('held');
is($h->get('/h2')->status(), 200, 'the next one is answered');


# a server without CAS

is(json('POST', '/c', '1')->status(), 204, 'memcached -C: append');
is(json('PATCH', '/c', '{"add": [2]}')->status(), 503, 'no change');
is($h->get('/c')->body(), "[1]\n", 'it is as it was');
is($h->get('/c')->header('ETag'), undef, 'there is no ETag');
is(json('PUT', '/ct/a', 'x')->status(), 204, 'an element');
is(json('PUT', '/ct/a', 'y', 'If-Match' => '*')->status(), 503,
    'not with a condition');
is($h->get('/ct/?values=1')->body(), qq({"a":"x"}\n), 'the table works');

$t->allow(qr/memcached gives no CAS in pool "c", lists cannot be changed/);


# what is in memcached is no array of ours

for my $row (
    ["\@0123456789abcdef 99999999 999999999\n", 507, 'a part of 1 GB'],
    ["\@0123456789abcdef 1 5\n", 200, 'a part that is not there'],
    [join('', map { sprintf "\@%016x 1 1\n", $_ } 1 .. 5000), 507,
        'a lot of parts'],
    ["#1\n#2\n", 200, 'numbers'],
    ["\0\x01\xff\n[[[[\n", 200, 'bytes'],
) {
    my ($value, $status, $name) = @$row;

    $f->set('/odd', $value);
    is($h->get('/odd')->status(), $status, $name);
}

$f->set('/odd', "\@0123456789abcdef 1 4\n");
$f->set('/odd:0123456789abcdef', "\"other size\"\n");
is($h->get('/odd')->body(), "[]\n", 'a part of another size');
$f->set('/t', join "\n", '+x a', '+0', '+0 ', '-', '', '+0 good', 'nonsense',
    '+99999999999999999999 b');
is($h->get('/t/')->body(), qq{["good"]\n}, 'lines that no table has');

$t->done();


sub json {
    my ($method, $uri, $body, %headers) = @_;

    return $h->get($uri, method => $method, body => $body,
        headers => { $uri =~ m{^/[ch]?t/.} ? () :
            ('Content-Type' => 'application/json'), %headers });
}


# requests whose client has left, as the log has them

sub left {
    return scalar(() = $h->access_log() =~ / 499 /g);
}
