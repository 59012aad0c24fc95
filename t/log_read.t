#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log_api: intervals to the millisecond, limits, cursors that neither
# repeat nor leave out, what is torn, foreign or there twice; and the
# operations that it takes.

use warnings;
use strict;

use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Log qw/ events frame /;

my $t = Test::Mcds->new();

my $f = $t->fake('f', sub { return });
my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; }
    mcds_use main;

    server {
        listen 127.0.0.1:%%PORT%%;
        location = /log { mcds_log_api log chunk=10s chunks=30; }
        location = /fake { mcds_log_api log chunk=10s chunks=30 pool=fake; }
        location = /long { mcds_log_api long chunk=1h chunks=2; }
        location = /none {
            mcds_log_api none;
            mcds_api_methods GET POST;
        }
        location = /if {
            if ($arg_if) { mcds_log_api log; }
            if ($arg_none) { return 204; }
        }
        location = /limit {
            mcds_log_api log;
            limit_except GET { deny all; }
        }
    }
}
EOC

# 100 s and 60 s ago, in chunks that begin there

my $now = int(Time::HiRes::time() / 10) * 10_000;
my $long = $now - 100_000;
my $late = $now - 60_000;

put($m, $long, 0, frame(writer => 10, seq => 1, host => 'a', lines => [
    [$long, 'one'], [$long + 5, 'two'], [$long + 5, 'three']]),
    frame(writer => 11, seq => 7, host => 'b', lines => [
        [$long + 3, 'between'], [$long + 9999, 'the last millisecond']]));
put($m, $late, 0, frame(writer => 10, seq => 4, host => 'a', lines => [
    [$late, 'four']]));
put($m, $late, 1, frame(writer => 10, seq => 5, host => 'a', lines => [
    [$late + 1, 'five']]));
put($m, $late, 2, frame(writer => 10, seq => 6, host => 'a', lines => [
    [$late + 2, 'six']]));


# intervals

is(texts(''), 'one between two three the_last_millisecond four five six',
    'all, in the order of time');

for my $row (
    [$long, $long, 'one'],
    [$long + 1, $long + 3, 'between'],
    [$long + 3, $long + 4, 'between'],
    [$long + 4, $long + 5, 'two three'],
    [$long + 6, $long + 9998, ''],
    [$long + 9999, $late, 'the_last_millisecond four'],
    [$late + 2, $late + 60_000, 'six'],
    [$long - 1000, $long - 1, ''],
    [$late, $long, ''],
) {
    my ($first, $last, $texts) = @$row;

    is(texts("first=$first&last=$last"), $texts, 'milliseconds: '
        . ($first - $long) . ' to ' . ($last - $long));
    is(texts(sprintf 'first=%.3f&last=%.6f', $first / 1000, $last / 1000),
        $texts, 'the same as seconds');
}

is(texts('first=' . $long / 1000 . '&last=' . ($long / 1000 + 1)),
    'one between two three', 'whole seconds');
is(texts('first=-3600&last=0'), texts(''), 'from now');
is(texts('first=-80.5'), 'four five six', '... with a fraction');
is(texts('last=-3600'), '', '... before all of it');


# limits and cursors

is(texts('limit=2'), 'five six', 'the last ones');
is(texts('limit=1'), 'six', 'the last one');
is(texts("first=$long&limit=2"), 'one between', 'the first ones');
is(texts("limit=3&last=$late"), 'three the_last_millisecond four',
    'the last ones of an interval');

for my $limit (1, 2, 3, 7, 8, 1000) {
    my (@all, $r);
    my $uri = "/log?first=$long&last=0&limit=$limit";

    for (1 .. 10) {
        $r = $h->get($uri);
        push @all, map { /"line":"(.*?)"/ } split /\n/, $r->body();

        ($uri) = $r->header('Link') =~ /^<(.*)>; rel="next"$/;
        $uri = "/log$uri";
    }

    is("@all", 'one between two three the last millisecond four five six',
        "pages of $limit");
}

my ($event) = grep { $_->{line} eq 'two' } events($h, '/log');

is_deeply($event, { time => ($long + 5) / 1000, host => 'a', line => 'two',
    id => $long + 5 . '-a-2' }, 'an event');
is(texts("after=$event->{id}"), 'three the_last_millisecond four five six',
    'behind it');
is(texts("after=$event->{id}&limit=1"), 'three', 'the next one');

my $r = $h->get("/log?after=$event->{id}&last=" . ($long + 4));

is($r->body(), '', 'nothing behind it');
is($r->header('X-Log-Cursor'), $event->{id}, 'the cursor stays');

$r = $h->get("/log?last=$late&first=$late&x=1&y=%3C>&limit=5&z");
is($r->header('X-Log-Cursor'), "$late-a-4", 'a cursor');
is($r->header('Link'), "<?after=$late-a-4&last=$late&x=1&limit=5>; "
    . 'rel="next"', 'a link');


# a log without lines, up to a time that is to come

my $none = $h->get('/none?last=9999999999');
my $cursor = $none->header('X-Log-Cursor');

is($none->body(), '', 'no line yet');
is(http_post($h->port(), '/none', '"x"',
    headers => { 'Content-Type' => 'application/json' })->status(), 204,
    'a line is written');
is(join(' ', map { $_->{line} } events($h, "/none?after=$cursor")), 'x',
    'the cursor leads to it');


# types

is($r->header('Content-Type'), 'application/x-ndjson', 'JSON lines');
is($r->header('Cache-Control'), 'no-store', 'not to be kept');
is($h->get('/log?format=text&limit=2')->body(), "five\nsix\n", 'text');

