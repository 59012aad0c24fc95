#!/usr/bin/perl

# Copyright (C) mcds authors

# What RFC 5861 says of stale-while-revalidate and stale-if-error, as rfc_9111.t
# has it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clauses;

my $t = Test::Mcds->new();

my @statements = (
    ['3 window', 'also', 'so long a stale page may be used'],
    ['3 refresh', 'SHOULD', 'validate it meanwhile, and not make clients wait'],
    ['3 over', 'SHOULD NOT', 'use it later than that'],
    ['4 window', 'also', 'so long it may be used if the origin fails'],
    ['4 over', 'SHOULD NOT', 'use it later than that'],
    ['4 visible', 'SHOULD', 'show that it is stale'],
);

my @rows = (
    ['3 window', 'stale-while-revalidate', 1,
        [cc 'max-age=60, stale-while-revalidate=77'],
        check => sub { is($_[3]{swr}, 77, 'is kept') }],
    ['3 refresh', 'within it: at once', by => 'cache_basic',
        has => 'stale-while-revalidate: in time'],
    ['3 over', 'after it: not', by => 'cache_basic',
        has => 'stale-while-revalidate: over'],
    ['4 window', 'stale-if-error', by => 'rfc_stale_error', has => '/x/sie/'],
    (map { ['4 window', "errors are $_", by => 'rfc_stale_error',
        has => 'for 500, 502, 503, 504'] } 500, 502, 503, 504),
    ['4 over', 'after it: not', by => 'rfc_stale_error',
        has => "is_error('/x/sie/503', 503, 700_000)"],
    ['4 visible', 'Age', by => 'rfc_stale_error',
        has => 'Age tells how old it is'],
);

clauses($t, \@statements, '', @rows);

$t->done();
