#!/usr/bin/perl

# Copyright (C) mcds authors

# Refreshes before a page expires, lifetimes that differ, and pages that are not
# stored before they are used often enough.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => { '/early/a' => { delay => 0.1 } });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /early/ {
            mcds_cache_early 2;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /jitter/ {
            mcds_cache_jitter 50%;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /uses/ {
            mcds_cache_min_uses 3;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';


$hosts[0]->get('/a');
page_wait($m, key('/a'));
page_expire($m, key('/a'), 1000);
is($hosts[1]->get('/a')->header('X-Cache'), 'STALE',
    'without it a page expires');

# A page that took a minute to be built, and has 50 s left: each request
# refreshes the page with a probability of two thirds, so one of sixteen does.
# The refreshed page took a tenth of a second: no request refreshes it again.

my %seen;

for my $round (1 .. $t->size(4, 20)) {
    $hosts[0]->get('/early/a');
    page_wait($m, key('/early/a'));
    page_expire($m, key('/early/a'), -50_000, took => 60_000);

    my $n = $o->count('/early/a');

    $seen{$_->get('/early/a')->header('X-Cache')}++ for (@hosts) x 8;
    ok($o->wait_requests($n + 1, '/early/a'), 'early: it is refreshed soon');
    ok(wait_for(sub {
        my $e = page_decode(page_wait($m, key('/early/a')));
        return $e && $e->{took} < 60_000;
    }), 'early: the refreshed page is stored');

    $n = $o->count('/early/a');
    $seen{$_->get('/early/a')->header('X-Cache')}++ for (@hosts) x 20;
    $_->handled('/a') for @hosts;
    is($o->count('/early/a'), $n, 'early: and not refreshed again');
}

is(join(' ', sort keys %seen), 'HIT', 'early: all hits') or diag explain \%seen;
is($o->most('/early/a'), 1, 'early: one at a time');


# downwards only, and not all the same

my @life;

for (1 .. 40) {
    $hosts[0]->get("/jitter/$_");
    my $e = page_decode(page_wait($m, key("/jitter/$_")));
    push @life, ($e->{expire} - $e->{created} + $e->{took}) / 1000;
}

@life = sort { $a <=> $b } @life;
cmp_ok($life[0], '>=', 30, 'jitter: at most half');
cmp_ok($life[-1], '<=', 60, 'jitter: never more');
cmp_ok($life[-1] - $life[0], '>', 10, 'jitter: they differ');

$hosts[0]->get('/b');
my $e = page_decode(page_wait($m, key('/b')));
is($e->{expire} - $e->{created} + $e->{took}, 60000, 'no jitter by default');


# counted on all hosts together

my @got = map { $hosts[$_ % 2]->get('/uses/a')->header('X-Cache') } 1 .. 3;
is("@got", 'MISS MISS MISS', 'uses: three times the origin');
ok(wait_for(sub { defined $m->get(key('/uses/a')) }, 3), 'uses: then stored');
is($_->get('/uses/a')->header('X-Cache'), 'HIT', 'uses: hits') for @hosts;
is($m->get(key('/uses/a') . ':uses'), 3, 'uses: counted');
ttl_between($m, key('/uses/a') . ':uses', 1, 600, 'uses: not for ever');

$hosts[0]->get('/uses/b') for 1 .. 2;
sleep 0.1;
ok(!defined $m->get(key('/uses/b')), 'uses: not stored before');
is(join(' ', map { $_->status() } many(20, sub {
    [$hosts[$_[0] % 2]->port(), '/uses/c'] })), join(' ', (200) x 20),
    'uses: a herd');
$hosts[0]->close() if 0;


# what is said wrong

for (
    ['mcds_cache_error_backoff 10ms', 'must be "off" or 1s to 1d'],
    ['mcds_cache_error_backoff 10s 2s', 'less than the first'],
    ['mcds_cache_error_backoff off 2s', 'no further parameter'],
    ['mcds_cache_local on', 'must be "off", "validated" or "timed="'],
    ['mcds_cache_local timed=x', 'must be "off", "validated" or "timed="'],
    ['mcds_cache_early 0', 'a factor up to 100'],
    ['mcds_cache_jitter 91%', 'must be "off" or 1% to 90%'],
    ['mcds_cache_jitter 5 6', 'invalid number of arguments'])
{
    my ($line, $error) = @$_;
    like($t->conf_error(http => 'mcds_pool main { server 127.0.0.1; }',
        location => "mcds_cache on; $line;"), qr/\Q$error\E/, $line);
}

is($t->conf_error(http => 'mcds_pool main { server 127.0.0.1; }
    mcds_cache on; mcds_cache_error_backoff off; mcds_cache_local timed;
    mcds_cache_early on; mcds_cache_jitter off; mcds_cache_min_uses 2;'), '',
    'and right');

$t->done();
