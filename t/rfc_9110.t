#!/usr/bin/perl

# Copyright (C) mcds authors

# What other RFCs than 9111 demand of a shared cache, as rfc_9111.t has it:
# 9110 (HTTP), 6265 (cookies), 5861 (stale pages), 9211 (Cache-Status), 9213
# (CDN-Cache-Control), and what nginx itself understands.  What is not there:
# Via, which gateways may leave out, and 1xx, which nginx does not pass on.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clauses;

my $t = Test::Mcds->new();

my $now = int time();
my $past = http_date($now - 3600);

sub cc { map { ('Cache-Control' => $_) } @_ }

# the same time as RFC 850 and asctime() wrote it

my $later = http_date($now + 3600);
my ($wday, $day, $mon, $year, $clock) = $later
    =~ /^(\w+), (\d+) (\w+) (\d+) ([\d:]+)/;
my %wday = map { substr($_, 0, 3) => $_ } qw/ Sunday Monday Tuesday Wednesday
    Thursday Friday Saturday /;
my %dates = (
    'RFC 850' => sprintf('%s, %s-%s-%02d %s GMT', $wday{$wday}, $day, $mon,
        $year % 100, $clock),
    asctime => sprintf('%s %s %2d %s %s', $wday, $mon, $day, $clock, $year),
);

my ($yes, $no) = (1, 0);
my @fresh = cc 'max-age=60';

