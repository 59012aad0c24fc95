#!/usr/bin/perl

# Copyright (C) mcds authors

# Memcached is away, killed or stopped: a page is asked for once at a time by
# each host, whichever of its workers have requests for it, and all who wait get
# that answer.  A worker that is killed while it builds holds up nobody.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT tally /;

my $t = Test::Mcds->new();

# without it, each worker builds a page by itself

$t->needs('mcds local');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => {
        '/private' => { headers => ['Cache-Control' => 'private'],
                        delay => 0.2 },
        '/large' => { headers => ['Cache-Control' => 'max-age=60'],
                      body => 'large' x 600_000 },
    });

my $timeout = 200 * $t->slow();
my $workers = $t->workers(3);

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 3;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        timeout %%TIMEOUT%%ms;
        fail_timeout 10s;
    }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Worker $pid always;
    mcds_cache on;
    mcds_cache_error_backoff 1s;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

$conf =~ s/%%TIMEOUT%%/$timeout/;

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

sub herd {
    my ($n, $uri, @h) = @_;
    @h = @hosts if !@h;
    return map { start_get($h[$_ % @h]->port(), $uri) } 1 .. $n;
}

# the requests have been looked up, by all workers

sub settle {
    $_->get('/other') for (@hosts) x 12;
}


for my $how ('stopped', 'killed') {
    $how eq 'killed' ? $m->kill9() : $m->freeze();

    # cold, from before anybody knows that it is away

    for my $round ('first', 'later') {
        my $uri = "/$how/$round";

        $o->hold_path($uri);
        my @p = herd(60, $uri);
        wait_for(sub { $o->held($uri) >= 2 }, 10);
        settle();
        sleep $timeout * 2.5 / 1000;
        is($o->held($uri), 2, "$how, $round: one for each host");
        $o->release($uri);
        my @r = map { finish($_) } @p;

        is(scalar(grep { $_->status() == 200 } @r), 60,
            "$how, $round: all are answered");
        is($o->count($uri), 2, "$how, $round: by one answer for each host");

        # the kernel decides which of them get requests

        for my $host (0, 1) {
            my %worker = map { $r[$_]->header('X-Worker') => 1 }
                grep { $_ % 2 == $host } 0 .. $#r;
            cmp_ok(scalar(keys %worker), '>=', $workers < 2 ? 1 : 2,
                "$how, $round: in several workers of host $host");
        }
    }

    # an answer that cannot be shared: nobody waits one behind the other

    $o->mark();
    my $watch = $t->stopwatch();
    my @r = map { finish($_) } herd(30, '/private');
    is(tally(@r), '30 200 MISS', "$how, private: all pass");
    cmp_ok($watch->(), '<', 1.2 * $t->slow(), "$how, private: in time");

    # nor where it fails

    my $uri = "/$how/fails";
    $o->set($uri, { status => 500 });
    $o->hold_path($uri);
    my @p = herd(30, $uri);
    wait_for(sub { $o->held($uri) >= 2 }, 10);
    settle();
    $o->release($uri);
    is(tally(map { finish($_) } @p), '2 500 MISS, 28 503 MISS',
        "$how, fails: all are told");
    is($o->count($uri), 2, "$how, fails: one for each host");
    sleep 0.1;
    is($hosts[0]->get($uri)->status(), 500, "$how, fails: the next one tries");

    # who builds is killed

    $uri = "/$how/crash";
    $o->hold_path($uri);
    my $first = start_get($hosts[0]->port(), $uri);
    $o->wait_requests(1, $uri);
    my %mine = map { $_ => 1 } grep {
        my $pid = $_;
        # the worker whose connection the origin holds
        `ss -tnpH dport = :${\$o->port()} 2>/dev/null` =~ /pid=$pid\b/;
    } $hosts[0]->workers();

  SKIP: {
        my @w = $hosts[0]->workers();
        my ($i) = grep { $mine{$w[$_]} } 0 .. $#w;
        skip 'no telling which worker it is', 4 if !defined $i;
        skip 'it is the only worker', 4 if @w == 1;

        @p = herd(30, $uri, $hosts[0]);
        settle();
        $hosts[0]->kill_worker($i);
        $watch = $t->stopwatch();
        ok($o->wait_requests(2, $uri), "$how, crash: the next one builds");
        sleep 0.1;
        is($o->count($uri), 2, "$how, crash: one of all workers");
        cmp_ok($watch->(), '<', 2 * $t->slow(),
            "$how, crash: at once");
        $o->release($uri);
        my $n = grep { ($_->status() // 0) == 200 } map { finish($_) } @p;
        cmp_ok($n, '>', 5, "$how, crash: the others are answered ($n)");
    }

    $o->release($uri);

    $how eq 'killed' ? $m->restart() : do { $m->cont(); $m->restart() };

    ok(wait_for(sub {
        $_->get('/back') for @hosts;
        return 6 == grep { $_->get('/back')->header('X-Cache') eq 'HIT' }
            (@hosts) x 3;
    }, 15 * $t->slow()), "$how: and back");
}

$t->done();
