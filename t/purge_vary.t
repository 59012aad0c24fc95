#!/usr/bin/perl

# Copyright (C) mcds authors

# A page that varies is purged: all of its variants are shown once more, on all
# hosts, while one request for each rebuilds them; what the origin was asked for
# before the purge is never taken for fresh after it.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;
use Test::Mcds::Entry;
use Time::HiRes qw/ sleep /;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

our $m = $t->memcached('m');

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $h = $q->{headers};
    return {
        headers => ['Cache-Control' => 'max-age=60',
            Vary => $h->{'x-vary'} // 'X-A',
            $q->{path} =~ /etag/ ? (ETag => '"e"') : ()],
        status => $h->{'if-none-match'} ? 304 : 200,
        body => $h->{'if-none-match'} ? ''
            : 'version ' . ($h->{'x-version'} // 1) . ' for ' . $h->{'x-a'},
    };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache  $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    add_header X-Ttl    $mcds_cache_ttl always;
    mcds_cache on;
    mcds_purge_api method=PURGE;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /etag {
            mcds_cache_revalidate on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /refresh {
            mcds_purge_api method=PURGE mode=refresh;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_purge_api on; }
    }
}
EOT

our @h = map { $t->nginx($_, $conf) } 'one', 'two';

sub url { 'http://localhost' . shift }
sub key { '<>' . url(shift) }

