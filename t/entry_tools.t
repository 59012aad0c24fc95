#!/usr/bin/perl

# Copyright (C) mcds authors

# A page that Python writes is served by nginx, one that nginx writes is read
# by Python, whole or in parts, and both refuse the same.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

# Debian's own first: it may not be the first in PATH

my ($python) = grep { `$_ -c 'import pylibmc' 2>&1`; $? == 0 }
    qw{ /usr/bin/python3 python3 };

plan(skip_all => 'no pylibmc') if !$python;

my $t = Test::Mcds->new()->allow(qr/is not used/);

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60',
    'Content-Type' => 'text/plain', 'X-One' => "a: b\t c", ETag => '"e"'],
    body => 'answer %k' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        prefix p:;
        timeout 5s;
    }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /gzip/ {
            mcds_cache_compress gzip;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /zstd/ {
            mcds_cache_compress zstd types=*;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $tool = "$FindBin::Bin/../misc/mcds_page.py";
my $file = $t->dir() . '/file';

sub tool {
    my $pid = open(my $out, '-|') // die "fork: $!\n";

    if (!$pid) {
        open(STDERR, '>&', \*STDOUT);
        exec($python, '-B', $tool, '--server', '127.0.0.1:' . $m->port(),
            '--prefix', 'p:', @_);
    }

    binmode $out;
    local $/;
    my $text = <$out> // '';
    close $out;
    return wantarray ? ($text, $? >> 8) : $text;
}

# by nginx

$h->get('/a');
page_wait($m, 'p:' . key('/a')) or die;
my $text = tool('get', key('/a'));
like($text, qr/^Status: 200\r\n/, 'read: status');
like($text, qr/^X-One: a: b\t c\r$/m, 'read: header');
like($text, qr/^ETag: "e"\r$/m, 'read: another');
like($text, qr/^Content-Type: text\/plain\r$/m, 'read: type');
like($text, qr/\r\n\r\nanswer 1$/, 'read: body');
is(tool('--body', 'get', key('/a')), 'answer 1', 'read: the body alone');
is((tool('get', key('/none')))[1], 1, 'no page');

my $long = '/' . 'x' x 300;
$h->get($long);
ok(wait_for(sub { tool('--body', 'get', key($long)) eq 'answer 1' }),
    'a key that is hashed');

my $large = join "\n", 1 .. 400000;
$o->set('/large', { headers => ['Cache-Control' => 'max-age=60'],
    body => $large });

my ($body, $code);

if ($t->has('mcds large')) {
    $h->get('/large');
    page_wait($m, 'p:' . key('/large')) or die;
    ($body, $code) = tool('--body', 'get', key('/large'));
    is($code, 0, 'in parts');
    ok($body eq $large, 'all of them');
}

# in a coding, whole and in parts

$t->seed(1);
my $noise = join '', map { chr 38 + rand 88 } 1 .. 1_600_000;
my @type = ('Content-Type' => 'text/html');

for my $coding (qw/ gzip zstd /) {
    for my $page (['text', $large, 0], ['noise', $noise, 1]) {
        my ($name, $text, $parts) = @$page;
        next if $parts && ($coding eq 'zstd' || !$t->has('mcds large'));

        my $uri = "/$coding/$name";

        $o->set($uri, { headers => ['Cache-Control' => 'max-age=60', @type],
            body => $text });
        $h->get($uri);
        my $e = page_decode(page_wait($m, 'p:' . key($uri)));
        is(($e->{parts} ? 1 : 0) . $e->{format}, $parts . 2, "$coding, $name");
        ($body, $code) = tool('--body', 'get', key($uri));
        ok($code == 0 && $body eq $text, "$coding, $name: read");
    }

    $t->write_file('file', $large);
    is((tool('--coding', $coding, '--header', 'ETag: "p"', 'put',
        key("/$coding/p"), $file))[1], 0, "$coding: written");
    my $r = $h->get("/$coding/p", headers => { 'Accept-Encoding' => $coding });
    is(join(' ', $r->header('X-Cache'), $r->header('Content-Encoding')),
        "HIT $coding", "$coding: served as it is");
    ok($h->get("/$coding/p")->body() eq $large, "$coding: served without it");
}

# by Python

$t->write_file('file', "from Python\n" x 3);
is((tool('--header', 'Content-Type: text/html; charset=utf-8', '--header',
    'X-Two: 2', '--header', 'ETag: "p"', '--status', '404', '--fresh', '30',
    'put', key('/p'), $file))[1], 0, 'written');
my $r = $h->get('/p');
is($r->header('X-Cache'), 'HIT', 'served');
is($r->status(), 404, 'served: status');
is($r->header('Content-Type'), 'text/html; charset=utf-8', 'served: type');
is($r->header('X-Two'), '2', 'served: header');
is($r->body(), "from Python\n" x 3, 'served: body');
is($o->count('/p'), 0, 'the origin was not asked');
is_deeply({ %{ page_decode($m->get('p:' . key('/p'))) }{qw/ valid key
    status kind flags parts /} }, { valid => 1, key => key('/p'),
    status => 404, kind => 0, flags => 0, parts => 0 }, 'what it looks like');

tool('put', key($long), $file);
is($h->get($long)->body(), "from Python\n" x 3, 'a key that is hashed');
is((tool('delete', key('/p')))[1], 0, 'deleted');
is($h->get('/p')->header('X-Cache'), 'MISS', 'and gone');
page_wait($m, 'p:' . key('/p'));

like((tool('--header', "X: a\r\nb: c", 'put', key('/bad'), $file))[0],
    qr/wrong headers/, 'not written: headers');

# both refuse the same

my %page = (key => key('/e'), body => 'edited', headers => "A: b\r\n");
my $good = page_encode(%page);
my @bad = (
    ['garbage', 'garbage', 'not an entry'],
    ['cut', substr($good, 0, -1), 'wrong sizes'],
    ['longer', $good . 'x', 'wrong sizes'],
    ['changed', substr($good, 0, -1) . 'X', 'wrong checksum'],
    ['format', page_encode(%page, format => 4), 'unknown format'],
    ['coding', page_encode(%page, coding => 3, length => 6),
        'unknown coding'],
    ['no coding', page_encode(%page, format => 2), 'unknown coding'],
    ['length of a coding', page_encode(%page, coding => 1, length => 0),
        'wrong length of the body'],
    ['kind', page_encode(%page, kind => 9), 'unknown kind'],
    ['status', page_encode(%page, status => 99), 'wrong status'],
    ['length', page_encode(%page, total => 7), 'wrong length of the body'],
    ['ext', page_encode(%page, ext => 'abc'), 'wrong extensions'],
    ['header', page_encode(%page, headers => "A b\r\n"), 'wrong headers'],
    ['header end', page_encode(%page, headers => 'A: b'), 'wrong headers'],
    ['header value', page_encode(%page, headers => "A: \x01\r\n"),
        'wrong headers'],
    ['key', page_encode(%page, key => 'x'), 'key of another page'],
);

$m->set('p:' . key('/e'), $good);
is($h->get('/e')->header('X-Cache'), 'HIT', 'good to nginx');
is(tool('--body', 'get', key('/e')), 'edited', 'good to Python');

for (@bad) {
    my ($what, $bytes, $why) = @$_;

    $m->set('p:' . key('/e'), $bytes);
    my ($text, $code) = tool('get', key('/e'));
    is($code, 2, "$what: not to Python");
    like($text, qr/: $why$/, "$what: and why");
    $h->get('/e');
    ok($h->wait_log(qr/localhost\/e" is not used: $why/, 5),
        "$what: nor to nginx");
    page_wait($m, 'p:' . key('/e'));
}

$t->done();
