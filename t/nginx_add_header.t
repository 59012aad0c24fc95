#!/usr/bin/perl

# Copyright (C) mcds authors

# add_header_inherit and add_trailer_inherit: what mcds tells with add_header
# is told on each level, whatever becomes of the request, and once; none of it
# is stored.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new()->since('1.29.3', 'add_header_inherit', 'Angie');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    add_header X-Cache  $mcds_cache_status always;

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache          on;
        mcds_cache_key      $uri;
        add_header_inherit  merge;
        add_trailer_inherit merge;
        mcds_counter        $views key=views:$uri;
        add_header          X-Views $views;
        add_trailer         X-Reason $mcds_cache_reason;

        location / {
            add_header  X-Key $mcds_cache_key;
            add_trailer X-Age $mcds_cache_age;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location /on/ {
            add_header_inherit on;
            add_header         X-Key $mcds_cache_key;
            proxy_pass         http://127.0.0.1:%%PORT_o%%;
        }
        location /off/ {
            add_header_inherit off;
            proxy_pass         http://127.0.0.1:%%PORT_o%%;
        }
        location /error/ {
            add_header X-Key $mcds_cache_key always;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT


# the lines of ours, each as it came, in their order

sub ours {
    my ($r) = @_;
    return join ', ', sort $r->head() =~ /^(X-(?!Answer).*?)\r?$/mg;
}


my $ours = qr/^X-(?:Cache|Key|Views|Reason|Age):/mi;
my @ways = (
    ['/a', 'X-Cache: %s, X-Key: /a, X-Views: %d'],
    ['/on/a', 'X-Key: /on/a'],
    ['/off/a', ''],
);

for my $way (@ways) {
    my ($uri, $lines) = @$way;
    my $n = 0;
    my $get = sub {
        my ($status) = @_;
        my $r = $h->get($uri);

        no warnings 'redundant';
        is(ours($r), sprintf($lines, $status, ++$n), "$uri: $status");
        return $r;
    };

    $get->('MISS');
    ok(page_wait($m, $uri), "$uri: stored");
    unlike(page_decode($m->get("<>$uri"))->{headers}, $ours,
        "$uri: without ours");
    $get->('HIT');

    page_expire($m, $uri, 1000);
    $o->hold_path($uri);
    $get->('STALE');
    $o->wait_requests(2, $uri);
    $get->('UPDATING');
    $o->release($uri);
    ok(refresh_wait($m, $uri, 5 * $t->slow()), "$uri: refreshed");
    unlike(page_decode($m->get("<>$uri"))->{headers}, $ours,
        "$uri: without ours");
    $get->('HIT');
}


# an answer that is an error, to which only some of them belong

$o->set('/error/a', { status => 500 });
is(ours($h->get('/error/a')), 'X-Cache: MISS, X-Key: /error/a',
    'an error: those that are always there');


# trailers of both levels, of a page from the origin and of a stored one

for my $status ('MISS', 'HIT') {
    my $raw = http_raw($h->port(), "GET /trailers HTTP/1.1\r\n"
        . "Host: localhost\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n");

    like($raw, qr/^X-Cache: $status\r$/m, "trailers: $status");
    my ($end) = $raw =~ /\r\n0\r\n(.*)\z/s;
    is(scalar(() = ($end // '') =~ /^X-Reason: \S.*\r$/mg), 1,
        "trailers: $status: of the server");
    is(scalar(() = ($end // '') =~ /^X-Age: \d+\r$/mg),
        $status eq 'HIT' ? 1 : 0,
        "trailers: $status: of the location");
    ok(page_wait($m, '/trailers'), "trailers: $status: stored");
}

$t->done();
