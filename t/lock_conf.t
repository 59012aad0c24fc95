#!/usr/bin/perl

# Copyright (C) mcds authors

# Mistakes in mcds_lock and mcds_lock_api: nginx -t refuses each with one
# message that names the directive, the word and the line.  No time to live of a
# lock may be below 2 seconds, since memcached may end 1 at once.

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
    'mcds_lock a;', 'mcds_lock off;', 'mcds_lock $uri ttl=2s;',
    'mcds_lock $uri$args ttl=30d wait=0 status=400 unavailable=599;',
    'mcds_lock a wait=1h status=599 retry_after=1s unavailable=pass;',
    'mcds_lock a retry_after=1d waiters=0;', 'mcds_lock a waiters=1000000;',
    'mcds_lock_api;', 'mcds_lock_api ttl=2s;',
    'mcds_lock_api ttl=1m max_ttl=1m max_wait=0;', 'mcds_lock_api max_wait=1h;',
    'mcds_lock_api max_ttl=5s;', 'mcds_lock_api ttl=1d;',
    'if ($uri) { mcds_lock_api; }',
    'limit_except GET { deny all; } mcds_lock_api;';

is($t->conf_error(http => "$pool mcds_lock a; server { mcds_lock b; "
    . 'location / { mcds_lock off; } }'), '', 'on all levels');


# wrong ones

my $ttl = 'it must be 2s, since memcached counts in seconds, to 30d';

for my $row (
    ['mcds_lock;', 'invalid number of arguments in "mcds_lock" directive'],
    ['mcds_lock "";', '"mcds_lock" directive needs a key'],
    ['mcds_lock off ttl=2s;',
        '"mcds_lock" directive "off" takes no further parameter'],
    ['mcds_lock off off;',
        '"mcds_lock" directive "off" takes no further parameter'],
    ['mcds_lock a b;', 'invalid parameter "b" in "mcds_lock"'],
    ['mcds_lock a; mcds_lock b;', '"mcds_lock" directive is duplicate'],
    ['mcds_lock off; mcds_lock b;', '"mcds_lock" directive is duplicate'],
    ['mcds_lock a ttl=1s;', qq{invalid value "ttl=1s" in "mcds_lock", $ttl}],
    ['mcds_lock a ttl=0;', qq{invalid value "ttl=0" in "mcds_lock", $ttl}],
    ['mcds_lock a ttl=31d;', 'invalid value "ttl=31d" in "mcds_lock"'],
    ['mcds_lock a ttl=500ms;', 'invalid value "ttl=500ms" in "mcds_lock"'],
    ['mcds_lock a ttl=;', 'invalid parameter "ttl=" in "mcds_lock"'],
    ['mcds_lock a ttl=2s ttl=3s;', 'duplicate parameter "ttl=3s"'],
    ['mcds_lock a wait=2h;',
        'invalid value "wait=2h" in "mcds_lock", it must be a time up to 1h'],
    ['mcds_lock a wait=x;', 'invalid value "wait=x"'],
    ['mcds_lock a wait=1s wait=2s;', 'duplicate parameter "wait=2s"'],
    ['mcds_lock a status=399;', 'invalid value "status=399" in "mcds_lock", '
        . 'it must be 400 to 599'],
    ['mcds_lock a status=600;', 'invalid value "status=600"'],
    ['mcds_lock a status=pass;', 'invalid value "status=pass"'],
    ['mcds_lock a unavailable=200;', 'invalid value "unavailable=200" in '
        . '"mcds_lock", it must be "pass" or 400 to 599'],
    ['mcds_lock a unavailable=passed;', 'invalid value "unavailable=passed"'],
    ['mcds_lock a retry_after=0;', 'invalid value "retry_after=0" in '
        . '"mcds_lock", it must be 1s to 1d'],
    ['mcds_lock a retry_after=2d;', 'invalid value "retry_after=2d"'],
    ['mcds_lock a waiters=-1;', 'invalid value "waiters=-1" in "mcds_lock", '
        . 'it must be 0 to 1000000'],
    ['mcds_lock a waiters=1000001;', 'invalid value "waiters=1000001"'],
    ['if ($uri) { mcds_lock a; }', '"mcds_lock" directive is not allowed'],
    ['mcds_lock_api; mcds_lock_api;', '"mcds_lock_api" directive is duplicate'],
    ['mcds_lock_api a;', 'invalid parameter "a" in "mcds_lock_api"'],
    ['mcds_lock_api ttl=1s;',
        qq{invalid value "ttl=1s" in "mcds_lock_api", $ttl}],
    ['mcds_lock_api max_ttl=1s;', qq{"max_ttl=1s" in "mcds_lock_api", $ttl}],
    ['mcds_lock_api max_wait=2h;', 'invalid value "max_wait=2h"'],
    ['mcds_lock_api ttl=2m max_ttl=1m;',
        '"mcds_lock_api" directive has a "ttl" that '
        . 'is longer than its "max_ttl"'],

    # other locks

    ['mcds_cache on; mcds_cache_lock_age 1s;', 'invalid value "1s" in '
        . '"mcds_cache_lock_age", it must be 2s, since memcached '
        . 'counts in seconds, to 30d'],
    ['mcds_cache on; mcds_cache_lock_age 0;', 'it must be 2s'],
) {
    my ($conf, $message) = @$row;
    my $error = $t->conf_error(http => $pool, location => $conf);

    like($error, qr/\[emerg\].*\Q$message\E.* in .*:\d+/, $conf)
        or diag($error);
}


# pools

for my $directive ('mcds_lock a;', 'mcds_lock_api;') {
    my ($name) = $directive =~ /(\w+)/;

    like($t->conf_error(location => $directive),
        qr/"$name" needs a "mcds_pool", and there is none, in .*:\d+/,
        "$name: no pool");
    like($t->conf_error(http => $two, location => $directive),
        qr/"$name" needs a "mcds_use" to choose one of 2 pools, in .*:\d+/,
        "$name: two pools");
    is($t->conf_error(http => $two, location => "mcds_use other; $directive"),
        '', "$name: one of two");
    like($t->conf_error(http => $forever, location => $directive),
        qr/"$name" needs items that expire/,
        "$name: a pool without ends");
}

$t->done();
