#!/usr/bin/perl

# Copyright (C) mcds authors

# "protocol" of a pool: what nginx -t refuses, among it what cannot be right in
# a store whose items never end by themselves.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $host = 'server 127.0.0.1:11211;';
my @off = ("mcds_counter_top most;",
    "mcds_pool a { $host protocol classic ttl=off; }",
    "mcds_pool b { $host protocol classic; }");

# lines of a pool, and what is said about it

for (
    ['protocol;', 'invalid number of arguments of "protocol"'],
    ['protocol meta classic;', '"meta" has no parameters in '
        . '"protocol meta classic"'],
    ['protocol meta ttl=off;', '"meta" has no parameters'],
    ['protocol binary;', 'must be "meta" or "classic" in "protocol binary"'],
    ['protocol Classic;', 'must be "meta" or "classic"'],
    ['protocol classical;', 'must be "meta" or "classic"'],
    ['protocol "";', 'must be "meta" or "classic"'],
    ['protocol classic ttl;', 'a parameter must be "ttl=on" or "ttl=off" in '
        . '"protocol classic ttl"'],
    ['protocol classic ttl=no;', 'must be "ttl=on" or "ttl=off"'],
    ['protocol classic ttl=off ttl=off;', 'invalid number of arguments'],
    ['protocol classic; protocol meta;', '"protocol" is duplicate'],
) {
    my ($line, $re) = @$_;
    my $out = $t->conf_error(http => "mcds_pool a {\n$host\n$line\n}");

    ok(index($out, $re) >= 0 && $out =~ /"a".* in \S+nginx.conf:8$/m, $line)
        or diag($out);
}

# in a location, what needs a time to live

my @needs = (
    'mcds_use a; mcds_visitor_counter $v;' => 'mcds_visitor_counter',
    'mcds_use a; mcds_cache on;' => 'mcds_cache',
    'mcds_use b; mcds_cache a;' => 'mcds_cache',
    'mcds_use a; mcds_purge_api on;' => 'mcds_purge_api',
    'mcds_use a; mcds_counter $c; mcds_visitor_counter $v;' =>
        'mcds_visitor_counter',
    'mcds_use a; mcds_counter $c ttl=1h;' => 'ttl" of "mcds_counter',
    'mcds_use a; mcds_counter $c period=1d;' => 'period" of "mcds_counter',
    'mcds_use a; mcds_counter $c; mcds_counter_init $c /x;' =>
        'mcds_counter_init',
    'mcds_use a; mcds_counter $c top=most;' => 'top" of "mcds_counter',
    'mcds_use a; mcds_counter_api prefix=a count=on ttl=1h;' =>
        'ttl" of "mcds_counter_api',
);

while (my ($lines, $what) = splice @needs, 0, 2) {
    my $out = $t->conf_error(http => join("\n", @off), location => $lines);

    ok(index($out, "\"$what\" needs items that expire, but "
        . 'mcds_pool "a" has "protocol classic ttl=off", in ') >= 0
        && $out =~ /nginx\.conf:13$/m, $lines) or diag($out);
}

# inherited

like($t->conf_error(http => join("\n", @off, 'mcds_cache a;')),
    qr/"mcds_cache" needs items .*nginx\.conf:\d+$/m, 'on the level of http');

# a list of the most counted keys, whatever pool the counters have

for (
    [@off[1, 2], 'mcds_counter_top most pool=a;'],
    [@off[1, 2], 'mcds_use a;', 'mcds_counter_top most;'],
    [@off[1, 0]],
) {
    my $out = $t->conf_error(http => join("\n", @$_),
        location => 'mcds_use a;');

    like($out, qr/"mcds_counter_top" needs items .*nginx\.conf:\d+$/m,
        "a list: @$_[1 .. $#$_]");
}

# and what is right

for (
    ['protocol meta;'], ['protocol classic;'], ['protocol classic ttl=on;'],
    ['protocol classic;', 'mcds_cache on; mcds_visitor_counter $v;'],
    ['protocol classic ttl=on;', 'mcds_cache on; mcds_counter $v ttl=1h;'],
    ['protocol classic ttl=off;', 'mcds_counter $c key=$uri by=2; '
        . 'mcds_counter_init $c 1000; mcds_cache off;'],
    ['protocol classic ttl=off;', 'mcds_counter_api prefix=a count=on;'],
) {
    my ($line, $location) = @$_;

    is($t->conf_error(http => "mcds_pool a { $host $line }",
        location => $location // ''), '', "right: @$_");
}

$t->done();
