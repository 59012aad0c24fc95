#!/usr/bin/perl

# Copyright (C) mcds authors

# What RFC 9213 demands of CDN-Cache-Control, as rfc_9111.t has it; its syntax
# is that of RFC 8941, 3.2.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clauses;

my $t = Test::Mcds->new();

my $past = http_date(time() - 3600);
my ($yes, $no) = (1, 0);
my @fresh = cc 'max-age=60';

my @statements = (
    ['2.1 syntax', 'also', 'a dictionary of RFC 8941'],
    ['2.1 make', 'MUST NOT', 'make values of other kinds',
        not => 'mcds makes no such header'],
    ['2.1 string', 'MUST', 'make strings of what would be read as others',
        not => 'mcds makes no such header'],
    ['2.1 consume', 'SHOULD NOT', 'take values of other kinds'],
    ['2.1 invalid', 'MUST', 'ignore what is empty or cannot be read'],
    ['2.2 select', 'MUST', 'use the first such header that is valid'],
    ['2.2 ignore', 'MUST', 'ignore Cache-Control and Expires then'],
    ['2.2 unlisted', 'MUST NOT', 'let those for other caches matter'],
    ['2.2 passed', 'MUST', 'pass them on'],
    ['2.2 directives', 'MUST', 'know max-age, must-revalidate, no-store, '
        . 'no-cache and private'],
    ['2.2 others', 'SHOULD', 'know the others that Cache-Control has here'],
    ['2.4', 'MUST NOT', 'take any header for one by the end of its name'],
);

my @rows = (
    ['2.2 select, 2.2 ignore', 'CDN-Cache-Control before Cache-Control', $yes,
        [cc('max-age=10'), 'CDN-Cache-Control' => 'max-age=90'], life => 90],
    ['2.2 ignore', 'also if that forbids', $yes,
        [cc('no-store'), 'CDN-Cache-Control' => 'max-age=90'], life => 90],
    ['2.2 ignore', 'and before Expires', $yes, [Expires => $past,
        'CDN-Cache-Control' => 'max-age=90'], life => 90],
    ['2.2 directives, 2.2 ignore', 'or it forbids', $no,
        [@fresh, 'CDN-Cache-Control' => 'no-store']],
    ['2.2 passed', 'it is passed on', $yes,
        [@fresh, 'CDN-Cache-Control' => 'max-age=90'], check => sub {
            is($_[0]->header('CDN-Cache-Control'), 'max-age=90', 'for others');
        }],
    ['2.1 syntax, 2.2 directives', 'several lines are one', $yes, [@fresh,
        'CDN-Cache-Control' => 'max-age=90', 'CDN-Cache-Control' =>
        'must-revalidate'], life => 90, check => sub {
            ok($_[3]{flags} & 2, 'must-revalidate');
        }],
    ['2.2 directives', 'Age counts', $yes, [@fresh, Age => 20,
        'CDN-Cache-Control' => 'max-age=90'], life => 70],
    ['2.1 syntax', 'parameters are left out', $yes, [@fresh,
        'CDN-Cache-Control' => 'max-age=90;a=1;b="c,d";e, x;y'], life => 90],
    ['2.1 syntax', 'values of all kinds', $yes, [@fresh,
        'CDN-Cache-Control' => 'a="b, no-store", c=1.5, d=:YQ==:, e=(1 "f"),'
            . ' g=tok/en:*, h=?0, *i=-3, max-age=90'], life => 90],
    ['2.1 syntax', 'a directive that is false is none', $yes, [@fresh,
        'CDN-Cache-Control' => 'max-age=90, no-store=?0'], life => 90],
    ['2.1 syntax', 'and one that is true is one', $no, [@fresh,
        'CDN-Cache-Control' => 'max-age=90, no-store=?1']],
    ['2.1 syntax', 'of two the last', $yes, [@fresh,
        'CDN-Cache-Control' => 'max-age=30, max-age=90'], life => 90],
    (map { ['2.1 invalid', "unless it cannot be read: $_", $yes,
        [@fresh, 'CDN-Cache-Control' => $_], life => 60] }
        'max-age=90, ;', 'max-age=90,', ',max-age=90', 'MAX-AGE=90',
        'max-age=90 no-store', 'max-age=', 'max-age=90, a="b', 'max-age =90',
        'max-age=90, a=1.', 'max-age=90, a=(1', 'max-age=90, a=?2',
        'max-age=90, a=:?:', 'max-age=90, a=1234567890123456', '='),
    ['2.1 invalid', 'or is empty', $yes, [@fresh, 'CDN-Cache-Control' => ''],
        life => 60],
    (map { ['2.1 consume', "a number that is none: max-age=$_", $no,
        [@fresh, 'CDN-Cache-Control' => "max-age=$_"]] }
        '"90"', '1.5', '-1', '?1', 'x'),
    ['2.2 select', 'Set-Cookie forbids all the same', $no,
        ['CDN-Cache-Control' => 'max-age=90', 'Set-Cookie' => 'a=b']],

    (map { ['2.2 directives', "$_ forbids", $no,
        [@fresh, 'CDN-Cache-Control' => "max-age=90, $_"]] }
        'no-cache', 'no-cache="a"', 'private', 'private="a"', 'no-store'),
    ['2.2 others', 's-maxage', $yes, [@fresh,
        'CDN-Cache-Control' => 'max-age=30, s-maxage=90'], life => 90],
    ['2.2 others', 'stale-while-revalidate', $yes, [@fresh,
        'CDN-Cache-Control' => 'max-age=90, stale-while-revalidate=77'],
        check => sub { is($_[3]{swr}, 77, 'is kept') }],
    ['2.2 others', 'public', $yes, [
        'CDN-Cache-Control' => 'max-age=90, public'],
        request => [Authorization => 'Basic YTpi']],
    ['2.2 others', 'unknown ones', $yes, [
        'CDN-Cache-Control' => 'max-age=90, new, newer=1'], life => 90],
    (map { my $name = $_; ['2.2 unlisted, 2.2 passed, 2.4',
        "$name: no-store", $yes, [@fresh, $name => 'no-store'], life => 60,
        check => sub {
            is($_[0]->header($name), 'no-store', 'is passed on');
        }] } 'Surrogate-Control', 'Example-CDN-Cache-Control',
        'Mcds-Cache-Control'),
);

clauses($t, \@statements, '', @rows);

$t->done();
