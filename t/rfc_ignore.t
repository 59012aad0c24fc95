#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_ignore_headers: each takes away what its header says and nothing else,
# so that none of them turns off two guards (C05).

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $past = 'Thu, 01 Jan 1998 00:00:00 GMT';
my @age = ('Cache-Control' => 'max-age=60');
my @auth = (Authorization => 'Basic YTpi');

# name, headers of the answer, headers of the request, and those of the
# locations in which it is stored

my @rows = (
    ['nothing wrong', [@age], [], [qw/ none cookie vary expires accel /]],
    ['set-cookie', [@age, 'Set-Cookie' => 'a=secret'], [], ['cookie']],
    ['private', ['Cache-Control' => 'private, max-age=60'], [],
        [qw/ control-valid both-valid /]],
    ['no-store', ['Cache-Control' => 'no-store, max-age=60'], [],
        [qw/ control-valid both-valid /]],
    ['no-cache', ['Cache-Control' => 'no-cache, max-age=60'], [],
        [qw/ control-valid both-valid /]],
    ['malformed', ['Cache-Control' => 'max-age=60, "'], [],
        [qw/ control-valid both-valid /]],
    ['expired', ['Expires' => $past], [],
        [qw/ expires-valid both-valid /]],
    ['expired by both', ['Expires' => $past, 'Cache-Control' => 'no-cache'],
        [], ['both-valid']],
    ['with Pragma', ['Expires' => $past, 'Cache-Control' => 'no-cache',
        Pragma => 'no-cache'], [], ['both-valid']],
    ['Pragma alone', [Pragma => 'no-cache'], [], []],
    ['accel 0', [@age, 'X-Accel-Expires' => 0], [], ['accel']],
    ['vary', [@age, Vary => 'X-Who'], [], ['vary']],
    ['vary *', [@age, Vary => '*'], [], []],
    ['vary, *', [@age, Vary => 'X-Who, *'], [], []],
    ['vary, encoded', [@age, Vary => 'Accept-Encoding',
        'Content-Encoding' => 'gzip'], [], []],
    ['authorization', [@age], [@auth], []],
    ['authorization, private', ['Cache-Control' => 'private, max-age=60'],
        [@auth], []],
    ['authorization, public', ['Cache-Control' => 'public, max-age=60'],
        [@auth], [qw/ none cookie vary expires accel expires-valid /]],
    ['cookie, private', ['Cache-Control' => 'private, max-age=60',
        'Set-Cookie' => 'a=secret'], [], []],
    ['cookie, no-store', ['Cache-Control' => 'no-store',
        'Set-Cookie' => 'a=secret'], [], []],
    ['cookie, vary', [@age, Vary => 'Cookie', 'Set-Cookie' => 'a=secret'], [],
        []],
    ['cookie, cdn', ['CDN-Cache-Control' => 'max-age=60',
        'Set-Cookie' => 'a=secret'], [], ['cookie']],
    ['cdn no-store', [@age, 'CDN-Cache-Control' => 'no-store'], [], []],
    ['nothing', [], [], [qw/ control-valid expires-valid both-valid /]],
);

my %locations = (
    none => 'mcds_ignore_headers off;',
    cookie => 'mcds_ignore_headers Set-Cookie;',
    vary => 'mcds_ignore_headers Vary;',
    expires => 'mcds_ignore_headers Expires;',
    accel => 'mcds_ignore_headers X-Accel-Expires;',
    control => 'mcds_ignore_headers Cache-Control;',
    'control-valid' => 'mcds_ignore_headers Cache-Control;
        mcds_cache_valid 200 1m;',
    'expires-valid' => 'mcds_ignore_headers Expires;
        mcds_cache_valid 200 1m;',
    'both-valid' => 'mcds_ignore_headers Cache-Control Expires;
        mcds_cache_valid 200 1m;',
);

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($row) = $q->{path} =~ /(\d+)$/;
    return { headers => $rows[$row][1], body => "answer $q->{n}" };
});

