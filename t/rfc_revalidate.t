#!/usr/bin/perl

# Copyright (C) mcds authors

# RFC 9111, 4.3: an expired page that has a validator is asked for with it; a
# 304 renews the stored page and its headers, and whoever asked gets the page.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

# answers 304 to the ETag "1" or to its date, with what /path's headers say

my $date = 'Mon, 28 Sep 1970 06:00:00 GMT';
my $large = join '', map { sprintf "%07d\n", $_ } 1 .. 300000;

my %first = (
    both => [ETag => '"1"', 'Last-Modified' => $date],
    weak => [ETag => 'W/"1"'],
    date => ['Last-Modified' => $date],
    none => [],
);

my $validators = sub {
    my ($q) = @_;

    my ($kind) = $q->{path} =~ m{^/\w+/(\w+)};
    my $same = ($q->{headers}{'if-none-match'} // '') =~ /"1"/
        || ($q->{headers}{'if-modified-since'} // '') eq $date;

    return ($same, @{$first{$kind} // $first{both}});
};

my %renewed = (
    new => ['Cache-Control' => 'max-age=100', 'X-New' => 2],
    quiet => [],
    nostore => ['Cache-Control' => 'no-store'],
    cookie => ['Set-Cookie' => 'a=b', 'Cache-Control' => 'max-age=100'],
    words => ['Cache-Control' => 'proxy-revalidate'],
    strong => [ETag => '"1"', 'Cache-Control' => 'max-age=100'],
    other => [ETag => '"2"', 'Cache-Control' => 'max-age=100'],
    coded => ['Content-Encoding' => 'gzip', 'Content-Length' => 7,
        'Cache-Control' => 'max-age=100', 'Content-Digest' => 'sha-256=:new:',
        'Content-MD5' => 'new'],
);

my $answer = sub {
    my ($o, $q) = @_;

    my ($same, @h) = $validators->($q);
    my ($how) = $q->{path} =~ /(\w+)$/;

    @h = () if $how =~ /^(?:other|strong)$/ && $same;

    push @h, @{$renewed{$how} // $renewed{new}}
        if $same && $how ne 'changed';

    return { status => 304, headers => \@h } if $same && $how ne 'changed';

    my $control = $q->{path} =~ /must/ ? 'max-age=60, must-revalidate'
        : 'max-age=60';

    return {
        headers => [@h, 'Cache-Control' => $control, 'X-New' => 1,
            'X-Old' => 1, $how eq 'coded' ? ('Content-Digest' =>
            'sha-256=:old:') : ()],
        body => $q->{path} =~ /large/ ? $large : "page $q->{path}, %k\n" =~
            s/%k/$q->{k}/r,
    };
};

my $o = $t->origin('o', $answer);
my $f = $t->origin('f', $answer, fastcgi => 1);

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Age $mcds_cache_age always;
    mcds_cache on;
    mcds_cache_revalidate on;
    mcds_cache_background_update off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /behind/ {
            mcds_cache_background_update 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off/ {
            mcds_cache_revalidate off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /alone/ {
            mcds_cache_lock off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /unbuffered/ {
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /strict/ {
            mcds_cache_use_stale off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fcgi/ {
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_pass 127.0.0.1:%%PORT_f%%;
        }
        location /ssi/ {
            ssi on;
            ssi_types text/plain;
            mcds_cache off;
            return 200 '<!--# include virtual="/fill/both/new?ssi" -->.';
        }
    }
}
EOT

# fills, makes it expire, asks again

sub expired {
    my ($uri, $ms, @o) = @_;

    my $r = $a->get($uri);
    is($r->header('X-Cache'), 'MISS', "$uri: filled");

    page_expire($m, key($uri), $ms // 100_000);

    return $a->get($uri, @o);
}

sub last_request {
    my ($origin, $path) = @_;
    my @all = $origin->requests($path);
    return $all[-1];
}

for my $c (['/fill/both/new', $o], ['/fill/weak/new', $o],
    ['/fill/date/new', $o], ['/unbuffered/both/new', $o],
    ['/alone/both/new', $o], ['/fcgi/both/new', $f],
    ['/must/both/new', $o])
{
    my ($uri, $origin) = @$c;

    my $r = expired($uri);
    my $q = last_request($origin, $uri);

    is($r->header('X-Cache'), 'REVALIDATED', "$uri: renewed");
    is($r->status, 200, "$uri: the client has asked for no 304");
    is($r->body, "page $uri, 1\n", "$uri: the stored body");
    is($r->header('X-New'), 2, "$uri: a header is replaced");
    is($r->header('X-Old'), 1, "$uri: another is kept");
    is($r->header('Cache-Control'), 'max-age=100', "$uri: its lifetime, too");
    is($r->header('Age'), 0, "$uri: its age begins again");
    is($r->header('Content-Length'), length $r->body, "$uri: its length");

    is($q->{headers}{'if-none-match'}, $uri =~ /date/ ? undef
        : $uri =~ /weak/ ? 'W/"1"' : '"1"', "$uri: If-None-Match");
    is($q->{headers}{'if-modified-since'}, $uri =~ /weak/ ? undef : $date,
        "$uri: If-Modified-Since");

    my $e = refresh_wait($m, key($uri));
    cmp_ok(abs($e->{expire} / 1000 - time() - 100), '<', 5 * $t->slow(),
        "$uri: stored with its new lifetime");
    is($e->{body}, "page $uri, 1\n", "$uri: and its body");

    $r = $a->get($uri);
    is($r->header('X-Cache'), 'HIT', "$uri: and used");
    is($r->header('X-New'), 2, "$uri: with its new headers");
    is($origin->count($uri), 2, "$uri: two origin requests");
}

# behind an old page

my $r = expired('/behind/both/new', 1000);
is($r->header('X-Cache'), 'STALE', 'refresh: the old page at once');
my $e = refresh_wait($m, key('/behind/both/new'));
like($e->{headers}, qr/X-New: 2/, 'refresh: renewed');
is($e->{body}, "page /behind/both/new, 1\n", 'refresh: with the old body');
is(last_request($o, '/behind/both/new')->{headers}{'if-none-match'}, '"1"',
    'refresh: asked with a validator');

# what a 304 does not say stays as it was

$r = expired('/fill/both/quiet');
is($r->header('X-Cache'), 'REVALIDATED', 'a 304 without a lifetime');
is($r->header('Cache-Control'), 'max-age=60', 'the old one again');
$e = refresh_wait($m, key('/fill/both/quiet'));
cmp_ok(abs($e->{expire} / 1000 - time() - 60), '<', 5 * $t->slow(),
    'counted from now');

$r = expired('/fill/both/coded');
is($r->header('X-Cache'), 'REVALIDATED', 'a 304 with headers of a body');
is($r->header('Content-Encoding'), undef, 'which are not those of the page');
is($r->header('Content-Length'), length $r->body, 'nor its length');
is($r->header('Content-Digest'), 'sha-256=:old:', 'nor its digest');
is($r->header('Content-MD5'), undef, 'which the page need not have');

# a page that has changed

$r = expired('/fill/both/changed');
is($r->header('X-Cache'), 'EXPIRED', 'changed: from the origin');
is($r->body, "page /fill/both/changed, 2\n", 'changed: the new page');
is(last_request($o, '/fill/both/changed')->{headers}{'if-none-match'}, '"1"',
    'changed: was asked for with a validator');
refresh_wait($m, key('/fill/both/changed'));
is($a->get('/fill/both/changed')->body, "page /fill/both/changed, 2\n",
    'changed: and stored');

# nothing to ask with, or not allowed to

for my $uri ('/fill/none/new', '/off/both/new') {
    $r = expired($uri);
    is($r->header('X-Cache'), 'EXPIRED', "$uri: built anew");
    is(last_request($o, $uri)->{headers}{"if-$_"}, undef, "$uri: no If-$_")
        for 'none-match', 'modified-since';
}

# the answer that says that it may not be kept

$r = expired('/fill/both/nostore');
is($r->body, "page /fill/both/nostore, 1\n", 'no-store: the client gets it');
ok(wait_for(sub {
    $e = page_decode($m->get(key('/fill/both/nostore')));
    $e && $e->{kind} != 0;
}, 5), 'no-store: it is no page any more');

$r = expired('/fill/both/cookie');
is($r->body, "page /fill/both/cookie, 1\n", 'cookie: the client gets it');
is($r->header('Set-Cookie'), 'a=b', 'cookie: with the cookie');
unlike($m->get(key('/fill/both/cookie')), qr/a=b/, 'cookie: nobody else');
refresh_wait($m, key('/fill/both/cookie'));
is($a->get('/fill/both/cookie')->header('X-Cache'), 'HIT',
    'cookie: and the page is renewed');

# what it says without a lifetime

expired('/fill/both/words');
ok(wait_for(sub {
    $e = page_decode($m->get(key('/fill/both/words')));
    $e && $e->{flags} & 2 && $e->{expire} > time() * 1000;
}, 5), 'proxy-revalidate: as long as before, and then not');

# a strong ETag is not that of a page that has a weak one

$r = expired('/fill/weak/strong');
is($r->header('X-Cache'), 'EXPIRED', 'a strong ETag for a weak one: no');

# not the page that was asked for: see revalidate_other.t

$r = expired('/fill/both/other');
is($r->header('X-Cache'), 'EXPIRED', 'another ETag: a new page');
is($r->body, "page /fill/both/other, 3\n", 'another ETag: asked for once more');
unlike($m->get(key('/fill/both/other')), qr/"2"/, 'another ETag: not stored');

# who asks under a condition of his own

$r = expired('/fill/both/new?c', undef,
    headers => { 'If-None-Match' => '"1"' });
is($r->status, 304, 'condition: is met by the renewed page');
is($o->count('/fill/both/new?c'), 2, 'condition: asked once');
$r = expired('/fill/both/new?d', undef, headers => { Range => 'bytes=0-3' });
is($r->status, 206, 'range: of the renewed page');
is($r->body, 'page', 'range: these bytes');

# a page within a page

my $part = $a->get('/fill/both/new?ssi')->body;
page_expire($m, key('/fill/both/new?ssi'), 100_000);
is($a->get('/ssi/')->body, "$part.", 'in a subrequest');
$e = refresh_wait($m, key('/fill/both/new?ssi'));
like($e->{headers}, qr/X-New: 2/, 'which renews it');

# those who wait get it

$o->hold_path('/fill/both/new');
$o->release('/fill/both/new');
$a->get('/fill/both/new?w');
page_expire($m, key('/fill/both/new?w'), 100_000);
$o->hold_path('/fill/both/new');
my @wait = map { start_get($a->port, '/fill/both/new?w') } 1 .. 10;
$o->wait_requests(2, '/fill/both/new?w');
wait_for(sub { $o->held('/fill/both/new') });
$o->release('/fill/both/new');
my %seen;
$seen{finish($_)->header('X-Cache')}++ for @wait;
is($seen{REVALIDATED}, 1, 'a herd: one has asked');
is($seen{HIT}, 9, 'a herd: the others have waited for it');
is($o->count('/fill/both/new?w'), 2, 'a herd: one request');

# a page in parts: its head is renewed, its parts stay

if ($t->has('mcds large')) {
    my $before = $a->get('/large/both/new')->body;
    is(length $before, length $large, 'large: filled');
    page_expire($m, key('/large/both/new'), 100_000);
    $e = page_decode($m->get(key('/large/both/new')));
    cmp_ok($e->{parts}, '>', 1, 'large: in parts');
    $r = $a->get('/large/both/new');
    ok($r->body eq $large, 'large: the same body');
    is($r->header('X-New'), 2, 'large: with its new headers');
    my $now = refresh_wait($m, key('/large/both/new'));
    is($now->{generation}, $e->{generation}, 'large: of the same generation');
    cmp_ok($now->{expire}, '>', time() * 1000, 'large: which is fresh again');
    is($o->count('/large/both/new'), 2, 'large: one request for that');
    ok($a->get('/large/both/new')->body eq $large, 'large: still whole');
}

$t->done();
