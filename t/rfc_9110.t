#!/usr/bin/perl

# Copyright (C) mcds authors

# What RFC 9110 demands of a shared cache that is a gateway, as rfc_9111.t has
# it: of what it makes of messages, conditions, ranges, validators and statuses.
# What the RFC demands of origins, clients, proxies that clients choose, and
# registries is not there.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clauses;

my $t = Test::Mcds->new()->allow(qr/upstream sent invalid/);
$t->needs('mcds vary');

my $now = int time();
my $past = http_date($now - 3600);

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

my @digests = ('Content-Digest' => 'sha-256=:AAAA:', 'Content-MD5' => 'AAAA',
    'Repr-Digest' => 'sha-256=:BBBB:', Digest => 'sha-256=BBBB');
my @for_caches = map { $_ => 'max-age=60' } 'CDN-Cache-Control',
    'Surrogate-Control', 'Edge-Control', 'X-CDN-Cache-Control',
    'Cloudflare-CDN-Cache-Control';
my @digest_names = @digests[0, 2, 4, 6];

my ($yes, $no) = (1, 0);
my @fresh = cc 'max-age=60';

my @statements = (
    ['5.3 order', 'MUST NOT', 'change the order of lines of one name'],
    ['5.3 single', 'MUST NOT', 'send several lines of what is one value'],
    ['5.5 space', 'MUST', 'read values without the white space around them'],
    ['5.5 bytes', 'SHOULD', 'take bytes beyond ASCII as they are'],
    ['5.5 control', 'MUST', 'refuse or replace CR, LF and NUL in values'],
    ['5.6.1.2', 'MUST', 'ignore empty elements of lists'],
    ['5.6.4', 'MUST', 'read a quoted pair as its second character'],
    ['5.6.7 read', 'MUST', 'read the three forms of dates'],
    ['5.6.7 century', 'MUST', 'take a year of two digits as at most 50 years '
        . 'ahead'],
    ['5.6.7 write', 'MUST', 'write dates in the one form of today'],
    ['5.6.7 space', 'MUST NOT', 'write other spaces into them'],
    ['6.5.1', 'MUST NOT', 'merge trailers into headers'],
    ['6.6.1 near', 'SHOULD', 'write the time of the answer as well as known'],
    ['6.6.1 record', 'MUST', 'add a Date where there is none'],

    ['7.6 connection', 'MUST', 'keep headers of a connection to it'],
    ['7.6 loop', 'MUST NOT', 'forward a message to itself',
        not => 'where requests go is told by the configuration of nginx'],
    ['7.6.1 list', 'MUST', 'name in Connection what is for the connection',
        not => 'mcds adds no such header'],
    ['7.6.1 named', 'MUST', 'remove what Connection names',
        nginx => 'proxy_hide_header'],
    ['7.6.1 known', 'SHOULD', 'remove known headers of a connection'],
    ['7.6.1 all', 'MUST NOT', 'name in Connection what is for all',
        not => 'Connection is that of nginx: close, keep-alive or upgrade'],
    ['7.6.2 check', 'MUST', 'check and update Max-Forwards of OPTIONS',
        nginx => '-'],
    ['7.6.2 zero', 'MUST NOT', 'forward it at 0', nginx => '-'],
    ['7.6.2 answer', 'MUST', 'answer it then', nginx => '-'],
    ['7.6.2 count', 'MUST', 'count it down', nginx => '-'],
    ['7.6.3 send', 'MUST', 'send Via with requests to the origin',
        nginx => 'proxy_set_header Via'],
    ['7.6.3 hosts', 'SHOULD NOT', 'tell names of hosts behind a firewall',
        not => 'mcds writes no Via'],
    ['7.6.3 alias', 'SHOULD', 'put other names in their place',
        not => 'mcds writes no Via'],
    ['7.6.3 join', 'SHOULD NOT', 'join members of others',
        not => 'mcds writes no Via'],
    ['7.6.3 versions', 'MUST NOT', 'join members of several protocols',
        not => 'mcds writes no Via'],
    ['7.7', 'MUST NOT', 'transform what says no-transform'],

    ['8.4 tell', 'MUST', 'send Content-Encoding with what it has encoded'],
    ['8.4 identity', 'SHOULD NOT', 'name identity there'],
    ['8.4.1.1', 'SHOULD', 'take x-compress as compress'],
    ['8.4.1.3', 'SHOULD', 'take x-gzip as gzip'],
    ['8.6 head', 'MUST NOT', 'send another Content-Length for HEAD than GET'],
    ['8.6 304', 'MUST NOT', 'send another one with 304 than with 200'],
    ['8.6 204', 'MUST NOT', 'send one with 1xx or 204'],
    ['8.6 large', 'MUST', 'expect large ones'],
    ['8.6 wrong', 'MUST NOT', 'send on one that is known to be wrong'],
    ['8.6 form', 'MUST NOT', 'send on one that is no number'],
    ['8.8.3', 'also', 'entity tags are opaque'],
    ['8.8.3.3', 'also', 'what is compressed here has another strong one, or '
        . 'none'],

    ['9.2.2', 'MUST NOT', 'send requests again that are not idempotent',
        not => 'mcds sends no requests by itself but GET'],
    ['9.3.1', 'also', 'GET with a body'],
    ['9.3.2 body', 'MUST NOT', 'send a body to HEAD'],
    ['9.3.2 same', 'SHOULD', 'send the headers of GET to HEAD'],
    ['11.6.1', 'MUST NOT', 'change WWW-Authenticate'],
    ['11.6.2', 'MUST NOT', 'change Authorization'],
    ['12.5.3', 'also', 'codings that the client accepts'],
    ['12.5.5 send', 'SHOULD', 'send Vary with what is negotiated here'],
    ['12.5.5 star', 'MUST NOT', 'make a Vary with *'],
    ['12.5.5 match', 'MUST NOT', 'use it for other headers that Vary names'],

    ['13.1.2 weak', 'MUST', 'compare If-None-Match weakly'],
    ['13.1.2 false', 'MUST', 'send 304 to GET and HEAD if it is false'],
    ['13.1.2 list', 'SHOULD', 'validate with If-None-Match'],
    ['13.1.3 both', 'MUST', 'ignore If-Modified-Since by If-None-Match'],
    ['13.1.3 false', 'SHOULD', 'send 304 if it is false'],
    ['13.1.3 date', 'MUST', 'ignore it if it is not one date, or the method '
        . 'is another than GET and HEAD'],
    ['13.1.3 undated', 'MUST', 'ignore it without a Last-Modified'],
    ['13.1.3 clock', 'MUST', 'read it by the clock of the origin'],
    ['13.1.4 both', 'MUST', 'ignore If-Unmodified-Since by If-Match'],
    ['13.1.4 date', 'MUST', 'ignore it if it is not one date'],
    ['13.1.4 undated', 'MUST', 'ignore it without a Last-Modified'],
    ['13.1.4 clock', 'MUST', 'read it by the clock of the origin',
        not => 'mcds never judges it'],
    ['13.1.5 alone', 'MUST', 'ignore If-Range without Range'],
    ['13.1.5 judge', 'MUST', 'judge If-Range before the method'],
    ['13.1.5 other', 'MUST', 'ignore Range if it is false'],
    ['13.1.5 same', 'SHOULD', 'send the range if it is true'],
    ['13.1.5 range', 'MUST NOT', 'send If-Range without Range',
        not => 'mcds sends no If-Range'],
    ['13.1.5 weak', 'MUST NOT', 'send If-Range with a weak tag',
        not => 'mcds sends no If-Range'],
    ['13.1.5 date', 'MUST NOT', 'send If-Range with a weak date',
        not => 'mcds sends no If-Range'],
    ['13.2.1 judge', 'MUST', 'judge conditions before the method'],
    ['13.2.1 origin', 'also', 'what only origins judge'],
    ['13.2.1 status', 'MUST', 'ignore conditions if the status is neither '
        . '2xx nor 412'],
    ['13.2.1 pass', 'MUST NOT', 'judge conditions where it is no cache'],
    ['13.2.1 send', 'MUST', 'send these on'],
    ['13.2.1 method', 'MUST', 'ignore conditions of OPTIONS and the like'],
    ['13.2.2', 'MUST', 'judge conditions in the order of the RFC'],

    ['14.1.2', 'MUST', 'expect large numbers'],
    ['14.2 method', 'MUST', 'ignore Range for other methods than GET'],
    ['14.2 unit', 'MUST', 'ignore Range in an unknown unit'],
    ['14.2 order', 'also', 'judge the conditions before it'],
    ['14.2 part', 'SHOULD', 'send 206 with what is there'],
    ['14.2 none', 'SHOULD', 'send 416 if nothing is'],
    ['14.3', 'also', 'Accept-Ranges'],
    ['14.4 unit', 'MUST NOT', 'combine parts in an unknown unit',
        not => 'parts are neither stored nor combined'],
    ['14.4 pass', 'SHOULD', 'send such a part on'],
    ['14.4 request', 'MUST', 'ignore Content-Range of a GET'],
    ['14.4 whole', 'SHOULD', 'tell the length of the whole'],
    ['14.4 invalid', 'MUST NOT', 'combine parts of an invalid Content-Range',
        not => 'parts are neither stored nor combined'],
    ['14.4 none', 'SHOULD', 'send Content-Range with 416'],

    ['15 class', 'MUST', 'take an unknown status as x00'],
    ['15 invalid', 'SHOULD', 'take an invalid status as 5xx'],
    ['15.1', 'also', 'statuses that may be stored'],
    ['15.3.7 same', 'MUST', 'send headers that the RFC lists with 206'],
    ['15.3.7 few', 'SHOULD NOT', 'send more of them to If-Range',
        deviates => 'max_ranges 0'],
    ['15.3.7 all', 'MUST', 'send all of them without If-Range'],
    ['15.3.7.1', 'MUST', 'send Content-Range with one part'],
    ['15.3.7.2 type', 'MUST', 'send several parts as multipart/byteranges'],
    ['15.3.7.2 top', 'MUST NOT', 'send a Content-Range on top of them'],
    ['15.3.7.2 each', 'MUST', 'send one with each part'],
    ['15.3.7.2 kind', 'SHOULD', 'send Content-Type with each part'],
    ['15.3.7.2 one', 'MUST NOT', 'send multipart to one range'],
    ['15.3.7.2 order', 'SHOULD', 'send the parts in the order asked for'],
    ['15.3.7.3 headers', 'MUST', 'combine headers of parts',
        not => 'parts are neither stored nor combined'],
    ['15.3.7.3 whole', 'MUST', 'take all parts as the whole',
        not => 'parts are neither stored nor combined'],
    ['15.3.7.3 parts', 'MUST', 'take others as incomplete',
        not => 'parts are neither stored nor combined'],
    ['15.4.5 same', 'MUST', 'send headers that the RFC lists with 304'],
    ['15.4.5 few', 'SHOULD NOT', 'send more of them', deviates => '-'],
    ['15.4.5 pass', 'SHOULD', 'send a 304 on to who asked for it'],
    ['15.5.17', 'SHOULD', 'send Content-Range with 416'],
);

