#!/usr/bin/perl

# Copyright (C) mcds authors

# Mistakes in the directives of counters, mcds_return and the cache: nginx -t
# refuses each with one message, that names the directive, the word and the
# line.  (Those of mcds_pool are in a file of their own.)

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $pool = 'mcds_pool main { server 127.0.0.1:11211; }';
my $two = "$pool mcds_pool other { server 127.0.0.1:11212; }";


# right ones, lest all be refused for another reason

my @right = (
    'mcds_counter $n;', 'mcds_counter $n key=$uri$is_args$args;',
    'mcds_counter $n key=a; mcds_counter $p key=a;', 'mcds_counter off;',
    'mcds_counter $n; location /in { mcds_counter off; }',
    'mcds_counter off; mcds_visitor_counter off;',
    'mcds_counter off; location /in { mcds_counter off; }',
    'mcds_counter $n; location /in { mcds_counter $n key=b; }',
    map({ "mcds_counter \$n $_;" }
        'by=2', 'by=-1', 'by=1000000000000000000', 'by=$arg_n', 'by=-$arg_n',
        'ttl=1s', 'ttl=30d', 'period=1s', 'period=1h', 'period=29d@28d',
        'period=1d@0', 'period=1d@22h', 'period=1w@4d6h30m',
        'period=1h ttl=2d', 'if=$arg_a', 'if=1', 'read',
        'read period=1h async=1s', 'statuses=any', 'statuses=200',
        'statuses=200,2xx,404,5xx,100,599', 'async', 'async=1ms',
        'async=60s', 'key=a by=2 ttl=1h period=10m if=$arg_a statuses=2xx '
            . 'async=50ms'),
    map({ "mcds_counter \$n; mcds_counter_init \$n $_;" }
        0, 18446744073709551615, '/', '/a?id=$arg_id', '/a fail=zero',
        '/a timeout=60s fail=skip', '/a fail=skip timeout=1ms'),
    'mcds_counter $n read; mcds_counter_init $n 5;',
    'mcds_counter $n statuses=any async; mcds_counter_init $N 5;',
    'mcds_counter $n; mcds_counter $p; mcds_counter_init $n 5; '
        . 'mcds_counter_init $p /a;',
    'mcds_visitor_counter off;', 'mcds_visitor_counter $n;',
    'mcds_visitor_counter $n key=$host visitor=$cookie_u window=1h slots=60;',
    'mcds_visitor_counter $n window=1s slots=1;',
    'mcds_visitor_counter $n window=28d slots=28 interpolate=off;',
    'mcds_visitor_counter $n window=1m; '
        . 'mcds_visitor_counter $p window=1h key=hour:$host;',
    'mcds_return text;', 'mcds_return 200;', 'mcds_return 599 "t$uri";',
    'mcds_use main;', 'mcds_cache on;', 'mcds_cache off;', 'mcds_cache main;',
    'mcds_cache_key $uri;', 'mcds_cache_key $mcds_cache_key;',
    'mcds_cache_key off$uri;', 'mcds_cache_valid 1m;',
    'mcds_cache_valid 200;',
    'mcds_cache_valid 200 302 1m; mcds_cache_valid any 1s;',
    'mcds_cache_methods GET;', 'mcds_cache_methods GET HEAD;',
    'mcds_cache_bypass $arg_a $arg_b;', 'mcds_no_cache $arg_a;',
    'mcds_cache_session_cookies a b*;', 'mcds_cache_session_cookies off;',
    'mcds_cache_forwarded_headers default X-A;',
    'mcds_cache_forwarded_headers off;',
    'mcds_cache_max_size 1m;', 'mcds_cache_lock off;',
    'mcds_cache_lock_age 2s;', 'mcds_cache_lock_age 30d;',
    'mcds_cache_lock_timeout 1s;', 'mcds_cache_lock_timeout 1s pass;',
    'mcds_cache_lock_timeout 1s error;', 'mcds_cache_wait 0;',
    'mcds_cache_max_waiters 10;', 'mcds_cache_grace on;',
    'mcds_cache_grace 1h;', 'mcds_cache_background_update off;',
    'mcds_cache_background_update 30s;',
);

