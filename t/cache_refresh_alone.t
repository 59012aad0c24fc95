#!/usr/bin/perl

# Copyright (C) mcds authors

# A refresh belongs to nobody: the connection that has set it off is free at
# once, its client may leave, and when it fails the old page stays.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', {
    headers => ['Cache-Control' => 'max-age=60'],
    body => '%k: ' . 'page ' x 20_000,
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            proxy_read_timeout 2s;
        }
        location /slow {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /none { return 204; }
    }
}
EOT

sub which {
    my ($r) = @_;
    return $r->header('X-Cache') . ' ' . substr $r->body(), 0, 1;
}

# a page that has expired, and its origin

sub expired {
    my ($uri) = @_;

    $h->get($uri);
    page_expire($m, key($uri), 1000);
    $o->mark();
}

sub unlocked {
    my ($uri) = @_;
    return wait_for(sub { !defined $m->get(key($uri) . ':lock') });
}


# a keepalive connection, while the origin takes its time

expired('/slow');
$o->hold_path('/slow');

my $c = $h->conn();
is(which($c->get('/slow')), 'STALE 1', 'keepalive: old page at once');
ok($o->wait_requests(1, '/slow'), 'keepalive: it is refreshed');

my $watch = $t->stopwatch();
is($c->get('/none')->status(), 204, 'keepalive: the next request');
is(which($c->get('/slow')), 'UPDATING 1', 'keepalive: and the same again');
is($o->held('/slow'), 1, 'keepalive: while the origin works');

# pipelined requests too

$h->get('/slow/b');
page_expire($m, key('/slow/b'), 1000);
$o->hold_path('/slow/b');
$c->request($_) for '/slow/b', '/none', '/slow/b';
is(which($c->response()), 'STALE 1', 'pipelined: the first');
is($c->response()->status(), 204, 'pipelined: the second');
is(which($c->response()), 'UPDATING 1', 'pipelined: the third');
cmp_ok($watch->(), '<', 1 * $t->slow(), 'nobody has waited');

$o->release('*');
ok(wait_for(sub { which($c->get('/slow')) eq 'HIT 2' }),
    'keepalive: the new page');
$c->close();


# the client leaves, in one way or another

for my $way ('close', 'reset') {
    my $uri = "/slow/$way";

    expired($uri);
    $o->hold_path($uri);

    $c = start_get($h->port(), $uri);
    $o->wait_requests(1, $uri);
    $c->$way();
    is($h->get('/none')->status(), 204, "$way: the worker goes on");

    $o->release($uri);
    ok(unlocked($uri), "$way: the refresh ends");
    is(which($h->get($uri)), 'HIT 2', "$way: and was stored");
    ok(!($o->requests($uri))[0]{aborted}, "$way: the origin was not left");
}


# before the answer that the old page is has been read

expired('/slow/unread');
$o->hold_path('/slow/unread');
my @p = map { start_get($h->port(), '/slow/unread') } 1 .. 20;
$o->wait_requests(1, '/slow/unread');
$_->reset() for @p;
$o->release('/slow/unread');
ok(unlocked('/slow/unread'), 'all leave: the refresh ends');
is(which($h->get('/slow/unread')), 'HIT 2', 'all leave: and was stored');
is($o->count('/slow/unread'), 1, 'all leave: one origin request');


# a refresh that fails in one way or another

my %failure = (
    'a 500' => { status => 500 },
    'a 503' => { status => 503 },
    'a 400' => { status => 400 },
    'a 429' => { status => 429 },
    'no answer' => { hold => 1 },
    'a reset' => { abort => 0 },
    'a reset in the head' => { abort => 20 },
    'a reset in the body' => { abort => 50_000 },
    'a short body' => { truncate => 50_000 },
    'a short chunked one' => { chunked => 1, truncate => 50_000 },
    'a bad header' => { raw => "HTTP/1.1 200 OK\r\na\0b: c\r\n\r\n" },
);

for my $name (sort keys %failure) {
    my $uri = '/fail/' . $name =~ tr/ /-/r;

    expired($uri);
    $o->set($uri, $failure{$name});
    my $old = $m->get(key($uri));

    is(which($h->get($uri)), 'STALE 1', "$name: old page");
    ok($o->wait_requests(1, $uri), "$name: it is asked for");

    # the token of the lock is gone, something may be left for a moment

    ok(wait_for(sub { ($m->get(key($uri) . ':lock') // '') !~ /^\w{32}/a }),
        "$name: it fails");

    $o->set($uri);
    ok(($m->get(key($uri)) // '') eq $old, "$name: the old page stays");
    like(which($h->get($uri)), qr/^(UPDATING|STALE) 1/, "$name: is shown");
}

ok(wait_for(sub { which($h->get('/fail/a-500')) eq 'HIT 3' }),
    'the pause after a failure ends, and the page is refreshed');

$t->done();
