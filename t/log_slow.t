#!/usr/bin/perl

# Copyright (C) mcds authors

# A client that follows a log and does not read: what waits for it is bounded,
# it is told what it has missed, and others do not notice it.  memcached that
# is silent for a while: what was written meanwhile comes late.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Memory;
use Test::Mcds::Follow;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;

    return $f->stall() if ($f->mode() // '') eq 'stall';
    return;
});

my $timeout = 500 * ($t->valgrind() ? $t->slow() : 1) . 'ms';

my $h = $t->nginx('h', <<'EOC' =~ s/%%WAIT%%/$timeout/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_f%%;
        timeout %%WAIT%%;
        fail_timeout 500ms;
    }

    log_format n     '$arg_n';
    log_format large '$arg_n $http_x_large';

    server {
        listen 127.0.0.1:%%PORT%% sndbuf=16k;
        location = /n { mcds_log log n; return 204; }
        location = /large { mcds_log log large; return 204; }
        location = /log { mcds_log_api log; }
        location = /short { send_timeout 2s; mcds_log_api log; }
    }
}
EOC

my $one = Test::Mcds::Follow->new($h, '/log?follow=1');
my $slow = Test::Mcds::Follow->new($h, '/log?follow=1', rcvbuf => 4096);
my $dead = Test::Mcds::Follow->new($h, '/short?follow=1', rcvbuf => 4096);

ok(wait_for(sub { $f->count(qr/^mg log:\d+ /) > 6 }, 10), 'it looks');


# in steps, since a client's share is judged when lines come

my ($worker) = $h->workers();
my $before = memory($worker, 'VmRSS');
my $n = 0;

for my $step (1 .. 8) {
    $t->load(port => $h->port(), uri => '/large?n=large', clients => 4,
        requests => 200, header => 'X-Large: ' . 'x' x 7000);
    $n += 200;

    my $seen = $one->seen($n, 20 * $t->slow());
    ok($seen, "one that reads has $n lines") if !$seen || $step % 2 == 0;
}

cmp_ok(memory($worker, 'VmRSS') - $before, '<', 16 * 1024,
    'and the other one does not make the worker large')
    if !$t->watched();

ok(wait_for(sub {
    $slow->drain();
    $h->get('/n?n=more');
    return $slow->text() =~ /^event: dropped\ndata: \d+\n\n/m;
}, 30 * $t->slow()), 'one that did not read is told');

my ($dropped) = $slow->text() =~ /^event: dropped\ndata: (\d+)\n\n/m;
my $got = () = $slow->text() =~ /"line":"large/g;

cmp_ok($dropped, '>', 0, 'that it has missed something');
is($got + $dropped, $n, 'how many lines');
is($slow->wrong(), 0, 'none came twice');
ok(wait_for(sub { $dead->ended() }, 10), 'send_timeout ends a dead one');
ok(!$dead->whole(), 'in the midst of it');


# memcached is silent for a moment

$f->tell('stall');
$f->close_all();
ok(wait_for(sub { $one->text() =~ /^: memcached has failed/m }, 10),
    'memcached is silent: followers are told');
$h->get('/n?n=meanwhile');
$f->tell('');
$f->close_all();
ok(wait_for(sub { $one->lines() =~ /meanwhile/ }, 20),
    'what happened meanwhile comes');
is($one->wrong(), 0, 'and nothing twice');

$_->close() for $one, $slow, $dead;

$t->allow(qr/memcached server .* is down|is back|timed out/);
$t->done();
