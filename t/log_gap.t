#!/usr/bin/perl

# Copyright (C) mcds authors

# Memcached loses the first items of a chunk while a writer is at a later one:
# the next line makes those before it anew, empty, so that a follower, which
# goes from item to item, comes to it.  So it is if the later one is not lost.

use warnings;
use strict;

use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ frame lines /;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    log_format n '$arg_n $http_x_long';
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /n {
            mcds_log log n chunk=1h max_chunk=4k;
            return 204;
        }
        location = /log { mcds_log_api log; }
    }
}
EOC

sub part {
    my ($n) = @_;
    return scalar grep { /^log:\d+:$n$/ } $m->keys();
}

sub say_n {
    my ($n, $long) = @_;
    $h->get("/n?n=$n", headers => { 'X-Long' => 'x' x ($long // 1) });
}

for my $parts (1, 2) {
    my $n = 0;

    # one line at a time, so that this item is the last one

    while (!part($parts) && $n < 100) {
        say_n('fill' . ++$n, 2000);
        wait_for(sub { grep { /^fill$n / } lines($h, '/log') }) or last;
    }

    ok(part($parts) && !part($parts + 1), "item $parts: is written to");
    $m->flush();

    my $c = Test::Mcds::Follow->new($h, '/log?follow=1');
    is($c->status(), 200, "item $parts: a stream, of nothing yet");

    # it has read the past, and looks for new lines

    my $gets = $m->stats()->{cmd_get};
    ok(wait_for(sub { $m->stats()->{cmd_get} > $gets + 10 }),
        "item $parts: it looks");

    say_n("after$parts");
    ok($c->seen(1), "item $parts: the next line is seen");
    is(join(' ', grep { /^after/ } lines($h, '/log')), "after$parts x",
        "item $parts: and read");
    $c->close();

    # the next round begins with an item that no writer knows

    $m->flush();
    $h->reload(wait_old => 1);
}


for my $lost (1, 2) {
    my $n = 0;

    while (!part(2) && $n < 100) {
        say_n("old$lost-" . ++$n, 2000);
        wait_for(sub { grep { /^old$lost-$n / } lines($h, '/log') }) or last;
    }

    ok(part(2) && !part(3), "$lost lost: item 2 is written to");

    my ($key) = grep { /^log:\d+$/ } $m->keys();

    $m->delete($_) for ($key, "$key:1")[0 .. $lost - 1];

    ok(join(' ', lines($h, '/log')) =~ /old1-$n /,
        "$lost lost: the others are read") if $lost == 1;

    my $c = Test::Mcds::Follow->new($h, '/log?follow=1');
    my $after = 0;

    ok(wait_for(sub {
        say_n("after$lost-" . ++$after);
        return defined $m->get($key);
    }), "$lost lost: it is made anew");
    say_n("last$lost");
    ok(wait_for(sub {
        $c->drain();
        return $c->lines() =~ /last$lost/;
    }), "$lost lost: the last line is seen");

    ok(join(' ', lines($h, '/log'))
        =~ /old$lost-$n .*after$lost-1 .*last$lost /,
        "$lost lost: all others are read");
    is($m->get($key), '', "$lost lost: the item is empty");
    $c->close();

    $m->flush();
    $h->reload(wait_old => 1);
}


# what a follower finds behind a gap that closes is not new

my $now = int(Time::HiRes::time() * 1000);

$m->set('log:' . int($now / 3_600_000) . ':1', frame(writer => 7, seq => 1,
    host => 'a', lines => [[$now - 60_000, 'old']]), 600);

my $c = Test::Mcds::Follow->new($h, '/log?follow=1');
my $gets = $m->stats()->{cmd_get};

ok(wait_for(sub { $m->stats()->{cmd_get} > $gets + 4 }), 'it looks');
say_n('new');
ok($c->seen(1), 'a line closes the gap');
is($c->lines(), 'new_x', 'only this line is seen');
like(join(' ', lines($h, '/log')), qr/old/, 'the old one is read');
$c->close();

$t->done();
