#!/usr/bin/perl

# Copyright (C) mcds authors

# A herd at one page, on two hosts with two workers each: one origin request at
# a time among them all, and nobody waits while there is an old page.

use warnings;
use strict;

use List::Util qw/ max /;
use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT tally /;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new(calm => 1);

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => {
        '/paced' => { delay => 1, body => 'paced %n',
                      headers => ['Cache-Control' => 'max-age=2'] },
    });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Worker $pid always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /late/ {
            mcds_cache_background_update off;
            mcds_cache_wait %%WAIT%%ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /late/b {
            mcds_cache_background_update off;
            mcds_cache_wait 60s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $wait = $t->size(500, 2000) * $t->slow();
$conf =~ s/%%WAIT%%/$wait/;

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

# so many requests, on both hosts in turn, which have arrived

sub herd {
    my ($n, $uri) = @_;
    return map { start_get($hosts[$_ % 2]->port(), $uri) } 1 .. $n;
}


# cold

for my $round (1 .. $t->size(3, 30)) {
    my $uri = "/cold/$round";

    $o->hold_path($uri);
    my @p = herd(100, $uri);
    $o->wait_requests(1, $uri);

    $_->handled('/cold/other') for @hosts;
    is($o->held($uri), 1, "cold $round: one asks the origin");

    $o->release($uri);
    my @r = map { finish($_) } @p;
    my %body = map { $_->body() => 1 } @r;
    my %worker = map { $_->header('X-Worker') => 1 } @r;

    is(tally(@r), '99 200 HIT, 1 200 MISS', "cold $round: all are answered");
    is(scalar(keys %body), 1, "cold $round: by one answer");
    is($o->count($uri), 1, "cold $round: one origin request");
    cmp_ok(scalar(keys %worker), '>=', 2 * ($t->workers(2) > 1 ? 2 : 1),
        "cold $round: in all workers");
}


# a page that takes 1 s of its 2 s, under a steady load

$_->get('/paced') for @hosts;
page_wait($m, key('/paced'));
$o->mark();

my ($start, $lost) = (time(), $t->lost());
my $load = $t->load(ports => [map { $_->port() } @hosts], uri => '/paced',
    clients => 100, rate => 10, seconds => $t->size(4, 30),
    expect => 'paced ');
my $passed = time() - $start;
$lost = 1000 * ($t->lost() - $lost);
my $n = $o->count('/paced');

is($load->{ok}, $load->{requests}, 'paced: all answered');
is($load->{wrong} + $load->{errors}, 0, 'paced: all well');
is($o->most('/paced'), 1, 'paced: one origin request at a time');
cmp_ok($n, '>=', 1, 'paced: the page is rebuilt');
cmp_ok($n, '<=', $passed / 2 + 1, 'paced: once in its time');
cmp_ok($load->{max} - $lost, '<', 500 * $t->slow(),
    'paced: nobody waits for half of the origin\'s time');


# an old page as the last resort: the winner rebuilds, others wait and get it

$_->get('/late/a') for @hosts;
page_expire($m, key('/late/a'), 1000);
$o->mark();
$o->hold_path('/late/a');

my @p = herd(12, '/late/a');
$o->wait_requests(1, '/late/a');

# eleven are answered while the origin is held

my (@old, %left);
%left = map { $_ => $_ } @p;
wait_for(sub {
    for my $p (values %left) {
        $p->fill(0);
        next if $p->{in} !~ /\r\n\r\n/;
        push @old, delete $left{$p};
    }
    return keys %left < 2;
}, 10 * $t->slow());

is(scalar(keys %left), 1, 'late: only who rebuilds goes on waiting');
@old = map { finish($_) } @old;
is(tally(@old), '11 200 STALE', 'late: others get the old page');
is(scalar(grep { $_->body() =~ /^answer \d+ of/ } @old), 11, 'late: it is one');
my @times = sort { $a <=> $b } map { $_->time() } @old;
cmp_ok($times[0], '>', $wait / 1100, 'late: after the time to wait');
cmp_ok(max(map { $_->calm() } @old), '<', $wait / 1000 + 1 * $t->slow(),
    'late: no later');
is($o->count('/late/a'), 1, 'late: one origin request');

$o->release('/late/a');
my ($winner) = map { finish($_) } values %left;
is(tally($winner), '1 200 EXPIRED', 'late: who rebuilt it');
isnt($winner->body(), $old[0]->body(), 'late: the new page');
page_wait($m, key('/late/a'));
is(tally(map { $_->get('/late/a') } @hosts), '2 200 HIT',
    'late: then all have it');


# and when it is there in time, all get the new one

$_->get('/late/b') for @hosts;
page_expire($m, key('/late/b'), 1000);
$o->mark();
$o->hold_path('/late/b');
@p = herd(12, '/late/b');
$o->wait_requests(1, '/late/b');
$_->handled('/cold/other') for @hosts;
$o->release('/late/b');

my @r = map { finish($_) } @p;
is(tally(@r), '1 200 EXPIRED, 11 200 HIT', 'in time: all get the new page');
is(scalar(grep { $_->body() eq $r[0]->body() } @r), 12, 'in time: the same');
is($o->count('/late/b'), 1, 'in time: one origin request');

$t->done();
