#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log_api: lines that programs post stand in the log of all hosts, at their
# time.  The answer comes when memcached has them, and says so when it has not,
# or not all, or when that is not known.

use warnings;
use strict;

use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ events lines /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $n = $t->memcached('n');

# mode: a regex of commands, and what is to happen to them

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;
    my ($what, $re) = split ' ', $f->mode() // '', 2;

    return if !defined $re || $line !~ /$re/;
    return $f->stall() if $what eq 'stall';
    return $f->fin() if $what eq 'fin';
    return "SERVER_ERROR out of memory storing object\r\n" if $what eq 'full';
    return ($f->hold('held'), $f->default($line, $value)) if $what eq 'hold';
});

my $h2 = $t->has('http_v2') && $t->has('curl')
    ? 'listen 127.0.0.1:%%PORT_h2%% http2;' : '';

my $h = $t->nginx('h', <<'EOC' =~ s/%%H2%%/$h2/r);
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 20s; }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; max_fails 0; }
    mcds_pool patient { server 127.0.0.1:%%PORT_f%%; timeout 20s; }
    mcds_pool calm { server 127.0.0.1:%%PORT_m%%; timeout 20s; }
    mcds_pool old { server 127.0.0.1:%%PORT_m%%; protocol classic; prefix o:; }
    mcds_pool two {
        server       127.0.0.1:%%PORT_m%%;
        server       127.0.0.1:%%PORT_n%%;
        distribution ketama;
        timeout      20s;
    }
    mcds_use main;
    mcds_api_methods GET POST;

    log_format uri '$uri';

    server {
        listen 127.0.0.1:%%PORT%%;
        %%H2%%

        location = /line { mcds_log log uri; return 204; }
        location = /log { mcds_log_api log chunk=10s chunks=12; }
        location = /default {
            mcds_log_api     log;
            mcds_api_methods GET;
        }
        location = /writes {
            mcds_log_api     log;
            mcds_api_methods POST;
        }
        location = /except {
            mcds_log_api log;
            limit_except GET { deny all; }
        }
        location = /auth {
            auth_request /allowed;
            mcds_log_api log;
        }
        location = /allowed {
            if ($http_x_key != k) { return 403; }
            return 204;
        }
        location = /small {
            mcds_log_api         log;
            client_max_body_size 100;
        }
        location = /file {
            mcds_log_api                  file;
            client_max_body_size          10m;
            client_body_buffer_size       1k;
            client_body_in_file_only      clean;
            client_body_in_single_buffer  on;
        }
        location = /many {
            mcds_log_api         many chunk=1h;
            client_max_body_size 2m;
        }
        location = /old { mcds_log_api old pool=old chunk=1h; }
        location = /two { mcds_log_api two pool=two chunk=1s chunks=60; }
        location = /fake { mcds_log_api fake pool=fake chunk=10s chunks=12; }
        location = /wait { mcds_log_api wait pool=patient chunk=1h; }
        location = /calm { mcds_log_api calm pool=calm chunk=1h; }
    }
}
EOC

chomp(my $host = lc `hostname`);

my $json = 'application/json';
my $nd = 'application/x-ndjson';
my ($now, $r, $p);


# one line

$r = post('/log', '"one \u00e9"');
is($r->status(), 204, 'a line');
is($r->body(), '', 'nothing to say');

my ($event) = grep { $_->{line} eq "one \x{e9}" } events($h, '/log');

ok($event, 'it is there at once');
is($event->{host}, $host, 'of this host');
is($r->header('X-Log-Cursor'), $event->{id}, 'its id');
cmp_ok(abs($event->{time} - Time::HiRes::time()), '<', 20, 'now');

$h->get('/line');
is(post('/log', '{"line": ""}', $nd)->status(), 204, 'an empty one');
ok(wait_for(sub { lines($h, '/log') == 3 }), 'beside those of requests');


# times, as one reads them

$now = int(Time::HiRes::time() - 30);

for my $row (
    [$now, $now], ["$now.25", $now + 0.25], ["${now}123", $now + 0.123],
    [qq{"$now.5"}, $now + 0.5], ['-40', 0], ['"-40.5"', 0], ['-40.25', 0],
    [0, 0],
) {
    my ($time, $want) = @$row;

    $want ||= Time::HiRes::time() + $time =~ s/"//gr;

    my $line = 'at ' . $time =~ s/"//gr;

    $r = post('/log', qq({"time": $time, "line": "$line"}));
    is($r->status(), 204, "time $time");

    my ($at) = split /-/, $r->header('X-Log-Cursor') // 0;

    cmp_ok(abs($at / 1000 - $want), '<', $time =~ /^"?-|^0/ ? 20 : 0.0015,
        'is that');
}

$r = post("/log?time=$now.75", qq("by an argument"\n\n{"time":$now.6,"line":)
    . qq("or not"}\r\n), $nd);
is($r->status(), 204, 'the argument is for lines without a time');
is(join(',', lines($h, "/log?first=$now.4&last=$now.8")),
    'at ' . "$now.5" . ',or not,by an argument', 'in the order of time');


