#!/usr/bin/perl

# Copyright (C) mcds authors

# Headers that ask for a part of a page, for a condition or for something of
# the connection do not reach the origin when the answer is to be stored, be
# it a fill or a refresh; all others do, in order and byte by byte.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        body    => "answer $req->{n}\n$req->{method} $req->{uri}\n"
            . "$req->{head}\n[$req->{body}]\n",
    };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    map $http_range $range { default "part $http_range"; "" whole; }
    map $http_x_kept $kept { default "kept $http_x_kept"; "" lost; }

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache           on;
        mcds_cache_key       $request_uri;
        mcds_cache_bypass    $arg_bypass;
        add_header           X-Cache $mcds_cache_status always;
        proxy_http_version   1.1;
        proxy_set_header     Connection "";
        proxy_set_header     X-Gone "$http_range|$http_if_none_match|$http_te";
        proxy_set_header     X-Vars "$http_upgrade|$http_x_kept|$http_cookie";
        proxy_set_header     X-Map "$range $kept $request_method";

        # read before the headers are taken away, too
        set $early "$http_te $http_upgrade $http_range $request_method";

        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }

        # the origin is told whatever the variables hold
        location /told/ {
            proxy_set_header Range         $http_range;
            proxy_set_header If-None-Match $http_if_none_match;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
        }
        location /off/ {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @dropped = (
    'TE' => 'trailers', 'Upgrade' => 'h2c', 'HTTP2-Settings' => 'AAMAAA',
    'Keep-Alive' => 'timeout=5', 'Proxy-Connection' => 'keep-alive',
    'Trailer' => 'X-End',
    'Connection' => 'X-Named, TE, Upgrade, HTTP2-Settings',
);
my @conditions = (
    'Range' => 'bytes=0-4', 'If-Range' => '"x"', 'If-Match' => '"x"',
    'If-None-Match' => 'W/"x"', 'If-Modified-Since' =>
        'Sun, 06 Nov 1994 08:49:37 GMT', 'If-Unmodified-Since' =>
        'Sun, 06 Nov 2050 08:49:37 GMT', 'IF-NEWER' => '1',
);
my @expect = ('Expect' => '100-continue');
my @kept = (
    'X-Kept' => '1', 'Cookie' => 'a=1; b=2', 'X-Named' => 'n',
    'x-Kept2' => "\xe4", 'Cookie' => 'c=3', 'X-Forwarded-For' => '9.9.9.9',
    'Accept' => '*/*',
    'X-Forwarded-For' => '8.8.8.8', 'X-Empty' => '', 'Accept-Encoding' => 'br',
    'Terms' => '1', 'Ranges' => '2', 'Iffy' => '3', 'Upgrade-Insecure-Requests'
        => '1', 'Expectation' => '4', 'Cache-Control' => 'no-cache',
    'Pragma' => 'no-cache', 'Referer' => 'http://e/', 'Content-Type' => 'a/b',
);


# the lines that the origin got, but for those that proxy makes

sub lines {
    return grep { !/^(?:Host|X-Gone|X-Vars|X-Map): /i }
        split /\r\n/, shift->{head};
}


sub pairs {
    my @lines;
    push @lines, shift(@_) . ': ' . shift @_ while @_;
    return @lines;
}


# one of each list in turns; the order of each stays

sub mixed {
    my @mixed;
    my @lists = map { [@$_] } @_;

    while (grep { @$_ } @lists) {
        push @mixed, map { splice @$_, 0, 2 } grep { @$_ } @lists;
    }

    return \@mixed;
}


sub is_kept {
    my ($req, $name) = @_;

    is(join("\n", lines($req)), join("\n", pairs(@kept)), "$name: lines");
    is($req->{method}, 'GET', "$name: GET");
    is($req->{body}, '', "$name: no body");
    is($req->{headers}{'x-gone'}, '||', "$name: their variables");
    is($req->{headers}{'x-vars'}, '|1|a=1; b=2; c=3', "$name: variables");
    is($req->{headers}{'x-map'}, 'whole kept 1 GET', "$name: map");
}


# past the cache all of it is passed on as ever

my $r = $h->get('/off/', headers => mixed(\@kept, \@conditions));
my ($req) = $o->requests('/off/');
is(join("\n", lines($req)), join("\n", pairs(@{mixed(\@kept, \@conditions)})),
    'off: as it came');


# fills

for my $case (['/fill/1', \@dropped], ['/fill/2', \@expect],
    ['/fill/3', \@conditions], ['/fill/4', \@conditions, \@dropped])
{
    my ($uri, @lists) = @$case;

    $h->get($uri, headers => mixed(\@kept, @lists));
    ok(page_wait($m, $uri), "$uri: stored");
    is($o->count($uri), 1, "$uri: asked once");
    is_kept($_, "fill $uri") for $o->requests($uri);
}


# what may be stored though it was not asked for in the cache, but for parts

$h->get('/by/1?bypass=1', headers => mixed(\@kept, \@dropped, \@expect));
ok(page_wait($m, '/by/1?bypass=1'), 'past the cache: stored');
is_kept($_, 'past the cache') for $o->requests('/by/1');

$h->get('/by/2?bypass=1', headers => mixed(\@kept, \@conditions));
is(join("\n", lines($o->requests('/by/2'))),
    join("\n", pairs(@{mixed(\@kept, \@conditions)})),
    'past the cache, conditions: as it came');
ok(!defined $m->get('<>/by/2?bypass=1'),
    'past the cache, conditions: not stored');


# refreshes: who has part of a page or a condition gets the old page's answer,
# and then another one looks at that page before the new one is there

sub held {
    my ($uri, @more) = @_;

    return sub {
        my ($second) = @_;

        return $h->get($uri, headers => \@kept) if !$second;

        $o->hold_path($uri);
        my $r = http_request($h->port(), $uri, @more);
        is($r->header('X-Cache'), 'STALE', "$uri: has it refreshed");

        my $old = $h->get($uri, headers => \@kept);
        is($old->header('X-Cache'), 'UPDATING', "$uri: under way");
        $old->{headers}{'x-cache'} = 'STALE';

        return $old;
    }, behind => sub {
        ok($o->wait_requests(2, $uri), "$uri: the origin is asked");
        $o->release($uri);
    };
}

my $n = 0;

for my $lists ([\@dropped], [\@expect], [\@conditions],
    [\@conditions, \@dropped, \@expect])
{
    my $uri = '/refresh/' . ++$n;

    refresh_same($t, $m, $uri, $uri,
        held($uri, headers => mixed(\@kept, @$lists)));
    is($o->count($uri), 2, "$uri: asked twice");
    is_kept($_, $uri) for $o->requests($uri);
}


# variables and parsed headers, as what is told by proxy_set_header

refresh_same($t, $m, '/told/1', '/told/1', sub {
    $h->get('/told/1', headers => [@kept, @dropped]);
});
($req) = ($o->requests('/told/1'))[-1];
is($req->{headers}{'x-forwarded-for'}, '9.9.9.9, 8.8.8.8, 127.0.0.1',
    'told: X-Forwarded-For');
ok(!exists $req->{headers}{range}, 'told: no Range');

$h->get('/told/2', headers => [@kept, @conditions]);
ok(page_wait($m, '/told/2'), 'told: filled by a request with conditions');
($req) = $o->requests('/told/2');
ok(!exists $req->{headers}{$_}, "told: no $_") for 'range', 'if-none-match';


# HEAD: fills nothing, and has the page refreshed by GET

is(http_head($h->port(), '/head')->status(), 200, 'HEAD: past the cache');
is(($o->requests('/head'))[0]{method}, 'HEAD', 'HEAD: as it came');
ok(!defined $m->get('<>/head'), 'HEAD: nothing is stored');

refresh_same($t, $m, '/refresh/head', 'HEAD',
    held('/refresh/head', method => 'HEAD', headers => \@kept));
is(join(' ', map { $_->{method} } $o->requests('/refresh/head')), 'GET GET',
    'HEAD: refreshed by GET');
is_kept($_, 'HEAD') for $o->requests('/refresh/head');


# a body: such a request is not looked for in the cache, nor is its answer put
# there

for my $method ('GET', 'POST') {
    $r = $h->get("/body/$method", method => $method, body => 'abc');
    ($req) = $o->requests("/body/$method");
    is("$req->{method} $req->{body}", "$method abc", "$method: body passed");
    ok(!defined $r->header('X-Cache'), "$method: the cache was not asked");
    $r = http_request($h->port(), "/body/$method", method => $method,
        body => "3\r\nabc\r\n0\r\n\r\n", headers =>
            ['Transfer-Encoding' => 'chunked', 'Content-Length' => []]);
    is($o->count("/body/$method"), 2, "$method: chunked: passed");
    ok(!defined $r->header('X-Cache'), "$method: chunked: not asked");

    # a POST leaves a mark where it has taken a page away

    isnt((page_decode($m->get("<>/body/$method")) // { kind => -1 })->{kind}, 0,
        "$method: nothing is stored");
}

$h->get('/body/GET');
page_wait($m, '/body/GET');
page_expire($m, '/body/GET', 1000);
$o->mark();
$r = $h->get('/body/GET', method => 'GET', body => 'abc');
is($o->count(), 1, 'GET with a body: no refresh of an expired page');
is(($o->requests())[0]{body}, 'abc', 'GET with a body: its own answer');

$t->done();
