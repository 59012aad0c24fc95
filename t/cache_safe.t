#!/usr/bin/perl

# Copyright (C) mcds authors

# What may not be shared is never stored, under no directive; what nobody said
# may be stored, is not; what was not complete, is not.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $past = 'Thu, 01 Jan 1998 00:00:00 GMT';
my $future = 'Thu, 01 Jan 2037 00:00:00 GMT';
my $age = 'max-age=60';

# name, stored, headers of the answer; then status => .., request => [..]

sub cc { map { ('Cache-Control' => $_) } @_ }

my @rows = (
    ['nothing', 0, []],
    ['max-age', 1, [cc $age]],

    # C01
    map({ [$_->[0], 0, [cc('public, max-age=60'), @{$_->[1]}]] }
        ['a cookie', ['Set-Cookie' => 'a=b']],
        ['a cookie in upper case', ['SET-COOKIE' => 'a=b']],
        ['a cookie in lower case', ['set-cookie' => 'a=b']],
        ['two cookies', ['Set-Cookie' => 'a=b', 'Set-Cookie' => 'c=d']],
        ['an empty cookie', ['Set-Cookie' => '']],
        ['an old cookie', ['Set-Cookie2' => 'a=b']]),

    # C02
    map({ [$_->[0], $_->[1], [cc $_->[2]],
        request => [Authorization => 'Basic YTpi']] }
        ['authorization', 0, $age],
        ['authorization, private', 0, 'private, max-age=60'],
        ['authorization, public', 1, 'public, max-age=60'],
        ['authorization, s-maxage', 1, 's-maxage=60'],
        ['authorization, must-revalidate', 1, 'must-revalidate, max-age=60'],
        ['authorization, public="x"', 0, 'public="x", max-age=60']),

    # C03
    map({ ["Cache-Control: $_", 0, [cc $_]] }
        'private', "private, $age", "$age, PRIVATE", "private=\"a\", $age",
        'no-store', "$age, no-store", "$age,no-store,", "No-Store, $age",
        'no-cache', "$age, no-cache", "no-cache=\"Set-Cookie\", $age",
        'max-age=0', 's-maxage=0, max-age=60', "$age, max-age=0",
        'max-age', 'max-age=', 'max-age=-1', 'max-age=abc', 'max-age=1.5',
        'max-age=60s', 'max-age=""',
        'max-age = 60', "$age; private", "\"", "$age, \"x", "$age, x=\"\\",
        "$age private", "$age, =x", "$age, x=\"y\"z"),
    map({ ["Cache-Control: $_", 1, [cc $_]] }
        'public, max-age=60', 's-maxage=60', "x=\"private\", $age",
        "x=\"no-store, \\\"\", $age", 'max-age="60"', "MAX-AGE=60", "$age,,",
        'max-age=' . '9' x 30, 'max-age=0, s-maxage=60', "xprivate, $age",
        "no-transform, $age"),
    ['two lines, private', 0, [cc $age, 'private']],
    ['two lines, malformed', 0, [cc '"', $age]],
    ['two lines, one empty', 1, [cc '', $age]],
    ['Pragma', 0, ['Pragma' => 'no-cache', 'Expires' => $future]],
    ['Pragma, max-age', 1, ['Pragma' => 'no-cache', cc $age]],
    ['Expires', 1, ['Expires' => $future]],
    ['Expires, past', 0, ['Expires' => $past]],
    ['Expires, 0', 0, ['Expires' => '0']],
    ['Expires, -1', 0, ['Expires' => '-1']],
    ['Expires, nonsense', 0, ['Expires' => 'soon']],
    ['Expires, past, max-age', 1, ['Expires' => $past, cc $age]],
    ['Expires, future, max-age=0', 0, ['Expires' => $future, cc 'max-age=0']],
    ['Age below max-age', 1, [cc($age), 'Age' => 30]],
    ['Age above max-age', 0, [cc($age), 'Age' => 60]],
    ['X-Accel-Expires', 1, ['X-Accel-Expires' => 60]],
    ['X-Accel-Expires, 0', 0, ['X-Accel-Expires' => 0, cc $age]],
    ['X-Accel-Expires, past', 0, ['X-Accel-Expires' => '@1', cc $age]],
    ['X-Accel-Expires, 0 and 60', 0,
        ['X-Accel-Expires' => 0, 'X-Accel-Expires' => 60]],
    ['X-Accel-Expires, two', 1,
        ['X-Accel-Expires' => 60, 'X-Accel-Expires' => 60]],
    ['X-Accel-Expires, private', 0, ['X-Accel-Expires' => 60, cc 'private']],
    map({ ["Vary: $_", 0, [cc($age), 'Vary' => $_]] } '*', 'Cookie, *'),
    map({ ["Vary: $_", 'hit', [cc($age), 'Vary' => $_]] } 'Cookie',
        'Accept-Encoding'),
    ['Vary: nothing', 1, [cc($age), 'Vary' => '']],
    map({ ["Content-Encoding: $_", 0, [cc($age), 'Content-Encoding' => $_]] }
        'gzip', 'br', 'x'),
    map({ ["status $_", 0, [cc $age], status => $_] }
        206, 400, 401, 403, 429, 500, 502, 503, 504),
    map({ ["status $_", 1, [cc $age], status => $_] }
        203, 204, 300, 301, 302, 308, 404, 410),
);