# many: in several frames and items, each once, in the order of the body

$r = post('/many', '[' . join(',', map { qq("$_ ) . 'x' x 80 . '"' }
    1 .. 10000) . ']');
is($r->status(), 204, 'many');

my @many = events($h, '/many?first=-3600&limit=10000');

is(join(' ', map { $_->{line} =~ /^(\d+)/ } @many), join(' ', 1 .. 10000),
    'each once, in order');
is($r->header('X-Log-Cursor'), @many && $many[-1]{id},
    'the id of the last one');
is(post('/many', '[' . join(',', ('""') x 10001) . ']')->status(), 413,
    'too many');

# ... of all times

$now = int(Time::HiRes::time());
$r = post('/log', join("\n", map { sprintf '{"line":"n%d","time":%d}', $_,
    $now - $_ * 37 % 100 } 0 .. 99), $nd);
is($r->status(), 204, 'of many chunks');
is(scalar(grep { /^n\d+$/ } lines($h, '/log?limit=1000')), 100, 'all there');
is(post('/old', '["a", "b"]')->status(), 204, 'the classic protocol');
is(join(' ', lines($h, '/old')), 'a b', 'both');
is(post('/log', '[]')->status(), 204, 'none');


# a follower sees it

$p = Test::Mcds::Follow->new($h, '/log?follow=1');
is(post('/log', '"followed"')->status(), 204, 'while there is a follower');
ok(wait_for(sub { $p->count(); $p->lines() =~ /followed/ }),
    'it sees the line');
$p->close();


# what is refused

for my $row (
    ['not JSON', '"a', 400, 'is not the JSON'],
    ['a number', '1', 400, 'a line must be a string'],
    ['no line', '{"time": 0}', 400, 'must have'],
    ['no line at all', '{}', 400, 'must have'],
    ['another member', '{"line": "a", "host": "b"}', 400, 'must have'],
    ['a line feed', '"a\nb"', 400, 'line feed'],
    ['a zero byte', '"\u0000"', 400, 'is not the JSON'],
    ['a long line', '"' . 'x' x 16385 . '"', 413, 'larger than 16 KB'],
    ['no time', '{"line": "a", "time": null}', 400, 'time must be'],
    ['a word', '{"line": "a", "time": "now"}', 400, 'time must be'],
    ['a huge time', '{"line": "a", "time": 1e300}', 400, 'time must be'],
    ['the future', '{"line": "a", "time": 9999999999}', 400, 'in the future'],
    ['the past', '["never", {"line": "a", "time": -200}]', 400,
        'too long ago, the log keeps 120 seconds'],
) {
    my ($name, $body, $status, $detail) = @$row;

    $r = post('/log', $body);
    is($r->status(), $status, $name);
    is($r->header('Content-Type'), 'application/problem+json',
        "$name: a problem");
    like($r->body(), qr/"detail":"[^"]*$detail/, "$name: says why");
}

is(post('/log', '"' . 'x' x 16384 . '"')->status(), 204, 'not too long');
is(post("/log?time=$_", '"never"')->status(), 400, "time=$_")
    for 'x', '', '-200', 9999999999;
is(post('/log', '"never"', $_)->status(), 415, "type: $_") for 'text/plain',
    'application/x-www-form-urlencoded', 'text/plain; application/json', '';
is(post('/small', '"' . 'never' x 30 . '"')->status(), 413,
    'client_max_body_size');
is(post('/file', ' ' x 1048577)->status(), 413, 'our own limit');

for my $row (
    ['/log', 'PUT', 'GET, HEAD, POST, OPTIONS'],
    ['/log', 'DELETE', 'GET, HEAD, POST, OPTIONS'],
    ['/default', 'POST', 'GET, HEAD, OPTIONS'],
    ['/writes', 'GET', 'POST, OPTIONS'],
) {
    my ($uri, $method, $allow) = @$row;

    $r = $h->get($uri, method => $method,
        $method eq 'GET' ? () : (body => '"never"'));
    is($r->status(), 405, "$method $uri");
    is($r->header('Allow'), $allow, "$method $uri: Allow");
}

is(post('/writes', '"only writes"')->status(), 204, 'only POST');
is(post('/except', '"never"')->status(), 403, 'limit_except');
is(post('/auth', '"never"')->status(), 403, 'auth_request refuses');
is($h->get('/auth', method => 'POST', body => '"allowed"', headers =>
    { 'Content-Type' => $json, 'X-Key' => 'k' })->status(), 204,
    'auth_request allows');

my @lines = lines($h, '/log?limit=10000');

is(scalar(grep { /never/ } @lines), 0, 'nothing of that is there');
is(scalar(grep { $_ eq 'allowed' } @lines), 1, 'but what was allowed');


# how a body comes

my $large = '[' . join(',', map { '"' . "$_ " . 'y' x 10000 . '"' } 1 .. 50)
    . ']';

is(post('/file', $large)->status(), 204, 'in a file');
like(http_raw($h->port(), "POST /file HTTP/1.1\r\nHost: a\r\n"
    . "Connection: close\r\nContent-Type: $json\r\n"
    . "Transfer-Encoding: chunked\r\n\r\n"
    . join('', map { sprintf "%x\r\n%s\r\n", length, $_ }
        $large =~ /.{1,9999}/g) . "0\r\n\r\n"), qr{^HTTP/1.1 204 },
    'in chunks');
is(scalar(lines($h, '/file')), 100, 'all lines of both');

if ($h2) {
    like($t->curl('-si', '--http2-prior-knowledge', '-H', 'Content-Length:',
        '-H', "Content-Type: $json", '--data', '@' . $t->write_file('body',
        $large), 'http://127.0.0.1:' . $t->port('h2') . '/file'),
        qr{^HTTP/2 204}, 'over HTTP/2, without a length');
    is(scalar(lines($h, '/file')), 150, 'all lines');
}


# memcached has not taken it yet

my $port = $h->port();

post('/wait', '"first"');
$f->tell('hold ^ms wait:\d+ ');
$p = start_post('/wait', '"held"');
ok(wait_for(sub { $f->held('held') == 1 }), 'a POST waits');
$h->get('/allowed') for 1 .. 20;
$p->fill(0);
is($p->{in}, '', 'and is not answered');
$f->tell('');
$f->release('held');
is(finish($p)->status(), 204, 'now it is');

# the client leaves

$f->tell('hold ^ms wait:\d+ ');
$p = start_post('/wait', '"left"');
ok(wait_for(sub { $f->held('held') == 1 }), 'a client');
$p->reset();
$f->tell('');
$f->release('held');
ok(wait_for(sub { grep { $_ eq 'left' } lines($h, '/wait') }),
    'its line is there');


# memcached fails

for my $row (
    ['stall ^ms fake:\d+ ', qr/it is not known whether it was done/],
    ['fin ^ms fake:\d+ ', qr/it is not known whether it was done/],
    ['full ^ms fake:', qr/memcached has refused it, no line was stored/],
) {
    my ($mode, $detail) = @$row;

    $f->tell($mode);
    $r = post('/fake', '"failed"');
    is($r->status(), 503, "$mode: 503");
    like($r->body(), $detail, "$mode: says what is known");
    is($r->header('Retry-After'), 1, "$mode: try again");
}

$f->tell('');
$f->refuse(1);
$f->close_all();
is(post('/fake', '"failed"')->status(), 503, 'memcached is away');
$f->refuse(0);
ok(wait_for(sub { post('/fake', '"back"')->status() == 204 }), 'it is back');
is(join(' ', grep { /failed/ } lines($h, '/fake')), '',
    'nothing is sent later');

# ... at the second of three chunks

$now = int(Time::HiRes::time() / 10) * 10;

for my $row (['full', 'no others'], ['stall', 'of others it is not known']) {
    my ($what, $rest) = @$row;

    $f->tell("$what ^ms fake:" . ($now / 10 - 2));
    $r = post('/fake', join("\n", map { sprintf '{"line":"%s","time":%d}',
        "$what$_", $now - 10 * $_ } 1, 2, 3, 3), $nd);
    is($r->status(), 503, "$what: of three chunks");
    like($r->body(), qr/memcached has taken the 2 oldest lines, $rest/,
        "$what: how many are stored");
    $f->tell('');
    is(join(' ', grep { /^$what/ } lines($h, '/fake')), "${what}3 ${what}3",
        "$what: and those are");
}


# one of two servers is gone

$n->stop();

my %status;
$now = int(Time::HiRes::time());

for my $ago (1 .. 40) {
    my $at = $now - $ago;

    $r = post('/two', qq({"line":"x","time":$at}));
    $status{$r->status()}++;
    is(defined $m->get("two:$at") ? 204 : 503, $r->status(),
        "$ago s ago: what is said is so") or diag($r->body());
}

ok($status{204} && $status{503}, 'chunks of both servers');


# a reload, while one waits

$t->not_in('single', 'nginx cannot reload then');

is(post('/calm', '"first"')->status(), 204, 'before a reload');
$m->freeze();
$p = start_post('/calm', '"reloaded"');
$h->get('/allowed') for 1 .. 20;
ok($h->reload(), 'a reload');
$m->cont();
is(finish($p)->status(), 204, 'the old one answers');
is(post('/calm', '"then"')->status(), 204, 'new workers write');
is(scalar(grep { /^(reloaded|then)$/ } lines($h, '/calm')), 2, 'both');

$t->allow(qr/memcached server .* is down|is back|timed out|Connection refused/,
    qr/a client request body is buffered to a temporary file/);
$t->done();


sub post {
    my ($uri, $body, $type) = @_;

    $type //= $json;

    return $h->get($uri, method => 'POST', body => $body,
        headers => { $type ? ('Content-Type' => $type) : () });
}


sub start_post {
    my ($uri, $body) = @_;

    return start_get($port, $uri, method => 'POST', body => $body,
        headers => { 'Content-Type' => $json });
}
