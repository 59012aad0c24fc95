#!/usr/bin/perl

# Copyright (C) mcds authors

# Settings that are right alone and wrong together: an error where one of them
# could not be obeyed, a warning where it could be and will disappoint; each
# with file and line.  What only looks so is taken silently.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $host = 'server 127.0.0.1:11211;';
my $two = "$host server 127.0.0.2:11211;";
my $pool = "mcds_pool main { $host }";
my $slow = "mcds_pool main { $host timeout 3s; }";
my $forever = "mcds_pool main { $host protocol classic ttl=off; }";

my @handlers = ('mcds_array_api a', 'mcds_table_api a', 'mcds_lock_api',
    'mcds_counter_api prefix=a', 'mcds_return 200 x', 'mcds_log_api a',
    'mcds_purge_api on', 'mcds_status');

my @rows = (

    # error, warning or nothing; http; location; what is said

    # pools

    [error => 'mcds_pool main { }', '', 'no servers'],
    [error => "mcds_pool main { $host $host }", '', 'duplicate server'],
    [error => "$pool $pool", '', 'duplicate mcds_pool "main"'],
    [error => "mcds_pool main { $host replicas 2; }", '', 'needs as many'],
    [error => "mcds_pool main { $two eject on; }", '', 'needs "distribution'],
    [error => "mcds_pool main { $host ssl_name a; }", '', 'need "ssl on"'],
    [error => "mcds_pool main { $host auth_user a; }", '', 'need each other'],
    ['', "mcds_pool main { $two protocol classic; replicas 2;\n"
        . ' distribution modula; }', ''],
    [error => "mcds_pool main { $two }", '', 'need a "distribution"'],
    [error => "mcds_pool main { $two replicas 2; }", '', 'ketama, with which'],
    ['', "mcds_pool main { $two distribution ketama; }", ''],
    ['', 'mcds_pool main { libmemcached "--SERVER=127.0.0.1:11211 '
        . '--SERVER=127.0.0.1:11212"; }', ''],
    [error => '', 'mcds_cache on;', 'needs a "mcds_pool"'],
    [error => '', 'mcds_counter $n;', 'needs a "mcds_pool"'],
    [error => $pool, 'mcds_use other;', 'there is no pool "other"'],
    [error => $pool, 'mcds_cache other;', 'there is no pool "other"'],
    [error => "$pool mcds_pool other { $host }", 'mcds_cache on;',
        'needs a "mcds_use" to choose'],
    [error => "mcds_zone 1m; mcds_zone 1m; $pool", '', 'is duplicate'],
    ['', "mcds_pool main { server 127.0.0.1 down; }", 'mcds_cache on;'],
    ['', "mcds_pool main { $host timeout 1s; connect_timeout 5s; }",
        'mcds_cache on;'],

    # locks that end too early

    [warning => $slow, 'mcds_cache on; mcds_cache_lock_age 2s;',
        '"mcds_cache_lock_age": a lock of 2 seconds may end before'],
    [warning => $slow, 'mcds_lock a ttl=2s;', '"mcds_lock": a lock of 2 s'],
    [warning => $slow, 'mcds_lock_api ttl=2s;',
        '"mcds_lock_api": a lock of 2 s'],
    [warning => $slow, 'mcds_lock a ttl=2s; mcds_cache on; '
        . 'mcds_cache_lock_age 2s;', 'a lock of 2 s'],
    ['', $slow, 'mcds_cache on; mcds_cache_lock_age 3s;'],
    ['', $slow, 'mcds_cache on; mcds_cache_lock_age 2s; mcds_cache_lock off;'],
    ['', $slow, 'mcds_lock a ttl=3s;'],
    [error => $pool, 'mcds_lock_api ttl=2m max_ttl=1m;',
        'longer than its "max_'],

    # what needs items that expire

    (map { [error => $forever, $_, 'needs items that expire'] }
        'mcds_cache on;', 'mcds_lock a;', 'mcds_lock_api;',
        'mcds_counter $n ttl=1m;', 'mcds_counter $n period=1m;',
        'mcds_visitor_counter $n visitor=$arg_u;', 'mcds_table_api a ttl=1m;',
        'mcds_log a combined;', 'mcds_log_api a;'),
    ['', $forever, 'mcds_counter $n; mcds_array_push a $uri;'],

    # pages

    [error => $pool, 'mcds_cache_error_backoff 9s 1s;', 'less than the first'],
    [error => $pool, 'mcds_purge_api off mode=delete;', 'a mode and "off"'],
    [error => $pool, 'mcds_purge_api on mode=refresh;', 'no page'],
    [error => $pool, 'mcds_cache_heuristic off 1h;', 'no further parameter'],
    [error => $pool, 'mcds_cache_compress off level=1;', 'no further param'],
    [warning => $pool, 'mcds_cache on; mcds_ignore_headers Set-Cookie;',
        'generated for one visitor'],
    ['', $pool, 'mcds_cache on; mcds_cache_grace 1m; '
        . 'mcds_cache_background_update 1h;'],
    ['', $pool, 'mcds_cache_key $uri; mcds_cache_tag a; mcds_no_cache 1;'],

    # counters

    [error => $pool, 'mcds_counter $n; mcds_counter $n;', 'used twice'],
    [error => $pool, 'mcds_counter $n; mcds_visitor_counter $n;', 'twice'],
    [error => $pool, 'mcds_table_lookup $n a b; mcds_counter $n;',
        'already has'],
    [error => $pool, 'mcds_counter $uri;', 'duplicate "uri" variable'],
    [error => $pool, 'mcds_counter off; mcds_counter $n;', 'beside "off"'],
    [error => $pool, 'mcds_counter $n read by=2;', 'cannot be combined'],
    [error => $pool, 'mcds_counter $n read if=$uri;', 'cannot be combined'],
    [error => $pool, 'mcds_counter $n ttl=1m; mcds_counter_durable $n on;',
        'cannot be durable'],
    [error => $pool, 'mcds_counter $n by=-1; mcds_counter_durable $n on;',
        'cannot be durable'],
    [error => $pool, 'mcds_counter $n async; mcds_counter_init $n /a;',
        'a URI cannot be combined with'],
    [error => $pool, 'mcds_counter $n; mcds_counter_init $n 5 fail=skip;',
        'is for a URI'],
    [error => $pool, 'mcds_counter_init $n 5;', 'no "mcds_counter $n"'],
    [error => $pool, 'mcds_counter $n top=a;', 'no "mcds_counter_top a"'],
    [error => "$pool mcds_counter_top a; mcds_counter_top a;", '', 'duplicate'],
    [error => "$pool mcds_counter_top a size=20 keys=10;", '', 'is more than'],
    [error => $pool, 'mcds_visitor_counter $n visitor=a window=30d slots=1;',
        'more than 30 days'],

    # logs

    [error => $pool, 'mcds_log a combined chunk=1s; mcds_log_api a chunk=2s;',
        'has another "chunk"'],
    [error => $pool, 'mcds_log a combined chunks=2; mcds_log_api a chunks=3;',
        'has another "chunks"'],
    [error => $pool, 'mcds_log a none;', 'there is no "log_format" "none"'],
    [error => $pool, 'mcds_log off; mcds_log a combined;', 'is off already'],
);

