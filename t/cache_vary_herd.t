#!/usr/bin/perl

# Copyright (C) mcds authors

# Herds at a page that varies, on two hosts with two workers each: one origin
# request for each variant, also when nobody knows yet that it varies, and when
# Vary changes while it is built.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');
$t->needs('mcds vary');

my $m = $t->memcached('m');

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $h = $q->{headers};

    return {
        headers => ['Cache-Control' => 'max-age=60',
            Vary => $h->{'x-vary'} // 'X-A'],
        body => join(' ', map { $_ // 'none' } @$h{qw/ x-a x-b /}),
    };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOC

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

sub asked {
    my ($uri) = @_;
    my %n;
    $n{$_->{headers}{'x-a'} // 'none'}++ for $o->requests($uri);
    return join ' ', map { "$_:$n{$_}" } sort keys %n;
}

# so many requests for each variant, on both hosts

sub herd {
    my ($uri, $n, $variants, %h) = @_;
    my @p;

    for my $i (1 .. $n) {
        for my $v (1 .. $variants) {
            push @p, [$v, start_get($hosts[$i % 2]->port(), $uri,
                headers => { 'X-A' => $v, %h })];
        }
    }

    return @p;
}

sub right {
    my ($what, @p) = @_;
    my $wrong = 0;

    for my $p (@p) {
        my $r = finish($p->[1]);
        $wrong++ if $r->status() != 200 || $r->body() !~ /^$p->[0] /;
    }

    is($wrong, 0, "$what: all got their own");
}


# cold: the first one finds out, then the others build, each variant once

for my $round (1 .. $t->size(2, 20)) {
    my $uri = "/cold/$round";

    $o->hold_path($uri);

    my @p = herd($uri, 16, 3);

    $o->wait_requests(1, $uri);
    $_->handled('/other') for @hosts;
    is($o->held($uri), 1, "cold $round: one asks");

    $o->let($uri, 1);
    $o->wait_requests(3, $uri);
    $_->handled('/other') for @hosts;
    is($o->held($uri), 2, "cold $round: then one for each other variant");

    $o->release($uri);
    right("cold $round", @p);
    is(asked($uri), '1:1 2:1 3:1', "cold $round: no more");
}


# the list is known: all variants at once, one each

for my $round (1 .. $t->size(2, 20)) {
    my $uri = "/known/$round";

    $_->get($uri, headers => { 'X-A' => 0 }) for @hosts;
    page_wait($m, key($uri));

    $o->hold_path($uri);
    my @p = herd($uri, 16, 3);
    $o->wait_requests(4, $uri);
    $_->handled('/other') for @hosts;
    is($o->held($uri), 3, "known $round: one for each");

    $o->release($uri);
    right("known $round", @p);
    is(asked($uri), '0:1 1:1 2:1 3:1', "known $round: no more");
    ok(wait_for(sub { length(page_decode($m->get(key($uri)))->{body}) == 64 }),
        "known $round: all are on the list");
    ok(wait_for(sub { 4 == grep { /$uri:vary/ && !/:lock/ } $m->keys() }),
        "known $round: and stored");
}


# expired: nobody waits, each variant is refreshed once

{
    my $uri = '/known/1';

    for my $key (grep { /known\/1:vary/ && !/:lock/ } $m->keys()) {
        page_expire($m, $key, 1000);
    }

    $o->mark();
    $o->hold_path($uri);
    my @p = herd($uri, 8, 3);
    right('expired', @p);

    # a worker that has just seen a lock held does not ask for it at once

    wait_for(sub {
        return 1 if $o->held($uri) >= 3;
        right('expired', herd($uri, 2, 3));
        return 0;
    }, 10);
    is($o->held($uri), 3, 'expired: one for each');
    $o->release($uri);
}


# Vary changes in flight: those who wait for the old variant find the new one

{
    my $uri = '/change';

    $_->get($uri, headers => { 'X-A' => 1, 'X-B' => 1 }) for @hosts;
    page_wait($m, key($uri));

    my ($key) = grep { /change:vary/ && !/:lock/ } $m->keys();
    page_expire($m, $key, 100_000, swr => 0);

    $o->mark();
    $o->hold_path($uri);
    my @p = herd($uri, 20, 1, 'X-Vary' => 'X-A, X-B', 'X-B' => 1);
    $o->wait_requests(1, $uri);
    $_->handled('/other') for @hosts;
    is($o->held($uri), 1, 'change: one asks');
    $o->release($uri);
    right('change', @p);
    is($o->count($uri), 1, 'change: for all');

    my $e = page_decode(page_wait($m, key($uri)));
    is(substr($e->{ext}, 6), 'x-a,x-b', 'change: another list');
}


# a builder that leaves before its answer: the next one takes over

{
    my $uri = '/left';

    $o->hold_path($uri);
    my $first = start_get($hosts[0]->port(), $uri,
        headers => { 'X-A' => 1 });
    $o->wait_requests(1, $uri);
    my @p = herd($uri, 6, 2);
    $_->handled('/other') for @hosts;
    $first->reset();
    $o->wait_requests(2, $uri);
    $o->release($uri);
    right('left', @p);
    cmp_ok($o->count($uri), '<=', 3, 'left: one after the other');
}


# memcached is down: once for each variant and host; who does not know yet that
# the page varies waits for that, and from then on all variants are built at
# once

if ($t->has('mcds local')) {
    my $uri = '/down';

    $m->stop();
    $_->get('/other') for (@hosts) x 8;

    $o->hold_path($uri);
    my @p = herd($uri, 24, 3);
    $o->wait_requests(2, $uri);
    $_->get('/other') for (@hosts) x 8;
    is($o->held($uri), 2, 'down: each host asks once');
    $o->let($uri, 2);
    $o->wait_requests(6, $uri);
    $_->get('/other') for (@hosts) x 8;
    is($o->held($uri), 4, 'down: then for the other variants at once');
    $o->release($uri);
    right('down', @p);
    is(asked($uri), '1:2 2:2 3:2', 'down: no more');

    for my $known ($uri, '/known/1') {
        $o->mark();
        $o->hold_path($known);
        @p = herd($known, 24, 3);
        $o->wait_requests(6, $known);
        $_->get('/other') for (@hosts) x 8;
        is($o->held($known), 6, "down, $known: all variants at once");
        $o->release($known);
        right("down, $known", @p);
        is(asked($known), '1:2 2:2 3:2', "down, $known: once for each host");
    }

    # and back: what was known for lack of memcached is not gone by

    $m->restart();

    ok(wait_for(sub {
        for my $h (@hosts) {
            for my $v (1 .. 3) {
                my $r = $h->get($uri, headers => { 'X-A' => $v });
                return 0 if $r->header('X-Cache') ne 'HIT'
                    || $r->body() !~ /^$v /;
            }
        }
        return 1;
    }, 10 * $t->slow()), 'down: and back');
    is(length(page_decode($m->get(key($uri)))->{body}), 48,
        'down: of one list');
}

$t->allow(qr/memcached/, qr/connect\(\) failed/);
$t->done();
