#!/usr/bin/perl

# Copyright (C) mcds authors

# Memcached loses the lock of a page while another worker builds the page.  A
# request that waits for the page then asks for the lock in vain, and waits for
# the rest of its time, not once more for all of it.  Which request has ended
# first is told by the host, on a busy machine, too.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

# without it, the request gets the lock and builds the page

$t->needs('mcds local');

my $f = $t->fake('f');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    hold => 1 });

my $wait = 2 * $t->slow();
my $conf = <<'EOT' =~ s/%%WAIT%%/$wait/r;
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    keepalive_requests 10000;
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 20s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_lock_timeout %%WAIT%%s;
    mcds_cache_lock_age 60s;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /pid { mcds_cache off; mcds_return 200 $pid; }
    }
}
EOT

my $h = $t->nginx('h', $conf);

# two connections to each worker

my %conn;

for (1 .. 1000) {
    my $c = $h->conn();
    push @{$conn{$c->get('/pid')->body()}}, $c;
    last if grep({ @$_ > 1 } values %conn) == $t->workers(2);
}

$t->leave('one worker does both') if keys %conn < 2;

my ($builder, $waiter) = values %conn;

for my $i (0, 1) {
    $builder->[$i]->request("/page/$i");
    ok($o->wait_requests(1, "/page/$i"), "page $i: is built");
}

my $lock = key('/page/0') . ':lock';

$f->mark();
$waiter->[0]->request('/page/0');
ok(wait_for(sub { $f->count(qr/^mg \Q$lock\E /) }), 'page 0: is waited for');

# this request comes later, and waits for as long as it may

sleep 0.3 * $wait;
$waiter->[1]->request('/page/1');

sleep 0.3 * $wait;
$f->mark();
$f->delete($lock);
ok(wait_for(sub { $f->count(qr/^ms \Q$lock\E /) }),
    'page 0: the lock is asked for');

for my $i (0, 1) {
    my $r = $waiter->[$i]->response();
    is($r->status() . ' ' . $r->header('X-Cache'), '503 MISS timeout',
        "page $i: is waited for in vain");
}

is($o->count('/page/0'), 1, 'page 0: is built once');

my @ended;

wait_for(sub {
    @ended = $h->access_log() =~ m{"GET (\S+) [^"]*" 503 }g;
    return @ended >= 2;
});
is("@ended", '/page/0 /page/1', 'in the order in which the requests came');

$o->release();
is($_->response()->status(), 200, 'the pages are built')
    for @$builder[0, 1];

$t->done();