for my $directives (@right) {
    is($t->conf_error(http => $pool, location => $directives), '',
        "right: $directives");
}

is($t->conf_error(http => "$pool $_"), '', "right: $_")
    for 'mcds_zone 64k;', 'mcds_zone 1m; mcds_cache on;', 'mcds_cache on;',
    'mcds_counter $n;', 'map $uri $n { } mcds_counter $p key=$n;';
is($t->conf_error(http => 'mcds_cache off; mcds_counter off;'), '',
    'right: no pool is needed for what is off');


# what stands in a location, and what the message must hold

my @wrong = (
    ['mcds_counter;', 'number of arguments', 'mcds_counter'],
    ['mcds_counter "";', 'mcds_counter', '""'],
    ['mcds_counter n;', 'mcds_counter', '"n"'],
    ['mcds_counter $;', 'mcds_counter', '"$"'],
    ['mcds_counter on;', 'mcds_counter', '"on"'],
    ['mcds_counter off key=a;', 'mcds_counter', '"off"'],
    ['mcds_counter $n a;', 'mcds_counter', '"a"'],
    ['mcds_counter $n key=;', 'mcds_counter', '"key="'],
    ['mcds_counter $n key;', 'mcds_counter', '"key"'],
    ['mcds_counter $n KEY=a;', 'mcds_counter', '"KEY=a"'],
    map({ ["mcds_counter \$n $_;", '"mcds_counter"', "\"$_\""] }
        'by=', 'by=0', 'by=-', 'by=+1', 'by=1.5', 'by=a', 'by=--1', 'by=1x',
        'by=2000000000000000000', 'by=-99999999999999999999', 'By=1',
        'ttl=', 'ttl=0', 'ttl=-1', 'ttl=31d', 'ttl=500ms', 'ttl=$arg_t',
        'ttl=99999999999999999999', 'ttl=1x',
        'period=', 'period=0', 'period=30d', 'period=1M', 'period=1y',
        'period=day', 'period=1d@', 'period=@1h', 'period=1d@1d',
        'period=1d@-1h', 'period=1h@2h', 'period=1d+2h', 'period=1d@x',
        'period=1d@1h@2h', 'period=$arg_w', 'period=1500ms', 'window=1h',
        'if=', 'if', 'reads', 'read=on', 'READ',
        'statuses=', 'statuses=20', 'statuses=99', 'statuses=600',
        'statuses=0xx', 'statuses=6xx', 'statuses=2XX', 'statuses=2x',
        'statuses=200,', 'statuses=,200', 'statuses=200,,404',
        'statuses=$status', 'statuses=2000',
        'statuses=any,200', 'statuses=Any', 'async=', 'async=0', 'async=-1',
        'async=61s', 'async=x', 'async=on', 'Async', 'init=1', 'durable=on'),
    map({ ["mcds_counter \$n; mcds_counter_init \$n $_;",
            '"mcds_counter_init"', '"' . (split / /)[-1] . '"'] }
        '-1', '1.5', 'a', '18446744073709551616', '0x1', '@named', '$arg_u',
        '/a fail=', '/a fail=one', '/a timeout=', '/a timeout=0',
        '/a timeout=61s', '/a timeout=x', '/a x', '5 6'),
    map({ ["mcds_counter \$n; mcds_counter_init \$n $_->[0];",
            '"mcds_counter_init"', @$_[1 .. $#$_]] }
        ['1 fail=skip', '"fail=skip"', 'for a URI'],
        ['1 timeout=1s', '"timeout=1s"', 'for a URI'],
        ['/a fail=skip fail=zero', 'duplicate', '"fail=zero"'],
        ['/a timeout=1s timeout=2s', 'duplicate', '"timeout=2s"'],
        ['1; mcds_counter_init $n /a', 'is duplicate'],
        ['""', 'invalid value', '""']),
    map({ ["mcds_counter \$n $_->[0]; mcds_counter_init \$n /a;",
            '"mcds_counter_init"', "\"$_->[1]\""] }
        ['read', 'read'], ['statuses=any', 'statuses='],
        ['statuses=200', 'statuses='], ['async', 'async'],
        ['async=1s', 'async']),
    map({ ["$_->[0] $_->[1] \$n $_->[2];", "\"$_->[1]\"",
            'there is no "mcds_counter $n" before it on the same level'] }
        ['', 'mcds_counter_init', 1], ['', 'mcds_counter_durable', 'off'],
        ['', 'mcds_counter_buffer', 'off'],
        ['', 'mcds_counter_writeback', 'off'],
        ['mcds_counter off;', 'mcds_counter_init', 1],
        ['mcds_counter $p;', 'mcds_counter_init', '/a'],
        ['mcds_visitor_counter $n;', 'mcds_counter_buffer', 'off'],
        ['mcds_counter $n; location /in {', 'mcds_counter_init', '1; }']),
    map({ ["mcds_counter \$n; $_", 'invalid variable name'] }
        'mcds_counter_init n 1;', 'mcds_counter_durable on on;',
        'mcds_counter_buffer $ on;'),
    map({ ["mcds_counter \$n; $_", 'number of arguments'] }
        'mcds_counter_init;', 'mcds_counter_init $n;',
        'mcds_counter_durable $n;', 'mcds_counter_buffer $n on on;'),
    map({ ["mcds_counter \$n $_->[0];", "invalid value \"$_->[0]\" in "
            . "\"mcds_counter\", it must be $_->[1]"] }
        ['by=0', 'a number but 0, or have variables'], ['ttl=31d', '1s to 30d'],
        ['period=1y', 'a time, with @ and a shorter one behind it'],
        ['statuses=6xx', '"any", or statuses as 404 or 2xx'],
        ['async=61s', '1ms to 60s']),
    map({ ["mcds_counter \$n; $_->[0] \$n $_->[1];", "invalid value "
            . "\"" . (split / /, $_->[1])[-1] . "\" in \"$_->[0]\", it must "
            . "be $_->[2]"] }
        ['mcds_counter_init', '-1', 'a number, or a URI'],
        ['mcds_counter_init', '/a fail=x', '"zero" or "skip"'],
        ['mcds_counter_init', '/a timeout=0', '1ms to 60s'],
        ['mcds_counter_durable', 'x', '"on" or "off"'],
        ['mcds_counter_buffer', 'x', '"on" or "off"'],
        ['mcds_counter_writeback', 'x', '"on" or "off"']),
    map({ ["mcds_visitor_counter \$n $_->[0];", "invalid value \"$_->[0]\" "
            . "in \"mcds_visitor_counter\", it must be $_->[1]"] }
        ['window=31d', '1s to 30d'], ['slots=61', '1 to 60'],
        ['jitter=5', '0.01% to 100%']),
    ['mcds_cache_use_stale http_501;', 'invalid value "http_501" in '
        . '"mcds_cache_use_stale", it must be one of error timeout'],
    ['mcds_ignore_headers Foo;', 'invalid value "Foo" in '
        . '"mcds_ignore_headers", it must be one of '],
    ['mcds_cache_lock_age 2500ms;', '"2500ms"', 'counts in seconds'],
    map({ ["mcds_counter \$n \"$_\";", '"mcds_counter"', "\"$_\""] }
        'by=1 ', 'statuses=200, 404', 'read ', 'async '),
    map({ ["mcds_counter \$n; mcds_counter_init \$n \"$_\";",
            '"mcds_counter_init"', "\"$_\""] } '1 ', ' 1'),
    map({ ["mcds_counter \$n $_;", '"mcds_counter"', 'duplicate',
            '"' . (split / /)[-1] . '"'] }
        'key=a key=b', 'by=1 by=2', 'ttl=1s ttl=1s', 'period=1h period=1h',
        'if=$arg_a if=$arg_b', 'read read', 'async async',
        'async=1s async=2s', 'async async=2s', 'statuses=200 statuses=404',
        'statuses=any statuses=any'),
    map({ ["mcds_counter \$n $_;", '"mcds_counter"', '"read"',
            '"' . (split /(?<==)|\w+$/, (grep { $_ ne 'read' } split / /)[0])[0]
            . '"'] }
        'read by=2', 'by=2 read', 'read ttl=1h', 'if=$arg_a read',
        'read if=$arg_a', 'read statuses=any'),
    ['mcds_counter $n key=${u;', '"u"'],
    ['mcds_counter $n; mcds_counter $n;', 'mcds_counter', '"$n"', 'twice'],
    ['mcds_counter $n; mcds_counter off;', 'mcds_counter off', 'beside'],
    ['mcds_counter off; mcds_counter $n;', 'mcds_counter $n', 'beside'],
    ['mcds_counter off; mcds_counter off;',
        '"mcds_counter" directive is duplicate'],
    ['mcds_counter $n; mcds_visitor_counter $n;', 'mcds_visitor_counter',
        '"$n"', 'twice'],
    ['mcds_counter $host;', '"host"'],
    ['mcds_counter $args;', 'mcds_counter', '"$args"'],
    ['mcds_counter $mcds_cache_status;', '"mcds_cache_status"'],
    ['set $n 1; mcds_counter $n;', 'mcds_counter', '"$n"'],
    ['if ($uri) { mcds_counter $n; }', 'not allowed', 'mcds_counter'],
    ['mcds_counter $n { }', 'mcds_counter'],

    ['mcds_visitor_counter;', 'number of arguments', 'mcds_visitor_counter'],
    ['mcds_visitor_counter $n key=;', 'mcds_visitor_counter', '"key="'],
    ['mcds_visitor_counter $n visitor=;', 'mcds_visitor_counter',
        '"visitor="'],
    ['mcds_visitor_counter n;', 'mcds_visitor_counter', '"n"'],
    ['mcds_visitor_counter $n; mcds_visitor_counter $n;',
        'mcds_visitor_counter', '"$n"', 'twice'],
    map({ ["mcds_visitor_counter \$n $_;", 'mcds_visitor_counter',
            "\"$_\""] }
        'window=', 'window=0', 'window=-1', 'window=1x', 'window=$arg_w',
        'window=1500ms', 'window=31d', 'window=99999999999999999999',
        'slots=', 'slots=0', 'slots=-1', 'slots=61', 'slots=a',
        'slots=99999999999999999999', 'slots=5x', 'slot=5', 'interval=1m'),
    ['mcds_visitor_counter $n window=10s slots=3;', 'mcds_visitor_counter',
        '10s', '3 slots'],
    ['mcds_visitor_counter $n window=1s;', 'mcds_visitor_counter', '1s',
        '5 slots'],
    ['mcds_visitor_counter $n window=30d;', 'mcds_visitor_counter',
        '2592000s', '30 days'],
    ['mcds_visitor_counter $n window=25d slots=5;', 'mcds_visitor_counter',
        '30 days'],
    ['mcds_visitor_counter $n; mcds_visitor_counter $p window=1h;',
        'mcds_visitor_counter', '"$host"'],

    ['mcds_return;', 'number of arguments', 'mcds_return'],
    ['mcds_return 200 a b;', 'number of arguments', 'mcds_return'],
    map({ ["mcds_return $_ text;", 'mcds_return', "\"$_\""] }
        0, 199, 600, -1, 'text', '99999999999999999999', '$arg_c', '2e2'),
    ['mcds_return 100;', 'mcds_return', '"100"'],
    ['mcds_return a; mcds_return b;', 'mcds_return', 'duplicate'],

    ['mcds_use;', 'number of arguments', 'mcds_use'],
    ['mcds_use main other;', 'number of arguments', 'mcds_use'],
    ['mcds_use "";', 'mcds_use'],
    ['mcds_use nobody;', 'mcds_use', '"nobody"'],
    ['mcds_use $host;', 'mcds_use', '"$host"'],
    ['mcds_use main; mcds_use main;', 'mcds_use', 'duplicate'],

    ['mcds_cache;', 'number of arguments', 'mcds_cache'],
    ['mcds_cache nobody;', 'mcds_cache', '"nobody"'],
    ['mcds_cache "";', 'mcds_cache'],
    ['mcds_cache on; mcds_cache off;', 'mcds_cache', 'duplicate'],
    ['mcds_cache $host;', 'mcds_cache', '"$host"'],
    ['mcds_cache_key;', 'number of arguments', 'mcds_cache_key'],
    ['mcds_cache_key a; mcds_cache_key b;', 'mcds_cache_key', 'duplicate'],
    ['mcds_cache_key off;', 'invalid key "off" in "mcds_cache_key"',
        '"$mcds_cache_key" is the default key'],
    ['mcds_cache_valid;', 'number of arguments', 'mcds_cache_valid'],
    map({ ["mcds_cache_valid $_;", "\"" . (split / /)[-1] . "\""] }
        '200 x', '200 -1', '200 $arg_a'),
    map({ ["mcds_cache_valid $_ 1m;", "\"$_\""] } 99, 600, 'abc', -200),
    ['mcds_cache_methods;', 'number of arguments', 'mcds_cache_methods'],
    map({ ["mcds_cache_methods $_;", 'mcds_cache_methods', "\"$_\""] }
        'POST', 'get', 'PUT'),
    ['mcds_cache_methods GET; mcds_cache_methods HEAD;',
        'mcds_cache_methods', 'duplicate'],
    ['mcds_cache_bypass;', 'number of arguments', 'mcds_cache_bypass'],
    ['mcds_no_cache;', 'number of arguments', 'mcds_no_cache'],
    ['mcds_cache_session_cookies;', 'number of arguments',
        'mcds_cache_session_cookies'],
    ['mcds_cache_session_cookies "";', 'mcds_cache_session_cookies'],
    ['mcds_cache_forwarded_headers;', 'number of arguments',
        'mcds_cache_forwarded_headers'],
    ['mcds_cache_forwarded_headers "";', 'mcds_cache_forwarded_headers'],
    ['mcds_cache_forwarded_headers off; mcds_cache_forwarded_headers off;',
        'mcds_cache_forwarded_headers', 'duplicate'],
    map({
        my $d = $_;
        map { [join(' ', map { "$d $_;" } @$_),
            "\"$d\" directive is \"off\" beside names"] }
            ['off a'], ['a off'], ['a', 'off'], ['off', 'a']
    } 'mcds_cache_session_cookies', 'mcds_cache_forwarded_headers'),
    map({
        my $d = $_;
        ["$d;", 'number of arguments', $d], ["$d 1 2 3;",
            'number of arguments', $d], ["$d -1;", $d], ["$d x;", $d],
        ["$d 99999999999999999999;", $d], ["$d \$arg_a;", $d],
        ["$d 5; $d 5;", $d, 'duplicate'],
    } 'mcds_cache_max_size', 'mcds_cache_lock_age', 'mcds_cache_wait',
        'mcds_cache_max_waiters', 'mcds_cache_grace',
        'mcds_cache_background_update', 'mcds_cache_lock_timeout'),
    ['mcds_cache_lock_age 0;', 'mcds_cache_lock_age'],
    ['mcds_cache_lock_age 1s;', 'mcds_cache_lock_age'],
    ['mcds_cache_lock_age 31d;', 'mcds_cache_lock_age'],
    ['mcds_cache_lock_timeout 1s x;', 'mcds_cache_lock_timeout', '"x"'],
    ['mcds_cache_lock maybe;', 'mcds_cache_lock', '"maybe"'],
    ['mcds_cache_lock;', 'number of arguments', 'mcds_cache_lock'],
    ['mcds_cache_lock on; mcds_cache_lock on;', 'mcds_cache_lock',
        'duplicate'],

    ['mcds_zone 1m;', 'not allowed', 'mcds_zone'],
    ['mcds_pool x { }', 'not allowed', 'mcds_pool'],
    ['mcds_nothing;', 'unknown directive', 'mcds_nothing'],
);

refused($_->[0], [location => $_->[0]], @$_[1 .. $#$_]) for @wrong;


# nginx finds these when all has been read, it has no line then

like($t->conf_error(http => $pool, location => $_),
    qr{\A[^\n]*\[emerg\][^\n]* unknown "none" variable\nnginx: [^\n]*\n\z},
    "wrong: $_") for 'mcds_counter $n key=$none;', 'mcds_return $none;',
    'mcds_visitor_counter $n visitor=$none;', 'mcds_cache_key $none;';


# at other levels

my @levels = (
    [http => 'mcds_return a;', 'not allowed', 'mcds_return'],
    [server => 'mcds_return a;', 'not allowed', 'mcds_return'],
    [server => 'mcds_zone 1m;', 'not allowed', 'mcds_zone'],
    [server => 'if ($uri) { mcds_use main; }', 'not allowed', 'mcds_use'],
    [main => 'mcds_counter $n;', 'not allowed', 'mcds_counter'],
    [main => 'mcds_zone 1m;', 'not allowed', 'mcds_zone'],
    [events => 'mcds_cache on;', 'not allowed', 'mcds_cache'],
    [http => 'mcds_zone;', 'number of arguments', 'mcds_zone'],
    [http => 'mcds_zone 1m 2m;', 'number of arguments', 'mcds_zone'],
    [http => 'mcds_zone 1m; mcds_zone 1m;', 'mcds_zone', 'duplicate'],
    map({ [http => "mcds_zone $_;", 'mcds_zone', "\"$_\""] }
        '0', '-1', '1k', 'x', '99999999999999999999', '$arg_a', 'main:1m'),
);

for my $row (@levels) {
    my ($level, $text, @words) = @$row;
    refused("$level: $text", [$level => $text], @words);
}


# which pool?

refused('no pool: counter', ['none', location => 'mcds_counter $n;'],
    'mcds_counter', 'mcds_pool');
refused('no pool: cache', ['none', server => 'mcds_cache on;'], 'mcds_cache',
    'mcds_pool');
refused('two pools: counter', ['two', http => 'mcds_counter $n;'],
    'mcds_counter', 'mcds_use');
refused('two pools: cache', ['two', location => 'mcds_cache on;'],
    'mcds_cache', 'mcds_use');

is($t->conf_error(http => $two, location => $_), '', "two pools: $_")
    for 'mcds_cache other; mcds_use main; mcds_counter $n;',
    'mcds_cache main;', 'mcds_use other; mcds_cache on;';

$t->done();


sub refused {
    my ($name, $conf, @words) = @_;

    my @conf = @$conf;
    my $pools = @conf % 2 ? shift @conf : 'one';
    my %part = (http => '', @conf);

    $part{http} = { one => $pool, two => $two, none => '' }->{$pools}
        . "\n$part{http}";

    my $output = $t->conf_error(%part);
    my @emerg = grep { /\[emerg\]/ } split /\n/, $output;
    my @missing = grep { index($emerg[0] // '', $_) < 0 } @words;

    push @missing, 'one message' if @emerg != 1;
    push @missing, 'a line' if $output !~ m{/nginx\.conf:\d+$}m;
    push @missing, 'nothing else'
        if $output =~ /\[(alert|crit)\]|Sanitizer|signal/;

    is(join(', ', @missing), '', "wrong: $name") or diag($output);
}
