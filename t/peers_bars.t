#!/usr/bin/perl

# Copyright (C) mcds authors

# What the peers do worst, as measured of them, and what is demanded of this
# one: two hosts of two workers before one origin, with one memcached.  The
# names of the rows are those of the measurements: A and V1, cold; B and H3,
# expired; D, the second request of a connection; F, the worker that refreshes
# is killed; N1 and N2, an answer that cannot be stored; S1 and S2, an origin
# that fails.
#
# How many requests the origin sees holds always.  What is asked of the time is
# shown without a clock where that can be: the origin is held while the answers
# have to come.  A bound in milliseconds has to be met once in some rounds: a
# cache that polls, or lets one wait for the other, never does.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT tally /;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new(calm => 1);

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    proxy_set_header X-Host %%PORT%%;
    proxy_set_header X-Worker $pid;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /killed {
            mcds_cache_lock_age 2s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fails {
            mcds_cache_background_update off;
            mcds_cache_error_backoff 30s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fails/again {
            mcds_cache_background_update off;
            mcds_cache_error_backoff 2s 2s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /mute { return 200; }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

# all at once, spread over both hosts

sub herd {
    my ($n, $uri) = @_;
    return many($n, [map { [$hosts[$_ % 2]->port(), $uri] } 1 .. $n]);
}

sub send_herd {
    my ($n, $uri) = @_;
    return map { start_get($hosts[$_ % 2]->port(), $uri) } 1 .. $n;
}

sub longest { (sort { $b <=> $a } map { $_->calm() } @_)[0] * 1000 }

# the bound is met in some round; what has to hold in each is said by the round

sub met {
    my ($name, $round) = @_;
    my $why;

    for my $n (1 .. 20) {
        ($why) = $round->($n);
        return pass("$name, round $n") if !$why;
    }

    fail($name);
    diag($why);
}


# A, V1: cold, an origin of 60 ms

my (%bad, $all);

$o->set('*', { delay => 0.06 });

met('A, V1: 100 ms on the host that fills, 150 ms on the other', sub {
    my $uri = '/cold/' . shift;
    my @r = herd(50, $uri);
    my ($q, @more) = $o->requests($uri);
    my $filled = $q->{headers}{'x-host'} == $hosts[1]->port() ? 1 : 0;

    # the first of @r is of the second host

    my ($there, $other) = map { my $host = $_;
        longest(@r[grep { $_ % 2 != $host } 0 .. $#r]) } $filled, 1 - $filled;

    $all++;
    $bad{asked}++ if @more;
    $bad{tally(@r)}++ if tally(@r) ne '49 200 HIT, 1 200 MISS';

    return $there > 100 * $t->slow() || $other > 150 * $t->slow()
        ? "$there ms, $other ms" : ();
});

is_deeply(\%bad, {}, "A, V1: one origin request for each of $all herds");
$o->set('*', undef);


# B, H3: expired, and the origin does not answer meanwhile

(%bad, $all) = ();

met('B, H3: all within 10 ms', sub {
    my $uri = '/expired/' . shift;

    $hosts[0]->get($uri);
    page_expire($m, key($uri), 1000);
    $o->hold_path($uri);

    my @r = herd(50, $uri);
    my @alone = map { $hosts[$_ % 2]->get($uri) } 1 .. 20;

    $o->wait_requests(2, $uri);
    $all++;
    $bad{tally(@r)}++ if grep { tally($_) !~ /^1 200 (?:STALE|UPDATING)$/ } @r;
    $bad{asked}++ if $o->count($uri) != 2;
    $o->release($uri);
    wait_for(sub { $hosts[1]->get($uri)->header('X-Cache') eq 'HIT' });
    $bad{later}++ if $o->count($uri) != 2;

    my $ms = longest(@alone);
    return $ms > 10 * $t->slow() ? "$ms ms" : ();
});

is_deeply(\%bad, {}, "B, H3: one origin request for each of $all herds,"
    . ' and nobody waits for it');


# D: the connection of the request that began the refresh

%bad = ();

met('D: the second request within 5 ms', sub {
    my $uri = '/second/' . shift;

    $hosts[0]->get($uri);
    page_expire($m, key($uri), 1000);
    $o->hold_path($uri);

    my $c = $hosts[0]->conn();
    my @r = map { $c->get($uri) } 1 .. 2;
    my $other = $c->get('/mute');

    $o->wait_requests(2, $uri);
    $bad{tally(@r)}++ if tally($r[0]) ne '1 200 STALE'
        || tally($r[1]) !~ /^1 200 (?:STALE|UPDATING)$/;
    $bad{other}++ if $other->status() != 200;
    $o->release($uri);

    my $ms = longest($r[1]);
    return $ms > 5 * $t->slow() ? "$ms ms" : ();
});

is_deeply(\%bad, {}, 'D: both see the old page, and the origin is held');


# F: the worker that refreshes is killed; memcached's clock ticks in seconds

$hosts[0]->get('/killed');
page_expire($m, key('/killed'), 1000);
$o->hold_path('/killed');
is(tally($hosts[0]->get('/killed')), '1 200 STALE', 'F: a refresh begins');
$o->wait_requests(2, '/killed');

my $watch = $t->stopwatch();
my @seen;

$hosts[0]->kill_worker(($o->requests('/killed'))[1]{headers}{'x-worker'});
ok(wait_for(sub {
    push @seen, map { $_->get('/killed') } @hosts;
    return $o->count('/killed') == 3;
}, 10 * $t->slow()), 'F: the origin is asked again');

# which lasts up to two seconds longer, see mcds_cache_lock_age

cmp_ok($watch->(), '<', (2 + 2 + 1) * $t->slow(),
    'F: within the age of the lock');
is(scalar(grep { $_->status() != 200 || $_->body() ne $seen[0]->body() } @seen),
    0, 'F: the old page meanwhile');
$o->release('/killed');
ok(wait_for(sub { !grep { $_->get('/killed')->header('X-Cache') ne 'HIT' }
    @hosts }), 'F: then the new one');
is($o->count('/killed'), 3, 'F: asked once more, no further');


# N1, N2: nothing to store.  When the first has its answer the others are all
# at the origin side by side; the next ones are so from the beginning

for (['N1: no-store', '/private/a', ['Cache-Control' => 'no-store']],
    ['N2: Set-Cookie', '/private/b', ['Cache-Control' => 'max-age=60',
        'Set-Cookie' => 'a=b']])
{
    my ($name, $uri, $headers) = @$_;

    $o->set($uri, { headers => $headers });
    $o->hold_path($uri);

    my @p = send_herd(20, $uri);
    $o->wait_requests(1, $uri);
    $_->get('/mute') for (@hosts) x 8;
    is($o->count($uri), 1, "$name: one asks first");
    $o->let($uri, 1);
    ok(wait_for(sub { $o->held($uri) == 19 }, 10),
        "$name: then all others, side by side") or diag $o->held($uri);
    $o->release($uri);
    is(tally(map { finish($_) } @p), '20 200 MISS', "$name: all are answered");
    is($o->count($uri), 20, "$name: each asks once");

    page_wait($m, key($uri));
    $o->hold_path($uri);
    @p = send_herd(20, $uri);
    ok(wait_for(sub { $o->held($uri) == 20 }, 10),
        "$name: the next ones do not wait at all");
    $o->release($uri);
    finish($_) for @p;
}


# S1: stale-if-error

$o->set('/fails/s1', { headers => ['Cache-Control' =>
    'max-age=60, stale-if-error=600'], body => 'page' });
$hosts[0]->get('/fails/s1');
page_expire($m, key('/fails/s1'), 120_000);
$o->set('/fails/s1', { status => 500, body => 'broken' });

my @r = map { $hosts[$_ % 2]->get('/fails/s1') } 1 .. 10;

is(tally(@r), '10 200 STALE', 'S1: the old page');
is(scalar(grep { $_->body() ne 'page' } @r), 0, 'S1: its body');


# S2: one attempt in a back-off, of both hosts

$hosts[0]->get('/fails/s2');
page_expire($m, key('/fails/s2'), 120_000);
$o->set('/fails/s2', { status => 500 });
$o->mark();
is(tally($hosts[0]->get('/fails/s2')), '1 200 STALE', 'S2: who tries it');
is(tally(map { $hosts[$_ % 2]->get('/fails/s2') } 1 .. 10), '10 200 STALE',
    'S2: the next ones');
is(tally(herd(50, '/fails/s2')), '50 200 STALE', 'S2: a herd');
is($o->count('/fails/s2'), 1, 'S2: one origin request for all');

$hosts[0]->get('/fails/again');
page_expire($m, key('/fails/again'), 120_000);
$o->set('/fails/again', { status => 500 });
$o->mark();
@seen = ();
ok(wait_for(sub {
    push @seen, herd(10, '/fails/again');
    return $o->count('/fails/again') == 2;
}, 10 * $t->slow()), 'S2: tried again');
my @at = map { $_->{start} } $o->requests('/fails/again');
cmp_ok($at[1] - $at[0], '>', 2 - 1, 'S2: not before the back-off has passed');
is(tally(@seen), @seen . ' 200 STALE', 'S2: which nobody sees');
is($o->most('/fails/again'), 1, 'S2: one at a time');

$t->done();
