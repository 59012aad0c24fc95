#!/usr/bin/perl

# Copyright (C) mcds authors

# Mistakes in mcds_counter_api, mcds_counter_top and top=: nginx -t refuses each
# with one message that names the directive, the word and the line.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $pool = 'mcds_pool main { server 127.0.0.1:11211; }';
my $two = "$pool mcds_pool other { server 127.0.0.1:11212; }";
my $top = "$pool mcds_counter_top a;";

is($t->conf_error(http => $top, location => $_), '', "right: $_") for
    'mcds_counter_api prefix=v:;', 'mcds_counter_api prefix=$host: max=500;',
    'mcds_counter_api prefix=v: match=^[a-z]+$ count=on ttl=1d max=1;',
    'mcds_counter_api prefix=v: "match=^[a-z]{1,5}$" count=off;',
    'mcds_counter_api $uri;', 'mcds_counter_api $uri $host count=on;',
    'mcds_counter_api prefix=v: $uri;', 'mcds_counter_api top=a;',
    'mcds_counter_api prefix=v: count=on top=a $uri;',
    'limit_except GET { deny all; } mcds_counter_api prefix=v:;',
    'if ($uri) { mcds_counter_api prefix=v:; }',
    'mcds_counter $n top=a; mcds_counter_api $n;',
    'mcds_counter $n top=a statuses=any; mcds_return $mcds_top_a;';

is($t->conf_error(http => "$pool mcds_counter_top a $_;"), '', "right: $_")
    for 'size=1', 'size=100', 'window=30d', 'window=1s', 'window=1h slots=60',
    'window=7s', 'keys=10', 'keys=3000 size=100', 'flush=100ms', 'flush=1m',
    'prefix=v:', 'pool=main';

is($t->conf_error(http => $_), '', "right: $_") for
    "mcds_counter_top a pool=main; $pool", "$two mcds_counter_top a pool=main;",
    "$two mcds_use other; mcds_counter_top a;",
    "$pool mcds_counter_top a; mcds_counter_top b; mcds_counter_top a_9;",
    "$pool mcds_counter \$n top=a; mcds_counter_top a;";

refused(location => $_->[0], @$_[1 .. $#$_]) for
    ['mcds_counter_api;', 'number of arguments', 'mcds_counter_api'],
    map({ ["mcds_counter_api prefix=v: $_;", 'mcds_counter_api', "\"$_\""] }
        'x', '$', 'prefix=', 'prefix=w:', 'match=', 'max=', 'max=0',
        'max=501', 'max=x', 'max=-1', 'count=', 'count=yes', 'post', 'get',
        'top=', 'ttl=0', 'ttl=31d', 'ttl=x', 'ttl=$arg_t', 'PREFIX=a'),
    ['mcds_counter_api "";', 'mcds_counter_api', '""'],
    ['mcds_counter_api prefix=v: match=(;', '"("'],
    ['mcds_counter_api prefix=v: match=a match=b;', 'mcds_counter_api',
        'duplicate'],
    ['mcds_counter_api prefix=v: max=1 max=2;', 'mcds_counter_api',
        'duplicate'],
    ['mcds_counter_api prefix=v: count=on count=off;', 'mcds_counter_api',
        'duplicate'],
    ['mcds_counter_api prefix=v: count=on ttl=1 ttl=2;', 'mcds_counter_api',
        'duplicate'],
    ['mcds_counter_api $uri $uri;', 'mcds_counter_api', '"$uri"', 'duplicate'],
    ['mcds_counter_api prefix=v: ttl=1d;', 'mcds_counter_api', 'ttl=',
        'count=on'],
    ['mcds_counter_api match=a $uri;', 'mcds_counter_api', 'prefix='],
    ['mcds_counter_api max=1;', 'mcds_counter_api', 'prefix='],
    ['mcds_counter_api count=on;', 'mcds_counter_api', 'prefix='],
    ['mcds_counter_api top=a prefix=v:;', 'mcds_counter_api', 'count=on'],
    ['mcds_counter_api top=a max=5;', 'mcds_counter_api', 'not both'],
    ['mcds_counter_api top=a $uri;', 'mcds_counter_api', 'not both'],
    ['mcds_counter_api top=a count=on;', 'mcds_counter_api', 'not both'],
    ['mcds_counter_api top=a top=a;', 'mcds_counter_api', 'duplicate'],
    ['mcds_counter_api top=none;', 'mcds_counter_top none'],
    ['mcds_counter_api top=a-b;', '"a-b"'],
    ['mcds_counter_api $uri; mcds_counter_api $uri;', 'mcds_counter_api',
        'duplicate'],
    ['mcds_counter $n top=none;', 'mcds_counter_top none'],
    ['mcds_counter $n top=;', 'mcds_counter', '"top="'],
    ['mcds_counter $n read top=a;', 'mcds_counter', 'top='],
    ['mcds_counter_top b;', 'not allowed', 'mcds_counter_top'];

refused(http => "mcds_counter_top $_->[0];", 'mcds_counter_top',
    @$_[1 .. $#$_]) for
    ['', 'number of arguments'],
    map({ ["b $_", "\"$_\""] } 'size=', 'size=0', 'size=101', 'size=x',
        'window=', 'window=0', 'window=31d', 'window=1x', 'slots=0',
        'slots=61', 'keys=9', 'keys=3001', 'flush=99ms', 'flush=61s',
        'flush=x', 'prefix=', 'pool=', 'top', '$n', 'if=1'),
    map({ ["\"$_\"", "\"$_\""] } '', 'a-b', '$a', 'a b', 'x' x 65),
    ['b keys=10 size=11', 'size=11', 'keys=10'],
    ['b window=1h slots=7', '3600s', '7 slots'],
    ['b pool=none', '"none"'], ['a', 'duplicate'];

refused(server => 'mcds_counter_api $uri;', 'not allowed', 'mcds_counter_api');

like($t->conf_error(http => $two, location => 'mcds_counter_api prefix=v:;'),
    qr/"mcds_counter_api" needs a "mcds_use".*nginx\.conf:\d+/, 'two pools');
like($t->conf_error(location => 'mcds_counter_api prefix=v:;'),
    qr/"mcds_counter_api" needs a "mcds_pool".*nginx\.conf:\d+/, 'no pool');
like($t->conf_error(http => "$two mcds_counter_top a;"),
    qr/"mcds_counter_top a" needs a "pool=".*nginx\.conf:\d+/,
    'two pools: top');
like($t->conf_error(http => "mcds_counter_top a;"),
    qr/"mcds_counter_top a" needs a "mcds_pool".*nginx\.conf:\d+/,
    'no pool: top');

$t->done();


sub refused {
    my ($level, $text, @words) = @_;

    my %part = (http => '', $level => $text);
    $part{http} = "$top\n$part{http}";

    my $output = $t->conf_error(%part);
    my @emerg = grep { /\[emerg\]/ } split /\n/, $output;
    my @missing = grep { index($emerg[0] // '', $_) < 0 } @words;

    push @missing, 'one message' if @emerg != 1;
    push @missing, 'a line' if $output !~ m{/nginx\.conf:\d+$}m;
    push @missing, 'nothing else'
        if $output =~ /\[(alert|crit)\]|Sanitizer|signal/;

    is(join(', ', @missing), '', "wrong: $text") or diag($output);
}
