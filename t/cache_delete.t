#!/usr/bin/perl

# Copyright (C) mcds authors

# An application that changes something and deletes the page has the last word:
# an answer that the origin was asked for before is not stored.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'old' });

my @h = map { $t->nginx($_, <<'EOT') } 'one', 'two';
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
        mcds_cache_background_update 1m;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

sub status { join ' ', $_[0]->header('X-Cache') // 'none', $_[0]->body() }

sub unlocked {
    my ($uri) = @_;
    return wait_for(sub { !defined $m->get(key($uri) . ':lock') });
}

# how long the page is expired, and what its first request is told

my @rows = (
    ['refresh', 1000, 'STALE old'],
    ['rebuild', 61000, 'EXPIRED old'],
);

for (@rows) {
    my ($way, $ms, $told) = @$_;
    my ($uri, $p);

    # deleted

    $uri = "/$way/deleted";
    $h[0]->get($uri);
    page_expire($m, key($uri), $ms);

    $o->hold_path($uri);
    $p = start_get($h[0]->port(), $uri);
    $o->wait_requests(2, $uri);
    $o->set($uri, { body => 'new' });
    $m->delete(key($uri));
    $o->release($uri);

    is(status(finish($p)), $told, "$way: what was there when it came");
    ok(unlocked($uri), "$way, deleted: unlocked");
    ok(!defined $m->get(key($uri)), "$way, deleted: nothing is stored");

    for my $h (@h) {
        is($h->get($uri)->body(), 'new',
            "$way, deleted: " . $h->name() . ' shows what is new');
    }

    is($o->count($uri), 3, "$way, deleted: built once more");
    is(page_decode(page_wait($m, key($uri)))->{body}, 'new',
        "$way, deleted: and stored");

    # deleted, while another host waits for it

    $uri = "/$way/awaited";
    $h[0]->get($uri);
    page_expire($m, key($uri), $ms);

    $o->hold_path($uri);
    $p = start_get($h[0]->port(), $uri);
    $o->wait_requests(2, $uri);
    $o->set($uri, { body => 'new' });
    $m->delete(key($uri));

    my $hits = $m->stats()->{get_hits};
    my $other = start_get($h[1]->port(), $uri);
    ok(wait_for(sub { $m->stats()->{get_hits} > $hits }),
        "$way, awaited: another host waits");
    $o->release($uri);

    is(status(finish($p)), $told, "$way, awaited: what was there");
    is(status(finish($other)), 'MISS new', "$way, awaited: the other builds");
    is(page_decode(page_wait($m, key($uri)))->{body}, 'new',
        "$way, awaited: and stores");

    # written anew

    $uri = "/$way/written";
    $h[0]->get($uri);
    page_expire($m, key($uri), $ms);

    $o->hold_path($uri);
    $p = start_get($h[0]->port(), $uri);
    $o->wait_requests(2, $uri);
    $m->set(key($uri), page_encode(key => key($uri), body => 'written'));
    $o->release($uri);

    is(status(finish($p)), $told, "$way: what was there when it came");
    ok(unlocked($uri), "$way, written: unlocked");
    is(status($h[0]->get($uri)), 'HIT written', "$way, written: stays");
}

$t->done();
