#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_ignore_headers with single directives of Cache-Control and
# CDN-Cache-Control, and with the whole of the latter: for what is stored, for
# how long, whether it may be shown stale, and for what a 304 says.  Pages as
# MediaWiki sends them: after an edit nobody has to wait.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $wiki = 's-maxage=18000, must-revalidate, max-age=0';
my $must = 2;

# ignored, headers of the answer: lifetime or undef, "stale" or "" of the entry

my @rows = (
    ['off', ['Cache-Control' => $wiki], 18000, ''],
    ['Cache-Control:must-revalidate', ['Cache-Control' => $wiki], 18000,
        'stale'],
    ['Cache-Control:MUST-revalidate', ['Cache-Control' => uc $wiki], 18000,
        'stale'],
    ['Cache-Control:must-revalidate', ['Cache-Control' => 's-maxage=60'], 60,
        'stale'],
    ['Cache-Control:proxy-revalidate', ['Cache-Control' => 's-maxage=60'], 60,
        'stale'],
    ['Cache-Control:must-revalidate',
        ['Cache-Control' => 'max-age=60, proxy-revalidate'], 60, ''],
    ['Cache-Control:proxy-revalidate', ['Cache-Control' => $wiki], 18000, ''],
    ['CDN-Cache-Control:must-revalidate', ['Cache-Control' => $wiki], 18000,
        ''],
    ['CDN-Cache-Control:must-revalidate',
        ['CDN-Cache-Control' => 'max-age=60, must-revalidate'], 60, 'stale'],
    ['Cache-Control:must-revalidate',
        ['CDN-Cache-Control' => 'max-age=60, must-revalidate'], 60, ''],
    ['CDN-Cache-Control', ['Cache-Control' => 'max-age=60',
        'CDN-Cache-Control' => 'no-store'], 60, 'stale'],
    ['CDN-Cache-Control', ['CDN-Cache-Control' => 'max-age=60'], undef],
    ['CDN-Cache-Control', ['Cache-Control' => 'no-store',
        'CDN-Cache-Control' => 'max-age=60'], undef],
    ['CDN-Cache-Control:no-store', ['Cache-Control' => 'max-age=60',
        'CDN-Cache-Control' => 'no-store'], undef],
    ['CDN-Cache-Control:no-store', ['Cache-Control' => 'max-age=60',
        'CDN-Cache-Control' => 'max-age=90, no-store'], 90, 'stale'],
    ['Cache-Control:s-maxage', ['Cache-Control' => 's-maxage=9, max-age=60'],
        60, 'stale'],
    ['Cache-Control:max-age', ['Cache-Control' => 'max-age=60'], undef],
    ['Cache-Control:max-age', ['Cache-Control' => 's-maxage=60, max-age=0'],
        60, ''],
    ['Cache-Control:private', ['Cache-Control' => 'private, max-age=60'], 60,
        'stale'],
    ['Cache-Control:private', ['Cache-Control' => 'private, no-store, '
        . 'max-age=60'], undef],
    ['Cache-Control:private Cache-Control:no-store', ['Cache-Control' =>
        'private, no-store, max-age=60'], 60, 'stale'],
    ['Cache-Control:no-cache', ['Cache-Control' => 'no-cache, max-age=60',
        Pragma => 'no-cache'], 60, 'stale'],
    ['Cache-Control:no-cache', ['Cache-Control' => 'max-age=60',
        'Cache-Control' => 'no-cache'], 60, 'stale'],
    ['Cache-Control:no-cache', [Pragma => 'no-cache'], undef],
    ['Cache-Control:no-cache', ['Cache-Control' => 'max-age=60, no-cache="'],
        undef],
    ['off', ['Cache-Control' => 's-maxage=60, stale-if-error=9'], 60, 'stale'],
    ['Cache-Control:stale-while-revalidate Cache-Control:stale-if-error',
        ['Cache-Control' => 's-maxage=60, stale-while-revalidate=9, '
        . 'stale-if-error=9'], 60, ''],
    ['Cache-Control:must-understand', ['Cache-Control' => 'no-store, '
        . 'must-understand, max-age=60'], undef],
);

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    my ($i) = $q->{path} =~ m{^/row(\d+)};
    return { headers => $rows[$i][1], body => 'row' } if defined $i;

    return { status => 304, headers => ['Cache-Control' => $wiki,
            ETag => '"1"'] }
        if ($q->{headers}{'if-none-match'} // '') eq '"1"';

    return { headers => ['Cache-Control' => $wiki, ETag => '"1"'],
        body => 'page %k' };
});

my $rows = join '', map { "location = /row$_ { mcds_ignore_headers "
    . "$rows[$_][0]; proxy_pass http://127.0.0.1:%%PORT_o%%; }\n" } 0 .. $#rows;

