#!/usr/bin/perl

# Copyright (C) mcds authors

# The lock of a page shows when its build is due: requests that wait on another
# host ask for the lock alone until then, and for the page, too, when the lock
# changes, when the page is due, or when the lock does not say.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $f = $t->fake('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_lock_timeout 60s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /slow/ {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my ($a, $b) = map { $t->nginx($_, $conf) } 'a', 'b';

my ($owner, $next) = map { $_ x 2 } '0123456789abcdef', 'fedcba9876543210';


sub lock_of { $f->get(key(shift) . ':lock') // '' }

sub lock { $f->set(key(shift) . ':lock', $owner . shift, 60) }

sub now { int(time() * 1000) }

sub polls { $f->count(qr/^mg \S+:lock/) }

sub reads { $f->count(qr/^mg (?!\S+:lock)/) }


# builds whose time is not known, and those after them

for my $n (1 .. 5) {
    $o->hold_path("/slow/$n");
    my $p = start_get($a->port(), "/slow/$n");
    $o->wait_requests(1, "/slow/$n");

    my ($now, $lock) = (now(), lock_of("/slow/$n"));

    if ($n == 1) {
        like($lock, qr/^[0-9a-f]{32}$/, 'the first build is not known');

    } else {
        like($lock, qr/^[0-9a-f]{32} [0-9]{13}$/, "$n: the build is due");

        my ($due) = $lock =~ / ([0-9]+)$/;
        cmp_ok($due // 0, '>', $now - 60_000, "$n: at a time");
        cmp_ok($due // 0, '<', $now + 60_000, "$n: that is near");
    }

    sleep 0.2;                             # as long as a build takes here
    $o->release("/slow/$n");
    is(finish($p)->header('X-Cache'), 'MISS', "$n: built");
    page_wait($f, key("/slow/$n"));
}


# a page that another host has built

sub page {
    my $uri = shift;
    return page_encode(key => key($uri), body => 'theirs',
        created => now() - 1000, expire => now() + 60_000);
}


for my $early (1, 0) {
    my $uri = $early ? '/early' : '/late';
    my $name = $early ? 'not due' : 'due';

    lock($uri, ' ' . (now() + ($early ? 3_600_000 : -1)));
    $f->mark();
    my $p = start_get($b->port(), $uri);

    # one read looks the page up, one comes with the command for the lock, one
    # with each later look

    my $first = $early ? 2 : 3;

    ok(wait_for(sub { polls() >= 4 }), "$name: the lock is looked at");
    cmp_ok(reads(), $early ? '<=' : '>=', $first, "$name: the page");

    $f->set(key($uri), page($uri), 60);
    $f->set(key($uri) . ':lock', $next, 60) if $early;

    is(finish($p)->body(), 'theirs', "$name: the page of the other host");
}


# the lock is gone, with and without a page; it is nonsense; it does not say

lock('/gone', ' ' . (now() + 3_600_000));
$f->mark();
my $p = start_get($b->port(), '/gone');
ok(wait_for(sub { polls() >= 3 }), 'gone: the lock is looked at');
$f->delete(key('/gone') . ':lock');
is(finish($p)->header('X-Cache'), 'MISS', 'gone: the page is built here');

lock('/stored', ' ' . (now() + 3_600_000));
$f->mark();
$p = start_get($b->port(), '/stored');
ok(wait_for(sub { polls() >= 3 }), 'stored: the lock is looked at');
$f->set(key('/stored'), page('/stored'), 60);
$f->delete(key('/stored') . ':lock');
is(finish($p)->body(), 'theirs', 'stored: the page of the other host');
is($o->count('/stored'), 0, 'stored: no build');

for my $text ('', ' ', ' x', ' -1', ' 99999999999999999999', ' 12 12') {
    my $uri = '/text' . unpack 'H*', $text;

    lock($uri, $text);
    $f->mark();
    my $p = start_get($b->port(), $uri);
    ok(wait_for(sub { polls() >= 3 && reads() >= 4 }),
        "'$text': the page is looked for each time");
    $f->set(key($uri), page($uri), 60);
    is(finish($p)->body(), 'theirs', "'$text': the page");
}


# a failure of the build ends the wait before the page is due

lock('/broken', ' ' . (now() + 3_600_000));
$f->mark();
$p = start_get($b->port(), '/broken');
ok(wait_for(sub { polls() >= 3 }), 'broken: the lock is looked at');
$f->set(key('/broken') . ':lock', 'kept 1 ' . (now() + 60_000), 60);
is(finish($p)->status(), 503, 'broken: the wait is over');

$t->done();
