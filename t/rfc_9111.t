#!/usr/bin/perl

# Copyright (C) mcds authors

# What RFC 9111 demands of a shared cache, clause by clause; rfc_9110.t has what
# belongs to it of other RFCs.  Each row has the clause, what it demands, and
# how that is shown: either here, by what becomes of an answer that is asked for
# twice, or by the file that is named and the text to be found in it.  What is
# not there: clauses about private caches, caches without a clock, range
# requests that are stored or combined (206 is not), and the Warning header,
# which is obsolete and a header like others.  What is not done: a HEAD does not
# update a page that is stored in parts (4.3.5).

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
my $future = http_date($now + 3600);

sub cc { map { ('Cache-Control' => $_) } @_ }

my ($yes, $no) = (1, 0);
my @fresh = cc 'max-age=60';

my @rows = (

    # storing

    ['3', 'the method is understood: HEAD', $no, [@fresh], method => 'HEAD'],
    (map { ['3', "the method is understood: $_", $no, [@fresh],
        method => $_] } qw/ POST PUT DELETE OPTIONS BREW /),
    (map { ['3', "the status is final and understood: $_", $no, [@fresh],
        status => $_] } 206, 304),
    (map { ['3', "a status that may be stored: $_", $yes, [@fresh],
        status => $_] } 200, 203, 300, 301, 302, 303, 307, 308, 404, 410),
    ['3', 'no-store is not stored', $no, [cc 'max-age=60, no-store']],
    ['3', 'private is not stored', $no, [cc 'max-age=60, private']],
    ['3', 'something has to allow it', $no, []],
    ['3', 'allowed by max-age', $yes, [@fresh], life => 60],
    ['3', 'allowed by s-maxage', $yes, [cc 's-maxage=60'], life => 60],
    ['3', 'allowed by Expires', $yes, [Expires => $future,
        Date => http_date($now)], life => 3600],
    ['3', 'public alone has no lifetime', $no, [cc 'public']],
    ['3', 'unknown directives do not forbid', $yes, [cc 'max-age=60, new=1']],

    ['3.1', 'headers are stored, unknown ones too', $yes,
        [@fresh, 'X-New' => 'a', 'X-New' => 'b'], check => sub {
            is_deeply([map { s/.*?: //r } $_[0]->all('X-New')], ['a', 'b'],
                'and sent');
        }],
    ['3.1', 'Connection and what it names is not', $yes,
        [@fresh, 'X-Hop' => 1, 'X-Two' => 1, 'X-Stays' => 1,
            Connection => 'keep-alive, x-hop,X-Two'], check => sub {
            is($_[0]->header($_), undef, "$_ is not") for 'X-Hop', 'X-Two';
            is($_[0]->header('X-Stays'), 1, 'another is');
        }],
    ['3.1', 'Proxy-* of a hop is not', $yes,
        [@fresh, map { ($_ => 'x') } 'Proxy-Authenticate',
            'Proxy-Authentication-Info', 'Proxy-Authorization'],
        check => sub {
            is($_[0]->header($_), undef, "$_ is not")
                for 'Proxy-Authenticate', 'Proxy-Authentication-Info',
                    'Proxy-Authorization';
        }],
    ['3.1', 'trailers are no headers', $yes, [], answer => { raw =>
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
            . "Trailer: X-Late\r\nTransfer-Encoding: chunked\r\n\r\n"
            . "3\r\nrow\r\n0\r\nX-Late: 1\r\n\r\n" }, check => sub {
            is($_[0]->header($_), undef, "no $_") for 'X-Late', 'Trailer';
            is($_[0]->body(), 'row', 'the body');
        }],
    ['3.2', 'a 304 updates stored headers', by => 'rfc_revalidate',
        has => 'a header is replaced'],
    ['3.2', 'but not those of the body', by => 'rfc_revalidate',
        has => 'a 304 with headers of a body'],
    ['3.2', 'and leaves all others', by => 'rfc_revalidate',
        has => 'another is kept'],
    ['3.3', 'an incomplete answer is not stored', by => 'cache_broken'],

    ['3.5', 'Authorization: max-age is not enough', $no, [@fresh],
        request => [Authorization => 'Basic YTpi']],
    (map { ['3.5', "Authorization: $_", $yes, [cc "$_, max-age=60"],
        request => [Authorization => 'Basic YTpi']] }
        'public', 's-maxage=60', 'must-revalidate'),

    # using

    ['4', 'of the same URI', $yes, [@fresh], check => sub {
        is($_[1]{get}->('?other')->header('X-Cache'), 'MISS', 'not another');
    }],
    ['4', 'Age is sent', $yes, [@fresh, Age => 7], check => sub {
        like($_[0]->header('Age'), qr/^(?:7|8|9)$/, 'Age goes on');
    }],
    ['4', 'one Age, in the place of the stored', $yes, [@fresh, Age => 7],
        check => sub {
            is(scalar(() = $_[0]->all('Age')), 1, 'one Age');
        }],
    ['4', 'not a POST, with what a GET has stored', $yes, [@fresh],
        check => sub {
            like($_[1]{post}->()->body(), qr/^row/, 'POST is answered');
            isnt($_[1]{post}->()->header('X-Cache'), 'HIT', 'by the origin');
        }],
    ['4', 'not without asking: no-cache', $no, [cc 'no-cache="", max-age=9']],
    ['4', 'unsafe methods are written through', by => 'rfc_invalidate',
        has => 'POST PUT DELETE'],
    ['4.1', 'the variant that the request selects', by => 'cache_vary'],
    ['4.1', 'which has all headers alike', by => 'cache_vary',
        has => 'nine variants'],
    ['4.1', 'Vary may have several lines', by => 'cache_vary',
        has => "'/two', '/lines'"],
    ['4.1', 'white space and lines do not matter', by => 'cache_vary',
        has => 'language: two lines'],
    ['4.1', 'an absent header is only like an absent', by => 'cache_vary',
        has => "('1', '2', undef, '')"],
    ['4.1', 'the lock is of the variant', by => 'cache_vary_herd'],
    ['4.1', 'Vary: * matches nothing', $no, [@fresh, Vary => '*']],
    ['4.1', 'nor with others beside it', $no, [@fresh, Vary => 'A, *']],
    ['4.1', 'nor on another line', $no, [@fresh, Vary => 'A', Vary => '*']],

    ['4.2', 'max-age before Expires', $yes, [cc('max-age=60'),
        Expires => $future], life => 60],
    ['4.2', 'also when that has passed', $yes, [@fresh, Expires => $past]],
    ['4.2.1', 's-maxage before max-age', $yes, [cc 's-maxage=90, max-age=0'],
        life => 90],
    ['4.2.1', 's-maxage before Expires', $yes, [cc('s-maxage=90'),
        Expires => $past], life => 90],
    ['4.2.1', 's-maxage before max-age, if shorter', $yes,
        [cc 'max-age=90, s-maxage=60'], life => 60],
    ['4.2.1', 'Expires without Date is a time', $yes, [Expires => $future],
        check => sub {
            is($_[3]{expire} + $_[3]{took}, ($now + 3600) * 1000,
                'it ends then');
        }],
    ['4.2.1', 'Expires counts from Date', $yes,
        [Expires => http_date($now - 900), Date => http_date($now - 1000)],
        life => 100],
    ['4.2.1', 'Expires in the past of Date', $no, [Expires => $past,
        Date => http_date($now)]],
    ['4.2.1', 'the first of two Expires', $no, [Expires => $past,
        Expires => $future, Date => http_date($now)]],
    ['4.2.1', 'of two max-age the smaller', $yes, [cc 'max-age=90, max-age=60'],
        life => 60],
    ['4.2.1', 'on several lines, too', $yes, [cc 'max-age=90', 'max-age=60'],
        life => 60],
    (map { ['4.2.1', "invalid is stale: $_", $no, [cc $_]] } 'max-age=x',
        'max-age=-1', 'max-age=1.5', 'max-age', 's-maxage=x, max-age=60'),

    ['4.2.2', 'no heuristics unless asked for', $no,
        ['Last-Modified' => $past]],
    ['4.2.2', 'heuristics: a part of the time', $yes,
        ['Last-Modified' => http_date($now - 1000), Date => http_date($now)],
        at => '/guess', life => 100],
    ['4.2.2', 'heuristics: with a bound', $yes,
        ['Last-Modified' => http_date($now - 1e6), Date => http_date($now)],
        at => '/guess', life => 600],
    ['4.2.2', 'heuristics: not with an explicit time', $no,
        ['Last-Modified' => $past, cc 'max-age=0'], at => '/guess'],
    ['4.2.2', 'heuristics: not of any status', $no,
        ['Last-Modified' => $past, Date => http_date($now)], status => 302,
        at => '/guess'],
    ['4.2.2', 'heuristics: but with public', $yes,
        ['Last-Modified' => $past, Date => http_date($now), cc 'public'],
        status => 302, at => '/guess'],
    ['4.2.2', 'heuristics: nothing to count from', $no, [], at => '/guess'],
    ['4.2.2', 'heuristics: not what is forbidden', $no,
        ['Last-Modified' => $past, cc 'private'], at => '/guess'],

    ['4.2.3', 'the Age of the answer counts', $yes, [@fresh, Age => 50],
        life => 10],
    ['4.2.3', 'up to the end', $no, [@fresh, Age => 60]],
    ['4.2.3', 'also with Expires', $yes, [Expires => http_date($now + 100),
        Date => http_date($now), Age => 40], life => 60],

    ['4.2.3', 'the time that the origin took counts', by => 'cache_took',
        has => 'Age counts the build'],
    ['4.2.3', 'no page that is stale by it alone', by => 'cache_took',
        has => 'must-revalidate'],

    (map { ['4.2.4', "no stale page: $_", by => 'rfc_stale_error',
        has => "/x/\$_/500"] } 'must-revalidate', 'proxy-revalidate',
        's-maxage'),
    ['4.2.4', 'no stale page: no-cache is not stored', $no,
        [cc 'max-age=60, no-cache, stale-if-error=60']],
    ['4.2.4', 'a stale page within what is configured', by => 'cache_waiters'],
    ['4.2.4', 'no longer than that', by => 'rfc_stale_error',
        has => "is_error('/grace/plain/500', 500, 6_000)"],

    # validation

    ['4.3.1', 'If-None-Match with the stored ETag', by => 'rfc_revalidate',
        has => 'If-None-Match'],
    ['4.3.1', 'If-Modified-Since with Last-Modified', by => 'rfc_revalidate',
        has => 'If-Modified-Since'],
    ['4.3.1', 'not with what the client has', by => 'rfc_revalidate',
        has => 'condition: asked once'],
    ['4.3.1', 'nothing to ask with: a plain request', by => 'rfc_revalidate',
        has => 'built anew'],
    ['4.3.2', 'If-None-Match of a client', $yes, [@fresh, ETag => '"1"'],
        check => sub {
            my $get = $_[1]{get};
            is($get->('', 'If-None-Match' => $_)->status, 304, $_)
                for '"1"', 'W/"1"', '"0", "1"', '*';
            is($get->('', 'If-None-Match' => '"2"')->status, 200, '"2"');
        }],
    ['4.3.2', 'If-Modified-Since of a client', $yes,
        [@fresh, 'Last-Modified' => $past], check => sub {
            my $get = $_[1]{get};
            is($get->('', 'If-Modified-Since' => $past)->status, 304, 'same');
            is($get->('', 'If-Modified-Since' => http_date(1e9))->status, 200,
                'older');
        }],
    ['4.3.2', 'later than it, where nginx shall', $yes,
        [@fresh, 'Last-Modified' => $past], at => '/before', check => sub {
            is($_[1]{get}->('', 'If-Modified-Since' => http_date($now))->status,
                304, 'not modified');
        }],
    ['4.3.2', 'no date: no condition', $yes,
        [@fresh, 'Last-Modified' => $past], check => sub {
            is($_[1]{get}->('', 'If-Modified-Since' => 'lately')->status, 200,
                'the page');
        }],
    ['4.3.2', 'If-None-Match goes before it', $yes,
        [@fresh, 'Last-Modified' => $past, ETag => '"1"'], check => sub {
            my $get = $_[1]{get};
            is($get->('', 'If-Modified-Since' => $past,
                'If-None-Match' => '"2"')->status, 200, 'another ETag');
            is($get->('', 'If-Modified-Since' => http_date(1e9),
                'If-None-Match' => '"1"')->status, 304, 'the same ETag');
            is($get->('', 'If-Modified-Since' => 'lately',
                'If-None-Match' => '*')->status, 304, 'any ETag');
        }],
    ['4.3.2', 'If-Match and If-Unmodified-Since are for an origin', $yes,
        [@fresh, 'Last-Modified' => $past, ETag => '"1"'], check => sub {
            my $get = $_[1]{get};
            is($get->('', @$_)->status, 200, "@$_")
                for ['If-Match' => '"2"'],
                    ['If-Unmodified-Since' => http_date(1e9)],
                    ['If-Unmodified-Since' => 'lately'];
            is($get->('', 'If-Match' => '"2"', 'If-None-Match' => '"1"',
                'If-Unmodified-Since' => http_date(1e9))->status, 304, 'all');
        }],
    ['4.3.2', 'If-Range of a client', $yes, [@fresh, ETag => '"1"'],
        check => sub {
            my $get = $_[1]{get};
            is($get->('', Range => 'bytes=0-2', 'If-Range' => '"1"')->status,
                206, 'same');
            is($get->('', Range => 'bytes=0-2', 'If-Range' => '"2"')->status,
                200, 'another');
        }],
    ['4.3.3', '304: the stored page is sent', by => 'rfc_revalidate',
        has => 'the client has asked for no 304'],
    ['4.3.3', 'a full answer takes its place', by => 'rfc_revalidate',
        has => 'changed: the new page'],
    ['4.3.3', '5xx: sent on, or the old page', by => 'rfc_stale_error',
        has => 'the old page'],
    ['4.3.4', 'not by a 304 of another page', by => 'rfc_revalidate',
        has => 'another ETag'],
    ['4.3.4', 'weak validators do', by => 'rfc_revalidate',
        has => "'/fill/weak/new'"],
    ['4.3.4', 'a 304 that says it may not be kept', by => 'rfc_revalidate',
        has => 'no-store: it is no page any more'],
    ['4.3.5', 'a HEAD that tells of another page', by => 'rfc_head',
        has => 'another page'],
    ['4.3.5', 'a HEAD that tells of the same', by => 'rfc_head',
        has => 'the same page'],
    ['4.3.5', 'which updates it', by => 'rfc_head',
        has => 'the page has the headers of the HEAD'],

    # invalidation

    ['4.4', 'by unsafe methods, unknown ones too', by => 'rfc_invalidate',
        has => 'BREW'],
    ['4.4', 'not after an error', by => 'rfc_invalidate', has => '409'],
    ['4.4', 'not of another host', by => 'rfc_invalidate',
        has => 'of another host'],
    ['4.4', 'Location and Content-Location', by => 'rfc_invalidate',
        has => 'Content-Location'],

    # headers

    ['1.2.2', 'too large a number is very large', $yes,
        [cc 'max-age=99999999999999999999'], life => 2147483648],
    ['5.1', 'Age: the first of a list', $yes, [@fresh, Age => '20, 50'],
        life => 40],
    ['5.1', 'Age: the first of several', $yes, [@fresh, Age => 20, Age => 50],
        life => 40],
    ['5.1', 'Age: the first of several, also if it is 0', $yes,
        [@fresh, Age => 0, Age => 50], life => 60],
    ['5.1', 'Age: the first of several, also if it is no number', $yes,
        [@fresh, Age => 'x', Age => 50], life => 60],
    (map { ['5.1', "Age: not a number: $_", $yes, [@fresh, Age => $_],
        life => 60] } 'x', '-1', '50x', '1.5', '50 x', ''),
    ['5.1', 'Age: too large a number', $no, [@fresh, Age => '9' x 30]],
    ['5.2', 'directives in any case', $yes, [cc 'MAX-AGE=60'], life => 60],
    ['5.2', 'arguments in quotes', $yes, [cc 'max-age="60"'], life => 60],
    ['5.2', 'a directive within quotes is none', $yes,
        [cc 'x="private, no-store", max-age=60']],
    ['5.2', 'several lines are one', $no, [cc 'max-age=60', 'no-store']],
    ['5.2', 'empty elements are none', $yes, [cc ',, max-age=60 ,'],
        life => 60],
    ['5.2', 'a quoted comma ends nothing', $yes, [cc 'x="a,\\",b", max-age=60'],
        life => 60],
    ['5.2', 'what is no directive forbids', $no, [cc 'max-age=60, "']],
    ['5.2', 'all are passed on as they are', $yes,
        [cc 'max-age=60, new="a, b", No-Transform'], check => sub {
            is($_[0]->header('Cache-Control'),
                'max-age=60, new="a, b", No-Transform', 'Cache-Control');
        }],

    (map { ["5.2.1", "of a request: $_", by => 'rfc_request', has => $_] }
        'max-age', 'max-stale', 'min-fresh', 'no-cache', 'no-store',
        'no-transform', 'only-if-cached', "'max-stale'"),
    ['5.2.1.5', 'of a request: no-store is not stored', by => 'rfc_request',
        has => 'no-store: nothing is stored'],
    ['5.2.1.7', 'of a request: only-if-cached, or 504', by => 'rfc_request',
        has => "'504 MISS 0'"],

    ['5.2.2.1', 'max-age=0', $no, [cc 'max-age=0']],

    ['5.2.2.2', 'must-revalidate: 504 or the error', by => 'rfc_stale_error',
        has => 'mustsie'],
    ['5.2.2.3', 'must-understand: no-store is not heard', $yes,
        [cc 'max-age=60, must-understand, no-store']],
    ['5.2.2.3', 'must-understand: but of other statuses', $no,
        [cc 'max-age=60, must-understand, no-store'], status => 299],
    ['5.2.2.4', 'no-cache', $no, [cc 'max-age=60, no-cache']],
    ['5.2.2.4', 'no-cache with fields', $no, [cc 'max-age=60, no-cache="a"']],
    ['5.2.2.5', 'no-store', $no, [cc 'no-store, public, max-age=60']],
    ['5.2.2.7', 'private with fields', $no, [cc 'max-age=60, private="a"']],
    ['5.2.2.6', 'no-transform: not compressed', by => 'cache_compress',
        has => 'asked not to'],
    ['5.2.2.8', 'proxy-revalidate: no stale page', by => 'rfc_stale_error',
        has => 'proxy => '],
    ['5.2.2.9', 'public', $yes, [cc 'public, max-age=60']],
    ['5.2.2.10', 's-maxage: no stale page', by => 'rfc_stale_error',
        has => 'shared => '],
    ['5.2.2.10', 's-maxage=0', $no, [cc 's-maxage=0, max-age=60']],
    ['5.2.3', 'unknown directives are skipped', $yes,
        [cc 'community="UCI", max-age=60']],
    (map { ['5.3', "Expires: invalid is past: '$_'", $no, [Expires => $_]] }
        '0', '-1', 'soon', '', "$future x"),
    (map { my $zone = $_; ['4.2', "Expires: another zone is past: '$zone'",
        $no, [Expires => $future =~ s/ GMT$/$zone/r]] }
        ' UTC', ' EST', ' +0000', ' -0500', ''),
    ['4.2', 'Expires: in lower case', $yes, [Expires => lc $future]],
    ['4.2', 'Date of another zone is none', $yes, [Expires => $future,
        Date => http_date($now - 900) =~ s/GMT/EST/r], check => sub {
            cmp_ok(abs($_[3]{expire} - ($now + 3600) * 1000), '<=', 1000,
                'it ends then');
        }],
    ['5.4', 'Pragma, alone', $no, [Pragma => 'no-cache', Expires => $future]],
    ['5.4', 'Pragma, not before Cache-Control', $yes,
        [Pragma => 'no-cache', @fresh]],
);

clauses($t, <<'EOT', @rows);
        location /guess/ {
            mcds_cache_heuristic 10% 10m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /before/ {
            if_modified_since before;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
EOT

$t->done();