my $a = $t->nginx('a', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache \$mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        $rows
        location /wiki/ {
            mcds_ignore_headers Cache-Control:must-revalidate;
            mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /plain/ {
            mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /asks/ {
            mcds_ignore_headers Cache-Control:must-revalidate;
            mcds_cache_revalidate on;
            mcds_cache_background_update off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /users/ {
            mcds_ignore_headers Cache-Control:must-revalidate
                                Cache-Control:s-maxage;
            mcds_cache_valid 200 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub entry {
    my ($uri) = @_;
    wait_for(sub { !defined $m->get(key("$uri:lock")) });
    my $item = $m->get(key($uri));
    my $e = defined $item ? page_decode($item) : undef;
    return $e && $e->{kind} == 0 ? $e : undef;
}

for my $i (0 .. $#rows) {
    my ($ignored, $headers, $life, $stale) = @{$rows[$i]};
    my $name = join ' ', "$ignored:", map { $_ // '' } @$headers;

    my $r = $a->get("/row$i");
    page_wait($m, key("/row$i")) if defined $life;
    my $e = entry("/row$i");

    if (!defined $life) {
        ok(!$e, "$name: not stored");
        next;
    }

    is($e && $e->{expire} - $e->{created} + $e->{took}, $life * 1000,
        "$name: $life s");
    is($e && $e->{flags} & $must ? '' : 'stale', $stale,
        "$name: " . ($stale || 'not stale'));
    is($r->header('Cache-Control'), {@$headers}->{'Cache-Control'},
        "$name: is sent on") if @$headers == 2 && $headers->[0] =~ /^Cache/;
}


# an edit: MediaWiki purges the page

for my $where ('wiki', 'plain') {
    my $uri = "/$where/Main_Page";

    $a->get($uri);
    page_wait($m, key($uri));
    $a->get($uri, method => 'PURGE');
    $o->hold_path($uri);
    $o->mark();

    my @p = map { start_get($a->port(), $uri) } 1 .. 10;

    $o->wait_requests(1, $uri);

    if ($where eq 'wiki') {
        is(scalar(grep { $_->header('X-Cache') =~ /STALE|UPDATING/ }
            map { finish($_) } @p), 10, 'wiki: nobody waits');
        $o->release($uri);

    } else {
        $a->get('/row0') for 1 .. 4;
        $o->release($uri);
        is(scalar(grep { $_->header('X-Cache') !~ /STALE|UPDATING/ }
            map { finish($_) } @p), 10, 'plain: all wait');
    }

    is($o->count($uri), 1, "$where: one request");
}


# a 304

$a->get('/asks/1');
page_wait($m, key('/asks/1'));
page_expire($m, key('/asks/1'), 1000);
is($a->get('/asks/1')->header('X-Cache'), 'REVALIDATED', 'a 304');
ok(wait_for(sub { my $e = entry('/asks/1'); $e && !($e->{flags} & $must) &&
    $e->{expire} - $e->{created} + $e->{took} == 18_000_000 }),
    'a 304: what is ignored does not come back');


# what it allows is ignored, too

$a->get('/users/1', headers => [Authorization => 'Basic YTpi']);
ok(!entry('/users/1'), 'Authorization: must-revalidate does not allow it');


# the directives

my @conf = (http => 'mcds_pool m { server 127.0.0.1; }', location =>);
my $error = sub { $t->conf_error(@conf, "mcds_ignore_headers @_;") };
my $of = qr/ in "mcds_ignore_headers"/;

is($error->($_), '', $_) for 'CDN-Cache-Control', map {
    ("Cache-Control:$_", "CDN-Cache-Control:$_", "cache-control:\U$_") }
    qw/ max-age s-maxage stale-while-revalidate stale-if-error no-store no-cache
        private public must-revalidate proxy-revalidate must-understand /;

my $line = qr/ in \S+:\d+$/m;
my $follows = qr/what follows the colon must be one of max-age s-maxage /;

like($error->($_), qr/invalid value "\Q$_\E"$of, $follows.*$line/, $_)
    for 'Cache-Control:immutable', 'Cache-Control:', 'CDN-Cache-Control:x:y',
        'Cache-Control:max-age=0';
like($error->($_), qr/invalid value "\Q$_\E"$of, only Cache-Control and /, $_)
    for 'Expires:x', 'Pragma:no-cache', ':must-revalidate';
like($error->('must-revalidate'),
    qr/invalid value "must-revalidate"$of, it must be one of X-Accel-Expires /,
    'a directive alone');
like(($t->conf_test(@conf, 'mcds_ignore_headers Cache-Control:private
    Cache-Control:Private;'))[1], qr/duplicate value "Cache-Control:Private"/,
    'twice the same');

$t->done();
