#!/usr/bin/perl

# Copyright (C) mcds authors

# What RFC 9111 demands of a shared cache, statement by statement, and how each
# is shown: either here, by what becomes of an answer that is asked for twice,
# or by the file that is named and the text to be found in it.  What the RFC
# demands of origins, clients, private caches and registries is not there.

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

my ($yes, $no) = (1, 0);
my @fresh = cc 'max-age=60';

my @statements = (
    ['1.2.2', 'MUST', 'too large a number counts as 2147483648'],

    ['3 method', 'MUST NOT', 'store what answers a method not understood'],
    ['3 final', 'MUST NOT', 'store a status that is not final'],
    ['3 status', 'MUST NOT', 'store 206, 304, or under must-understand a '
        . 'status that is not understood'],
    ['3 no-store', 'MUST NOT', 'store what says no-store'],
    ['3 private', 'MUST NOT', 'store what says private'],
    ['3 authorization', 'MUST NOT', 'store what answers Authorization'],
    ['3 allowed', 'MUST NOT', 'store what nothing allows to be stored'],
    ['3.1 all', 'MUST', 'store all headers, also unknown ones'],
    ['3.1 connection', 'also', 'but those of the connection'],
    ['3.1 proxy', 'MUST NOT', 'store headers for the proxy'],
    ['3.1 trailers', 'MUST NOT', 'make headers of trailers'],
    ['3.2 replace', 'MUST', 'replace stored headers by those of a 304'],
    ['3.2 limit', 'SHOULD', 'leave out only what would break the page'],
    ['3.3 store', 'MUST NOT', 'store parts without understanding ranges'],
    ['3.3 use', 'MUST NOT', 'use an incomplete response'],
    ['3.3 partial', 'MUST NOT', 'send a part with another status than 206'],
    ['3.4', 'MUST', 'update the headers when parts are combined',
        not => 'parts are neither stored nor combined'],
    ['3.5', 'MUST NOT', 'use what answers Authorization without a directive '
        . 'that allows it'],

    ['4 uri', 'MUST NOT', 'use what is stored for another URI'],
    ['4 method', 'MUST NOT', 'use it for a method that does not allow it'],
    ['4 vary', 'MUST NOT', 'use it for other headers that Vary names'],
    ['4 no-cache', 'MUST NOT', 'use no-cache without validation'],
    ['4 fresh', 'MUST NOT', 'use what is neither fresh, nor allowed stale, '
        . 'nor validated'],
    ['4 age', 'MUST', 'send Age, in place of any stored one'],
    ['4 unsafe', 'MUST', 'send unsafe requests on before they are answered'],
    ['4 recent', 'MUST', 'use the most recent of several by Date',
        not => 'one response is stored under each key and variant'],
    ['4 clock', 'MUST', 'without a clock, validate each time',
        not => 'there is a clock'],
    ['4.1 match', 'MUST NOT', 'use a variant of other request headers'],
    ['4.1 star', 'also', 'Vary: * never matches'],
    ['4.1 recent', 'SHOULD', 'use the latest with a valid Vary, where some '
        . 'have none'],
    ['4.2 case', 'SHOULD', 'read dates in any case'],
    ['4.2 resolution', 'MUST', 'round Expires down',
        not => 'times are kept in milliseconds'],
    ['4.2 local', 'MUST NOT', 'let the local time zone matter'],
    ['4.2 zone', 'SHOULD', 'take a date in another zone than GMT as invalid'],
    ['4.2.1', 'also', 'which lifetime comes first'],
    ['4.2.1 twice', 'also', 'contradictions count as the shorter or as stale'],
    ['4.2.2', 'MUST NOT', 'guess where an explicit time is there'],
    ['4.2.2 guess', 'also', 'what may be guessed'],
    ['4.2.3', 'MUST', 'count Age from when the request was sent'],
    ['4.2.4 forbidden', 'MUST NOT', 'send stale what a directive forbids'],
    ['4.2.4 allowed', 'MUST NOT', 'send stale what nothing allows, unless '
        . 'disconnected', deviates => 'mcds_cache_grace off'],

    ['4.3.1 tag', 'MUST', 'validate with the ETag that is stored'],
    ['4.3.1 date', 'SHOULD', 'validate with Last-Modified, too'],
    ['4.3.1 own', 'also', 'a request of its own makes the condition'],
    ['4.3.2 judge', 'SHOULD', 'judge conditions by the stored validators',
        deviates => 'if_modified_since before'],
    ['4.3.2 origin', 'MUST NOT', 'judge conditions that are for the origin, '
        . 'of other methods, or of what is not stored'],
    ['4.3.2 undated', 'SHOULD', 'without Last-Modified, compare '
        . 'If-Modified-Since with Date', deviates => '-'],
    ['4.3.2 union', 'MUST NOT', 'name the ETag of a part in a validation',
        not => 'parts are not stored'],
    ['4.3.2 forwarded', 'MUST', 'send 200 when the 304 has no ETag of the '
        . 'client'],
    ['4.3.3 304', 'also', 'a 304 makes the stored response usable'],
    ['4.3.3 full', 'MUST', 'use a full response in place of the stored one'],
    ['4.3.3 error', 'also', 'behind 5xx an old response may be used'],
    ['4.3.4 other', 'MUST NOT', 'update by a 304 of another strong validator'],
    ['4.3.4 update', 'MUST', 'update what a 304 selects'],
    ['4.3.5 either', 'SHOULD', 'update or invalidate by a HEAD'],
    ['4.3.5 same', 'SHOULD', 'update if the validators and the length match'],
    ['4.3.5 other', 'SHOULD', 'count it as stale if they do not'],
    ['4.3.5 headers', 'MUST', 'use the headers of HEAD for the update'],
    ['4.4 target', 'MUST', 'invalidate the URI of an unsafe request'],
    ['4.4 host', 'MUST NOT', 'invalidate a URI of another host'],
    ['4.4 location', 'also', 'Location and Content-Location'],

    ['5.1 first', 'SHOULD', 'take the first of several Age'],
    ['5.1 invalid', 'SHOULD', 'ignore an Age that is no number'],
    ['5.2 pass', 'MUST', 'pass directives on'],
    ['5.2 syntax', 'also', 'how directives are written'],
    ['5.2.1', 'also', 'directives of requests, which caches may ignore'],
    ['5.2.1.5', 'MUST NOT', 'store for a request that says no-store, where '
        . 'that is heard'],
    ['5.2.1.7', 'SHOULD', 'answer only-if-cached from the store or with 504'],
    ['5.2.2', 'MUST', 'obey the directives of responses'],
    ['5.2.2.1', 'also', 'max-age'],
    ['5.2.2.2 reuse', 'MUST NOT', 'use must-revalidate stale'],
    ['5.2.2.2 obey', 'MUST NOT', 'ignore must-revalidate'],
    ['5.2.2.2 error', 'MUST', 'send an error rather than that'],
    ['5.2.2.2 504', 'SHOULD', 'send 504, unless another status says more'],
    ['5.2.2.3', 'SHOULD', 'ignore no-store beside must-understand'],
    ['5.2.2.4', 'MUST NOT', 'use no-cache without validation'],
    ['5.2.2.4 fields', 'also', 'no-cache with names'],
    ['5.2.2.5 store', 'MUST NOT', 'store request or response'],
    ['5.2.2.5 use', 'MUST NOT', 'use them for another request'],
    ['5.2.2.5 disk', 'MUST NOT', 'put them on disk on purpose',
        not => 'nothing is kept on disk but files of nginx for one answer'],
    ['5.2.2.5 forget', 'MUST', 'remove them from memory soon',
        not => 'the memory is that of the request, freed with it'],
    ['5.2.2.6', 'MUST NOT', 'transform what says no-transform',
        nginx => 'gzip off'],
    ['5.2.2.7 store', 'MUST NOT', 'store what says private'],
    ['5.2.2.7 fields', 'MUST NOT', 'store headers that private names'],
    ['5.2.2.8', 'MUST NOT', 'use proxy-revalidate stale'],
    ['5.2.2.9', 'also', 'public'],
    # 5.2.3: an extension, as those of RFC 5861, changes what it stands beside

    ['5.2.2.10', 'MUST NOT', 'use s-maxage stale'],
    ['5.2.3', 'MUST', 'ignore unknown directives'],
    ['5.3 invalid', 'MUST', 'take an Expires that is no date as past'],
    ['5.3 max-age', 'MUST', 'ignore Expires beside max-age'],
    ['5.3 s-maxage', 'MUST', 'ignore Expires beside s-maxage'],
    ['5.4', 'also', 'Pragma'],

    ['Set-Cookie', 'also', 'a rule of mcds; RFC 9111, 7.3 leaves it to sites'],
    ['X-Accel-Expires', 'also', 'a rule of nginx'],
);

