#!/usr/bin/perl

# Copyright (C) mcds authors

# Mistakes in the directives of arrays and tables: nginx -t refuses each with
# one message, that names the directive, the word and the line.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $pool = 'mcds_pool main { server 127.0.0.1:11211; }';
my $two = "$pool mcds_pool other { server 127.0.0.1:11212; }";
my $forever = 'mcds_pool main { server 127.0.0.1:11211; '
    . 'protocol classic ttl=off; }';


# right ones, lest all be refused for another reason

is($t->conf_error(http => $pool, location => $_), '', $_) for
    'mcds_array_api a;', 'mcds_array_api a$uri max=1 unique;',
    'mcds_array_api a max=1000000;', 'mcds_array_push a $uri;',
    'mcds_array_push a $uri if=$arg_a max=10 unique;',
    'mcds_array_push off;', 'mcds_array_push a b; mcds_array_push a c;',
    'mcds_table_api t;', 'mcds_table_api $host ttl=1s;',
    'mcds_table_api t ttl=30d;',
    'mcds_table_lookup $a t k;', 'mcds_table_lookup $a t $uri d;',
    'mcds_table_lookup $a t k "" remember=off phase=preaccess;',
    'mcds_table_lookup $a t k remember=1h d phase=rewrite;',
    'mcds_table_lookup $a t k; mcds_table_lookup $a u k;',
    'mcds_table_lookup off;',
    'mcds_table_lookup $a t k; set $a 1;',
    'mcds_api_methods GET;', 'mcds_api_methods GET HEAD POST PUT PATCH DELETE;',
    'if ($uri) { mcds_array_api a; }',
    'limit_except GET { deny all; } mcds_table_api t;';

is($t->conf_error(http => "$forever server { location / { $_ } }"), '',
    "without ends: $_") for 'mcds_array_api a;', 'mcds_table_api t;',
    'mcds_array_push a $uri;';


# wrong ones

