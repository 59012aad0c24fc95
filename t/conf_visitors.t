#!/usr/bin/perl

# Copyright (C) mcds authors

# Mistakes in mcds_visitor_counter: nginx -t refuses each with one message, that
# names the directive, the word and the line.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $pool = 'mcds_pool main { server 127.0.0.1:11211; }';


# right ones, lest all be refused for another reason

my @right = (
    '', 'key=$host', 'visitor=$cookie_u', 'visitor=me', 'window=1h slots=60',
    'window=1s slots=1', 'window=28d slots=28 interpolate=off', 'slots=1',
    'window=20d slots=20', 'slots=60',
    'window=1d slots=24 key=day:$host visitor=$remote_addr$http_user_agent',
    'interpolate=on', 'window=1s slots=1 interpolate=off',
    'window=20d slots=10 interpolate=on', 'jitter=5%', 'jitter=0.5%',
    'jitter=100%', 'jitter=12.25%', 'if=$arg_a', 'read',
    'read key=a window=1h slots=12 interpolate=off jitter=5%',
    'key=a if=$arg_a visitor=$arg_v window=10m slots=10 interpolate=on '
        . 'jitter=1%',
);

for my $parameters (@right) {
    is($t->conf_error(http => $pool,
        location => "mcds_visitor_counter \$n $parameters;"), '',
        "right: $parameters");
}

# several, in words of their own

my @several = (
    'mcds_visitor_counter off;',
    'mcds_visitor_counter $n key=a; mcds_visitor_counter $p key=a;',
    'mcds_visitor_counter $n; mcds_visitor_counter $p interpolate=off;',
    'mcds_visitor_counter $n key=a; mcds_visitor_counter $p key=b window=1h;',
    'mcds_visitor_counter $n; mcds_counter $p key=$host;',
    'mcds_visitor_counter $n; location /in { mcds_visitor_counter off; }',
    'mcds_visitor_counter $n;
     location /in { mcds_visitor_counter $n slots=1; }',
);

is($t->conf_error(http => $pool, location => $_), '', "right: $_")
    for @several;
is($t->conf_error(http => "$pool mcds_visitor_counter \$n;"), '',
    'right: for all servers');
is($t->conf_error(http => 'mcds_visitor_counter off;'), '',
    'right: what is off needs no pool');


# the parameters that are wrong, and what the message must hold

my @wrong = (
    map({ [$_, "\"$_\""] }
        'window=', 'window=0', 'window=-1', 'window=1x', 'window=$arg_w',
        'window=1500ms', 'window=31d', 'window=99999999999999999999',
        'window', 'WINDOW=1m', 'window=5m,10m',
        'slots=', 'slots=0', 'slots=-1', 'slots=61', 'slots=a', 'slots=2.5',
        'slots=99999999999999999999', 'slots=5x', 'slots=$arg_s', 'slots',
        'slot=5', 'interval=1m', 'key=', 'key', 'visitor=', 'visitor',
        'visitors=a', 'a', '$p', 'off', 'on', 'ttl=1m', 'by=2',
        'interpolate=', 'interpolate', 'interpolate=yes', 'Interpolate=on',
        'jitter', 'jitter=', 'jitter=5', 'jitter=%', 'jitter=0%',
        'jitter=-5%', 'jitter=101%', 'jitter=1.234%', 'jitter=a%',
        'jitter=5%%', 'jitter=$arg_j', 'jitter=$arg_j%',
        'jitter=99999999999999999999%', 'if=', 'if', 'read=1', 'reads'),
    map({ [$_, 'duplicate', '"' . (split / /)[-1] . '"'] }
        'key=a key=b', 'visitor=a visitor=b', 'window=5m window=5m',
        'slots=1 slots=5', 'jitter=1% jitter=2%',
        'interpolate=on interpolate=off',
        'if=1 if=$arg_a', 'read read'),
    ['read if=$arg_a', '"if="', '"read"'],
    ['if=$arg_a read', '"if="', '"read"'],
    ['key=${u', '"u"'],
    ['visitor=${u', '"u"'],
    ['window=10s slots=3', '10s', '3 slots'],
    ['window=1s', '1s', '5 slots'],
    ['window=30d', '2592000s', '5 slots', '30 days'],
    ['window=25d slots=5 interpolate=off', '30 days'],
    ['window=28d slots=28', '2 of', '28 slots', '30 days'],
    ['read visitor=$arg_v', '"visitor="', '"read"'],
    ['visitor=$arg_v read', '"visitor="', '"read"'],
);

refused("mcds_visitor_counter \$n $_->[0];", @$_[1 .. $#$_]) for @wrong;


# the rest of the line, and of the level

my @lines = (
    ['mcds_visitor_counter;', 'number of arguments'],
    ['mcds_visitor_counter "";', '""'],
    ['mcds_visitor_counter n;', '"n"'],
    ['mcds_visitor_counter $;', '"$"'],
    ['mcds_visitor_counter on;', '"on"'],
    ['mcds_visitor_counter off key=a;', '"off"'],
    ['mcds_visitor_counter $n; mcds_visitor_counter $n key=b;', '"$n"',
        'twice'],
    ['mcds_counter $n; mcds_visitor_counter $n;', '"$n"', 'twice'],
    ['mcds_visitor_counter $n; mcds_visitor_counter off;', 'beside'],
    ['mcds_visitor_counter off; mcds_visitor_counter $n;', 'beside'],
    ['mcds_visitor_counter off; mcds_visitor_counter off;', 'is duplicate'],
    ['mcds_visitor_counter $n; mcds_visitor_counter $p window=1h;',
        '"$host"', 'another window'],
    ['mcds_visitor_counter $n; mcds_visitor_counter $p slots=1 read;',
        '"$host"', 'other slots'],
    ['if ($uri) { mcds_visitor_counter $n; }', 'not allowed'],
    ['mcds_visitor_counter $args;', '"$args"'],
    ['set $n 1; mcds_visitor_counter $n;', '"$n"'],
);

refused(@$_) for @lines;

like($t->conf_error(location => 'mcds_visitor_counter $n;'),
    qr/\[emerg\] .*needs a "mcds_pool".*nginx\.conf:\d+$/m, 'without a pool');


# nginx finds these when all has been read, it has no line then

like($t->conf_error(http => $pool,
    location => "mcds_visitor_counter \$n $_=\$none;"),
    qr{\A[^\n]*\[emerg\][^\n]* unknown "none" variable\nnginx: [^\n]*\n\z},
    "wrong: $_=\$none") for qw/ key visitor if /;

$t->done();


sub refused {
    my ($text, @words) = @_;

    my $output = $t->conf_error(http => $pool, location => $text);
    my @emerg = grep { /\[emerg\]/ } split /\n/, $output;
    my @missing = grep { index($emerg[0] // '', $_) < 0 } @words;

    push @missing, 'the directive'
        if ($emerg[0] // '') !~ /mcds_visitor_counter|variable/;
    push @missing, 'one message' if @emerg != 1;
    push @missing, 'a line' if $output !~ m{/nginx\.conf:\d+$}m;
    push @missing, 'nothing else'
        if $output =~ /\[(alert|crit)\]|Sanitizer|signal/;

    is(join(', ', @missing), '', "wrong: $text") or diag($output);
}