my @rows = (

    # 9110

    (map { my $date = $dates{$_}; ['9110, 5.6.7', "dates as of $_", $yes,
        [Expires => $date], check => sub {
            is($_[3]{expire} + $_[3]{took}, ($now + 3600) * 1000,
                'it ends then');
        }] } sort keys %dates),

    ['9110, 6.6.1', 'Date is the origin\'s', $yes, [@fresh, Date => $past],
        check => sub { is($_[0]->header('Date'), $past, 'Date') }],
    ['9110, 6.6.1', 'or the time of the answer', $yes, [@fresh],
        check => sub {
            like($_[0]->header('Date'), qr/^\w{3}, .* GMT$/, 'Date');
            is(scalar(() = $_[0]->all('Date')), 1, 'once');
        }],

    ['9110, 7.6.1', 'headers of the connection are not stored', $yes,
        [@fresh, map { ($_ => 'x') } 'Keep-Alive', 'Proxy-Connection', 'TE',
            'Trailer', 'Upgrade'], check => sub {
            is($_[0]->header($_), undef, "no $_") for 'Keep-Alive',
                'Proxy-Connection', 'TE', 'Trailer', 'Upgrade';
        }],
    ['9110, 7.6.1', 'nor sent to the origin', by => 'refresh_headers'],

    (map { my $tag = $_; ['9110, 8.8.3', "an ETag as it is: $tag", $yes,
        [@fresh, ETag => $tag], check => sub {
            is($_[0]->header('ETag'), $tag, 'ETag');
        }] } '"1"', 'W/"1"', '""'),
    ['9110, 8.6', 'Content-Length is that of the body', $yes, [@fresh],
        answer => { chunked => 1, parts => ['row', ['s', 0.01]] },
        check => sub {
            is($_[0]->header('Content-Length'), 4, 'Content-Length');
            is($_[0]->header('Transfer-Encoding'), undef, 'not chunked');
        }],

    ['9110, 9.3.1', 'a GET with a body is not for others',
        by => 'cache_reason', has => "['body', undef, { method => 'GET'"],
    ['9110, 9.3.2', 'HEAD from the stored page', $yes, [@fresh, 'X-A' => 1],
        check => sub {
            my ($second, $ask) = @_;
            my $r = $ask->{head}->();
            is($r->body, '', 'no body');
            is($r->header($_), $second->header($_), $_)
                for 'X-A', 'Content-Length', 'Cache-Control', 'X-Cache';
        }],

    ['9110, 12.5.3', 'a coding that the client accepts',
        by => 'cache_vary_codings'],

    (map { ['9110, 13.1', "$_, as a gateway has it", by => 'safety_ranges',
        has => "'$_'"] } 'If-None-Match', 'If-Modified-Since', 'If-Range'),
    (map { ['9110, 13.2.2', "$_, of a gateway alone", by => 'safety_ranges',
        has => "'$_'"] } 'If-Match', 'If-Unmodified-Since'),
    ['9110, 13.1.5', 'If-Range with a date', $yes,
        [@fresh, 'Last-Modified' => $past], check => sub {
            my $get = $_[1]{get};
            is($get->('', Range => 'bytes=0-2', 'If-Range' => $past)->status,
                206, 'same');
            is($get->('', Range => 'bytes=0-2',
                'If-Range' => http_date($now))->status, 200, 'another');
        }],
    ['9110, 13.1.5', 'If-Range with a weak ETag', $yes,
        [@fresh, ETag => 'W/"1"'], check => sub {
            is($_[1]{get}->('', Range => 'bytes=0-2', 'If-Range' => 'W/"1"')
                ->status, 200, 'all of it');
        }],
    ['9110, 13.1.5', 'If-Range with a date that is not strong', $yes,
        [@fresh, 'Last-Modified' => $past, Date => $past], check => sub {
            is($_[1]{get}->('', Range => 'bytes=0-2', 'If-Range' => $past)
                ->status, 200, 'all of it');
        }],
    ['9110, 13.2.1', 'conditions are for 200 alone', $yes,
        [@fresh, ETag => '"1"', 'Last-Modified' => $past], status => 404,
        check => sub {
            my $get = $_[1]{get};
            is($get->('', 'If-None-Match' => '"1"')->status, 404, 'ETag');
            is($get->('', 'If-Modified-Since' => $past)->status, 404, 'date');
            is($get->('', Range => 'bytes=0-2')->status, 404, 'range');
        }],

    ['9110, 14.2', 'ranges of the stored page', $yes, [@fresh],
        check => sub {
            my $r = $_[1]{get}->('', Range => 'bytes=0-2');
            is($r->body, 'row', 'range');
            is($r->header('Content-Range'), 'bytes 0-2/'
                . length $_[0]->body, 'Content-Range');
        }],
    ['9110, 14.2', 'a unit that is not known: no range', $yes, [@fresh],
        check => sub {
            is($_[1]{get}->('', Range => 'rows=0-2')->status, 200, 'all of it');
        }],
    ['9110, 14.2', 'of GET alone', $yes, [@fresh], check => sub {
            my $r = $_[1]{post}->('', Range => 'bytes=0-2');
            is($r->status, 200, 'of POST it is the origin\'s');
        }],
    ['9110, 14.3', 'Accept-Ranges', $yes, [@fresh], check => sub {
            is($_[0]->header('Accept-Ranges'), 'bytes', 'bytes');
        }],
    ['9110, 14.6', 'several ranges', by => 'safety_ranges',
        has => "'0-1,3-4'"],

    ['9110, 15.1', 'errors are not stored', $no, [@fresh], status => 500],
    (map { my ($status, @request) = @$_;
        ["9110, 15.$_->[0]", 'has what the page has', $yes, [cc('max-age=60'),
            ETag => '"1"', Expires => $later, Vary => 'X-None',
            'Content-Location' => '/there', Date => $past], at => '/vary',
        check => sub {
            my $r = $_[1]{get}->('', @request);
            is($r->status, $status, "status $status");
            is($r->header($_), $_[0]->header($_), "$status: $_")
                for 'Cache-Control', 'Content-Location', 'Date', 'ETag',
                    'Expires', 'Vary';
            is($r->body, '', 'no body') if $status == 304;
        }] } [304, 'If-None-Match' => '"1"'], [206, Range => 'bytes=0-2']),
    ['9110, 15.5.17', '416', $yes, [@fresh], check => sub {
            is($_[1]{get}->('', Range => 'bytes=999-')->status, 416, 'status');
        }],

    # 6265, 5861

    ['6265, 3', 'Set-Cookie is not stored', $no,
        [@fresh, 'Set-Cookie' => 'a=b']],

    ['5861, 3', 'stale-while-revalidate', $yes,
        [cc 'max-age=60, stale-while-revalidate=77'],
        check => sub { is($_[3]{swr}, 77, 'is kept') }],
    ['5861, 3', 'within it: at once', by => 'cache_basic',
        has => 'stale-while-revalidate: in time'],
    ['5861, 3', 'after it: not', by => 'cache_basic',
        has => 'stale-while-revalidate: over'],
    ['5861, 4', 'stale-if-error', by => 'rfc_stale_error', has => '/x/sie/'],
    (map { ['5861, 4', "errors are $_", by => 'rfc_stale_error',
        has => 'for 500, 502, 503, 504'] } 500, 502, 503, 504),
    ['5861, 4', 'after it: not', by => 'rfc_stale_error',
        has => "is_error('/x/sie/503', 503, 700_000)"],

    # 9211

    (map { ['9211, 2', "Cache-Status: $_", by => 'cache_reason', has => $_] }
        'hit; ttl', 'fwd=uri-miss', 'fwd=vary-miss', 'fwd=stale', 'fwd=bypass',
        'fwd=method', 'fwd=request', 'fwd-status=200', 'stored',
        'collapsed', 'detail=', 'a chain of caches'),

    # 9213; 8941 for its syntax

    ['9213, 2.1', 'CDN-Cache-Control before Cache-Control', $yes,
        [cc('max-age=10'), 'CDN-Cache-Control' => 'max-age=90'], life => 90],
    ['9213, 2.1', 'also if that forbids', $yes,
        [cc('no-store'), 'CDN-Cache-Control' => 'max-age=90'], life => 90],
    ['9213, 2.1', 'and before Expires', $yes, [Expires => $past,
        'CDN-Cache-Control' => 'max-age=90'], life => 90],
    ['9213, 2.1', 'or it forbids', $no,
        [@fresh, 'CDN-Cache-Control' => 'no-store']],
    ['9213, 2.1', 'it is passed on', $yes,
        [@fresh, 'CDN-Cache-Control' => 'max-age=90'], check => sub {
            is($_[0]->header('CDN-Cache-Control'), 'max-age=90', 'for others');
        }],
    ['9213, 2.1', 'several lines are one', $yes, [@fresh,
        'CDN-Cache-Control' => 'max-age=90', 'CDN-Cache-Control' =>
        'must-revalidate'], life => 90, check => sub {
            ok($_[3]{flags} & 2, 'must-revalidate');
        }],
    ['9213, 2.1', 'Age counts', $yes, [@fresh, Age => 20,
        'CDN-Cache-Control' => 'max-age=90'], life => 70],
    ['9213, 2.1', 'parameters are left out', $yes, [@fresh,
        'CDN-Cache-Control' => 'max-age=90;a=1;b="c,d";e, x;y'], life => 90],
    ['9213, 2.1', 'values of all kinds', $yes, [@fresh,
        'CDN-Cache-Control' => 'a="b, no-store", c=1.5, d=:YQ==:, e=(1 "f"),'
            . ' g=tok/en:*, h=?0, *i=-3, max-age=90'], life => 90],
    ['9213, 2.1', 'a directive that is false is none', $yes, [@fresh,
        'CDN-Cache-Control' => 'max-age=90, no-store=?0'], life => 90],
    ['9213, 2.1', 'and one that is true is one', $no, [@fresh,
        'CDN-Cache-Control' => 'max-age=90, no-store=?1']],
    ['8941, 3.2', 'of two the last', $yes, [@fresh,
        'CDN-Cache-Control' => 'max-age=30, max-age=90'], life => 90],
    (map { ['9213, 2.1', "unless it cannot be read: $_", $yes,
        [@fresh, 'CDN-Cache-Control' => $_], life => 60] }
        'max-age=90, ;', 'max-age=90,', ',max-age=90', 'MAX-AGE=90',
        'max-age=90 no-store', 'max-age=', 'max-age=90, a="b', 'max-age =90',
        'max-age=90, a=1.', 'max-age=90, a=(1', 'max-age=90, a=?2',
        'max-age=90, a=:?:', 'max-age=90, a=1234567890123456', '='),
    ['9213, 2.1', 'or is empty', $yes, [@fresh, 'CDN-Cache-Control' => ''],
        life => 60],
    (map { ['9213, 2.1', "a number that is none: max-age=$_", $no,
        [@fresh, 'CDN-Cache-Control' => "max-age=$_"]] }
        '"90"', '1.5', '-1', '?1', 'x'),
    ['9213, 2.1', 'Set-Cookie forbids all the same', $no,
        ['CDN-Cache-Control' => 'max-age=90', 'Set-Cookie' => 'a=b']],

    # nginx's own

    ['X-Accel-Expires', 'before all others', $yes, [cc('max-age=10'),
        'CDN-Cache-Control' => 'max-age=20', 'X-Accel-Expires' => 90],
        life => 90],
    ['X-Accel-Expires', '0: not', $no, [@fresh, 'X-Accel-Expires' => 0]],
    ['X-Accel-Expires', 'a time', $yes, ['X-Accel-Expires' => '@'
        . ($now + 1000)], check => sub {
            cmp_ok(abs($_[3]{expire} - ($now + 1000) * 1000), '<=', 1000,
                'is kept');
        }],
);

clauses($t, <<'EOT', @rows);
        location /vary/ {
            mcds_ignore_headers Vary;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
EOT

$t->done();
