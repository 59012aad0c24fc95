#!/usr/bin/perl

# Copyright (C) mcds authors

# Whatever the configuration, a client gets nothing with mcds_cache on that
# nginx without mcds would not have given it.  See Test::Mcds::Oracle.
#
# MCDS_SEED=n tries that configuration alone.  ORACLE_SECS=n goes on for that
# long, or until it is interrupted, from ORACLE_FROM (1) on, each ORACLE_STEPth
# (1), until there are ORACLE_MOST (1) findings.  ORACLE_SITE=1 has
# mcds_cache_site, too; TEST_NGINX_MODULE=path tries another module.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Oracle;

my $secs = $ENV{ORACLE_SECS};
my $one = $ENV{MCDS_SEED};
my $seed = $one // $ENV{ORACLE_FROM} // 1;
my $step = $ENV{ORACLE_STEP} || 1;
my $most = $ENV{ORACLE_MOST} || 1;

$ENV{TEST_TIMEOUT} //= ($secs // 0) + 600;

my $t = Test::Mcds->new()->needs('http_ssl', 'http_sub', 'http_addition',
    'http_auth_request', 'IO::Socket::SSL');

my $oracle = Test::Mcds::Oracle->new($t, $t->memcached('m'));
my $last = $one // ($secs ? 1e15 : $t->size(40 / $t->slow(), 3000));
my $end = time() + ($secs // 1e9);
my ($count, %kinds, $stop) = (0);

$SIG{INT} = sub { $stop = 1 };

for (; $seed <= $last && !$stop && time() < $end; $seed += $step) {
    for my $found ($oracle->try($seed)) {
        diag($oracle->shown($found)) if !$kinds{$found->{kind}}++;
        $count++;
    }

    last if $count >= $most;
}

is($count, 0, 'no client gets what nginx alone would not give it');

note("up to seed $seed: ", $oracle->sums());
note("found $kinds{$_} times: $_") for sort keys %kinds;
note($_) for $oracle->unusable();

# a run with few hits proves nothing

cmp_ok($oracle->{sum}{hits}, '>', $oracle->{sum}{requests} / 10,
    'pages come from the cache') if $oracle->{sum}{requests} > 1000;

undef $oracle;

$t->done();