# two that answer requests

for my $i (0 .. $#handlers) {
    my $j = ($i + 1) % @handlers;
    my ($one) = $handlers[$i] =~ /(\w+)/;
    my ($two) = $handlers[$j] =~ /(\w+)/;

    push @rows, [error => $pool, "$handlers[$i]; $handlers[$j];",
        "\"$two\" conflicts with \"$one\": only one"];
}

push @rows, (map {
        [error => $pool, "proxy_pass http://127.0.0.1; $_;",
            '" conflicts with another directive that answers'],
        [error => $pool, "$_; proxy_pass http://127.0.0.1;",
            '" conflicts with another directive that answers'],
    } 'mcds_array_api a', 'mcds_status'),
    [error => $pool, 'mcds_status; mcds_status;', 'is duplicate'],
    ['', $pool, "$handlers[0]; if (\$uri = /a) { $handlers[1]; }"],
    ['', $pool, "$handlers[0]; if (\$uri = /a) { proxy_pass http://[::1]; }"],
    ['', $pool, "$handlers[0]; limit_except GET { deny all; }"];

for my $row (@rows) {
    my ($kind, $http, $location, $what) = @$row;
    my ($code, $output) = $t->conf_test(http => $http, location => $location);

    my @said = $output =~ /\[(?:emerg|warn)\].*/g;
    my $name = substr join(' ', grep { $_ ne $pool && length } $http,
        $location), 0, 76;
    my $level = { error => 'emerg', warning => 'warn' }->{$kind};

    if (!$kind) {
        is("$code @said", '0 ', $name);

    } else {
        ok(($code != 0) == ($kind eq 'error') && @said == 1
            && $said[0] =~ /\[$level\].*\Q$what\E.*nginx\.conf:\d+/,
            "$kind: $name") or diag($output);
    }
}