sub headers {
    my ($a, $version, @more) = @_;
    return (headers => { 'X-A' => $a, 'X-Version' => $version // 1, @more });
}

sub status { join ' ', map { $_ // 'none' } $_[0]->header('X-Cache'),
    $_[0]->header('X-Reason') }

# all variants, as they are stored

sub fill {
    my ($uri, @variants) = @_;
    for my $v (@variants) {
        $h[0]->get($uri, headers($v));
        wait_for(sub { status($h[1]->get($uri, headers($v))) eq 'HIT fresh' })
            or die "no $uri for $v";
    }
    $o->mark();
}



# all variants are stale once, and each is rebuilt once

{
    my $uri = '/a';
    fill($uri, 1 .. 3);
    my $before = page_decode($m->get(key($uri)));

    my $r = $h[0]->get($uri, method => 'PURGE');
    is_deeply(decode_json($r->body()), { mode => 'invalidate',
        refresh => JSON::PP::false,
        purged => [{ key => url($uri), found => JSON::PP::true }] }, 'purged');

    my $e = page_decode($m->get(key($uri)));
    is($e->{kind}, 2, 'the list is still there');
    is($e->{generation}, $before->{generation}, 'and is that one');
    is($e->{body}, $before->{body}, 'with all variants');
    is($e->{purges}, 1, 'they were purged once');

    $o->hold_path($uri);

    for my $v (1 .. 3) {
        for my $h (@h, @h) {
            $r = $h->get($uri, headers($v, 2));
            like(status($r), qr/^(?:STALE|UPDATING) purged$/,
                "$v: shown once more");
            cmp_ok($r->header('X-Ttl'), '<', 0, "$v: has expired");
            is($r->body(), "version 1 for $v", "$v: is what it was");
        }
    }

    $o->wait_requests(3, $uri);
    is($o->held($uri), 3, 'one request for each variant');
    $o->release($uri);

    for my $v (1 .. 3) {
        for my $h (@h) {
            ok(wait_for(sub { status($r = $h->get($uri, headers($v)))
                eq 'HIT fresh' }), "$v: rebuilt");
            is($r->body(), "version 2 for $v", "$v: is the new one");
        }
    }

    is($o->count($uri), 3, 'and no more requests');
    is(page_decode($m->get(key($uri)))->{generation}, $before->{generation},
        'the list is the same');
}


# purged again while nobody has asked for them, they do not begin to expire
# anew; from the second case on by a clock that is moved

{
    my $uri = '/again';
    my $clock;

    local @h = @h;
    local $m = $m;

    for my $times (2 .. 5) {
        if ($times == 3) {
            $clock = Test::Mcds::Clock->new($t, time());
            $m = $clock->memcached('moved');
            @h = map { $clock->nginx($_, $conf =~ s/PORT_m%/PORT_moved%/r) }
                'three', 'four';
        }

        fill($uri, $times);

        for (1 .. $times) {
            $h[0]->get($uri, method => 'PURGE');
            next if $_ != 1;
            $clock ? $clock->add(2.1) : sleep(2.1);
        }

        $o->hold_path($uri);

        for my $h (@h) {
            my $r = $h->get($uri, headers($times, 2));
            is($r->body(), "version 1 for $times", "purged $times times");
            cmp_ok($r->header('X-Ttl'), '<=', -3,
                'has expired with the first of them');
        }

        $o->release($uri);
        wait_for(sub { status($h[1]->get($uri, headers($times)))
            eq 'HIT fresh' });
    }
}


# again and again: what was rebuilt is stale, too

{
    my $uri = '/b';
    fill($uri, 1);

    for my $n (2 .. 4) {
        is($h[$n % 2]->get("/purge?key=" . url($uri))->status(), 200,
            "purge $n");
        is(page_decode($m->get(key($uri)))->{purges}, $n - 1, "is counted");
        like(status($h[0]->get($uri, headers(1, $n))),
            qr/^(?:STALE|UPDATING) purged$/, "stale $n");
        my $r;
        ok(wait_for(sub { status($r = $h[1]->get($uri, headers(1, $n)))
            eq 'HIT fresh' }), "rebuilt $n");
        is($r->body(), "version $n for 1", "new $n");
    }
}


# a build that has begun before: what it stores is stale, whether its variant
# was on the list, is new to it, has more names than it, or there is no list
# yet; those who come after the purge and wait for it do not take it for the new
# one

for my $case (['known', 1, 1], ['new', 1, 2], ['names', 1, 1, 'X-A, X-B'],
    ['none', undef, 1])
{
    my ($name, $there, $v, $vary) = @$case;
    my $uri = "/flight/$name";

    fill($uri, $there) if defined $there;

    if ($name =~ /known|names/) {
        my ($key) = grep { /$name:vary/ && !/:lock/ } $m->keys();
        page_expire($m, $key, 200_000, swr => 0);
    }

    $o->hold_path($uri);
    my $early = start_get($h[0]->port(), $uri, headers($v, 1,
        $vary ? ('X-Vary' => $vary) : ()));
    $o->wait_requests(1, $uri);

    $h[1]->get("/purge?key=http://localhost$uri");

    my @late = $vary ? ()
        : map { start_get($_->port(), $uri, headers($v, 2)) } @h;
    $_->get('/other', headers(1)) for (@h) x 4;

    $o->release($uri);
    finish($early);

    if ($vary) {
        wait_for(sub { page_decode($m->get(key($uri)))->{ext} =~ /x-a,x-b/ });
        @late = map { start_get($_->port(), $uri, headers($v, 2)) } @h;
    }

    for my $r (map { finish($_) } @late) {
        is($r->status(), 200, "$name: answered");
        ok($r->body() eq "version 2 for $v" || status($r) =~ /^STALE|^UPDAT/,
            "$name: not the old one as a fresh one")
            or diag(status($r), ' ', $r->body());
    }

    my $r;
    ok(wait_for(sub { status($r = $h[1]->get($uri, headers($v, 2)))
        eq 'HIT fresh' }), "$name: fresh");
    is($r->body(), "version 2 for $v", "$name: with the new version");
}


# the origin says that it is the same: fresh again

{
    my $uri = '/etag';
    fill($uri, 1);
    $h[0]->get($uri, method => 'PURGE');
    like(status($h[1]->get($uri, headers(1))), qr/purged/, 'etag: stale');
    ok(wait_for(sub { status($h[0]->get($uri, headers(1))) eq 'HIT fresh' }),
        'etag: fresh');
    is($h[1]->get($uri, headers(1))->body(), 'version 1 for 1',
        'etag: the same');
    is($o->count($uri), 1, 'etag: asked once');
    my ($key) = grep { /etag:vary/ && !/:lock/ } $m->keys();
    is(page_decode($m->get($key))->{purges}, 1, 'etag: is marked so');
}


# deleted: all variants are gone; refresh: which variant would that be

{
    my $uri = '/c';
    fill($uri, 1, 2);
    $h[0]->get("/purge?mode=delete&key=" . url($uri));
    is(page_decode($m->get(key($uri)))->{kind}, 3, 'deleted');
    is(status($h[1]->get($uri, headers(1, 2))), 'MISS purged', '1 is gone');
    page_wait($m, key($uri));
    is(status($h[1]->get($uri, headers(2, 2))), 'MISS absent', '2 is gone');

    fill('/refresh', 1);
    my $r = $h[0]->get('/refresh', method => 'PURGE');
    ok(!decode_json($r->body())->{refresh}, 'refresh: none of the variants');
    is($o->count('/refresh'), 0, 'refresh: the origin was not asked');
    is(page_decode($m->get(key('/refresh')))->{purges}, 1, 'refresh: stale');
}

$t->done();