$r = $h->get('/log?limit=1', headers => { Accept => 'text/plain' });
is($r->body(), "six\n", 'by Accept');
is($r->header('Content-Type'), 'text/plain', 'its type');
is($h->get('/log', method => 'HEAD')->status(), 200, 'HEAD');
is($h->get('/if?if=1&format=text&limit=1')->body(), "six\n", 'in an if');
is($h->get('/limit?format=text&limit=1')->body(), "six\n",
    'beside a limit_except');


# what is not right

for my $row (
    ['limit=0', 'limit'], ['limit=10001', 'limit'], ['limit=x', 'limit'],
    ['first=', 'first'], ['first=x', 'first'], ['last=1.5.5', 'last'],
    ['first=--1', 'first'], ['last=' . '9' x 20, 'last'], ['first=-', 'first'],
    ['after=x', 'after'], ['after=1-2', 'after'], ['format=xml', 'format'],
) {
    my ($args, $what) = @$row;

    $r = $h->get("/log?$args");
    is($r->status(), 400, "$args: refused");
    like($r->body(), qr/"detail":"[^"]*\b$what\b[^"]* must be/,
        "$args: with a reason");
}

is($h->get('/log', method => $_, body => 'x')->status(), 405, "$_: refused")
    for qw/ POST PUT DELETE PATCH /;
is($h->get('/log', method => 'OPTIONS')->header('Allow'),
    'GET, HEAD, OPTIONS', 'what is allowed');


# torn, foreign, twice

my $frame = frame(writer => 12, seq => 1, host => 'c', lines => [
    [$now - 20_000, 'good'], [$now - 19_999, 'better']]);

put($m, $now - 20_000, 0, 'foreign', $frame, substr($frame, 0, -1), 'MCDL',
    $frame, "\0" x 50);
put($m, $now - 20_000, 1, $frame);
is(texts('first=' . ($now - 20_000)), 'good better',
    'only what is whole, and once');

put($m, $now - 30_000, 0, frame(writer => 13, seq => 1, host => "\xff<\"\n",
    lines => [[$now - 30_000, "\0\xff\xc3\xa9\n</script>"]]));
is($h->get('/log?first=' . ($now - 30_000) . '&limit=1')->body(),
    sprintf('{"time":%.3f,"host":"\ufffd\u003c\"\u000a",'
        . '"line":"\u0000\ufffd%s\u000a\u003c/script\u003e",'
        . qq("id":"%s-d-1"}\n), ($now - 30_000) / 1000, "\xc3\xa9",
        $now - 30_000), 'odd bytes');


# many lines of one chunk: large, in some hundred items

my $hour = int($now / 3_600_000) * 3_600_000;
my $n = 0;

for my $part (0 .. 149) {
    put_long($part, frame(writer => 20 + $part % 7, seq => $n + 1,
        host => 'long', lines => [map { [$hour + $n++, "line $_"] }
            1 .. 100]));
}

my @events = events($h, "/long?first=$hour&limit=10000");

is(scalar(@events), 10_000, 'the limit');
is($events[-1]{time}, ($hour + 9999) / 1000, 'the first ones');
@events = (@events, events($h, "/long?after=$events[-1]{id}&limit=10000"));
is(scalar(@events), 15_000, 'then the others');
is(scalar(keys %{{ map { $_->{id} => 1 } @events }}), 15_000, 'each once');
@events = events($h, '/long?limit=5');
is($events[-1]{time}, ($hour + 14_999) / 1000, 'the last ones');


# only the chunks that are touched are asked for, all at once

$f->mark();
$h->get("/fake?first=$late&last=" . ($late + 9_999));

my @asked = grep { $_->{cmd} eq 'mg' } $f->log();

is(join(' ', sort map { $_->{key} } @asked), join(' ', sort map {
    my $chunk = $late / 10_000 + $_; ("log:$chunk", "log:$chunk:1") } 0, 1),
    'the chunk and one beside');
is(scalar(keys %{{ map { $_->{read} => 1 } @asked }}), 1, 'in one read');

$f->mark();
$h->get('/fake?last=0');
@asked = grep { $_->{cmd} eq 'mg' } $f->log();

my %reads = map { $_->{read} => 1 } @asked;

@asked = map { $_->{key} =~ /^log:(\d+)/ } @asked;
cmp_ok(scalar(@asked), '<=', 2 * 32, 'not more than there are');
cmp_ok(scalar(@asked), '>=', 2 * 30, 'all that there are');
cmp_ok(scalar(keys %reads), '<=', 6, 'in few reads');
cmp_ok((sort @asked)[0], '>=', $now / 10_000 - 30, 'none that has ended');


# memcached is away

$f->refuse(1);
$f->close_all();

$r = $h->get('/fake');
is($r->status(), 503, 'memcached is away');
like($r->body(), qr/memcached/, 'said so');
$f->refuse(0);

$t->done();


sub put {
    my ($server, $time, $part, @bytes) = @_;

    my $key = 'log:' . int($time / 10_000) . ($part ? ":$part" : '');

    return $server->set($key, join '', @bytes);
}


sub put_long {
    my ($part, $bytes) = @_;

    return $m->set('long:' . int($hour / 3_600_000) . ($part ? ":$part" : ''),
        $bytes);
}


sub texts {
    my ($args) = @_;

    return join ' ', map { $_->{line} =~ s/ /_/gr } events($h, "/log?$args");
}