my %spec = map {
    my (undef, undef, $headers, %more) = @{$rows[$_]};
    ("$_" => { headers => $headers, status => $more{status} // 200 })
} 0 .. $#rows;

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($row) = $q->{path} =~ /(\d+)$/;
    return { %{$spec{$row} // {}}, body => "row $row, answer $q->{n}" };
});

my $h = $t->nginx('h', <<'EOT');
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

        # as much as directives can do against it

        location /forced/ {
            mcds_cache_valid 200 1m;
            mcds_cache_background_update on;
            mcds_cache_lock off;
            mcds_cache_methods GET HEAD;
            proxy_hide_header Set-Cookie;
            proxy_hide_header Cache-Control;
            proxy_hide_header Vary;
            proxy_hide_header Content-Encoding;
            proxy_hide_header Pragma;
            proxy_ignore_headers Set-Cookie Cache-Control Expires Vary
                                 X-Accel-Expires;
            expires 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# asks twice; whether the second came out of the cache

sub stored {
    my ($uri, $expected, @headers) = @_;

    my $first = $h->get($uri, headers => \@headers);
    wait_for(sub { !defined $m->get(key($uri) . ':lock') });
    wait_for(sub { defined $m->get(key($uri)) }) if $expected;
    my $second = $h->get($uri, headers => \@headers);

    my $e = page_decode($m->get(key($uri)));
    my $hit = $second->header('X-Cache') eq 'HIT';

    return $hit && $e && $e->{kind} == 0 ? 1 : $hit ? 'hit' : $e
        && $e->{kind} == 0 ? 'stored' : 0;
}

for my $i (0 .. $#rows) {
    my ($name, $stored, $headers, %more) = @{$rows[$i]};

    is(stored("/$i", $stored, @{$more{request} // []}), $stored,
        "$name: " . ($stored ? 'stored' : 'not stored'));
}

# with a lifetime from the configuration those that said nothing are stored,
# and all that were refused for a reason still are not

for my $i (0 .. $#rows) {
    my ($name, $stored, $headers, %more) = @{$rows[$i]};

    $stored = 1 if $name eq 'nothing';

    is(stored("/forced/$i", $stored, @{$more{request} // []}), $stored,
        "$name: " . ($stored ? 'stored' : 'not stored') . ', forced');
}


# a page of all is shown to who is authorized only if it may be

$h->get('/1');
my $r = $h->get('/1', headers => { Authorization => 'Basic YTpi' });
is($r->header('X-Cache'), 'BYPASS', 'authorization: not from the cache');
my ($public) = grep { $rows[$_][0] eq 'Cache-Control: public, max-age=60' }
    0 .. $#rows;
$r = $h->get("/$public", headers => { Authorization => 'Basic YTpi' });
is($r->header('X-Cache'), 'HIT', 'authorization: a public page is');


# methods and bodies

for my $c (['POST', 'x'], ['PUT', 'x'], ['DELETE'], ['GET', 'x'],
    ['OPTIONS'], ['HEAD'])
{
    my ($method, $body) = @$c;
    my $uri = "/1?$method";
    my $name = $method . (defined $body ? ' with a body' : '');

    $h->get($uri, method => $method, body => $body);
    is($h->get($uri)->header('X-Cache'), 'MISS', "$name: is not stored");

    next if $method eq 'HEAD';

    page_wait($m, key($uri));
    $r = $h->get($uri, method => $method, body => $body);
    ok(!defined $r->header('X-Cache'), "$name: the page is not its answer");
}

$t->done();
