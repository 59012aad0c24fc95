#!/usr/bin/perl

# Copyright (C) mcds authors

# What RFC 9211 demands of Cache-Status, as rfc_9111.t has it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clauses;

my $t = Test::Mcds->new();

my @fresh = cc 'max-age=60';

my @statements = (
    ['2 local', 'SHOULD NOT', 'tell of what is made here, but of a page',
        deviates => 'mcds_cache_status_header off'],
    ['2 keep', 'SHOULD', 'keep what other caches have told'],
    ['2 name', 'MUST', 'have a name that is a token or a string'],
    ['2 one', 'also', 'a cache is one member of the list'],
    ['2 exclusive', 'also', 'hit, or fwd for what went to the origin'],
    ['2 parameters', 'also', 'what is told'],
    ['2.2', 'SHOULD', 'tell the most specific reason that is known'],
);

my @rows = (
    (map { ['2.2', "Cache-Status: $_", by => 'cache_reason', has => $_] }
        'fwd=uri-miss', 'fwd=vary-miss', 'fwd=stale', 'fwd=bypass',
        'fwd=method', 'fwd=request'),
    (map { ['2 parameters', "Cache-Status: $_", by => 'cache_reason',
        has => $_] } 'hit; ttl', 'fwd-status=200', 'stored', 'collapsed',
        'detail='),
    ['2 keep', 'a chain of caches', by => 'cache_reason',
        has => 'a chain of caches'],
    ['2 name', 'mcds', 1, [@fresh], at => '/status', check => sub {
            like($_->header('Cache-Status'), qr/^mcds; /, 'is a token')
                for @_[0, 2];
        }],
    (map { my ($status, @request) = @$_; ['2 one', "one member: $status", 1,
        [@fresh, ETag => '"1"'], at => '/status', check => sub {
            my $r = $_[1]{get}->('', @request);
            is($r->status, $status, 'status');
            is(scalar(() = $r->all('Cache-Status')), 1, 'once');
        }] } [304, 'If-None-Match' => '"1"'], [206, Range => 'bytes=0-2'],
        [206, Range => 'bytes=0-1,4-5']),
    ['2 one', 'one member: 416', 1, [@fresh], at => '/status', check => sub {
            my $r = $_[1]{get}->('', Range => 'bytes=999-');
            is($r->status, 416, 'status');
            is(scalar(() = $r->all('Cache-Status')), 1, 'once');
            like($r->header('Cache-Status'), qr/^mcds; hit;/, 'the page\'s');
        }],
    ['2 one', 'one member: 416 of a page that is built', 1, [@fresh],
        at => '/status', check => sub {
            my @range = (Range => 'bytes=999-');
            my $r = $_[1]{get}->('?new', @range);
            is($r->status, 416, 'status');
            is(scalar(() = $r->all('Cache-Status')), 1, 'once');
            like($_[1]{get}->('?new')->header('Cache-Status'), qr/^mcds; hit;/,
                'it is stored');
        }],
    ['2 local', '503 for those who wait in vain', by => 'cache_reason',
        has => 'mcds; detail=timeout'],
    ['2 exclusive', 'what was not forwarded has no fwd', undef, [@fresh],
        at => '/status', check => sub {
            my $r = $_[1]{get}->('/none', 'Cache-Control' => 'only-if-cached');
            is($r->status, 504, 'status');
            is($r->header('Cache-Status'), 'mcds; detail=only-if-cached',
                'Cache-Status');
        }],
);

clauses($t, \@statements, <<'EOT', @rows);
        location /status/ {
            mcds_cache_status_header on;
            mcds_cache_request_control on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
EOT

$t->done();