# what is found when all has been read: the message names the directive that
# the user wrote, and its file and line, not those of another one beside it; in
# an included file, "<" marks the line

my $both = "$pool mcds_pool other { $host prefix o; }";
my $seen = '$n visitor=$arg_u;';

for my $row (
    [$both, '', "mcds_visitor_counter $seen #<",
        '"mcds_visitor_counter" needs'],
    [$both, "mcds_visitor_counter $seen #<", '',
        '"mcds_visitor_counter" needs'],
    [$both, '', "mcds_counter \$a; #<\nmcds_visitor_counter $seen",
        '"mcds_counter" needs'],
    [$forever, '', "mcds_counter \$a key=a;\nmcds_counter \$b ttl=1m; #<",
        '"ttl" of "mcds_counter" needs'],
    [$forever, '', "mcds_counter \$a;\nmcds_visitor_counter $seen #<",
        '"mcds_visitor_counter" needs'],
    [$forever, '', "mcds_counter \$a;\nmcds_counter_init \$a /x; #<",
        '"mcds_counter_init" needs'],
    [$forever, "mcds_counter \$a;\nmcds_counter \$b period=1m; #<", '',
        '"period" of "mcds_counter" needs'],
    [$forever, '', "mcds_array_push a \$uri;\nmcds_table_api a ttl=1m; #<",
        '"ttl" of "mcds_table_api" needs'],
    [$slow, '', "mcds_lock_api;\nmcds_lock a ttl=2s; #<",
        '"mcds_lock": a lock of 2 s'],
    [$slow, '', "mcds_lock a;\nmcds_lock_api ttl=2s; #<",
        '"mcds_lock_api": a lock of 2 s'],
    [$slow, 'mcds_lock a ttl=2s; #<', 'mcds_lock_api;',
        '"mcds_lock": a lock of 2 s'],
    [$slow, '', "mcds_cache on;\nmcds_cache_lock_age 2s; #<",
        '"mcds_cache_lock_age": a lock of 2 s'],
    [$slow, 'mcds_cache_lock_age 2s; #<', 'mcds_cache on;',
        '"mcds_cache_lock_age": a lock of 2 s'],
    [$slow, 'mcds_cache on;', 'mcds_cache_lock_age 2s; #<',
        '"mcds_cache_lock_age": a lock of 2 s'],
    [$slow =~ s/3s/6s/r, 'mcds_cache on; #<', '',
        '"mcds_cache_lock_age": a lock of 5 s'],
    [$pool, '', "mcds_log_api a;\nmcds_log a combined chunk=1h chunks=999; #<",
        '"mcds_log a": "chunk" times'],
    [$pool, '', "mcds_counter \$a;\nmcds_counter_api top=none; #<",
        '"mcds_counter_api": there is no "mcds_counter_top none"'],
) {
    my ($http, $server, $location, $what) = @$row;
    my $text = "$server\nlocation / {\n$location\n}\n";
    my ($before) = $text =~ /\A(.*?)#</s;
    my $line = 1 + $before =~ tr/\n//;
    my $name = "line of: $server $location" =~ s/\s+/ /gr;

    $t->write_file('inner.conf', $text);

    my (undef, $output) = $t->conf_test(http => "$http server { listen "
        . '127.0.0.1:%%PORT_in%%; include ' . $t->dir() . '/inner.conf; }');
    my @said = $output =~ /\[(?:emerg|warn)\].*/g;

    ok(@said == 1 && $said[0] =~ /\Q$what\E.*inner\.conf:$line$/, $name)
        or diag($output);
}

$t->done();
