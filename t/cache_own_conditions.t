#!/usr/bin/perl

# Copyright (C) mcds authors

# A response that is not stored, and is kept for the request that has had it
# built, is judged by the conditions of this request as RFC 9110 has them, not
# as nginx's filters read them.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clauses qw/ http_date /;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

my $m = $t->memcached('m');
my $body = join '', 'a' .. 'z';
my $now = int time();
my $past = http_date($now - 3600);
my $before = http_date($now - 7200);
my $after = http_date($now - 1800);
my @private = ('Cache-Control' => 'private');
my @tag = (ETag => '"1"');
my @digests = ('Content-Digest' => 'sha-256=:AAAA:', 'Content-MD5' => 'AAAA',
    'Repr-Digest' => 'sha-256=:BBBB:', Digest => 'sha-256=BBBB');
my @last = ('Last-Modified' => $past);

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($kind) = $q->{path} =~ m{^/(\w+)};

    return { headers => ['Cache-Control' => 'max-age=60'], body => $body }
        if $kind eq 'old' && $q->{k} == 1;

    return { body => $body, headers => [@private, @digests, $kind eq 'weak'
        ? (ETag => 'W/"1"') : $kind eq 'undated' ? @tag : (@tag, @last),
        $kind eq 'second' ? (Date => $past) : ()] };
});

my $h = $t->nginx('h', <<'CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_cache on;
    mcds_cache_background_update off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
CONF

# each request has a page of its own, and one request goes to the origin

my $n = 0;

sub asked {
    my ($kind, $method, @headers) = @_;

    my $uri = "/$kind/" . ++$n;

    if ($kind eq 'old') {
        $h->get($uri);
        page_wait($m, key($uri));
        page_expire($m, key($uri), 400_000);
    }

    $o->mark();

    my $r = $h->get($uri, method => $method, headers => \@headers);

    is($o->count($uri), 1, "$uri: one request");

    return $r;
}

my @range = (Range => 'bytes=0-3');

# [kind, method, status, headers]

my @rows = (
    ['old', 'HEAD', 200, Range => 'bytes=0-9'],
    ['old', 'HEAD', 200, Range => 'bytes=999999-'],
    ['weak', 'GET', 200, @range, 'If-Range' => 'W/"1"'],
    ['dated', 'GET', 206, @range],
    ['dated', 'GET', 416, Range => 'bytes=999999-'],
    ['dated', 'GET', 206, @range, 'If-Range' => '"1"'],
    ['dated', 'GET', 200, @range, 'If-Range' => '"2"'],
    ['dated', 'GET', 206, @range, 'If-Range' => $past],
    ['dated', 'GET', 200, @range, 'If-Range' => "$past x"],
    ['second', 'GET', 200, @range, 'If-Range' => $past],
    ['dated', 'GET', 412, 'If-Unmodified-Since' => $before],
    ['dated', 'GET', 200, 'If-Unmodified-Since' => $after],
    ['dated', 'GET', 200, 'If-Unmodified-Since' => 'lately'],
    ['dated', 'GET', 200, 'If-Unmodified-Since' => "$before x"],
    ['undated', 'GET', 200, 'If-Unmodified-Since' => $after],
    ['dated', 'GET', 200, 'If-Match' => '"1"',
        'If-Unmodified-Since' => $before],
    ['dated', 'GET', 412, 'If-Match' => '"2"',
        'If-Unmodified-Since' => $after],
    ['dated', 'GET', 304, 'If-None-Match' => '"1"',
        'If-Modified-Since' => $before],
    ['dated', 'GET', 304, 'If-None-Match' => '"1"',
        'If-Modified-Since' => 'lately'],
    ['dated', 'GET', 200, 'If-None-Match' => '"2"',
        'If-Modified-Since' => $past],
    ['dated', 'GET', 304, 'If-Modified-Since' => $past],
    ['dated', 'GET', 200, 'If-Modified-Since' => "$past x"],
);

for (@rows) {
    my ($kind, $method, $status, @headers) = @$_;
    my $name = "$kind: $method @headers" =~ s/\Q$before\E/before/r
        =~ s/\Q$past\E/same/r =~ s/\Q$after\E/after/r;
    my $r = asked($kind, $method, @headers);

    is($r->status(), $status, $name);

    if ($status == 416) {
        is($r->header($_), undef, "$name: no $_")
            for 'Content-Digest', 'Content-MD5', 'Repr-Digest', 'Digest';

    } elsif ($status == 200) {
        ok($r->header('Content-Digest'), "$name: Content-Digest")
            if $method eq 'HEAD' || !grep { $_ eq 'Range' } @headers;
        is($r->header('Content-Range'), undef, "$name: no Content-Range");
        is($r->body(), $method eq 'GET' ? $body : '', "$name: body");

    } elsif ($status == 206) {
        is($r->body(), 'abcd', "$name: the part");
        is($r->header($_), undef, "$name: no $_")
            for 'Content-Digest', 'Content-MD5';
        ok($r->header($_), "$name: $_") for 'Repr-Digest', 'Digest';
    }
}

$t->done();