my $locations = join '', map {
    "location /$_/ { $locations{$_}
     proxy_pass http://127.0.0.1:%%PORT_o%%; }\n" } sort keys %locations;

my $a = $t->nginx('a', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache \$mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        $locations
    }
}
EOT

# a lifetime of its own is enough, one of the configuration is there anyway

my %valid = map { $_ => [grep { /valid/ } keys %locations] } 'nothing wrong';

for my $i (0 .. $#rows) {
    my ($name, undef, $request, $in) = @{$rows[$i]};

    for my $location (sort keys %locations) {
        my $uri = "/$location/$i";
        my $stored = grep({ $_ eq $location } @$in, @{$valid{$name} // []});

        $a->get($uri, headers => $request);
        wait_for(sub { !defined $m->get("<>http://localhost$uri:lock") });
        page_wait($m, "<>http://localhost$uri") if $stored;

        my $bytes = $m->get("<>http://localhost$uri");
        my $e = page_decode($bytes);

        is($e && $e->{kind} == 0 ? 1 : 0, $stored, "$name, $location: "
            . ($stored ? 'stored' : 'not stored'));

        unlike($bytes // '', qr/secret/, "$name, $location: no cookie")
            if $name =~ /cookie/;
    }
}

# the visitor whose request fills a page has the cookie, nobody else

my ($row) = grep { $rows[$_][0] eq 'set-cookie' } 0 .. $#rows;
is($a->get("/cookie/$row?x")->header('Set-Cookie'), 'a=secret', 'for one');
my $r = $a->get("/cookie/$row?x");
is($r->header('X-Cache'), 'HIT', 'the page for all');
is($r->header('Set-Cookie'), undef, 'without it');


# the directives

my @conf = (http => 'mcds_pool m { server 127.0.0.1; }', location =>);

my $error = sub { $t->conf_error(@conf, "mcds_cache on; " . shift) };
my $warned = sub { ($t->conf_test(@conf, "mcds_cache on; " . shift))[1] };

like($warned->('mcds_ignore_headers Set-Cookie;'),
    qr/\[warn\].*mcds_ignore_headers Set-Cookie/, 'Set-Cookie: a warning');
unlike($warned->('mcds_ignore_headers Cache-Control Expires Vary '
    . 'X-Accel-Expires;'), qr/warn|emerg/, 'others: none');
like($error->('mcds_ignore_headers Pragma;'),
    qr/invalid value "Pragma" in/, 'what cannot be ignored');
like($warned->('mcds_ignore_headers Vary Vary;'), qr/duplicate value "Vary"/,
    'twice the same');

is($error->("mcds_cache_heuristic $_;"), '', "heuristic $_")
    for 'off', '10', '10%', '100% 1d', '1% 30s';
like($error->("mcds_cache_heuristic $_;"),
    qr/invalid (?:value|time) "[^"]*" in "mcds_cache_heuristic"/,
    "heuristic $_") for '0', '101%', 'x', '%', '10% x', '-1';
like($error->('mcds_cache_heuristic off 1d;'), qr/takes no further/,
    'heuristic off 1d');
like($error->('mcds_cache_heuristic 1; mcds_cache_heuristic 2;'),
    qr/is duplicate/, 'heuristic twice');

is($error->("mcds_cache_use_stale $_;"), '', "use_stale $_")
    for 'off', 'error timeout updating', 'http_403 http_404 http_429';
like($error->('mcds_cache_use_stale http_501;'),
    qr/invalid value "http_501" in/, 'use_stale http_501');

for my $flag (qw/ revalidate request_control /) {
    is($error->("mcds_cache_$flag $_;"), '', "$flag $_") for 'on', 'off';
    like($error->("mcds_cache_$flag yes;"), qr/it must be "on" or "off"/,
        "$flag yes");
}

$t->done();
