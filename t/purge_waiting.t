#!/usr/bin/perl

# Copyright (C) mcds authors

# Without memcached the workers of a host share the build of a page.  If the
# page is purged during its build, the result is only for the request that began
# the build: a worker whose request waits for the page builds it, too, and no
# later request gets the page of before the purge.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->allow(qr/mcds|memcached/);

# without it, each worker builds a page by itself

$t->needs('mcds local');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Cache-Control' => 'max-age=600',
            $q->{uri} =~ /vary/ ? (Vary => 'X-A') : ()],
        body => "answer $q->{n}" };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    keepalive_requests 10000;
    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        timeout      300ms;
        fail_timeout 60s;
    }
    mcds_cache on;
    mcds_cache_local validated;
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / {
            mcds_purge_api method=PURGE mode=delete;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /pid { mcds_cache off; mcds_return 200 $pid; }
    }
}
EOT

# two connections to each worker

my %conn;

for (1 .. 1000) {
    my $c = $h->conn();
    push @{$conn{$c->get('/pid')->body()}}, $c;
    last if grep({ @$_ > 1 } values %conn) == $t->workers(2);
}

$t->leave('one worker does both') if keys %conn < 2;

my ($w, $v) = values %conn;
my ($one, $two, $other) = ($w->[0], @$v);

# from here on both workers know that memcached is down

$m->kill9();
$_->get('/down') for $one, $two;

for my $uri ('/a', $t->has('mcds vary') ? '/vary' : ()) {
    my @a = (headers => { 'X-A' => 1 });

    $o->hold_path($uri);
    $one->request($uri, @a);
    ok($o->wait_requests(1, $uri), "$uri: is built");

    # a request of the other worker waits for that

    $two->request($uri, @a);
    $other->get('/pid') for 1 .. 3;

    is($other->get($uri, method => 'PURGE')->status(), 503,
        "$uri: is deleted on this host");
    is($o->count($uri), 1, "$uri: by one worker");

    $o->let($uri);
    my $old = $one->response()->body();

    ok($o->wait_requests(2, $uri, 3), "$uri: the other one builds it, too");
    $o->release($uri);
    isnt($two->response()->body(), $old, "$uri: the answer of after that");

    my @r = map { $_->get($uri, @a) } $one, $two;
    is(scalar(grep { $_->body() eq $old } @r), 0,
        "$uri: nobody gets the one of before any more");
    is(scalar(grep { $_->header('X-Cache') eq 'HIT' } @r), 2,
        "$uri: the new one is kept") if $uri eq '/a';
}

$t->done();
