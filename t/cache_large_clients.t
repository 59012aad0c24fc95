#!/usr/bin/perl

# Copyright (C) mcds authors

# Many clients of a large page: one builds it for all, slow ones cost a few
# parts of memory each and hold up nobody, and memcached may fail meanwhile.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');
$t->needs('mcds large');
$t->allow(qr/part \d+ of page ".+" is lost/, qr/memcached/);

my $m = $t->memcached('m', memory => 512);

my $bytes = join '', map { pack 'N', $_ } 1 .. 2_000_000;
my $huge = 12_000_000;
my $all = $t->size(16_000_000, 64_000_000);
$bytes x= $all / 8_000_000;

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($size) = $q->{path} =~ /(\d+)$/;
    return { headers => ['Cache-Control' => 'max-age=60'],
        body => substr $bytes, 0, $size };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { worker_connections 512; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 1s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_max_size 64m;
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=128k;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

my $one = $t->nginx('one', $conf);
my $two = $t->nginx('two', $conf);

sub which {
    my ($r, $size) = @_;
    return join ' ', $r->status(), $r->header('X-Cache') // 'none',
        $r->body() eq substr($bytes, 0, $size) ? 'right' : 'wrong';
}

sub tally {
    my %n;
    $n{$_}++ for @_;
    return join ', ', map { "$n{$_} $_" } sort keys %n;
}

# MB

sub rss {
    my ($h) = @_;
    my ($pid) = $h->workers();
    open my $fh, '<', "/proc/$pid/statm" or die "statm: $!\n";
    return (split / /, <$fh>)[1] * 4 / 1024;
}

sub begun {
    my ($p) = @_;
    return wait_for(sub { $p->fill(0); length $p->{in} > 10_000 });
}

# reads on, without keeping what came

sub sip {
    my ($p) = @_;
    $p->{n} += length $p->{in};
    $p->{in} = '';
    $p->fill(0.001);
}


# one builds for all

my $uri = '/wait/5000000';
$o->hold_path($uri);
my @p = map { start_get($_->port(), $uri) } ($one, $two) x 10;
$o->wait_requests(1, $uri);
$o->release($uri);
is(tally(map { which(finish($_), 5_000_000) } @p),
    '19 200 HIT right, 1 200 MISS right', 'all get it');
is($o->count($uri), 1, 'one build');


# who builds it and does not read holds up nobody

$uri = "/slow/$all";
my $first = start_get($one->port(), $uri);
begun($first);
my $watch = $t->stopwatch();
my @r = map { $_->get($uri) } $one, $two;
is(tally(map { which($_, $all) } @r), '2 200 HIT right', 'slow: the others');
cmp_ok($watch->(), '<', 10 * $t->slow(), 'slow: do not wait for it');
ok(page_wait($m, $uri), 'slow: it is stored');
is(which(finish($first), $all), '200 MISS right', 'slow: it gets all of it');


# 50 clients at 50 places of a page

my $long = 16_000_000;
$one->get("/slow/$long");
page_wait($m, "/slow/$long");

SKIP: {
    my $before = rss($two);
    my $n = 50;
    my @most = (0, 0);
    my $ended = sub {
        return scalar(() = $t->read_file('two/access.log')
            =~ m{/slow/$long }g);
    };
    my $left = $ended->();

    # what the first clients left without giving it back would add up

    for my $most (@most) {
        @p = ();

        for my $i (1 .. $n) {
            my $p = start_get($two->port(), "/slow/$long");

            do {
                sip($p);
            } while ($p->{n} < $i * $long / $n - 4_000_000);

            my $rss = rss($two);
            $most = $rss if $rss > $most;
            push @p, $p;
        }

        $_->close() for @p;
        $left += $n;
        ok(wait_for(sub { $left == $ended->() }), 'memory: they left');
    }

    # four parts each of 0.24 MB, of which many are the same

    skip 'sanitizers keep what is freed', 2 if $t->watched();
    cmp_ok($most[0] - $before, '<', 24, 'memory: a window for each');
    cmp_ok($most[1] - $before, '<', 24, 'memory: given back when they left');
}

# filling does not keep what the client and memcached have

SKIP: {
    my $before = rss($two);
    my $most = 0;
    $uri = "/fill/$all";
    my $p = start_get($two->port(), $uri);

    while (1) {
        sip($p);
        my $rss = rss($two);
        $most = $rss if $rss > $most;
        last if ($p->{n} // 0) >= $all;
    }

    ok(page_wait($m, $uri), 'fill: stored');
    $p->close();
    skip 'sanitizers keep what is freed', 1 if $t->watched();
    cmp_ok($most - $before, '<', $t->size(12, 24), 'fill: memory is bounded');
}


# so does a refresh, with an origin that is as fast as it can be

SKIP: {
    $uri = "/fill/$all";
    page_expire($m, $uri, 1000);

    my $before = rss($one);
    my $most = 0;
    my $p = start_get($one->port(), $uri, method => 'HEAD');

    ok(wait_for(sub {
        my $rss = rss($one);
        $most = $rss if $rss > $most;
        return $one->get($uri, method => 'HEAD')->header('X-Cache') eq 'HIT';
    }, 20 * $t->slow()), 'refresh: it is stored');
    is(which($two->get($uri), $all), '200 HIT right', 'refresh: right');
    is($o->count($uri), 2, 'refresh: asked for once');
    skip 'sanitizers keep what is freed', 1 if $t->watched();
    cmp_ok($most - $before, '<', $t->size(12, 24),
        'refresh: memory is bounded');
}


# memcached hangs: 8 MB are kept for those who wait, more is not

for my $case ([5_000_000, '3 200 HIT right, 1 200 MISS right', 1],
    [$huge, '4 200 MISS right', 4])
{
    my ($size, $expected, $asked) = @$case;

    $uri = "/hangs/$size";
    $o->hold_path($uri);
    @p = map { start_get($one->port(), $uri) } 1 .. 4;
    $o->wait_requests(1, $uri);
    $one->get('/other/1');
    $m->freeze();
    $o->release($uri);
    is(tally(map { which(finish($_), $size) } @p), $expected,
        "hangs, $size: all are served");
    is($o->count($uri), $asked, "hangs, $size: by so many builds");
    $m->cont();
    ok(wait_for(sub { $one->get('/other/2'); $one->get('/other/2')
        ->header('X-Cache') eq 'HIT' }, 20), "hangs, $size: it is back");
}


# memcached dies while a client reads: cut off, and the next one is served

$uri = "/slow/$all";
my $p = start_get($two->port(), $uri);
begun($p);
$m->kill9();
my $r = finish($p);
ok(!$r->complete(), 'dies: cut off');
is($r->body(), substr($bytes, 0, length $r->body()), 'dies: right so far');
like(which($two->get($uri), $all), qr/^200 \w+ right/, 'dies: the next one');
$m->restart();

$t->done();
