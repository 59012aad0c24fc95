#!/usr/bin/perl

# Copyright (C) mcds authors

# A log in a pool of three servers, some of which are down: the lines of the
# chunks on the others are written and followed as ever, and those of a server
# that is down come when it is up again, even if another one still is not.

use warnings;
use strict;

use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ crc32 frames /;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/memcached server .* is down|is back/);

my @m = map { $t->memcached($_) } qw/ a b c /;

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_a%%;
        server       127.0.0.1:%%PORT_b%%;
        server       127.0.0.1:%%PORT_c%%;
        distribution modula_crc;
        timeout      5s;
        fail_timeout 300ms;
    }
    log_format n '$arg_n';
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /n { mcds_log log n chunk=1s chunks=300; return 204; }
        location = /log { mcds_log_api log; }
    }
}
EOC

my $n = 0;
my %seen;
my $follow = Test::Mcds::Follow->new($h, '/log?follow=1');

ok(wait_for(sub {
    line();
    return $follow->count();
}, 20), 'a client follows');


# two servers die: a line each time until chunks on each of the servers have
# passed, and then another one on the one that is left

$m[$_]->kill9() for 1, 2;

my $first = $n;
my $later;

%seen = ();

ok(wait_for(sub {
    my %passed = map { server($_) => 1 } passed();

    line();
    $later //= chunk_now() if $passed{1} && $passed{2};

    return grep { $later && $_ > $later && server($_) == 0 } passed();
}, 60), 'lines in chunks of each server');

my %now = (stored(0));
my @healthy = grep { $later && $_ > $later && server($_) == 0 } passed();

ok(wait_for(sub {
    %now = stored(0);
    return !grep { !$now{$_} } @healthy;
}, 5), 'those of the one that is up are written')
    or diag("@healthy, but ", join ' ', sort keys %now);

my ($last) = sort { $b <=> $a } map { @{$now{$_} // []} } @healthy;

ok(wait_for(sub { grep { $_->{line} eq ($last // '') } $follow->events() }, 5),
    'and followed');

is(join(' ', map { grep { server($_) } keys %{{stored($_)}} } 0 .. 2), '',
    'none is on a wrong server');
ok(!$h->log_has(qr/has lost/), 'none is lost');


# one of them is back, and the other one is not

for my $i (2, 1) {
    my @missing = missing($i);

    cmp_ok(scalar(@missing), '>', 0, "chunks of server $i wait");

    $m[$i]->restart();

    my %back;

    ok(wait_for(sub {
        %back = stored($i);
        return !grep { !$back{$_} } @missing;
    }, 10), 'and are written when it is up') or diag("@missing");

    cmp_ok(scalar(missing(1)), '>', 0, 'those of the other one still wait')
        if $i == 2;
}

my @lines;

ok(wait_for(sub {
    @lines = map { my %of = stored($_); map { @{$of{$_}} } keys %of } 0 .. 2;
    return grep({ $_ >= $first } @lines) >= $n - $first;
}, 10), 'all lines are there');

is(join(' ', sort { $a <=> $b } grep { $_ >= $first } @lines),
    join(' ', $first .. $n - 1), 'each once');

for my $i (0 .. 2) {
    my %of = stored($i);

    is(scalar(grep { "@$_" ne join ' ', sort { $a <=> $b } @$_ } values %of),
        0, "those of each chunk on server $i in order");
}

ok(!$h->log_has(qr/has lost/), 'none is lost');

$follow->close();
$t->done();


sub chunk_now { return int Time::HiRes::time() }


# the number of the server of a chunk

sub server { return (crc32("log:$_[0]") >> 16 & 0x7fff) % 3 }


# writes a line

sub line {
    my $chunk = chunk_now();

    $h->get('/n?n=' . $n++);
    $seen{$chunk} = 1 if chunk_now() == $chunk;
}


# the chunks since the servers died that surely have lines, and get no more

sub passed {
    my $now = chunk_now();

    return grep { $_ < $now } keys %seen;
}


# the lines of each chunk on a server: { chunk => [...] }

sub stored {
    my ($i) = @_;

    my %of;

    return if !$m[$i]->pid();

    push @{$of{$_->{chunk}}}, @{$_->{lines}} for frames($m[$i], 'log');

    return %of;
}


# the chunks of a server that passed and are not stored there

sub missing {
    my ($i) = @_;

    my %of = stored($i);

    return grep { server($_) == $i && !$of{$_} } passed();
}
