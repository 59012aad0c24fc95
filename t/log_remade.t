#!/usr/bin/perl

# Copyright (C) mcds authors

# An item of a log that memcached has lost, or that was lost with its server,
# and that a writer has made anew: a follower reads it from its
# beginning, be it shorter, as long or longer than the one of before.

use warnings;
use strict;

use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ frame /;

my $t = Test::Mcds->new();

# a server that was started again has lower numbers for its items

my $f = $t->fake('f', sub {
    my ($f) = @_;

    if ($f->mode() eq 'again') {
        $f->{mode} = '';
        $f->{next_cas} = $f->{told}[0];
    }

    return;
});

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /log { mcds_log_api log; }
    }
}
EOC

my $c = Test::Mcds::Follow->new($h, '/log?follow=1');

is($c->status(), 200, 'a stream');

my $seq = 0;
my @said;

# higher numbers than those of the next items

$f->set("other:$_", 1) for 1 .. 20;
item('first', 3);
follows('an item');

# ... and one that has lost only this item has higher ones

for my $case (['shorter', 1, 15], ['much longer', 9, 10], ['as long', 9, 5],
    ['shorter, later', 1], ['longer, later', 9], ['as long, later', 9])
{
    my ($name, $n, $cas) = @$case;

    $f->tell('again', $cas) if $cas;
    $f->delete($_) for map { 'log:' . $_ } chunk() - 2 .. chunk() + 2;
    item($name, $n);
    follows("$name: made anew");
}

$c->close();
$t->done();


sub chunk { return int(Time::HiRes::time() / 10) }


# an item of so many lines, of one frame each, in the present chunk

sub item {
    my ($name, $n) = @_;
    my $now = int(Time::HiRes::time() * 1000);
    my @lines = map { "$name $_" } 1 .. $n;

    push @said, @lines;

    $f->set('log:' . int($now / 10_000), join('', map {
        frame(writer => 7, seq => ++$seq, host => 'a',
            lines => [[$now + $seq, $_]])
    } @lines), 600);
}


sub follows {
    my ($name) = @_;

    ok($c->seen(scalar @said), $name);
    is(join('|', map { $_->{line} } $c->events()), join('|', @said),
        "$name: each line once, in order");
}
