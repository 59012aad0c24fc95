#!/usr/bin/perl

# Copyright (C) mcds authors

# RFC 9111, 5.2.1: what requests say of the page that they accept, with
# mcds_cache_request_control.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => $q->{path} =~ /must/
        ? 'max-age=1000, must-revalidate' : $q->{path} =~ /none/
        ? 'no-store' : 'max-age=1000', ETag => '"1"'] };
});

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_request_control on;
    mcds_cache_background_update 1m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /off/ {
            mcds_cache_request_control off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /early/ {
            mcds_cache_early 100;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /tags/ {
            mcds_cache_tag $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_cache off; mcds_purge_api on; }
    }
}
EOT

my $n = 0;

# a page of an age, or so long after its end, and a request for it: status of
# the cache, and whether the origin was asked

sub ask {
    my ($age, $control, %o) = @_;

    my $uri = ($o{uri} // '/') . ++$n;
    my @control = ref $control ? @$control : defined $control
        ? ('Cache-Control' => $control) : ();

    if (defined $age) {
        $a->get($uri);
        page_expire($m, key($uri), ($age - 1000) * 1000);
    }

    my $before = $o->count($uri);
    my $r = $a->get($uri, headers => \@control, method => $o{method} // 'GET');

    wait_for(sub { !defined $m->get(key($uri) . ':lock') });

    return join ' ', $r->status, $r->header('X-Cache') // '-',
        $o->count($uri) - $before;
}

my $hit = '200 HIT 0';
my $new = '200 BYPASS 1';
my $none = '504 BYPASS 0';

for (
    # age, Cache-Control, what comes of it
    [10, undef, $hit],
    [10, 'max-age=20', $hit],
    [10, 'max-age=5', $new],
    [10, 'max-age=0', $new],
    [10, 'max-age=5, max-age=20', $new],
    [10, 'MAX-AGE="5"', $new],
    [10, 'max-age=abc', $new],
    [10, 'x="max-age=0"', $hit],
    [10, 'no-cache', $new],
    [10, 'No-Cache', $new],
    [10, 'no-store', $hit],
    [10, 'no-transform', $hit],
    [10, '', $hit],
    [900, 'min-fresh=50', $hit],
    [900, 'min-fresh=200', $new],
    [10, ['Cache-Control' => 'max-age=100', 'Cache-Control' => 'no-cache'],
        $new],
    [10, [Pragma => 'no-cache'], $new],
    [10, [Pragma => 'no-cache', 'Cache-Control' => 'max-age=100'], $hit],
    [10, [Pragma => 'no-cache', Pragma => 'x'], $new],
    [10, [Pragma => 'x, no-cache'], $new],
    [10, [Pragma => 'x'], $hit],
    [10, [Pragma => 'max-age=5'], $hit],
    [undef, [Pragma => 'only-if-cached'], '200 MISS 1'],

    # expired within the time of mcds_cache_background_update
    [1010, undef, '200 STALE 1'],
    [1010, 'max-age=2000', '200 STALE 1'],
    [1010, 'max-stale', '200 STALE 1'],
    [1010, 'max-stale=100', '200 STALE 1'],
    [1010, 'max-stale=5', $new],
    [1010, 'min-fresh=0', $new],
    [1010, 'max-age=100', $new],

    # expired longer ago
    [1200, undef, '200 EXPIRED 1'],
    [1200, 'max-stale', '200 STALE 1'],
    [1200, 'max-stale=500', '200 STALE 1'],
    [1200, 'max-stale=100', $new],

    # only-if-cached
    [10, 'only-if-cached', $hit],
    [1010, 'only-if-cached', '200 STALE 1'],
    [1200, 'only-if-cached', '504 EXPIRED 0'],
    [1200, 'only-if-cached, max-stale', '200 STALE 1'],
    [10, 'only-if-cached, no-cache', $none],
    [10, 'only-if-cached, max-age=5', $none],
    [undef, 'only-if-cached', '504 MISS 0'],

    # no-store: not by this request
    [undef, 'no-store', '200 MISS 1'],
    [1200, 'no-store', '200 EXPIRED 1'],
    [1010, 'no-store', '200 UPDATING 0'],
) {
    my ($age, $control, $result) = @$_;

    is(ask($age, $control), $result, join ': ', $age // 'no page',
        ref $control ? "@$control" : $control // 'nothing');
}

# what the request does not accept may be forbidden to be shown anyway

is(ask(1010, 'max-stale', uri => '/must/'), '200 EXPIRED 1',
    'max-stale of a page that is never stale');

# a page that was purged counts as expired: it may be shown, but it is not fresh
# for any time to come, whether its key was purged or its tag

for my $what ('key', 'tag') {
    for my $c ([undef, '200 STALE 1'], ['max-age=20', '200 STALE 1'],
        ['max-stale=5', '200 STALE 1'], ['min-fresh=1', $new])
    {
        my ($control, $want) = @$c;
        my $uri = "/tags/$what" . ++$n;

        $a->get($uri);
        page_wait($m, key($uri));
        is($a->get('/purge?' . ($what eq 'tag' ? "tag=$uri"
            : "key=http://localhost$uri"))->status(), 200, "purge a $what");

        my $r = $a->get($uri, headers => [$control
            ? ('Cache-Control' => $control) : ()]);

        ok($o->wait_requests(2, $uri), "purged $what: is rebuilt");
        is(join(' ', $r->status(), $r->header('X-Cache'), $o->count($uri) - 1),
            $want, "purged $what: " . ($control // 'nothing'));
    }
}

# HEAD

is(ask(10, 'max-age=5', method => 'HEAD'), $new, 'HEAD, max-age');
is(ask(10, 'only-if-cached', method => 'HEAD'), $hit, 'HEAD, only-if-cached');

$a->get('/pragma', headers => { Pragma => 'no-store' });
ok(page_wait($m, key('/pragma')), 'Pragma: no-store: has no meaning');

# a no-store request stores nothing, others replace what they did not accept

$a->get('/secret', headers => { 'Cache-Control' => 'no-store' });
ok(!defined $m->get(key('/secret')), 'no-store: nothing is stored');

# nor does it refresh a page that is about to expire, or one for WebSocket; the
# next request does

for my $c (['Cache-Control' => 'no-store'],
    [Upgrade => 'websocket', Connection => 'upgrade'])
{
    my $uri = '/early/' . ++$n;

    $a->get($uri);
    page_expire($m, key($uri), -600_000, took => 4_000_000_000);

    is($a->get($uri, headers => [@$c, 'X-Early' => 'no'])
        ->header('X-Cache'), 'HIT', "$c->[0]: a page that expires soon");
    is($a->get($uri)->header('X-Cache'), 'HIT', "$c->[0]: again");
    ok($o->wait_requests(2, $uri), "$c->[0]: which is refreshed");
    is(scalar(grep { exists $_->{headers}{'x-early'} } $o->requests($uri)), 0,
        "$c->[0]: by the next request");
}

$a->get('/again');
page_wait($m, key('/again'));
my $r = $a->get('/again', headers => { 'Cache-Control' => 'no-cache' });
my $body = $r->body;
page_wait($m, key('/again'));
wait_for(sub { $a->get('/again')->body eq $body });
is($a->get('/again')->body, $body, 'no-cache: the new page is stored');

# a herd of reloads is one request

$o->hold_path('/herd');
my @p = (start_get($a->port, '/herd'));
$o->wait_requests(1, '/herd');
push @p, map { start_get($a->port, '/herd',
    headers => { 'Cache-Control' => 'no-cache' }) } 1 .. 20;
$o->release('/herd');
finish($_) for @p;
is($o->most('/herd'), 1, 'reloads: one at a time');

# what is not stored is not there either

$a->get('/none');
wait_for(sub { defined $m->get(key('/none')) });
is($a->get('/none', headers => { 'Cache-Control' => 'only-if-cached' })->status,
    504, 'only-if-cached: a page that is not stored');

# it is the origin's error, not a page that was not accepted

$a->get('/broken');
page_wait($m, key('/broken'));
$o->set('/broken', { status => 500 });
is($a->get('/broken', headers => { 'Cache-Control' => 'no-cache' })->status,
    500, 'no-cache: the error is shown');
is($a->get('/broken')->header('X-Cache'), 'HIT', 'and the page is still there');

# off

is(ask(10, $_, uri => '/off/'), $hit, "off: $_")
    for 'no-cache', 'max-age=0', 'only-if-cached';

$t->done();
