#!/usr/bin/perl

# Copyright (C) mcds authors

# nginx that keeps connections to its upstreams without being told, and speaks
# HTTP/1.1 to them: builds and refreshes use the one that is there and give it
# back, but for what was not read to its end.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new()->since('1.29.7', 'keepalive by default', 'Angie');

my $m = $t->memcached('m');
my @cc = ('Cache-Control' => 'max-age=60');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { headers => [@cc, 'ETag' => '"same"'], status => 304 }
        if $req->{headers}{'if-none-match'};
    return { headers => [@cc, 'ETag' => '"same"'],
        body => "answer $req->{n} of $req->{uri}\n" };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    upstream origin { server 127.0.0.1:%%PORT_o%%; }

    server {
        listen 127.0.0.1:%%PORT%% sndbuf=16k;
        mcds_cache     on;
        mcds_cache_key $request_uri;
        add_header     X-Cache $mcds_cache_status always;

        # each location has connections of its own

        location / { proxy_pass http://origin; }
        location /bare/ {
            proxy_buffering off;
            proxy_pass      http://origin;
        }
        location /valid/ {
            mcds_cache_revalidate on;
            proxy_pass            http://origin;
        }
        location /each/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT


# the connection that the last request for uri has come by

sub by {
    my ($uri) = @_;
    return ($o->requests($uri))[-1]{conn};
}


# expires the page and waits for its refresh

sub refreshed {
    my ($uri) = @_;

    page_wait($m, $uri);
    page_expire($m, $uri, 1000);
    is($h->get($uri)->header('X-Cache'), 'STALE', "$uri: stale");
    ok(refresh_wait($m, $uri, 5 * $t->slow()), "$uri: refreshed");
}


# until the origin has so many connections

sub settled {
    my ($n) = @_;
    return wait_for(sub { $o->connections() == $n });
}


my @hop = ('Connection' => 'keep-alive, X-Named', 'Keep-Alive' => '5',
    'X-Named' => 1);

for my $where ('/', '/bare/', '/valid/') {
    $h->get("$where$_", headers => \@hop) for 1 .. 4;
    my $first = by("${where}1");

    is(by("$where$_"), $first, "$where$_: the connection of the first")
        for 2 .. 4;

    refreshed("${where}1");
    is($o->count("${where}1"), 2, "${where}1: by one request");
    is(by("${where}1"), $first, "${where}1: by the same connection");
    $h->get("${where}5");
    is(by("${where}5"), $first, "${where}5: which it gave back");
    http_head($h->port(), "${where}6");
    $h->get("${where}7");
    is(by("${where}7"), $first, "${where}7: and HEAD did");
}

my ($req) = $o->requests('/1');

is($req->{version}, 'HTTP/1.1', 'HTTP/1.1 without being told');
unlike($req->{head}, qr/^(?:Connection|Keep-Alive):/mi, 'no Connection');
is($req->{headers}{'x-named'}, 1, 'what the client has named in it');
ok(($o->requests('/valid/1'))[-1]{headers}{'if-none-match'},
    'a refresh that found nothing new');


# each of its own without an upstream{}

$h->get('/each/1');
$h->get('/each/2');
isnt(by('/each/2'), by('/each/1'), 'nothing is kept without upstream{}');
refreshed('/each/1');
ok(settled(3), 'nor by a refresh');


# an answer that is not stored: a short one is read to its end, a long one not

for my $case (['short', 100, 1], ['long', 100_000, 0]) {
    my ($name, $length, $same) = @$case;
    my $uri = "/$name";

    $h->get($uri);
    page_wait($m, $uri);
    page_expire($m, $uri, 1000);
    my $old = by($uri);
    $o->set($uri, { headers => ['Cache-Control' => 'no-store'],
        body => 'x' x $length });
    $h->get($uri);
    ok(wait_for(sub { page_decode(page_wait($m, $uri))->{kind} == 1 }),
        "$name: a refresh that is not stored");
    is(by($uri), $old, "$name: by the same connection");
    ok(settled(3 - !$same), "$name: " . ($same ? 'kept' : 'not kept'));
    $h->get("$uri-next");
    is(by("$uri-next") == $old ? 1 : 0, $same, "$name: and the next");
}


# a build whose client leaves, and one that is cut off: never used again

my $large = join '', map { pack 'N', $_ } 1 .. 500_000;

for my $where ('/', '/bare/') {
    my $uri = "${where}left";

    $o->set($uri, { body => $large, headers => \@cc });
    my $p = start_get($h->port(), $uri);
    $o->wait_requests(1, $uri);
    $p->reset();
    is($h->get($uri)->body() eq $large, 1, "$uri: the next gets it whole");
    is($h->get("${uri}-next")->body() =~ /^answer \d+ of \Q$uri\E-next\n\z/, 1,
        "$uri: and another its own");

    $uri = "${where}cut";
    $o->set($uri, { headers => \@cc, length => 1000, truncate => 10 });
    $h->get($uri);
    is($h->get("${uri}-next")->body() =~ /^answer \d+ of \Q$uri\E-next\n\z/, 1,
        "$uri: the next");
    isnt(by("${uri}-next"), by($uri), "$uri: by another connection");
    ok(!defined $m->get("<>$uri"), "$uri: not stored");
}


# one that the origin has closed meanwhile

$o->close_all();
ok(settled(0), 'the origin closes all');
refreshed('/1');
$o->close_all();
is($h->get('/late')->header('X-Cache'), 'MISS', 'a build after that');
ok(page_wait($m, '/late'), 'is stored');

$t->allow(qr/upstream prematurely closed|page could not/);
$t->done();