my @rows = (
    ['5.3 order', 'lines of one name', $yes, [@fresh, 'X-A' => 'b',
        'X-B' => 'c', 'X-A' => 'a'], check => sub {
            is_deeply([map { s/.*?: //r } $_[0]->all('X-A')], ['b', 'a'],
                'as they came');
        }],
    ['5.5 space', 'white space around a value', $yes,
        [cc "  max-age=60 \t"], life => 60],
    ['5.5 bytes', 'bytes beyond ASCII', by => 'safety_answers',
        has => "['8-bit'"],
    (map { ['5.5 control', sprintf('\\x%02x', ord), $no,
        [@fresh, 'X-A' => "a${_}b"]] } "\0", "\r"),
    ['5.6.1.2', 'empty elements: of Connection', $yes, [@fresh,
        Connection => ',, X-Hop ,', 'X-Hop' => 1],
        check => sub { is($_[0]->header('X-Hop'), undef, 'no X-Hop') }],
    ['5.6.1.2', 'empty elements: of Vary', undef, [@fresh,
        Vary => ', X-None,,'], check => sub {
            my $get = $_[1]{get};
            ok(wait_for(sub { $get->()->header('X-Cache') eq 'HIT' }), 'used');
        }],
    ['5.6.1.2', 'empty elements: of If-None-Match', by => 'safety_ranges',
        has => q{"\"a\",, $tag"}],
    (map { ['5.6.4', "a quoted pair: $_", $yes, [cc "max-age=\"$_\""],
        life => 60] } '6\\0', '\\60', '\\6\\0'),
    (map { ['5.6.4', "a quoted pair of no digit: $_", $no,
        [cc "max-age=\"$_\""]] } '6\\x', '6\\\\0', '6\\"'),
    ['5.6.4', 'a quoted pair of a quote', $yes,
        [cc 'x="\\", no-store, ", max-age=60']],
    ['5.6.7 century', '51 years ahead are 49 ago', $no, [Expires =>
        sprintf 'Sunday, 06-Nov-%02d 08:49:37 GMT', ($year + 51) % 100]],
    ['5.6.7 century', '40 years ahead are ahead', $yes, [Expires =>
        sprintf 'Sunday, 06-Nov-%02d 08:49:37 GMT', ($year + 40) % 100]],
    ['6.5.1', 'trailers', by => 'rfc_9111', has => "'trailers are no headers'"],
    ['7.6.1 named', 'of what is stored', by => 'rfc_9111',
        has => 'Connection and what it names is not'],
    ['7.7', 'not compressed', by => 'cache_compress', has => 'asked not to'],
    ['8.4 tell, 8.4 identity', 'what is compressed here',
        by => 'cache_compress', has => 'one Content-Encoding'],
    (map { ['8.4.1.1', "$_ is not stored", $no, [@fresh, Vary =>
        'Accept-Encoding', 'Content-Encoding' => $_],
        request => ['Accept-Encoding' => $_]] } 'compress', 'x-compress'),
    (map { my @accept = ('Accept-Encoding' => $_); ['8.4.1.3', "$_ is stored",
        undef, [@fresh, Vary => 'Accept-Encoding', 'Content-Encoding' => $_],
        request => [@accept], check => sub {
            my $get = $_[1]{get};
            ok(wait_for(sub { $get->('', @accept)->header('X-Cache') eq 'HIT'
                }), 'used');
        }] } 'gzip', 'x-gzip'),
    ['8.4.1.3', 'x-gzip is accepted', by => 'cache_compress',
        has => "'x-gzip'"],
    ['8.6 204', '204', undef, [@fresh], status => 204, check => sub {
            is($_->header('Content-Length'), undef, 'no Content-Length')
                for @_[0, 2];
        }],
    (map { ['8.6 large, 8.6 form', "Content-Length: $_", undef, [], answer =>
        { raw => "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
            . "Content-Length: $_\r\n\r\nrow" }, check => sub {
            like($_->header('Content-Length') // '', qr/^\d{0,3}$/,
                'is not sent on') for @_[0, 2];
        }] } '9' x 30, '18446744073709551619', '3x', '-3'),
    ['8.6 wrong', 'less than it says', by => 'safety_answers',
        has => "['less'"],
    ['11.6.1', 'WWW-Authenticate', $yes,
        [@fresh, 'WWW-Authenticate' => 'Basic realm="a"'], check => sub {
            is($_[0]->header('WWW-Authenticate'), 'Basic realm="a"',
                'as it is');
        }],
    ['11.6.2', 'Authorization', $yes, [cc 'public, max-age=60'],
        request => [Authorization => 'Basic YTpi'], check => sub {
            is($_[2]->header('X-Request'), 'authorization: Basic YTpi',
                'as it is');
        }],
    ['12.5.5 star', 'Vary is the origin\'s', $yes, [@fresh, Vary => 'X-A'],
        at => '/vary', check => sub {
            is($_[0]->header('Vary'), 'X-A', 'as it is');
        }],
    ['12.5.5 match', 'the variant', by => 'cache_vary', has => 'nine variants'],
    ['13.1.2 weak, 13.1.3 both, 13.2.2', 'by what is stored', by => 'rfc_9111',
        has => 'If-None-Match goes before it'],
    ['13.1.2 false, 13.1.3 false, 14.2 order', 'the client has the page', $yes,
        [@fresh, 'Last-Modified' => $past, ETag => '"1"'], check => sub {
            for my $method ('get', 'head') {
                for (['If-None-Match' => '"1"'], ['If-None-Match' => '*'],
                    ['If-Modified-Since' => $past])
                {
                    my $r = $_[1]{$method}->('', @$_, Range => 'bytes=0-2');
                    is($r->status, 304, "$method: @$_");
                    is($r->body, '', "$method: @$_: no body");
                }
            }
        }],
    ['8.8.3.3', 'a weak one', by => 'cache_compress',
        has => 'HIT gzip W/"e" right'],
    ['12.5.5 send', 'by what is stored compressed', by => 'cache_compress',
        has => '"Vary: $uri, $_"'],
    ['13.1.2 list', 'a validation', by => 'rfc_revalidate',
        has => '"$uri: If-None-Match"'],
    ['13.1.3 clock', 'a date of another clock', $yes, [@fresh,
        Date => http_date($now - 7200), 'Last-Modified' => $past],
        check => sub {
            is($_[1]{get}->('', 'If-Modified-Since' => $past)->status, 304,
                'is only compared');
        }],
    ['13.1.3 date', 'no date', by => 'rfc_9111', has => "=> 'lately'"],
    ['13.1.3 date', 'what is not one date', $yes,
        [@fresh, 'Last-Modified' => $past], check => sub {
            is($_[1]{get}->('', 'If-Modified-Since' => $_)->status, 200, $_)
                for "$past, $past", "$past x", $past =~ s/GMT/EST/r,
                    $past =~ s/ GMT//r;
        }],
    ['13.1.3 undated', 'no Last-Modified', by => 'rfc_9111',
        has => 'no Last-Modified: no condition'],
    ['13.1.4 both, 13.1.4 date, 13.1.4 undated', 'is not judged at all', $yes,
        [@fresh, ETag => '"1"'], check => sub {
            my @since = ('If-Unmodified-Since' => $past);
            is($_[1]{get}->('', @since)->status, 200, 'the page');
            is($_[1]{get}->('', @since, 'If-Match' => '"1"')->status, 200,
                'with If-Match');
            is($_[1]{get}->('', 'If-Unmodified-Since' => "$past, $past")
                ->status, 200, 'two dates');
        }],
    ['13.1.5 alone', 'If-Range alone', $yes, [@fresh, ETag => '"1"'],
        check => sub {
            is($_[1]{get}->('', 'If-Range' => $_)->status, 200, $_)
                for '"1"', '"2"';
        }],
    ['13.2.1 pass, 13.2.1 send, 13.2.1 method', 'other methods', $yes,
        [@fresh, ETag => '"1"'], check => sub {
            my @c = ('If-None-Match' => '"1"', Range => 'bytes=0-1');
            for my $method ('post', 'options') {
                my $r = $_[1]{$method}->('', @c);
                is($r->status, 200, "$method: not judged");
                is($r->header('X-Request'),
                    'if-none-match: "1"; range: bytes=0-1', 'but sent on');
            }
        }],
    ['14.1.2', 'large numbers', by => 'safety_ranges',
        has => '18446744073709551616'],
    ['14.2 method, 9.3.2 same, 8.6 head', 'HEAD', $yes, [@fresh],
        check => sub {
            my $get = $_[1]{get}->();
            for my $range ('bytes=0-2', 'bytes=0-1,4-5', 'bytes=999-') {
                my $r = $_[1]{head}->('', Range => $range);
                is($r->status, 200, "$range: status");
                is($r->header($_), $get->header($_), "$range: $_")
                    for 'Content-Length', 'Content-Range', 'Content-Type',
                        'Accept-Ranges';
            }
        }],
    ['14.2 method, 9.3.2 same', 'HEAD of a compressed page', $yes,
        [@fresh, 'Content-Type' => 'text/plain'], at => '/compressed',
        answer => { body => 'row ' x 1000 }, check => sub {
            my @accept = ('Accept-Encoding' => 'gzip');
            my $get = $_[1]{get}->('', @accept);
            my $r = $_[1]{head}->('', @accept, Range => 'bytes=0-2');
            is($get->header('Content-Encoding'), 'gzip', 'is compressed');
            is($r->header($_), $get->header($_), $_)
                for 'Content-Encoding', 'Content-Length';
        }],
    ['14.4 pass', 'a 206 of the origin', undef, [@fresh,
        'Content-Range' => 'rows 0-1/9'], status => 206, check => sub {
            is($_->status, 206, 'status'), is($_->header('Content-Range'),
                'rows 0-1/9', 'as it is') for @_[0, 2];
        }],
    ['14.4 request', 'of a GET', $yes, [@fresh], check => sub {
            my $r = $_[1]{get}->('', 'Content-Range' => 'bytes 0-1/2');
            is($r->status, 200, 'the page');
            is($r->body, $_[0]->body, 'all of it');
        }],
    (map { ['15 class', "$_ is stored", $yes, [@fresh], status => $_] }
        299, 399),
    (map { ['15 class', "$_ is not stored", $no, [@fresh], status => $_] }
        499, 599),
    ['15 invalid', '700 is not stored', $no, [@fresh], status => 700],
    ['15.3.7 few', 'If-Range', $yes, [@fresh, ETag => '"1"',
        'Content-Language' => 'de'], check => sub {
            is($_[1]{get}->('', Range => 'bytes=0-2', 'If-Range' => '"1"')
                ->header('Content-Language'), 'de', 'as to any other');
        }],
    ['15.3.7 few', 'unless there are no ranges', $yes, [@fresh], at => '/whole',
        check => sub {
            is($_[1]{get}->('', Range => 'bytes=0-2')->status, 200, 'the page');
        }],
    ['15.3.7.2 type, 15.3.7.2 top, 15.3.7.2 each, 15.3.7.2 kind, '
        . '15.3.7.2 order', 'two ranges', $yes, [@fresh], check => sub {
            my $r = $_[1]{get}->('', Range => 'bytes=4-4,0-2');
            like($r->header('Content-Type'),
                qr/^multipart\/byteranges; boundary=\w+$/, 'Content-Type');
            is($r->header('Content-Range'), undef, 'no Content-Range');
            my $part = qr/--\w+\r\nContent-Type:\ text\/plain\r\n/x;
            like($r->body, qr/^\s*${part}Content-Range:\ bytes\ 4-4\/.*?
                ${part}Content-Range:\ bytes\ 0-2\//sx, 'two parts');
        }],
    ['15.4.5 few', '304', $yes, [@fresh, ETag => '"1"',
        'Content-Language' => 'de'], check => sub {
            is($_[1]{get}->('', 'If-None-Match' => '"1"')
                ->header('Content-Language'), 'de', 'with all of them');
        }],
    ['15.4.5 pass', '304 of a page that was renewed', by => 'rfc_revalidate',
        has => 'condition: is met by the renewed page'],


    (map { my $date = $dates{$_}; ['5.6.7 read', "dates as of $_", $yes,
        [Expires => $date], check => sub {
            is($_[3]{expire} + $_[3]{took}, ($now + 3600) * 1000,
                'it ends then');
        }] } sort keys %dates),

    ['6.6.1 record', 'Date is the origin\'s', $yes, [@fresh, Date => $past],
        check => sub { is($_[0]->header('Date'), $past, 'Date') }],
    ['6.6.1 record, 6.6.1 near, 5.3 single, 5.6.7 write, 5.6.7 space',
        'or the time of the answer', $yes, [@fresh], check => sub {
            my $date = $_[0]->header('Date');
            ok(scalar(grep { $date eq http_date($_) } $now .. time()),
                'Date') or diag($date);
            is(scalar(() = $_[0]->all('Date')), 1, 'once');
        }],

    ['7.6.1 known, 7.6 connection', 'headers of the connection are not stored',
        $yes,
        [@fresh, map { ($_ => 'x') } 'Keep-Alive', 'Proxy-Connection', 'TE',
            'Trailer', 'Upgrade'], check => sub {
            is($_[0]->header($_), undef, "no $_") for 'Keep-Alive',
                'Proxy-Connection', 'TE', 'Trailer', 'Upgrade';
        }],
    ['7.6.1 known', 'nor sent to the origin', by => 'refresh_headers',
        has => '"$name: lines"'],

    (map { my $tag = $_; ['8.8.3', "an ETag as it is: $tag", $yes,
        [@fresh, ETag => $tag], check => sub {
            is($_[0]->header('ETag'), $tag, 'ETag');
        }] } '"1"', 'W/"1"', '""'),
    ['8.6 wrong', 'Content-Length is that of the body', $yes, [@fresh],
        answer => { chunked => 1, parts => ['row', ['s', 0.01]] },
        check => sub {
            is($_[0]->header('Content-Length'), 4, 'Content-Length');
            is($_[0]->header('Transfer-Encoding'), undef, 'not chunked');
        }],

    ['9.3.1', 'a GET with a body is not for others',
        by => 'cache_reason', has => "['body', undef, { method => 'GET'"],
    ['9.3.2 body, 9.3.2 same, 8.6 head', 'HEAD from the stored page', $yes,
        [@fresh, 'X-A' => 1], check => sub {
            my ($second, $ask) = @_;
            my $r = $ask->{head}->();
            is($r->body, '', 'no body');
            is($r->header($_), $second->header($_), $_)
                for 'X-A', 'Content-Length', 'Cache-Control', 'X-Cache';
        }],

    ['12.5.3', 'a coding that the client accepts',
        by => 'cache_vary_codings', has => 'five were asked for'],

    (map { ['13.2.1 judge', "$_, as a gateway has it", by => 'safety_ranges',
        has => "'$_'"] } 'If-None-Match', 'If-Modified-Since', 'If-Range'),
    (map { ['13.2.1 origin', "$_, of a gateway alone", by => 'safety_ranges',
        has => "'$_'"] } 'If-Match', 'If-Unmodified-Since'),
    ['13.1.5 judge, 13.1.5 other, 13.1.5 same', 'If-Range with a date', $yes,
        [@fresh, 'Last-Modified' => $past], check => sub {
            my $get = $_[1]{get};
            is($get->('', Range => 'bytes=0-2', 'If-Range' => $past)->status,
                206, 'same');
            is($get->('', Range => 'bytes=0-2',
                'If-Range' => http_date($now))->status, 200, 'another');
        }],
    ['13.1.5 judge, 13.1.5 other', 'If-Range with a weak ETag', $yes,
        [@fresh, ETag => 'W/"1"'], check => sub {
            is($_[1]{get}->('', Range => 'bytes=0-2', 'If-Range' => 'W/"1"')
                ->status, 200, 'all of it');
        }],
    ['13.1.5 judge, 13.1.5 other', 'If-Range with what is not one date', $yes,
        [@fresh, 'Last-Modified' => $past], check => sub {
            is($_[1]{get}->('', Range => 'bytes=0-2', 'If-Range' => $_)
                ->status, 200, $_) for "$past, $past", "$past x", 'lately',
                    $past =~ s/GMT/EST/r;
        }],
    ['13.1.5 judge, 13.1.5 other', 'If-Range with a date that is not strong',
        $yes, [@fresh, 'Last-Modified' => $past, Date => $past], check => sub {
            is($_[1]{get}->('', Range => 'bytes=0-2', 'If-Range' => $past)
                ->status, 200, 'all of it');
        }],
    ['13.2.1 status', 'conditions are for 200 alone', $yes,
        [@fresh, ETag => '"1"', 'Last-Modified' => $past], status => 404,
        check => sub {
            my $get = $_[1]{get};
            is($get->('', 'If-None-Match' => '"1"')->status, 404, 'ETag');
            is($get->('', 'If-Modified-Since' => $past)->status, 404, 'date');
            is($get->('', Range => 'bytes=0-2')->status, 404, 'range');
        }],

    ['14.2 part, 15.3.7.1, 15.3.7.2 one, 14.4 whole',
        'ranges of the stored page', $yes, [@fresh], check => sub {
            my $r = $_[1]{get}->('', Range => 'bytes=0-2');
            is($r->body, 'row', 'range');
            is($r->header('Content-Range'), 'bytes 0-2/'
                . length $_[0]->body, 'Content-Range');
            is($r->header('Content-Type'), 'text/plain', 'no multipart');
        }],
    ['14.2 unit', 'a unit that is not known: no range', $yes, [@fresh],
        check => sub {
            is($_[1]{get}->('', Range => 'rows=0-2')->status, 200, 'all of it');
        }],
    ['14.2 method', 'of GET alone', $yes, [@fresh], check => sub {
            my $r = $_[1]{post}->('', Range => 'bytes=0-2');
            is($r->status, 200, 'of POST it is the origin\'s');
        }],
    ['14.3', 'Accept-Ranges', $yes, [@fresh], check => sub {
            is($_[0]->header('Accept-Ranges'), 'bytes', 'bytes');
        }],
    ['15.3.7.2 type', 'several ranges', by => 'safety_ranges',
        has => "'0-1,3-4'"],

    ['15.1', 'errors are not stored', $no, [@fresh], status => 500],
    (map { my ($status, @request) = @$_;
        [$status == 304 ? '15.4.5 same, 8.6 304' : '15.3.7 same, 15.3.7 all',
            'has what the page has', $yes, [cc('max-age=60'),
            ETag => '"1"', Expires => $later, Vary => 'X-None',
            'Content-Location' => '/there', Date => $past], at => '/vary',
        check => sub {
            my $r = $_[1]{get}->('', @request);
            is($r->status, $status, "status $status");
            is($r->header($_), $_[0]->header($_), "$status: $_")
                for 'Cache-Control', 'Content-Location', 'Date', 'ETag',
                    'Expires', 'Vary';
            is($r->body, '', 'no body') if $status == 304;
            is($r->header('Content-Length'), $status == 304 ? undef : 3,
                "$status: Content-Length");
        }] } [304, 'If-None-Match' => '"1"'], [206, Range => 'bytes=0-2']),
    ['15.3.7 same', 'a part has no digest of all bytes', $yes,
        [@fresh, @digests], check => sub {
            my ($second, $ask) = @_;
            my $r = $ask->{get}->('', Range => 'bytes=0-2');
            is($r->status, 206, 'status');
            is($r->header($_), undef, "206: no $_")
                for 'Content-Digest', 'Content-MD5';
            is($r->header($_), $second->header($_), "206: $_")
                for 'Repr-Digest', 'Digest';
            $r = $ask->{head}->('', Range => 'bytes=0-2');
            ok($second->header($_) && $r->header($_) eq $second->header($_),
                "HEAD: $_") for @digest_names;
        }],
    ['14.2 none, 14.4 none, 15.5.17', '416', $yes, [@fresh], check => sub {
            my $r = $_[1]{get}->('', Range => 'bytes=999-');
            is($r->status, 416, 'status');
            is($r->header('Content-Range'), 'bytes */' . length $_[0]->body,
                'Content-Range');
        }],
    ['8.4 tell', '416 is another message than the page', undef, [@fresh,
        Vary => 'Accept-Encoding', 'Content-Encoding' => 'gzip',
        'Content-Language' => 'de', 'Content-Location' => '/there',
        Expires => $later, Date => $past, 'X-Any' => 1, @digests,
        @for_caches],
        request => ['Accept-Encoding' => 'gzip'], check => sub {
            my $get = $_[1]{get};
            my @accept = ('Accept-Encoding' => 'gzip');
            ok(wait_for(sub { $get->('', @accept)->header('X-Cache') eq 'HIT'
                }), 'used');
            my $r = $get->('', @accept, Range => 'bytes=999-');
            is($r->status, 416, 'status');
            is($r->header($_), undef, $_) for 'Cache-Control', 'Expires',
                'Content-Encoding', 'Content-Language', 'Content-Location',
                @digest_names, keys %{{@for_caches}};
            is(scalar(() = $r->all($_)), 1, "one $_") for 'Age', 'Date';
            is($r->header('X-Any'), 1, 'others are those of the page');
        }],
);

clauses($t, \@statements, <<'EOT', @rows);
        location /whole/ {
            max_ranges 0;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /compressed/ {
            mcds_cache_compress gzip;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /vary/ {
            mcds_ignore_headers Vary;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
EOT

$t->done();
