#!/usr/bin/perl

# Copyright (C) mcds authors

# Two hosts answer as RFC 9111 and the configuration allow, whatever happens.
# See Test::Mcds::Model.
#
# MCDS_SEED=n tries that sequence alone.  MODEL_SECS=n goes on for that long, or
# until it is interrupted, from MODEL_FROM (1) on, until there are MODEL_MOST
# (1) findings.  MODEL_KNOWN="name .." lets these faults pass, and no others.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Model;

my $secs = $ENV{MODEL_SECS};
my $one = $ENV{MCDS_SEED};
my $seed = $one // $ENV{MODEL_FROM} // 1;
my $most = $ENV{MODEL_MOST} || 1;

# what is not yet as it is to be, see Test::Mcds::Model::Judge; a name goes when
# that is mended.  "date", "head" and "weak" are up to nginx's filters; "tag" is
# what the manual says of purges.

my @known = split ' ', $ENV{MODEL_KNOWN} // 'date head tag weak';

$ENV{TEST_TIMEOUT} //= ($secs // 0) + 600;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');
my $model = Test::Mcds::Model->new($t, { map { $_ => 1 } @known });
my $last = $one // ($secs ? 1e15 : $t->size(150 / $t->slow(), 20_000));
my $end = time() + ($secs // 1e9);
my ($count, %kinds, $stop) = (0);

$SIG{INT} = sub { $stop = 1 };

for (; $seed <= $last && !$stop && time() < $end; $seed++) {
    for my $found ($model->try($seed)) {
        diag($model->shown($found)) if !$kinds{$found->{wrong}{what}}++;
        $count++;
    }

    last if $count >= $most;
}

is($count, 0, 'no client gets what a cache must not give it');

note("up to seed $seed: ", $model->sums());
note("found $kinds{$_} times: $_") for sort keys %kinds;

# a run in which nothing comes from the cache proves nothing

cmp_ok($model->{sum}{reused}, '>', $model->{sum}{requests} / 10,
    'pages come from the cache') if $model->{sum}{requests} > 1000;

undef $model;

$t->done();
