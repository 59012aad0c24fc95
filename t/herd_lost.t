#!/usr/bin/perl

# Copyright (C) mcds authors

# What makes many ask for one page at one time: it was deleted, or has expired,
# all was flushed, memcached was restarted, the origin is slower than a lock
# lives, or its answer cannot be stored.  Each time one request is at the
# origin, of two hosts with two workers each.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => {
        '/slow' => { delay => 4.5, headers => ['Cache-Control' =>
            'max-age=60'] },
        '/never' => { delay => 0.2, headers => ['Cache-Control' =>
            'no-store'] },
    });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        timeout 2s;
        fail_timeout 200ms;
    }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_lock_age 3s;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

sub herd {
    my ($n, $uri) = @_;
    return map { start_get($hosts[$_ % 2]->port(), $uri) } 1 .. $n;
}

my %lose = (
    deleted => sub { $m->delete(key(shift)) },
    flushed => sub { $m->flush() },
    restarted => sub {
        $m->restart();

        # until it is used again by all workers

        wait_for(sub {
            my %r;
            $r{$_->get('/used')->header('X-Cache')}++ for (@hosts) x 12;
            return ($r{HIT} // 0) == 24;
        }, 10 * $t->slow());
    },
    expired => sub {
        my $uri = shift;
        my $e = page_decode($m->get(key($uri)));
        $m->set(key($uri), page_encode(%$e, flags => 2,
            created => $e->{created} - 90_000,
            expire => $e->{expire} - 90_000));
    },
);

for my $round (1 .. $t->size(2, 20)) {
    for my $how (sort keys %lose) {
        my $uri = "/$how/$round";

        $_->get($uri) for (@hosts) x 4;
        page_wait($m, key($uri));
        $o->mark();
        $lose{$how}->($uri);

        $o->hold_path($uri);
        my @p = herd(60, $uri);
        $o->wait_requests(1, $uri);
        $_->handled('/used') for @hosts;
        sleep 0.05;
        is($o->held($uri), 1, "$how $round: one asks the origin");
        $o->release($uri);
        my @r = map { finish($_) } @p;
        my %body = map { $_->body() => 1 } @r;
        is(scalar(grep { $_->status() == 200 } @r), 60,
            "$how $round: all are answered");
        is(scalar(keys %body), 1, "$how $round: by one answer");
        is($o->count($uri), 1, "$how $round: one origin request");
    }
}


# slower than a lock lives: it is extended

my @r = map { finish($_) } herd(40, '/slow');
is(scalar(grep { $_->status() == 200 } @r), 40, 'slow: all are answered');
is($o->count('/slow'), 1, 'slow: one origin request');


# not to be stored: from the second on nobody waits longer than two answers

my $watch = $t->stopwatch();
@r = map { finish($_) } herd(40, '/never');
is(scalar(grep { $_->status() == 200 } @r), 40, 'never: all are answered');
is($o->count('/never'), 40, 'never: each has its own answer');
cmp_ok($watch->(), '<', 1.2 * $t->slow(), 'never: side by side');

$t->done();
