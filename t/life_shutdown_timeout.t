#!/usr/bin/perl

# Copyright (C) mcds authors

# worker_shutdown_timeout, with requests in every state: when it is over, all
# of them end at once, also what goes on behind them, and nothing is used that
# is gone (L07).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('single',
    'nginx does not wait at QUIT then');
my $slow = $t->slow();

# what is asked under /held is not answered

my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return if $line !~ m{ held/};
    return ($f->hold(), $f->default($line, $_[3]));
});

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
worker_shutdown_timeout 300ms;
events { worker_connections 512; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 30s; max_fails 0; }
    mcds_pool held { server 127.0.0.1:%%PORT_f%%; timeout 30s; max_fails 0;
                     prefix held/; }
    mcds_use  main;
    mcds_cache_key $uri;
    mcds_cache_lock_timeout 30s;
    log_format line $uri;

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        add_header X-Cache $mcds_cache_status;

        location / {
            mcds_counter $n key=here:$uri;
            mcds_cache   on;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }
        location /count { mcds_use held; mcds_counter $n; mcds_return "$n"; }
        location /begin {
            mcds_counter $n key=$uri;
            mcds_counter_init $n /origin$uri timeout=30s;
            mcds_return "$n";
        }
        location /origin { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /lookup { mcds_cache held;
                           proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /lock { mcds_lock $uri wait=30s;
                         proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /array { mcds_use held; mcds_array_api array; }
        location /look { mcds_use held; mcds_table_lookup $v table $uri;
                         mcds_return "$v"; }
        location /log { mcds_log log line; return 204; }
        location /lines { mcds_log_api log; }
    }
}
EOT

# pages that are old by the time that they are needed

$o->set($_, { headers => ['Cache-Control' => 'max-age=1'] })
    for qw{ /stale/1 /stale/2 };
is($h->get($_)->status(), 200, 'a page that expires')
    for qw{ /stale/1 /stale/2 };
my $expired = time() + 1.1;
$o->set($_, undef) for qw{ /stale/1 /stale/2 };


my %count = (wait => 100, lock => 20, count => 5, lookup => 5, array => 5,
    look => 5, lines => 3, plain => 5);

$o->hold_path('*');

my @all = start_get($h->port(), '/wait');
$o->wait_requests(1, '/wait');
push @all, map { start_get($h->port(), '/wait') } 2 .. $count{wait};
push @all, map { start_get($h->port(), '/lock') } 1 .. $count{lock};
push @all, map { my $uri = $_; map { start_get($h->port(), "/$uri/$_") }
    1 .. $count{$uri} } qw/ count lookup look plain /;
push @all, map { start_get($h->port(), '/array') } 1 .. $count{array};
push @all, map { start_get($h->port(), '/lines?follow=1') } 1 .. $count{lines};
push @all, start_get($h->port(), '/begin/1');

ok(wait_for(sub { ($f->get('here:/wait') // 0) == $count{wait} }, 5 * $slow),
    'those who wait for a build');
ok($o->wait_requests(1, '/lock'), 'for a lock');
ok($o->wait_requests($count{plain}, qr{^/plain}), 'for the origin');
ok($o->wait_requests(1, '/origin/begin/1'), 'for where a counter begins');
ok(wait_for(sub { $f->held() >= 1 }, 5 * $slow), 'for memcached');

sleep 0.05 while time() < $expired;

for (1 .. 2) {
    like($h->get("/stale/$_")->header('X-Cache'), qr/STALE|UPDATING/,
        'an old page');
    ok($o->wait_requests(2, "/stale/$_"), 'that is being refreshed');
}

my ($start, $watch) = (time(), $t->stopwatch());
$h->signal('QUIT');

# the stopwatch asks processes while they live

ok(wait_for(sub { $watch->(); $h->reap() }, 10 * $slow), 'QUIT: they end');
my ($took, $calm) = (time() - $start, $watch->());

cmp_ok($took, '>', 0.3, 'not before that time');
cmp_ok($calm, '<', 0.3 + 1 * $slow, 'and when it is over');

# Angie itself closes the connections to an origin when that time is over
is($h->log_count(qr/mcds refresh is ended/),
    $t->nginx_name() eq 'Angie' ? 0 : 3,
    'what went on behind the requests was ended')
    or diag($h->log_lines(qr/ended/));

my @r = map { $_->slurp(5 * $slow) } @all;
is(scalar(grep { / 200 / && !/event-stream/ } @r), 0,
    'nobody is told something that is not true');

$f->release() while $f->held();
$o->release('*');
$t->done();
