#!/usr/bin/perl

# Copyright (C) mcds authors

# Pages are cached: each status, what is replayed, what a hit can do.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $modified = 'Sun, 06 Nov 1994 08:49:37 GMT';

my @types = (
    ['plain', 'text/html'],
    ['other', 'text/x-other'],
    ['utf', 'text/html; charset=utf-8'],
    ['upper', 'Text/HTML; CHARSET=UTF-8'],
    ['flowed', 'text/plain; format=flowed'],
    ['first', 'text/html; charset=utf-8; format=flowed'],
    ['last', 'text/html; format=flowed; charset=utf-8'],
    ['tight', 'text/html;format=flowed;charset=utf-8'],
    ['quoted', 'text/html; a="b"; charset="utf-8"'],
    ['empty', 'text/html; charset='],
    ['none', 'text/html;'],
    ['spaces', 'text/html ;  a=b ;  charset=utf-8'],
);

my $m = $t->memcached('m');
my $o = $t->origin('o', {
    headers => ['Cache-Control' => 'max-age=60'],
}, paths => {
    '/headers' => { body => '0123456789', headers => [
        'Content-Type' => 'text/html; charset=UTF-8',
        'ETag' => '"abc"',
        'Last-Modified' => $modified,
        'Cache-Control' => 'max-age=60',
        'Cache-Control' => 'public',
        'Expires' => 'Thu, 01 Jan 2037 00:00:00 GMT',
        'Link' => '</a.css>; rel=preload',
        'Link' => '</b.css>; rel=preload',
        'Accept-Ranges' => 'bytes',
        'X-Twice' => 'one',
        'X-Twice' => 'two',
        'X-Empty' => '',
        'X-Bytes' => "\xc3\xa4\xff \x80\t;\"",
        'x-case' => 'As It Was',
    ] },
    '/quoted' => { headers => ['Cache-Control' => 'max-age=60',
        'Content-Type' => 'text/html;charset="utf-8"'] },
    map({ ("/charset/$_->[0]" => { headers => ['Cache-Control' =>
        'max-age=60', 'Content-Type' => $_->[1]] }) } @types),
    '/aged' => { headers => ['Cache-Control' => 'max-age=60', 'Age' => 7] },
    '/strict' => { headers =>
        ['Cache-Control' => 'max-age=60, must-revalidate'] },
    '/moved' => { status => 301, headers =>
        ['Cache-Control' => 'max-age=60', 'Location' => '/else?where'] },
    '/gone' => { status => 404, headers =>
        ['Cache-Control' => 'max-age=60'] },
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Age $mcds_cache_age always;
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache on;
        location / {
            mcds_cache_bypass $arg_bypass;
            mcds_no_cache $arg_nocache;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            error_page 412 416 /error;
        }
        location /late/ {
            mcds_cache_background_update off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /grace/ {
            mcds_cache_grace 10s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /own/ {
            mcds_cache_key page:$arg_id;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /expires/ {
            expires 1h;
            add_header X-More yes;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /charset/ {
            charset koi8-r;
            charset_types text/plain;
            gzip on;
            gzip_min_length 1;
            gzip_types text/plain;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off/ {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /error { mcds_return 200 "page of $status"; }
    }
}
EOT

my ($r, $first, $e);

sub status { join ' ', $_[0]->status(), $_[0]->header('X-Cache') // 'none' }


# a miss, a hit

$first = $h->get('/a');
is(status($first), '200 MISS', 'miss');
ok(!defined $first->header('Age'), 'miss: no age');
page_wait($m, key('/a'));

$r = $h->get('/a');
is(status($r), '200 HIT', 'hit');
is($r->body(), $first->body(), 'hit: the same body');
like($r->header('Age'), qr/^[01]$/, 'hit: age');
is($r->header('X-Age'), $r->header('Age'), 'hit: $mcds_cache_age');
is($o->count('/a'), 1, 'hit: one origin request');

$e = page_expire($m, key('/a'), -30000);
is(status($r = $h->get('/a')), '200 HIT', 'later: hit');
like($r->header('Age'), qr/^(30|31)$/, 'later: age');
is(scalar(() = $r->all('Date')), 1, 'later: one date');
isnt($r->header('Date'), $first->header('Date'), 'later: that of the answer');

$h->get('/aged');
page_wait($m, key('/aged'));
like($h->get('/aged')->header('Age'), qr/^[78]$/, 'age of the origin');

is(status($h->get('/a?x')), '200 MISS', 'arguments are another page');
is(status($h->get('/a', host => 'other')), '200 MISS', 'host too');
is(status($h->get('/off/')), '200 none', 'off: no status');


# what is replayed

sub lines {
    return join "\n", grep {
        !/^(HTTP|Date|Age|X-Cache|X-Age|Connection|Accept-Ranges)\b/i
    } split /\r\n/, shift->head();
}

$first = $h->get('/headers');
$e = page_decode(page_wait($m, key('/headers')));

ok($e->{valid}, 'entry: checksum');
is($e->{status}, 200, 'entry: status');
is($e->{expire} - $e->{created} + $e->{took}, 60000, 'entry: lifetime');
unlike($e->{headers}, qr/^(Date|Server|Age|Connection|Content-Length|X-Cache
    |X-Age|Set-Cookie|Transfer-Encoding):/imx, 'entry: only its own headers');

$r = $h->get('/headers');
is(status($r), '200 HIT', 'headers: hit');
is(join("\n", sort split /\n/, lines($r)),
    join("\n", sort split /\n/, lines($first)), 'headers: byte by byte');
is(join(',', $r->all('X-Twice')), 'one,two', 'headers: in order');
is(join(',', $r->all('Cache-Control')), 'max-age=60,public',
    'headers: Cache-Control twice');
is(join(',', $r->all('Accept-Ranges')), 'bytes', 'headers: Accept-Ranges once');

for my $uri ('/quoted', '/moved', '/gone') {
    $first = $h->get($uri);
    page_wait($m, key($uri));
    $r = $h->get($uri);
    is(status($r), $first->status() . ' HIT', "$uri: hit");
    is(lines($r), lines($first), "$uri: headers");
    is($r->body(), $first->body(), "$uri: body");
}

# filters that look at the type do the same

# Angie does not take "text/html; charset=" of an origin for "text/html"
@types = grep { $_->[0] ne 'empty' } @types if $t->nginx_name() eq 'Angie';

for (@types) {
    my ($name, $type) = @$_;
    my $uri = "/charset/$name";
    my @accept = (headers => { 'Accept-Encoding' => 'gzip' });

    $first = $h->get($uri, @accept);
    page_wait($m, key($uri));
    $r = $h->get($uri, @accept);
    is(status($r), '200 HIT', "type \"$type\": hit");
    is(lines($r), lines($first), "type \"$type\": headers");
}

$h->get('/expires/');
$e = page_decode(page_wait($m, key('/expires/')));
is($e->{expire} - $e->{created} + $e->{took}, 60000,
    'expires: not the lifetime');
unlike($e->{headers}, qr/3600|X-More/, 'expires, add_header: not stored');
$r = $h->get('/expires/');
is($r->header('X-More'), 'yes', 'add_header: in a hit');
like($r->header('Cache-Control'), qr/3600/, 'expires: in a hit');


# parts of it, and conditions

$r = $h->get('/headers', headers => { 'If-None-Match' => '"x", W/"abc"' });
is($r->status(), 304, 'If-None-Match: 304');
$r = $h->get('/headers', headers => { 'If-None-Match' => '"x"' });
is(status($r), '200 HIT', 'If-None-Match: another');
$r = $h->get('/headers', headers => { 'If-Modified-Since' => $modified });
is($r->status(), 304, 'If-Modified-Since: 304');
$r = $h->get('/headers', headers => { 'If-Match' => '"x"' });
is(status($r), '200 HIT', 'If-Match: for the origin alone');

$r = $h->get('/headers', headers => { Range => 'bytes=2-4' });
is($r->status() . $r->body(), '206234', 'range');
is($r->header('Content-Range'), 'bytes 2-4/10', 'range: Content-Range');
$r = $h->get('/headers', headers => { Range => 'bytes=-3' });
is($r->status() . $r->body(), '206789', 'range: suffix');
$r = $h->get('/headers', headers => { Range => 'bytes=0-0,9-9' });
like($r->body(), qr{0-0/10\r\n\r\n0\r\n.*9-9/10\r\n\r\n9\r\n}s, 'range: two');
$r = $h->get('/headers', headers => { Range => 'bytes=99-' });
is($r->status() . $r->body(), '416page of 416', 'range: its error page');
$r = $h->get('/headers', headers => { Range => 'bytes=0-1',
    'If-Range' => '"x"' });
is($r->status(), 200, 'range: If-Range');
is($o->count('/headers'), 1, 'all from one answer');

$r = $h->get('/part', headers => { Range => 'bytes=0-1' });
like($r->status(), qr/^20[06]$/, 'range: a miss');
is(page_decode(page_wait($m, key('/part')))->{body}, "answer "
    . ($o->requests('/part'))[0]{n} . " of /part\n", 'range: filled whole');
ok(!defined(($o->requests('/part'))[0]{headers}{range}),
    'range: the origin was asked for all');


# HEAD

$r = http_head($h->port(), '/headers');
is(status($r), '200 HIT', 'HEAD: hit');
is(lines($r), lines($h->get('/headers')), 'HEAD: headers of GET');

$r = http_head($h->port(), '/head');
is(status($r), '200 MISS', 'HEAD: miss');
ok(!grep({ /head$/ } $m->keys()), 'HEAD: does not fill');
is(status($h->get('/head')), '200 MISS', 'HEAD: nor for GET');

page_wait($m, key('/head'));
$r = http_post($h->port(), '/head', 'body');
is(status($r), '200 none', 'POST: not asked');
is(status($h->get('/head')), '200 MISS', 'POST: takes the page away');


# expired

page_expire($m, key('/a'), 1000);
$o->hold_path('/a');

$r = $h->get('/a');
is(status($r), '200 STALE', 'stale: who has it refreshed');
like($r->body(), qr/^answer 1 /, 'stale: old body');
$o->wait_requests(2, '/a');
$r = $h->get('/a');
is(status($r), '200 UPDATING', 'updating');
is(status(http_head($h->port(), '/a')), '200 UPDATING', 'updating: HEAD');
$o->release('/a');
ok(wait_for(sub { $h->get('/a')->header('X-Cache') eq 'HIT' }), 'updated');
isnt($h->get('/a')->body(), $r->body(), 'updated: new body');

for my $c (['/late/', 1000], ['/grace/', 11000], ['/strict', 1000],
    ['/b', 61000])
{
    my ($uri, $ms) = @$c;

    $h->get($uri);
    page_expire($m, key($uri), $ms);
    $o->mark();
    is(status($h->get($uri)), '200 EXPIRED', "expired: $uri");
    is($o->count($uri), 1, "expired: $uri was asked for");
}

page_expire($m, key('/grace/'), 9000);
is(status($h->get('/grace/')), '200 STALE', 'grace: not yet');
page_expire($m, key('/late/'), 1000, swr => 5);
is(status($h->get('/late/')), '200 STALE', 'stale-while-revalidate: in time');
page_expire($m, key('/b'), 6000, swr => 5);
is(status($h->get('/b')), '200 EXPIRED', 'stale-while-revalidate: over');


# past the cache

$first = $h->get('/by');
page_wait($m, key('/by'));
$r = $h->get('/by', headers => { Cookie => 'x' });
is(status($r), '200 HIT', 'bypass: not without its variable');
$r = $h->get('/by?bypass=1');
is(status($r), '200 BYPASS', 'bypass');
is(page_decode(page_wait($m, key('/by?bypass=1')))->{body}, $r->body(),
    'bypass: stored');
is(status($h->get('/by?bypass=1')), '200 BYPASS', 'bypass: never served');
is(status($h->get('/nc?nocache=1')), '200 MISS', 'no_cache');
is(status($h->get('/nc?nocache=1')), '200 MISS', 'no_cache: each time');
is($m->get(key('/nc?nocache=1')), undef, 'no_cache: nothing is stored');

$first = $h->get('/own/1?id=7');
page_wait($m, 'page:7');
is($h->get('/own/2?id=7')->body(), $first->body(), 'a key of its own');
is(status($h->get('/own/2')), '200 MISS', 'a key of its own: another');

$t->done();
