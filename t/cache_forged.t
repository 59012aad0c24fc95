#!/usr/bin/perl

# Copyright (C) mcds authors

# Memcached is not trusted: an item that somebody else has written, or bent, is
# a miss, and a well-formed one cannot frame or steer an answer.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
                          body => 'origin' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /secret { internal; return 200 secret; }
        location /next { return 200 next; }
    }
}
EOT

my $key = '<>http://localhost/page';
my %good = (key => $key, headers => "Content-Type: text/plain\r\nX-Y: z\r\n",
            body => 'forged');

# puts an item in the page's place; the answer to /page, on a connection whose
# next answer must be the right one

sub page {
    my ($item) = @_;

    $m->set($key, $item) or die 'not stored';

    my $c = $h->conn();
    my $r = $c->get('/page', timeout => 2);
    my $next = $c->get('/next', timeout => 2);
    $c->close();

    $r->{next} = $next->body() // '';
    wait_for(sub { !defined $m->get("$key:lock") });

    return $r;
}

sub miss {
    my ($name, $item) = @_;
    my $r = page($item);

    is(($r->header('X-Cache') // 'none') . " $r->{status} "
        . "$r->{body} $r->{next}", 'MISS 200 origin next', "$name: a miss");
}

my $r = page(page_encode(%good));
is($r->header('X-Cache') . " $r->{body} $r->{next}", 'HIT forged next',
    'a good one is a hit');
is($r->header('X-Y'), 'z', 'a good one: its header');


# what is no page

miss($_->[0], $_->[1]) for ['nothing', ''], ['a text', 'hello' x 100],
    ['a header alone', substr page_encode(%good), 0, 112],
    ['one byte less', substr page_encode(%good), 0, -1],
    ['one byte more', page_encode(%good) . 'x'],
    ['a zero page', "\0" x 1000];

miss($_->[0], page_encode(%good, @{$_->[1]})) for
    ['another magic', [magic => 'SDCM']],
    ['another format', [format => 4]],
    ['an unknown kind', [kind => 9]],
    ['status 0', [status => 0]],
    ['status 99', [status => 99]],
    ['status 600', [status => 600]],
    ['status 999', [status => 999]],
    ['status 65535', [status => 65535]],
    ['status 100', [status => 100]],
    ['status 101', [status => 101]],
    ['status 103', [status => 103]],
    ['a short header', [size => 111]],
    ['another key', [key => '<>http://localhost/other']],
    ['no key', [key => '']],
    ['a longer key', [key => "${key}x"]],
    ['a wrong total', [total => 5]],
    ['parts that are not there', [parts => 1]],
    ['extensions out of bounds', [ext => "\1\0\xff\xff\xff\xff"]],
    map({ [$_->[0], [headers => $_->[1]]] }
        ['a header without an end', 'X: y'],
        ['a header with LF', "X: y\n"],
        ['a header with CR in it', "X: y\rZ: a\r\n"],
        ['a header with LF in it', "X: y\nSet-Cookie: a=b\r\n"],
        ['a header with NUL', "X: y\0\r\n"],
        ['a header without a name', ": y\r\n"],
        ['a header without a colon', "X y\r\n"],
        ['a header name with a space', "X : y\r\n"],
        ['a header name with NUL', "X\0: y\r\n"],
        ['an empty line', "X: y\r\n\r\nbody\r\n"],
        ['a folded header', "X: y\r\n z: a\r\n"]);


# bent by some bits

my $bytes = page_encode(%good);
my $bits = length($bytes) * 8;
my $served = 0;
my $wrong = 0;
$t->seed(7);

for my $bit ($t->full() ? 0 .. $bits - 1
    : ((map { int rand $bits } 1 .. 100), 32 .. 47))
{
    my $bent = $bytes;
    vec($bent, $bit, 1) ^= 1;
    $r = page($bent);
    $served++ if $r->body() eq 'forged';
    $wrong++ if $r->body() ne 'origin' || $r->{next} ne 'next';
}

is($served, 0, 'bent: none is served');
is($wrong, 0, 'bent: all others are answered');


# well-formed: what frames an answer, or steers nginx, or belongs to a person,
# is left out

for my $line ('Content-Length: 1', 'Content-Length: 100',
    'Transfer-Encoding: chunked', 'Connection: upgrade', 'Upgrade: h2c',
    'Keep-Alive: timeout=1', 'TE: x', 'Trailer: X', 'Set-Cookie: a=b',
    'set-cookie: a=b', 'Set-Cookie2: a=b', 'X-Accel-Redirect: /secret',
    'x-accel-redirect: /secret', 'X-Accel-Limit-Rate: 1000000',
    'X-Accel-Buffering: no', 'X-Accel-Charset: x', 'Age: 99',
    'Date: nonsense', 'Status: 500', 'Proxy-Authenticate: x')
{
    my ($name, $value) = $line =~ /^(.*?): (.*)$/;

    $r = page(page_encode(%good, headers => "$line\r\n$good{headers}"));
    is($r->header('X-Cache') . " $r->{body} $r->{next}", 'HIT forged next',
        "$line: served");
    is(scalar(grep { $_ eq $value } $r->all($name)), 0, "$line: left out");
}

$r = page(page_encode(%good, headers => "Content-Type: text/html; charset="
    . "\"\r\nContent-Type: ;;\r\nETag: x\r\nETag: y\r\nLast-Modified: x\r\n"
    . "Location: /secret\r\nX: " . 'y' x 30_000 . "\r\n" . "Z: 1\r\n" x 500));
is($r->header('X-Cache') . " $r->{body} $r->{next}", 'HIT forged next',
    'odd headers: served');

# a status that allows no body has none, and the next answer is in its place

for my $status (204, 304) {
    $r = page(page_encode(%good, status => $status));
    is("$r->{status} $r->{body} $r->{next}", "$status  next",
        "status $status: no body");
}

for my $status (200, 206, 299, 301, 404, 418, 500, 599) {
    $r = page(page_encode(%good, status => $status));
    is("$r->{status} $r->{body} $r->{next}", "$status forged next",
        "status $status: its body");
}


# times of another world

my $now = int(time() * 1000);

for my $c (
    ['created in the future', STALE => created => $now + 3600_000,
        expire => $now + 3660_000],
    ['created at the end of time', HIT => created => ~0 >> 1, expire => ~0],
    ['created in 1970', HIT => created => 0],
    ['the age of the universe', HIT => age => 0xffffffff])
{
    my ($name, $status, %e) = @$c;

    $r = page(page_encode(%good, expire => $now + 60000, %e));
    is($r->header('X-Cache') . " $r->{body} $r->{next}",
        "$status forged next", "$name: served");
    like($r->header('Age'), qr/^\d{1,10}$/, "$name: an age");
}

$r = page(page_encode(%good, expire => 0, created => 0));
is("$r->{status} $r->{next}", '200 next', 'expired in 1970');

$t->done();
