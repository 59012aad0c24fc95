#!/usr/bin/perl

# Copyright (C) mcds authors

# The tool uses the pool that nginx uses: an inherited directive has that of
# the level that inherits it, and a level with mcds_use of its own has another
# one.  What may be in two pools needs --pool.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my $a = $t->memcached('a');
my $b = $t->memcached('b');

$t->write_file('nginx.conf', '');

my $mcds = Test::Mcds::Tool->new($t, '-c', $t->dir() . '/nginx.conf');
my $pools = "mcds_pool a { server 127.0.0.1:@{[$a->port()]}; }\n"
    . "mcds_pool b { server 127.0.0.1:@{[$b->port()]}; }\n";

# the pool of a counter: a, b, or ? if the tool wants to be told

for my $m ($a, $b) {
    my $name = $m == $a ? 'a' : 'b';

    $m->set($_, ord $name) for 'n', 'x', 'hello', 'hello:20413', 'v:/u:20413',
        'hello:x', 'other:20413';
}

sub pool {
    my ($key, $conf, @options) = @_;

    $t->write_file('nginx.conf', "events { }\nhttp {\n$pools\n$conf\n}\n");

    my $r = $mcds->run(@options, 'counter', 'get', $key);

    return '?' if $r->{code} == 2 && $r->{err} =~ /choose one with --pool/;
    return $r->{out} =~ /\b97\b/ ? 'a' : $r->{out} =~ /\b98\b/ ? 'b'
        : "$r->{code} $r->{out} $r->{err}";
}

# a level that inherits the counter has mcds_use of its own

my $n = 'mcds_counter $n key=n;';

for (
    ["mcds_use a; $n server { mcds_use b; }", 'b', 'server'],
    ["mcds_use a; $n server { mcds_use b; } server { }", '?',
        'one of two servers'],
    ["$n server { mcds_use b; }", 'b', 'server, and none outside'],
    ["$n server { mcds_use a; } server { mcds_use b; }", '?',
        'two servers, and none outside'],
    ["server { mcds_use a; $n location / { mcds_use b; } }", 'b',
        'the location that has all'],
    ["server { mcds_use a; $n location ^~/ { mcds_use b; } }", 'b',
        'the same, and no space'],
    ["server { mcds_use a; $n location =/ { mcds_use b; } }", '?',
        'a location of one URI'],
    ["server { mcds_use a; $n location /x { mcds_use b; } }", '?',
        'a location'],
    ["server { mcds_use a; location /x { $n location /x/y { mcds_use b; } } }",
        '?', 'a nested location'],
    ["server { mcds_use a; $n location /x { mcds_use b; mcds_counter off; } }",
        'a', 'not with off'],
    ["server { mcds_use a; $n location /x { mcds_use b;"
        . ' mcds_visitor_counter $v key=v visitor=$arg_v; } }', 'a',
        'nor with another counter'],
    ["server { mcds_use a; $n location /x { mcds_use b; mcds_counter off;"
        . ' location /x/y { mcds_use b; } } }', 'a', 'nor inside of that'],
    ["server { mcds_use a; $n location /x { mcds_use b; mcds_lock l; } }",
        '?', 'but with a lock'],
    ["server { mcds_use a; mcds_log l combined; mcds_counter_api prefix=n;"
        . ' location /x { mcds_use b; } }', 'a', 'an API is not inherited'],
    ["server { mcds_use a; $n location /x { } }", 'a', 'all the same'],
    # a server whose pool is unknown, which nginx refuses
    ["server { location /x { $n } location /y { mcds_use a; $n } }", '?',
        'an unknown pool is not the next one'])
{
    my ($conf, $pool, $name) = @$_;

    is(pool('n', $conf), $pool, "inherited: $name");
}

is(pool('n', "server { mcds_use a; $n location /x { mcds_use b; } }",
    '-p', 'b'), 'b', 'and --pool chooses it');

# parameters are also those of a directive that is in several pools

pool('n', 'server { mcds_use a; mcds_visitor_counter $v key=k window=20m'
    . ' slots=4 visitor=$arg_v; location /x { mcds_use b; } }');

for my $p ('a', 'b') {
    is($mcds->json('-p', $p, 'visitors', 'k')->[0]{window}, 1200,
        "window, in the pool $p");
}

# with the number of a period

my $two = 'server { location /a { mcds_use a; mcds_counter $a key=other:x; }'
    . ' location /b { mcds_use b; mcds_counter $b key=KEY period=1d; } }';

for (['hello', 'hello:20413', 'b'], ['hello', 'hello', 'b'],
    ['hello', 'hello:x', '?'], ['v:$uri', 'v:/u:20413', 'b'],
    ['hello', 'other:20413', '?'])
{
    my ($key, $get, $pool) = @$_;

    is(pool($get, $two =~ s/KEY/$key/r), $pool, "period: $key, $get");
}

is(pool('hello:20413', 'server { location /a { mcds_use a; mcds_counter $a; }'
    . ' location /b { mcds_use b; mcds_counter $b key=hello period=1d; } }'),
    'b', 'a period of that very key');
is(pool('hello:20413', 'server { location /a { mcds_use a; mcds_lock l; }'
    . ' location /b { mcds_use b; mcds_counter $b key=hello; } }'), '?',
    'but not without period');

# an array and a table

$t->write_file('nginx.conf', "events { }\nhttp {\n$pools\n"
    . 'mcds_use a; mcds_array_push list $uri; mcds_table_lookup $v t key;'
    . "server { mcds_use b; }\n}\n");

is($mcds->run('table', 'add', 't', 'field')->{code}, 0, 'a table');
is($mcds->run('array', 'push', 'list', 'value')->{code}, 0, 'an array');
is(join(' ', map { scalar(grep { /^(?:t|list)\b/ } $_->keys()) ? 1 : 0 }
    $a, $b), '0 1', 'in the pool of the server');

$t->done();
