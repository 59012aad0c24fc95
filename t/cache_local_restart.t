#!/usr/bin/perl

# Copyright (C) mcds authors

# A memcached that was restarted numbers its items from the beginning: a copy of
# before has the CAS of another page then, and is not taken for it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m = $t->memcached('m');

my %built;
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $n = ++$built{$q->{uri}};

    # no refresh of one that was purged comes to anything

    return { status => 500 } if $q->{uri} =~ /purged/ && $n % 2 == 0;

    return {
        headers => ['Cache-Control' => 'max-age=100',
            $q->{uri} =~ /vary/ ? (Vary => 'X-Kind') : ()],
        body => "page $n",
    };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 2s; }
    mcds_zone 2m;
    mcds_cache on;
    mcds_cache_local validated;
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /purged {
            mcds_cache_key $uri;
            mcds_purge_api method=PURGE;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my ($built, $read, $other) = map { $t->nginx($_, $conf) } qw/ a b c /;

my @cas;

for my $uri (qw{ /page /vary }) {
    $m->restart();
    is($built->get($uri)->body(), 'page 1', "$uri: built");
    ok(wait_for(sub { defined $m->get("<>http://localhost$uri")
        && !defined $m->get("<>http://localhost$uri:lock") }), "$uri: stored");
    is($read->get($uri)->body(), 'page 1', "$uri: read by another host");
    is($built->get($uri)->body(), 'page 1', "$uri: and by the first");

    my $cas = cas($uri);
    $m->restart();

    is($other->get($uri)->body(), 'page 2', "$uri: built by a third one");
    ok(wait_for(sub { defined $m->get("<>http://localhost$uri")
        && !defined $m->get("<>http://localhost$uri:lock") }),
        "$uri: stored again");
    is(cas($uri), $cas, "$uri: with the same CAS");

    for (['the host that read', $read], ['the host that built', $built]) {
        my ($who, $h) = @$_;
        my $r = $h->get($uri);

        is($r->body(), 'page 2', "$uri: $who has the new page");
        is($r->header('X-Cache'), 'HIT', "$uri: $who, from memcached");
        is($h->get($uri)->body(), 'page 2', "$uri: $who, once more");
    }
}

# one that was purged, and is shown nevertheless

for my $round (1, 2) {
    my $h = $round == 1 ? $built : $other;
    my $n = 2 * $round - 1;

    $m->restart();
    is($h->get('/purged')->body(), "page $n", "purged $round: built");
    ok(page_wait($m, '/purged'), "purged $round: stored");
    $h->get('/purged', method => 'PURGE');

    push @cas, $m->mc('mg <>/purged c') =~ /c(\d+)/;
    is($read->get('/purged')->body(), "page $n", "purged $round: shown");
    $o->wait_requests(2, '/purged');

    # a worker that waits for memcached would find it down, and show its copy

    ok(page_wait($m, '/purged'), "purged $round: the refresh has failed");
}

is($cas[0], $cas[1], 'both with the same CAS');

$t->done();


sub cas {
    my ($uri) = @_;
    return $m->mc("mg <>http://localhost$uri c") =~ /c(\d+)/ ? $1 : undef;
}