my @rows = (

    # storing

    ['3 method', 'the method is understood: HEAD', $no, [@fresh],
        method => 'HEAD'],
    (map { ['3 method', "the method is understood: $_", $no, [@fresh],
        method => $_] } qw/ POST PUT DELETE OPTIONS BREW /),
    (map { ['3 status', "the status is final and understood: $_", $no, [@fresh],
        status => $_] } 206, 304),
    ['3 final', '103 is not', by => 'nginx_early_hints',
        has => 'unlike($page->{headers}, qr/Link|X-Hint'],
    (map { ['3 allowed', "a status that may be stored: $_", $yes, [@fresh],
        status => $_] } 200, 203, 300, 301, 302, 303, 307, 308, 404, 410),
    ['3 no-store', 'no-store is not stored', $no, [cc 'max-age=60, no-store']],
    ['3 private', 'private is not stored', $no, [cc 'max-age=60, private']],
    ['3 allowed', 'something has to allow it', $no, []],
    ['3 allowed', 'allowed by max-age', $yes, [@fresh], life => 60],
    ['3 allowed', 'allowed by s-maxage', $yes, [cc 's-maxage=60'], life => 60],
    ['3 allowed', 'allowed by Expires', $yes, [Expires => $future,
        Date => http_date($now)], life => 3600],
    ['3 allowed', 'public alone has no lifetime', $no, [cc 'public']],
    ['5.2.3', 'unknown directives do not forbid', $yes,
        [cc 'max-age=60, new=1']],

    ['3.1 all', 'headers are stored, unknown ones too', $yes,
        [@fresh, 'X-New' => 'a', 'X-New' => 'b'], check => sub {
            is_deeply([map { s/.*?: //r } $_[0]->all('X-New')], ['a', 'b'],
                'and sent');
        }],
    ['3.1 connection', 'Connection and what it names is not', $yes,
        [@fresh, 'X-Hop' => 1, 'X-Two' => 1, 'X-Stays' => 1,
            Connection => 'keep-alive, x-hop,X-Two'], check => sub {
            is($_[0]->header($_), undef, "$_ is not") for 'X-Hop', 'X-Two';
            is($_[0]->header('X-Stays'), 1, 'another is');
        }],
    ['3.1 proxy', 'Proxy-* of a hop is not', $yes,
        [@fresh, map { ($_ => 'x') } 'Proxy-Authenticate',
            'Proxy-Authentication-Info', 'Proxy-Authorization'],
        check => sub {
            is($_[0]->header($_), undef, "$_ is not")
                for 'Proxy-Authenticate', 'Proxy-Authentication-Info',
                    'Proxy-Authorization';
        }],
    ['3.1 trailers', 'trailers are no headers', $yes, [], answer => { raw =>
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
            . "Trailer: X-Late\r\nTransfer-Encoding: chunked\r\n\r\n"
            . "3\r\nrow\r\n0\r\nX-Late: 1\r\n\r\n" }, check => sub {
            is($_[0]->header($_), undef, "no $_") for 'X-Late', 'Trailer';
            is($_[0]->body(), 'row', 'the body');
        }],
    ['3.1 all', 'Server, where nginx passes it on', $yes,
        [@fresh, Server => 'origin'], at => '/server', check => sub {
            is_deeply([$_->all('Server')], ['origin'], 'the origin\'s')
                for @_[0, 2];
        }],
    ['3.1 all', 'Server, where nginx keeps it back', $yes,
        [@fresh, Server => 'origin'], check => sub {
            like($_->header('Server'), qr{^\w+/[\d.]+}, 'nginx\'s')
                for @_[0, 2];
        }],
    ['3.2 replace', 'a 304 updates stored headers', by => 'rfc_revalidate',
        has => 'a header is replaced'],
    ['3.2 limit', 'but not those of the body', by => 'rfc_revalidate',
        has => 'a 304 with headers of a body'],
    ['3.2 limit', 'and leaves all others', by => 'rfc_revalidate',
        has => 'another is kept'],
    ['3.3 store, 3.3 use', 'an incomplete answer is not stored',
        by => 'cache_broken', has => '$uri: seen to be broken'],

    ['3.3 partial', 'a part is 206, and says so', by => 'safety_ranges',
        has => 'Content-Range'],

    ['3 authorization, 3.5', 'Authorization: max-age is not enough', $no,
        [@fresh], request => [Authorization => 'Basic YTpi']],
    (map { ['3.5', "Authorization: $_", $yes, [cc "$_, max-age=60"],
        request => [Authorization => 'Basic YTpi']] }
        'public', 's-maxage=60', 'must-revalidate'),

    # using

    ['4 uri', 'of the same URI', $yes, [@fresh], check => sub {
        is($_[1]{get}->('?other')->header('X-Cache'), 'MISS', 'not another');
    }],
    ['4 age', 'Age is sent', $yes, [@fresh, Age => 7], check => sub {
        like($_[0]->header('Age'), qr/^(?:7|8|9)$/, 'Age goes on');
    }],
    ['4 age', 'one Age, in the place of the stored', $yes, [@fresh, Age => 7],
        check => sub {
            is(scalar(() = $_[0]->all('Age')), 1, 'one Age');
        }],
    ['4 method', 'not a POST, with what a GET has stored', $yes, [@fresh],
        check => sub {
            like($_[1]{post}->()->body(), qr/^row/, 'POST is answered');
            isnt($_[1]{post}->()->header('X-Cache'), 'HIT', 'by the origin');
        }],
    ['4 fresh', 'fresh, or stale as allowed', by => 'cache_grace',
        has => 'nobody gets the old page'],
    ['4 no-cache', 'not without asking: no-cache', $no,
        [cc 'no-cache="", max-age=9']],
    ['4 unsafe', 'unsafe methods are written through', by => 'rfc_invalidate',
        has => 'POST PUT DELETE'],
    ['4 vary, 4.1 match', 'the variant that the request selects',
        by => 'cache_vary', has => 'each was asked for once'],
    ['4.1 match', 'which has all headers alike', by => 'cache_vary',
        has => 'nine variants'],
    ['4.1 match', 'Vary may have several lines', by => 'cache_vary',
        has => "'/two', '/lines'"],
    ['4.1 match', 'white space and lines do not matter', by => 'cache_vary',
        has => 'language: two lines'],
    ['4.1 match', 'an absent header is only like an absent', by => 'cache_vary',
        has => "('1', '2', undef, '')"],
    ['4.1 match', 'the lock is of the variant', by => 'cache_vary_herd',
        has => 'then one for each other variant'],
    ['4.1 recent', 'answers without Vary among others: the last one',
        by => 'cache_vary', has => 'a list in the place of the page'],
    ['4.1 star', 'Vary: * matches nothing', $no, [@fresh, Vary => '*']],
    ['4.1 star', 'nor with others beside it', $no, [@fresh, Vary => 'A, *']],
    ['4.1 star', 'nor on another line', $no, [@fresh, Vary => 'A',
        Vary => '*']],

    ['4.2.1, 5.3 max-age', 'max-age before Expires', $yes, [cc('max-age=60'),
        Expires => $future], life => 60],
    ['4.2.1, 5.3 max-age', 'also when that has passed', $yes, [@fresh,
        Expires => $past]],
    ['4.2 local', 'hosts of several zones', by => 'time_dates',
        has => 'Asia/Kolkata'],
    ['4.2.1', 's-maxage before max-age', $yes, [cc 's-maxage=90, max-age=0'],
        life => 90],
    ['4.2.1, 5.3 s-maxage', 's-maxage before Expires', $yes, [cc('s-maxage=90'),
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
    ['4.2.1 twice', 'the first of two Expires', $no, [Expires => $past,
        Expires => $future, Date => http_date($now)]],
    ['4.2.1 twice', 'of two max-age the smaller', $yes,
        [cc 'max-age=90, max-age=60'], life => 60],
    ['4.2.1 twice', 'on several lines, too', $yes, [cc 'max-age=90',
        'max-age=60'], life => 60],
    (map { ['4.2.1 twice', "invalid is stale: $_", $no, [cc $_]] } 'max-age=x',
        'max-age=-1', 'max-age=1.5', 'max-age', 's-maxage=x, max-age=60'),

    ['4.2.2 guess', 'no heuristics unless asked for', $no,
        ['Last-Modified' => $past]],
    ['4.2.2 guess', 'heuristics: a part of the time', $yes,
        ['Last-Modified' => http_date($now - 1000), Date => http_date($now)],
        at => '/guess', life => 100],
    ['4.2.2 guess', 'heuristics: with a bound', $yes,
        ['Last-Modified' => http_date($now - 1e6), Date => http_date($now)],
        at => '/guess', life => 600],
    ['4.2.2', 'heuristics: not with an explicit time', $no,
        ['Last-Modified' => $past, cc 'max-age=0'], at => '/guess'],
    ['4.2.2 guess', 'heuristics: not of any status', $no,
        ['Last-Modified' => $past, Date => http_date($now)], status => 302,
        at => '/guess'],
    ['4.2.2 guess', 'heuristics: but with public', $yes,
        ['Last-Modified' => $past, Date => http_date($now), cc 'public'],
        status => 302, at => '/guess'],
    ['4.2.2 guess', 'heuristics: nothing to count from', $no, [],
        at => '/guess'],
    ['4.2.2 guess', 'heuristics: not what is forbidden', $no,
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

    (map { ['4.2.4 forbidden', "no stale page: $_", by => 'rfc_stale_error',
        has => "/x/\$_/500"] } 'must-revalidate', 'proxy-revalidate',
        's-maxage'),
    ['4.2.4 forbidden', 'no stale page: no-cache is not stored', $no,
        [cc 'max-age=60, no-cache, stale-if-error=60']],
    ['4.2.4 allowed', 'a stale page within what is configured',
        by => 'cache_waiters', has => 'the old page'],
    ['4.2.4 allowed', 'only as the response allows', by => 'cache_grace',
        has => 'mcds_cache_grace off;'],
    ['4.2.4 allowed', 'no longer than that', by => 'rfc_stale_error',
        has => "is_error('/grace/plain/500', 500, 6_000)"],

    # validation

    ['4.3.1 tag', 'If-None-Match with the stored ETag', by => 'rfc_revalidate',
        has => 'If-None-Match'],
    ['4.3.1 date', 'If-Modified-Since with Last-Modified',
        by => 'rfc_revalidate', has => 'If-Modified-Since'],
    ['4.3.1 own', 'not with what the client has', by => 'rfc_revalidate',
        has => 'condition: asked once'],
    ['4.3.1 own', 'nothing to ask with: a plain request',
        by => 'rfc_revalidate', has => 'built anew'],
    ['4.3.2 judge', 'If-None-Match of a client', $yes, [@fresh, ETag => '"1"'],
        check => sub {
            my $get = $_[1]{get};
            is($get->('', 'If-None-Match' => $_)->status, 304, $_)
                for '"1"', 'W/"1"', '"0", "1"', '*';
            is($get->('', 'If-None-Match' => '"2"')->status, 200, '"2"');
        }],
    ['4.3.2 judge', 'If-Modified-Since of a client', $yes,
        [@fresh, 'Last-Modified' => $past], check => sub {
            my $get = $_[1]{get};
            is($get->('', 'If-Modified-Since' => $past)->status, 304, 'same');
            is($get->('', 'If-Modified-Since' => http_date(1e9))->status, 200,
                'older');
        }],
    ['4.3.2 judge', 'later than it, where nginx shall', $yes,
        [@fresh, 'Last-Modified' => $past], at => '/before', check => sub {
            is($_[1]{get}->('', 'If-Modified-Since' => http_date($now))->status,
                304, 'not modified');
        }],
    ['4.3.2 judge', 'no date: no condition', $yes,
        [@fresh, 'Last-Modified' => $past], check => sub {
            is($_[1]{get}->('', 'If-Modified-Since' => 'lately')->status, 200,
                'the page');
        }],
    ['4.3.2 judge', 'If-None-Match goes before it', $yes,
        [@fresh, 'Last-Modified' => $past, ETag => '"1"'], check => sub {
            my $get = $_[1]{get};
            is($get->('', 'If-Modified-Since' => $past,
                'If-None-Match' => '"2"')->status, 200, 'another ETag');
            is($get->('', 'If-Modified-Since' => http_date(1e9),
                'If-None-Match' => '"1"')->status, 304, 'the same ETag');
            is($get->('', 'If-Modified-Since' => 'lately',
                'If-None-Match' => '*')->status, 304, 'any ETag');
        }],
    ['4.3.2 judge', 'a date later than Last-Modified, by nginx\'s default',
        $yes, [@fresh, 'Last-Modified' => $past], check => sub {
            is($_[1]{get}->('', 'If-Modified-Since' => http_date($now))->status,
                200, 'the page');
        }],
    ['4.3.2 undated', 'no Last-Modified: no condition', $yes,
        [@fresh, Date => $past], check => sub {
            is($_[1]{get}->('', 'If-Modified-Since' => http_date($now))->status,
                200, 'the page');
        }],
    ['4.3.2 origin', 'nor those of a POST', $yes, [@fresh, ETag => '"1"'],
        check => sub {
            my @c = ('If-Match' => '"2"', 'If-None-Match' => '"1"');
            my $r = $_[1]{post}->('', @c);
            is($r->status, 200, 'not judged');
            is($r->header('X-Request'),
                'if-match: "2"; if-none-match: "1"', 'but sent on');
        }],
    ['4.3.2 origin', 'nor where nothing is stored', by => 'safety_ranges',
        has => '"@more: first"'],
    ['4.3.2 origin', 'If-Match and If-Unmodified-Since are for an origin', $yes,
        [@fresh, 'Last-Modified' => $past, ETag => '"1"'], check => sub {
            my $get = $_[1]{get};
            is($get->('', @$_)->status, 200, "@$_")
                for ['If-Match' => '"2"'],
                    ['If-Unmodified-Since' => http_date(1e9)],
                    ['If-Unmodified-Since' => 'lately'];
            is($get->('', 'If-Match' => '"2"', 'If-None-Match' => '"1"',
                'If-Unmodified-Since' => http_date(1e9))->status, 304, 'all');
        }],
    ['4.3.2 judge', 'If-Range of a client', $yes, [@fresh, ETag => '"1"'],
        check => sub {
            my $get = $_[1]{get};
            is($get->('', Range => 'bytes=0-2', 'If-Range' => '"1"')->status,
                206, 'same');
            is($get->('', Range => 'bytes=0-2', 'If-Range' => '"2"')->status,
                200, 'another');
        }],
    ['4.3.3 304, 4.3.2 forwarded', '304: the stored page is sent',
        by => 'rfc_revalidate', has => 'the client has asked for no 304'],
    ['4.3.3 full', 'a full answer takes its place', by => 'rfc_revalidate',
        has => 'changed: the new page'],
    ['4.3.3 error', '5xx: sent on, or the old page', by => 'rfc_stale_error',
        has => 'the old page'],
    ['4.3.4 other', 'not by a 304 of another page', by => 'rfc_revalidate',
        has => 'another ETag'],
    ['4.3.4 update', 'weak validators do', by => 'rfc_revalidate',
        has => "'/fill/weak/new'"],
    ['4.3.4 update', 'a 304 that says it may not be kept',
        by => 'rfc_revalidate', has => 'no-store: it is no page any more'],
    ['4.3.5 either, 4.3.5 other', 'a HEAD that tells of another page',
        by => 'rfc_head', has => 'another page'],
    ['4.3.5 either, 4.3.5 other', 'a HEAD that does not tell', by => 'rfc_head',
        has => 'quiet gained'],
    ['4.3.5 either, 4.3.5 same, 4.3.5 headers', 'also of a page in parts',
        by => 'rfc_head', has => 'renew_large'],
    ['4.3.5 either, 4.3.5 same, 4.3.5 headers', 'a HEAD that tells of the same',
        by => 'rfc_head', has => 'the same page'],
    ['4.3.5 same, 4.3.5 headers', 'which updates it', by => 'rfc_head',
        has => 'the page has the headers of the HEAD'],

    # invalidation

    ['4.4 target', 'by unsafe methods, unknown ones too',
        by => 'rfc_invalidate', has => 'BREW'],
    ['4.4 target', 'not after an error', by => 'rfc_invalidate', has => '409'],
    ['4.4 host', 'not of another host', by => 'rfc_invalidate',
        has => 'of another host'],
    ['4.4 location', 'Location and Content-Location', by => 'rfc_invalidate',
        has => 'Content-Location'],

    # headers

    ['1.2.2', 'too large a number is very large', $yes,
        [cc 'max-age=99999999999999999999'], life => 2147483648],
    ['5.1 first', 'Age: the first of a list', $yes, [@fresh, Age => '20, 50'],
        life => 40],
    ['5.1 first', 'Age: the first of several', $yes, [@fresh, Age => 20,
        Age => 50], life => 40],
    ['5.1 first', 'Age: the first of several, also if it is 0', $yes,
        [@fresh, Age => 0, Age => 50], life => 60],
    ['5.1 first, 5.1 invalid',
        'Age: the first of several, also if it is no number', $yes,
        [@fresh, Age => 'x', Age => 50], life => 60],
    (map { ['5.1 invalid', "Age: not a number: $_", $yes, [@fresh, Age => $_],
        life => 60] } 'x', '-1', '50x', '1.5', '50 x', ''),
    ['1.2.2', 'Age: too large a number', $no, [@fresh, Age => '9' x 30]],
    ['5.2 syntax', 'directives in any case', $yes, [cc 'MAX-AGE=60'],
        life => 60],
    ['5.2 syntax', 'arguments in quotes', $yes, [cc 'max-age="60"'],
        life => 60],
    ['5.2 syntax', 'a directive within quotes is none', $yes,
        [cc 'x="private, no-store", max-age=60']],
    ['5.2 syntax', 'several lines are one', $no, [cc 'max-age=60', 'no-store']],
    ['5.2 syntax', 'empty elements are none', $yes, [cc ',, max-age=60 ,'],
        life => 60],
    ['5.2 syntax', 'a quoted comma ends nothing', $yes,
        [cc 'x="a,\\",b", max-age=60'], life => 60],
    ['5.2 syntax', 'what is no directive forbids', $no, [cc 'max-age=60, "']],
    ['5.2 pass', 'all are passed on as they are', $yes,
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

    ['5.2.2.2 504', '502 says more', by => 'rfc_stale_error',
        has => '/x/$_/close", 502, 1_000) for qw/ must'],
    ['5.2.2, 5.2.2.1', 'max-age=0', $no, [cc 'max-age=0']],

    ['5.2.2.2 reuse, 5.2.2.2 obey, 5.2.2.2 error',
        'must-revalidate: 504 or the error', by => 'rfc_stale_error',
        has => 'mustsie'],
    ['5.2.2.3', 'must-understand: no-store is not heard', $yes,
        [cc 'max-age=60, must-understand, no-store']],
    ['5.2.2.3', 'must-understand: but of other statuses', $no,
        [cc 'max-age=60, must-understand, no-store'], status => 299],
    ['5.2.2.4', 'no-cache', $no, [cc 'max-age=60, no-cache']],
    ['5.2.2.7 store', 'private', $no, [cc 'private, s-maxage=60']],
    ['5.2.2.4 fields', 'no-cache with fields', $no,
        [cc 'max-age=60, no-cache="a"']],
    ['5.2.2.5 store, 5.2.2.5 use', 'no-store', $no,
        [cc 'no-store, public, max-age=60']],
    ['5.2.2.7 fields', 'private with fields', $no,
        [cc 'max-age=60, private="a"']],
    ['5.2.2.6', 'no-transform: not compressed', by => 'cache_compress',
        has => 'asked not to'],
    ['5.2.2.8', 'proxy-revalidate: no stale page', by => 'rfc_stale_error',
        has => '500, 1_000) for qw/ must proxy'],
    ['5.2.2.9', 'public', $yes, [cc 'public, max-age=60']],
    ['5.2.2.10', 's-maxage: no stale page', by => 'rfc_stale_error',
        has => '500, 1_000) for qw/ must proxy shared'],
    ['5.2.2.10', 'but with stale-if-error beside it', by => 'rfc_stale_error',
        has => "is_old('/x/sharedsie/500'"],
    ['5.2.2.10', 'for the time that it gives', by => 'rfc_stale_error',
        has => "is_error('/x/sharedsie/503', 503, 700_000)"],
    ['5.2.2.10', 'or stale-while-revalidate gives', by => 'rfc_stale_error',
        has => "is_error('/x/sharedswr/500', 500, 700_000)"],
    ['5.2.2.10', 'unless that is ignored', by => 'rfc_ignore_directives',
        has => 'Cache-Control:stale-while-revalidate Cache-Control:stale-if'],
    ['5.2.2.10', 's-maxage=0', $no, [cc 's-maxage=0, max-age=60']],
    ['5.2.3', 'unknown directives are skipped', $yes,
        [cc 'community="UCI", max-age=60']],
    (map { ['5.3 invalid', "Expires: invalid is past: '$_'", $no,
        [Expires => $_]] } '0', '-1', 'soon', '', "$future x"),
    (map { my $zone = $_; ['4.2 zone', "Expires: another zone is past: '$zone'",
        $no, [Expires => $future =~ s/ GMT$/$zone/r]] }
        ' UTC', ' EST', ' +0000', ' -0500', ''),
    ['4.2 case', 'Expires: in lower case', $yes, [Expires => lc $future]],
    ['4.2 zone', 'Date of another zone is none', $yes, [Expires => $future,
        Date => http_date($now - 900) =~ s/GMT/EST/r], check => sub {
            cmp_ok(abs($_[3]{expire} - ($now + 3600) * 1000), '<=', 1000,
                'it ends then');
        }],
    ['5.4', 'Pragma, alone', $no, [Pragma => 'no-cache', Expires => $future]],
    ['5.4', 'Pragma, not before Cache-Control', $yes,
        [Pragma => 'no-cache', @fresh]],

    ['Set-Cookie', 'is not stored', $no, [@fresh, 'Set-Cookie' => 'a=b']],

    # nginx's own

    ['X-Accel-Expires', 'before all others', $yes, [cc('max-age=10'),
        'CDN-Cache-Control' => 'max-age=20', 'X-Accel-Expires' => 90],
        life => 90],
    ['X-Accel-Expires', 'two, the shorter one', $yes,
        ['X-Accel-Expires' => 90, 'X-Accel-Expires' => 120], life => 90],
    ['X-Accel-Expires', '0: not', $no, [@fresh, 'X-Accel-Expires' => 0]],
    ['X-Accel-Expires', '0: not, whatever comes behind', $no,
        ['X-Accel-Expires' => 0, 'X-Accel-Expires' => 60]],

    # nginx 1.23 drops the second line

    $t->nginx_version() < 1023000
        ? ['X-Accel-Expires', '0: not, whatever comes before', $no,
            ['X-Accel-Expires' => 60, 'X-Accel-Expires' => 0]] : (),
    ['X-Accel-Expires', 'a time', $yes, ['X-Accel-Expires' => '@'
        . ($now + 1000)], check => sub {
            cmp_ok(abs($_[3]{expire} - ($now + 1000) * 1000), '<=', 1000,
                'is kept');
        }],
);

clauses($t, \@statements, <<'EOT', @rows);
        location /server/ {
            proxy_pass_header Server;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
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
