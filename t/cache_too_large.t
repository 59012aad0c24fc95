#!/usr/bin/perl

# Copyright (C) mcds authors

# A page that memcached refuses: it is offered once, and then each worker
# builds it for itself without waiting for others, once for all who are there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many',
    'each worker sees it for itself');

my $large = 'x' x 70_000;

my $m = $t->fake('m', sub {
    my ($f, $c, $line) = @_;
    return "SERVER_ERROR object too large for cache\r\n"
        if $line =~ /^ms \S+ (\d+)/ && $1 > 16_000;
    return;
});
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => { '/a' => { body => $large } });

my @h = map { $t->nginx($_, <<'EOT') } 'one', 'two';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache_max_waiters 3;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $key = '<>http://localhost/a';
my $said = qr/page "\S+" of \d+ bytes is too large for memcached/;

sub tally {
    my %n;
    $n{$_->header('X-Cache') . ' ' . length $_->body()}++ for @_;
    return join ', ', map { "$n{$_} $_" } sort keys %n;
}

# a request too many: as soon as one is turned away the others are known to
# wait, and they are returned

sub waiting {
    my ($h) = @_;
    my @p = map { start_get($h->port(), '/a') } 1 .. 4;
    my $i;

    wait_for(sub {
        $_->fill(0) for @p;
        ($i) = grep { $p[$_]{in} =~ /\r\n\r\n/ } 0 .. $#p;
        return defined $i;
    });

    is(finish(splice @p, $i // 0, 1)->status(), 503, $h->name() . ': waiting');

    return @p;
}

my @p;


# each host sees it once

for my $h (@h) {
    my $name = $h->name();

    $o->mark();
    $o->hold_path('/a');
    @p = map { start_get($h->port(), '/a') } 1 .. 4;
    $o->wait_requests(1, '/a');
    ok(wait_for(sub { $m->get("$key:lock") }), "$name: builds with the lock");
    $o->release('/a');

    my @r = map { finish($_) } @p;
    is(scalar(grep { $_->body() eq $large } @r), 4, "$name: all get it");
    ok($h->wait_log($said), "$name: says so");
    ok(wait_for(sub { !defined $m->get("$key:lock") }), "$name: no lock");
    ok(!defined $m->get($key), "$name: no page");
}


# and does not ask the other one any more

$o->mark();
$o->hold_path('/a');
@p = map { start_get($_->port(), '/a') } @h;
ok($o->wait_requests(2, '/a', 3 * $t->slow()), 'the hosts build side by side');
ok(!defined $m->get("$key:lock"), 'without a lock');

push @p, map { waiting($_) } @h;
is($o->count('/a'), 2, 'one build of each');
$o->release('/a');
is(tally(map { finish($_) } @p), '6 HIT 70000, 2 MISS 70000',
    'all get it');

$m->mark();
$_->get('/a') for @h, @h;
is($m->count(qr/^ms /), 0, 'it is not sent to memcached again');
is(join(' ', map { $_->log_count($said) } @h), '1 1', 'nor told again');


# until it has become smaller

$o->set('/a', { body => 'small' });
is($h[0]->get('/a')->body(), 'small', 'smaller: an answer');
is(page_decode(page_wait($m, $key))->{body}, 'small', 'smaller: stored');
is(tally($h[1]->get('/a')), '1 HIT 5', 'smaller: for all hosts');


# memcached refuses even small parts of a page whose first bytes no longer are
# in memory when its last ones come

if ($t->has('mcds large')) {
    my $none = $t->fake('none', sub {
        my ($f, $c, $line) = @_;
        return "SERVER_ERROR object too large for cache\r\n"
            if $line =~ /^ms \S+ (\d+)/ && $1 > 1000;
        return;
    });

    my $huge = 'x' x 10_000_000;
    $o->set('/huge', { parts => [substr($huge, 0, 4_000_000),
        [substr($huge, 4_000_000), 1]] });

    my $h = $t->nginx('three', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_none%%; }
    mcds_cache on;
    mcds_cache_max_size 64m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

    cmp_ok(length $h->get('/huge')->body(), '==', length $huge,
        'huge: an answer');
    ok($h->wait_log(qr/a part of page "\S+" is not stored: \w/), 'huge: told');
    is($h->log_count(qr/is not stored|is too large/), 1, 'huge: once');
}

$t->done();
