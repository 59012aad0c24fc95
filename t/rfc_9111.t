#!/usr/bin/perl

# Copyright (C) mcds authors

# What RFC 9111 demands of a shared cache, clause by clause, with what belongs
# to it of RFC 9110, 5861 and 9213.  Each row has the clause, what it demands,
# and how that is shown: either here, by what becomes of an answer that is
# asked for twice, or by the file that is named and the text to be found in
# it.  What is not there: clauses about private caches, caches without a clock,
# range requests that are stored (206 is not), and the Warning header.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

sub http_date {
    my @t = gmtime(shift);
    my $day = (qw/ Sun Mon Tue Wed Thu Fri Sat /)[$t[6]];
    my $mon = (qw/ Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec /)[$t[4]];
    return sprintf '%s, %02d %s %d %02d:%02d:%02d GMT', $day, $t[3], $mon,
        $t[5] + 1900, @t[2, 1, 0];
}

my $now = int time();
my $past = http_date($now - 3600);
my $future = http_date($now + 3600);

sub cc { map { ('Cache-Control' => $_) } @_ }

my ($yes, $no) = (1, 0);
my @fresh = cc 'max-age=60';

# [clause, demand, stored or not, headers of the answer, more], more being
# status, request (headers), method, at (location), life (seconds, of what is
# stored), check (sub of the first response, the second, and the entry)

