#!/usr/bin/perl

# Copyright (C) mcds authors

# Those who wait for another's build when it does not end well: errors,
# answers that cannot be cached, too long, too many, a slow client.

use warnings;
use strict;

use List::Util qw/ max /;
use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT tally /;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'each worker has waiters of its own');

my $long = ['Cache-Control' => 'max-age=60'];
my $large = 'large ' x 150_000;

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => $long }, paths => {
    '/private' => { headers => ['Cache-Control' => 'private'], delay => 0.4 },
    '/intercept/x' => { status => 404, delay => 0.4 },
    '/bad' => { status => 500, headers => [] },
    '/large' => { body => $large },
    '/large/closed' => { body => $large, length => undef },
    '/large/direct/x' => { body => $large },
    '/large/pieces' => { parts => ['a' x 400_000, ['b' x 400_000, 0.2]] },
    '/large/direct/pieces' =>
        { parts => ['a' x 400_000, ['b' x 400_000, 0.2]] },
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes %%WORKERS%%;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Wait $mcds_cache_lock_wait always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%% reuseport sndbuf=64k;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /intercept/ {
            proxy_intercept_errors on;
            error_page 404 /error;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /error { mcds_return 200 "page of $status"; }
        location /late/ {
            mcds_cache_background_update off;
            mcds_cache_wait 4s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /timeout/ {
            mcds_cache_lock_timeout 200ms;
            error_page 503 /error;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /pass/ {
            mcds_cache_lock_timeout 200ms pass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /few/ {
            mcds_cache_max_waiters 2;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /large/direct/ {
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /lock/ {
            mcds_cache_lock off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @hosts = ($t->nginx('one', $conf =~ s/%%WORKERS%%/1/r),
             $t->nginx('two', $conf =~ s/%%WORKERS%%/2/r));

sub herd {
    my ($n, $uri) = @_;
    return map { start_get($hosts[$_ % 2]->port(), $uri) } 1 .. $n;
}

my (@p, @r, $r, $start, $watch);


# what cannot be cached is not waited for one by one

for my $c (['/private', 200], ['/intercept/x', 404]) {
    my ($uri, $status) = @$c;

    $watch = $t->stopwatch();
    @r = map { finish($_) } herd(12, $uri);

    is(tally(@r), "12 $status MISS", "$uri: all pass");
    is($o->count($uri), 12, "$uri: each has its own answer");
    cmp_ok($o->most($uri), '>=', 5, "$uri: side by side");
    cmp_ok($watch->(), '<', 1.2 * $t->slow(),
        "$uri: in less than three times the origin's time");
    is(page_decode(page_wait($m, key($uri)))->{kind}, 1, "$uri: a mark");
    ttl_between($m, key($uri), 0, 10, "$uri: which does not stay");
}


# errors: those who wait are told at once, and nobody tries again for a while

$o->set('/bad', { status => 500 });
$o->hold_path('/bad');
@p = herd(8, '/bad');
$o->wait_requests(1, '/bad');
$_->handled('/other') for @hosts;
$o->release('/bad');
@r = map { finish($_) } @p;
is(tally(@r), '1 500 MISS, 7 503 MISS', 'error: all see it');
is($o->count('/bad'), 1, 'error: one origin request');
ok(!defined $m->get(key('/bad')), 'error: nothing is stored');


# behind an old page: nobody tries again for a while, and nobody waits

$_->get('/old') for @hosts;
$o->set('/old', { status => 500 });
my $e = page_expire($m, key('/old'), 1000);
$o->mark();
$start = time();
@r = map { $hosts[$_ % 2]->get('/old') } 1 .. 100;
is(scalar(grep { $_->status() == 200 && $_->body() eq $e->{body} } @r), 100,
    'failed refresh: the old page for all');
cmp_ok($o->count('/old'), '<=', 1 + (time() - $start) / 2,
    'failed refresh: not tried again at once');

$_->get('/late/x') for @hosts;
$o->set('/late/x', { status => 500 });
page_expire($m, key('/late/x'), 1000);
$o->mark();
$r = $hosts[0]->get('/late/x');
is(tally($r), '1 200 STALE', 'failed rebuild: who tries it sees the old page');
$start = time();
@r = map { finish($_) } herd(12, '/late/x');
is(tally(@r), '12 200 STALE', 'failed rebuild: others get the old page');
cmp_ok(max(map { $_->calm() } @r), '<', 0.5 * $t->slow(),
    'failed rebuild: at once');
is($o->count('/late/x'), 1, 'failed rebuild: not tried again at once');


# no longer than the time to wait

$o->hold_path('/timeout/x');
@p = herd(2, '/timeout/x');
$o->wait_requests(1, '/timeout/x');
@r = map { $_->get('/timeout/x') } @hosts;
is(join(' ', map { $_->status() . $_->body() } @r),
    join(' ', ('503page of 503') x 2), 'timeout: 503, with its error page');
is($r[0]->header('Retry-After'), 1, 'timeout: Retry-After');
cmp_ok($r[0]->header('X-Wait'), '>=', 0.2, 'timeout: after it');
cmp_ok($r[0]->calm(), '<', 1 * $t->slow(), 'timeout: no later');
$o->release('/timeout/x');
finish($_) for @p;

$o->hold_path('/pass/x');
@p = herd(4, '/pass/x');
ok($o->wait_requests(4, '/pass/x', 5), 'timeout, pass: all ask the origin');
$o->release('/pass/x');
@r = map { finish($_) } @p;
is(tally(@r), '4 200 MISS', 'timeout, pass: answers');
is(scalar(grep { $_->header('X-Wait') >= 0.2 } @r), 3,
    'timeout, pass: after it');
ok(page_wait($m, key('/pass/x')), 'timeout, pass: the first is stored');


# no more than may wait

$o->hold_path('/few/x');
@p = map { start_get($hosts[0]->port(), '/few/x') } 1 .. 6;
my %left = map { $_ => $_ } @p;
my @shed;
wait_for(sub {
    for my $p (values %left) {
        $p->fill(0);
        push @shed, finish(delete $left{$p}) if $p->{in} =~ /\r\n\r\n/;
    }
    return @shed >= 3;
});
is(tally(@shed), '3 503 MISS', 'waiters: the fourth is turned away');
$o->release('/few/x');
is(tally(map { finish($_) } values %left), '2 200 HIT, 1 200 MISS',
    'waiters: the others wait');


# without a lock each asks the origin

$o->hold_path('/lock/x');
@p = herd(6, '/lock/x');
ok($o->wait_requests(6, '/lock/x'), 'no lock: all ask the origin');
$o->release('/lock/x');
is(tally(map { finish($_) } @p), '6 200 MISS', 'no lock: answers');
page_wait($m, key('/lock/x'));
is(tally($hosts[0]->get('/lock/x')), '1 200 HIT', 'no lock: it is stored');


# whoever fills the page, and does not read it, does not stop the others

for my $uri ('/large', '/large/closed', '/large/direct/x') {
    my $slow = conn($hosts[0]->port());
    $slow->request($uri);
    $o->wait_requests(1, $uri);

    @r = map { $_->get($uri) } @hosts;
    is(tally(@r), '2 200 HIT', "$uri: a slow client fills it");
    is(scalar(grep { $_->body() eq $large } @r), 2, "$uri: whole");
    is($o->count($uri), 1, "$uri: one origin request");

    $r = $slow->response();
    ok($r->complete() && $r->body() eq $large, "$uri: for the slow one, too");
    $slow->close();
}

# and gets all of it when it reads while the origin pauses

for my $uri ('/large/pieces', '/large/direct/pieces') {
    $r = finish(start_get($hosts[0]->port(), $uri));
    ok($r->complete() && $r->body() eq 'a' x 400_000 . 'b' x 400_000,
        "$uri: whole");
    page_wait($m, key($uri));
    is(tally($hosts[0]->get($uri)), '1 200 HIT', "$uri: stored");
}

$t->done();