for my $row (
    ['mcds_array_api;',
        'invalid number of arguments in "mcds_array_api" directive'],
    ['mcds_array_api "";',
        '"mcds_array_api" directive needs the name of an array'],
    ['mcds_array_api a b;', 'invalid parameter "b" in "mcds_array_api"'],
    ['mcds_array_api a max=0;',
        'invalid value "max=0" in "mcds_array_api", it must be 1 to 1000000'],
    ['mcds_array_api a max=1000001;', 'invalid value "max=1000001"'],
    ['mcds_array_api a max=-1;', 'invalid value "max=-1"'],
    ['mcds_array_api a max=;', 'invalid parameter "max="'],
    ['mcds_array_api a max=1 max=2;', 'duplicate parameter "max=2"'],
    ['mcds_array_api a unique unique;', 'duplicate parameter "unique"'],
    ['mcds_array_api a if=$uri;', 'invalid parameter "if=$uri"'],
    ['mcds_array_api a; mcds_array_api b;',
        '"mcds_array_api" directive is duplicate'],
    ['mcds_array_push a;', '"mcds_array_push" directive needs the name of an '
        . 'array and a value'],
    ['mcds_array_push "" $uri;', 'needs the name of an array and a value'],
    ['mcds_array_push a b c;', 'invalid parameter "c" in "mcds_array_push"'],
    ['mcds_array_push a b if=;', 'invalid parameter "if="'],
    ['mcds_array_push a b if=$uri if=$uri;', 'duplicate parameter "if=$uri"'],
    ['mcds_array_push a b max=x;', 'invalid value "max=x"'],
    ['mcds_array_push off $uri;',
        '"mcds_array_push" directive "off" takes no further parameter'],
    ['mcds_table_lookup off t k;',
        '"mcds_table_lookup" directive "off" takes no further parameter'],
    ['mcds_array_push a b; mcds_array_push off;', 'is duplicate'],
    ['mcds_array_push off; mcds_array_push a b;', 'is off already'],
    ['mcds_table_api;',
        'invalid number of arguments in "mcds_table_api" directive'],
    ['mcds_table_api "";',
        '"mcds_table_api" directive needs the name of a table'],
    ['mcds_table_api t ttl=0;',
        'invalid value "ttl=0" in "mcds_table_api", it must be 1s to 30d'],
    ['mcds_table_api t ttl=31d;', 'invalid value "ttl=31d"'],
    ['mcds_table_api t ttl=x;', 'invalid value "ttl=x"'],
    ['mcds_table_api t ttl=1s ttl=2s;', 'duplicate parameter "ttl=2s"'],
    ['mcds_table_api t x;', 'invalid parameter "x" in "mcds_table_api"'],
    ['mcds_table_api t; mcds_table_api u;',
        '"mcds_table_api" directive is duplicate'],
    ['mcds_table_lookup $a t;',
        '"mcds_table_lookup" directive needs a variable, '
        . 'the name of a table and a key'],
    ['mcds_table_lookup a t k;',
        'invalid variable name "a" in "mcds_table_lookup"'],
    ['mcds_table_lookup $ t k;', 'invalid variable name "$"'],
    ['mcds_table_lookup $uri t k;', 'the duplicate "uri" variable'],
    ['set $a 1; mcds_table_lookup $a t k;', 'the variable "$a" in '
        . '"mcds_table_lookup" gets its value from another directive, too'],
    ['mcds_counter $a; mcds_table_lookup $a t k;',
        'gets its value from another directive'],
    ['mcds_table_lookup $a t k d e;', 'invalid value "e" in '
        . '"mcds_table_lookup", it must be "remember=" or "phase=", as there '
        . 'is a default'],
    ['mcds_table_lookup $a t k remember=2h;', 'invalid value "remember=2h" in '
        . '"mcds_table_lookup", it must be "off" or a time up to 1h'],
    ['mcds_table_lookup $a t k remember=x;', 'invalid value "remember=x"'],
    ['mcds_table_lookup $a t k phase=access;',
        'invalid value "phase=access" in '
        . '"mcds_table_lookup", it must be "rewrite" or "preaccess"'],
    ['mcds_table_lookup $a t k phase=rewrite phase=rewrite d e;',
        'duplicate parameter "phase=rewrite"'],
    ['mcds_table_lookup $a t k; mcds_table_lookup off;', 'is duplicate'],
    ['mcds_table_lookup off; mcds_table_lookup $a t k;', 'is off already'],
    ['mcds_api_methods;', 'invalid number of arguments in "mcds_api_methods"'],
    ['mcds_api_methods get;', 'invalid method "get" in "mcds_api_methods", it '
        . 'must be GET, HEAD, POST, PUT, PATCH or DELETE'],
    ['mcds_api_methods GET; mcds_api_methods POST;', 'is duplicate'],
    ['if ($uri) { mcds_table_lookup $a t k; }', 'not allowed here'],
) {
    my ($conf, $message) = @$row;
    my $error = $t->conf_error(http => $pool, location => $conf);

    like($error, qr/\[emerg\].*\Q$message\E.* in .*:\d+/, $conf)
        or diag($error);
}


# pools

for my $directive ('mcds_array_api a;', 'mcds_array_push a b;',
    'mcds_table_api t;', 'mcds_table_lookup $a t k;')
{
    my ($name) = $directive =~ /(\w+)/;

    like($t->conf_error(location => $directive),
        qr/"$name" needs a "mcds_pool", and there is none, in .*:\d+/,
        "$name: no pool");
    like($t->conf_error(http => $two, location => $directive),
        qr/"$name" needs a "mcds_use" to choose one of 2 pools, in .*:\d+/,
        "$name: two pools");
    is($t->conf_error(http => $two, location => "mcds_use other; $directive"),
        '', "$name: one of two");
}

like($t->conf_error(http => $forever, location => 'mcds_table_api t ttl=1m;'),
    qr/"ttl" of "mcds_table_api" needs items that expire/,
    'a pool without ends');

$t->done();