my @rows = (

    # storing

    ['3', 'the method is understood: HEAD', $no, [@fresh], method => 'HEAD'],
    ['3', 'the method is understood: POST', $no, [@fresh], method => 'POST'],
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
            is_deeply([map { s/.*?: //r } $_[1]->all('X-New')], ['a', 'b'],
                'and sent');
        }],
    ['3.1', 'Connection and what it names is not', $yes,
        [@fresh, 'X-Hop' => 1, 'X-Two' => 1, 'X-Stays' => 1,
            Connection => 'keep-alive, x-hop,X-Two'], check => sub {
            is($_[1]->header($_), undef, "$_ is not") for 'X-Hop', 'X-Two';
            is($_[1]->header('X-Stays'), 1, 'another is');
        }],
    ['3.1', 'Proxy-* of a hop is not', $yes,
        [@fresh, map { ($_ => 'x') } 'Proxy-Authenticate',
            'Proxy-Authentication-Info', 'Proxy-Authorization'],
        check => sub {
            is($_[1]->header($_), undef, "$_ is not")
                for 'Proxy-Authenticate', 'Proxy-Authentication-Info',
                    'Proxy-Authorization';
        }],
    ['3.2', 'a 304 updates stored headers', by => 'rfc_revalidate',
        has => 'a header is replaced'],
    ['3.2', 'but not those of the body', by => 'rfc_revalidate',
        has => 'a 304 with headers of a body'],
    ['3.3', 'an incomplete answer is not stored', by => 'cache_broken'],

    ['3.5', 'Authorization: max-age is not enough', $no, [@fresh],
        request => [Authorization => 'Basic YTpi']],
    (map { ['3.5', "Authorization: $_", $yes, [cc "$_, max-age=60"],
        request => [Authorization => 'Basic YTpi']] }
        'public', 's-maxage=60', 'must-revalidate'),

    # using

    ['4', 'of the same URI', $yes, [@fresh], check => sub {
        is(shift->{get}->('?other')->header('X-Cache'), 'MISS', 'not another');
    }, other => 1],
    ['4', 'Age is sent', $yes, [@fresh, Age => 7], check => sub {
        like($_[1]->header('Age'), qr/^(?:7|8|9)$/, 'Age goes on');
    }],
    ['4', 'unsafe methods are written through', by => 'rfc_invalidate',
        has => 'POST PUT DELETE'],
    ['4.1', 'the variant that the request selects', by => 'cache_vary'],
    ['4.1', 'Vary: * matches nothing', $no, [@fresh, Vary => '*']],
    ['4.1', 'nor with others beside it', $no, [@fresh, Vary => 'A, *']],

    ['4.2', 'max-age before Expires', $yes, [cc('max-age=60'),
        Expires => $future], life => 60],
    ['4.2', 'also when that has passed', $yes, [@fresh, Expires => $past]],
    ['4.2.1', 's-maxage before max-age', $yes, [cc 's-maxage=90, max-age=0'],
        life => 90],
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

    (map { ['4.2.4', "no stale page: $_", by => 'rfc_stale_error',
        has => "/x/\$_/500"] } 'must-revalidate', 'proxy-revalidate',
        's-maxage'),
    ['4.2.4', 'a stale page within what is configured', by => 'cache_waiters'],

    # validation

    ['4.3.1', 'If-None-Match with the stored ETag', by => 'rfc_revalidate',
        has => 'If-None-Match'],
    ['4.3.1', 'If-Modified-Since with Last-Modified', by => 'rfc_revalidate',
        has => 'If-Modified-Since'],
    ['4.3.2', 'If-None-Match of a client', $yes, [@fresh, ETag => '"1"'],
        check => sub {
            my $get = shift->{get};
            is($get->('', 'If-None-Match' => $_)->status, 304, $_)
                for '"1"', 'W/"1"', '"0", "1"', '*';
            is($get->('', 'If-None-Match' => '"2"')->status, 200, '"2"');
        }, other => 1],
    ['4.3.2', 'If-Modified-Since of a client', $yes,
        [@fresh, 'Last-Modified' => $past], check => sub {
            my $get = shift->{get};
            is($get->('', 'If-Modified-Since' => $past)->status, 304, 'same');
            is($get->('', 'If-Modified-Since' => http_date(1e9))->status, 200,
                'older');
        }, other => 1],
    ['4.3.2', 'If-None-Match goes before it', $yes,
        [@fresh, 'Last-Modified' => $past, ETag => '"1"'], check => sub {
            is(shift->{get}->('', 'If-Modified-Since' => $past,
                'If-None-Match' => '"2"')->status, 200, 'both');
        }, other => 1],
    ['4.3.2', 'If-Range of a client', $yes, [@fresh, ETag => '"1"'],
        check => sub {
            my $get = shift->{get};
            is($get->('', Range => 'bytes=0-2', 'If-Range' => '"1"')->status,
                206, 'same');
            is($get->('', Range => 'bytes=0-2', 'If-Range' => '"2"')->status,
                200, 'another');
        }, other => 1],
    ['4.3.3', '304: the stored page is sent', by => 'rfc_revalidate',
        has => 'the client has asked for no 304'],
    ['4.3.3', 'a full answer takes its place', by => 'rfc_revalidate',
        has => 'changed: the new page'],
    ['4.3.3', '5xx: sent on, or the old page', by => 'rfc_stale_error',
        has => 'the old page'],
    ['4.3.4', 'not by a 304 of another page', by => 'rfc_revalidate',
        has => 'another ETag'],

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
    (map { ['5.1', "Age: not a number: $_", $yes, [@fresh, Age => $_],
        life => 60] } 'x', '-1', '50x', '1.5', ''),
    ['5.1', 'Age: too large a number', $no, [@fresh, Age => '9' x 30]],
    ['5.2', 'directives in any case', $yes, [cc 'MAX-AGE=60'], life => 60],
    ['5.2', 'arguments in quotes', $yes, [cc 'max-age="60"'], life => 60],
    ['5.2', 'a directive within quotes is none', $yes,
        [cc 'x="private, no-store", max-age=60']],
    ['5.2', 'several lines are one', $no, [cc 'max-age=60', 'no-store']],

    (map { ["5.2.1", "of a request: $_", by => 'rfc_request', has => $_] }
        'max-age', 'max-stale', 'min-fresh', 'no-cache', 'no-store',
        'only-if-cached'),

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
    ['5.2.2.9', 'public', $yes, [cc 'public, max-age=60']],
    ['5.2.2.10', 's-maxage=0', $no, [cc 's-maxage=0, max-age=60']],
    ['5.2.3', 'unknown directives are skipped', $yes,
        [cc 'community="UCI", max-age=60']],
    (map { ['5.3', "Expires: invalid is past: '$_'", $no, [Expires => $_]] }
        '0', '-1', 'soon', ''),
    ['5.4', 'Pragma, alone', $no, [Pragma => 'no-cache', Expires => $future]],
    ['5.4', 'Pragma, not before Cache-Control', $yes,
        [Pragma => 'no-cache', @fresh]],

    # others

    ['9110, 6.6.1', 'Date is the origin\'s', $yes, [@fresh, Date => $past],
        check => sub { is($_[1]->header('Date'), $past, 'Date') }],
    ['9110, 6.6.1', 'or the time of the answer', $yes, [@fresh],
        check => sub {
            like($_[1]->header('Date'), qr/^\w{3}, .* GMT$/, 'Date');
        }],
    ['9110, 9.3.2', 'HEAD from the stored page', $yes, [@fresh, 'X-A' => 1],
        check => sub {
            my ($o, undef, $second) = @_;
            my $r = $o->{head}->();
            is($r->body, '', 'no body');
            is($r->header($_), $second->header($_), $_)
                for 'X-A', 'Content-Length', 'Cache-Control', 'X-Cache';
        }, other => 1],
    ['9110, 14.2', 'ranges of the stored page', $yes, [@fresh],
        check => sub {
            is(shift->{get}->('', Range => 'bytes=0-2')->body, 'row', 'range');
        }, other => 1],
    ['9110, 15.1', 'errors are not', $no, [@fresh], status => 500],
    ['6265, 3', 'Set-Cookie', $no, [@fresh, 'Set-Cookie' => 'a=b']],

    ['5861, 3', 'stale-while-revalidate', $yes,
        [cc 'max-age=60, stale-while-revalidate=77'],
        check => sub { is($_[2]{swr}, 77, 'is kept') }],
    ['5861, 4', 'stale-if-error', by => 'rfc_stale_error', has => '/x/sie/'],

    ['9213, 2.1', 'CDN-Cache-Control before Cache-Control', $yes,
        [cc('max-age=10'), 'CDN-Cache-Control' => 'max-age=90'], life => 90],
    ['9213, 2.1', 'also if that forbids', $yes,
        [cc('no-store'), 'CDN-Cache-Control' => 'max-age=90'], life => 90],
    ['9213, 2.1', 'and before Expires', $yes, [Expires => $past,
        'CDN-Cache-Control' => 'max-age=90'], life => 90],
    ['9213, 2.1', 'or it forbids', $no,
        [@fresh, 'CDN-Cache-Control' => 'no-store']],
    ['9213, 2.2', 'unless it cannot be read', $yes,
        [@fresh, 'CDN-Cache-Control' => 'max-age=90, ;'], life => 60],
    ['9213, 2.2', 'or is empty', $yes, [@fresh, 'CDN-Cache-Control' => ''],
        life => 60],
    ['9213, 2.1', 'Set-Cookie forbids all the same', $no,
        ['CDN-Cache-Control' => 'max-age=90', 'Set-Cookie' => 'a=b']],

    # nginx's own

    ['X-Accel-Expires', 'before all others', $yes, [cc('max-age=10'),
        'CDN-Cache-Control' => 'max-age=20', 'X-Accel-Expires' => 90],
        life => 90],
    ['X-Accel-Expires', '0: not', $no, [@fresh, 'X-Accel-Expires' => 0]],
    ['X-Accel-Expires', 'a time', $yes, ['X-Accel-Expires' => '@'
        . ($now + 1000)], check => sub {
            cmp_ok(abs($_[2]{expire} - ($now + 1000) * 1000), '<=', 1000,
                'is kept');
        }],
);

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($row) = $q->{path} =~ /(\d+)$/;
    my $r = $rows[$row];
    my %more = ref $r->[3] ? @$r[4 .. $#$r] : ();
    return { headers => ref $r->[3] ? $r->[3] : [],
        status => $more{status} // 200, body => "row $row, answer $q->{n}" };
});

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /guess/ {
            mcds_cache_heuristic 10% 10m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $i (0 .. $#rows) {
    my ($clause, $demand, @row) = @{$rows[$i]};
    my $name = "$clause: $demand";

    if ($row[0] eq 'by') {
        my %by = @row;
        my $file = "$FindBin::Bin/$by{by}.t";
        my $text = do { local (@ARGV, $/) = $file; -e $file ? <> : '' };

        ok(length $text && (!$by{has} || index($text, $by{has}) >= 0),
            "$name: see t/$by{by}.t");
        next;
    }

    my ($stored, $headers, %more) = @row;
    my $uri = ($more{at} // '') . "/$i";
    my $key = "http://localhost$uri";
    my @request = @{$more{request} // []};

    my $first = $a->get($uri, headers => \@request,
        method => $more{method} // 'GET');
    wait_for(sub { !defined $m->get("$key:lock") });
    wait_for(sub { defined $m->get($key) }, 5) if $stored;

    my $e = page_decode($m->get($key));
    my $there = $e && $e->{kind} == 0 ? 1 : 0;

    is($there, $stored, $name . ($stored ? ': stored' : ': not stored'));

    next if !$stored || !$there;

    my $second = $a->get($uri, headers => \@request);
    is($second->header('X-Cache'), 'HIT', "$name: used");

    if ($more{life}) {
        my $life = ($e->{expire} - $e->{created}) / 1000;
        cmp_ok(abs($life - $more{life}), '<=', 1, "$name: $more{life} s")
            or diag("$life s");
    }

    if ($more{check}) {
        my $ask = {
            get => sub { $a->get($uri . shift, headers => [@_]) },
            head => sub { $a->get($uri, method => 'HEAD') },
        };
        $more{check}->($more{other} ? $ask : (), $first, $second, $e);
    }
}

$t->done();
