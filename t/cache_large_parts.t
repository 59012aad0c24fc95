#!/usr/bin/perl

# Copyright (C) mcds authors

# A page in parts of which one is missing, foreign or torn is a miss, and is
# built once; a part that is lost while the client reads ends the connection.
# Nobody reads parts of two pages, and who leaves leaves nothing.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();
$t->needs('mcds large');
$t->allow(qr/part \d+ of page ".+" is lost/);

my $m = $t->memcached('m', memory => 256);

# 12 parts; each byte tells the answer and its place

my $size = 3_000_000;
my %body;

sub body {
    my ($n) = @_;
    return $body{$n} //= substr join('', map { "$n at $_, " }
        1 .. $size / 8), 0, $size;
}

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $body = body($q->{k});
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        parts => [(substr $body, 0, 1_500_000),
            [(substr $body, 1_500_000), $q->{path} =~ /slow/ ? 30 : 0]],
    };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 2s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_background_update 1h;
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=64k;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

my $one = $t->nginx('one', $conf);
my $two = $t->nginx('two', $conf);

sub which {
    my ($r) = @_;
    my ($n) = $r->body() =~ /^(\d+) at/;
    return join ' ', $r->status(), $r->header('X-Cache') // 'none',
        !defined $n ? 'nothing' : $r->body() eq body($n) ? $n
        : "$n, wrong";
}

sub made {
    my ($uri) = @_;
    $one->get($uri);
    my $e = page_decode(page_wait($m, $uri)) or die "no page $uri\n";
    return $e;
}

sub part {
    my ($uri, $e, $n) = @_;
    return sprintf '<>%s:part:%016x:%d', $uri, $e->{generation}, $n;
}

sub parts_of {
    my ($uri) = @_;
    return grep { /^<>\Q$uri:part:/ } $m->keys();
}


# before anything was sent

my $other = made('/other');

my %broken = (
    gone => sub { undef },
    empty => sub { '' },
    foreign => sub { 'somebody else wrote this' },
    torn => sub { substr $_[0], 0, 100_000 },
    longer => sub { $_[0] . 'x' },
    flipped => sub { my $v = shift; substr($v, 5000, 1) ^= ' '; $v },
    another => sub { $m->get(part('/other', $other, $_[1])) },
    next => sub { $m->get(part($_[2], $_[3], $_[1] + 1)) },
);

for my $how (sort keys %broken) {
    for my $n (0, 3) {
        my $uri = "/$how/$n";
        my $e = made($uri);
        my $key = part($uri, $e, $n);
        my $value = $broken{$how}->($m->get($key), $n, $uri, $e);

        defined $value ? $m->set($key, $value) : $m->delete($key);

        my @r = map { finish($_) }
            map { start_get($_->port(), $uri) } ($one, $two) x 3;

        is(join(', ', sort map { which($_) } @r),
            join(', ', ('200 HIT 2') x 5, '200 MISS 2'), "$uri: built anew");
        is($o->count($uri), 2, "$uri: once");
        is(which($two->get($uri)), '200 HIT 2', "$uri: there it is");
    }
}

for my $n (4, 11) {
    my $uri = "/gone/$n";
    $m->delete(part($uri, made($uri), $n));
    is(which($two->get($uri)), '200 MISS 2', "$uri: built anew");
}


# while the client reads: the head came, then a part is taken away

my $uri = '/lost';
my $e = made($uri);
my $p = start_get($two->port(), $uri);

wait_for(sub { $p->fill(0); length $p->{in} > 10_000 });
$m->delete(part($uri, $e, $_)) for 8 .. 11;
my $r = finish($p);

is($r->status(), 200, 'lost: begun');
ok(!$r->complete(), 'lost: cut off');
ok(length $r->body() < $size - 250_000, 'lost: without what is missing');
is($r->body(), substr(body(1), 0, length $r->body()), 'lost: right so far');
ok($two->wait_log(qr/part 8 of page "<>\/lost" is lost: not found/),
    'lost: logged');
ok(wait_for(sub { !defined $m->get("<>$uri") }), 'lost: the page is removed');
is(which($two->get($uri)), '200 MISS 2', 'lost: built anew');


# the page is replaced while clients read the old one

$uri = '/replaced';
$e = made($uri);
my @slow = map { start_get($_->port(), $uri) } $one, $two, $one, $two;
for my $p (@slow) {
    wait_for(sub { $p->fill(0); length $p->{in} > 10_000 });
}

page_expire($m, $uri, 1000);
is(which($one->get($uri)), '200 STALE 1', 'replaced: old page');
ok(wait_for(sub { which($two->get($uri)) eq '200 HIT 2' }),
    'replaced: new page');
is(join(', ', map { which(finish($_)) } @slow), join(', ', ('200 HIT 1') x 4),
    'replaced: who read the old one has it');
ok(wait_for(sub { !grep { my $l = $m->ttl(part($uri, $e, $_));
    !defined $l || $l < 1 || $l > 60 } 0 .. 11 }),
    'replaced: its parts go away');
my $new = page_decode($m->get("<>$uri"));
is(scalar(grep { $m->ttl(part($uri, $new, $_)) == -1 } 0 .. 11), 12,
    'replaced: those of the new one stay');


# the one who fills it leaves: nothing of it stays

for my $way ('close', 'reset') {
    $uri = "/slow/$way";
    $p = start_get($one->port(), $uri);
    ok(wait_for(sub { $p->fill(0); parts_of($uri) > 3 }),
        "$way: parts are stored");
    $p->$way();
    ok(wait_for(sub { !parts_of($uri) }), "$way: and taken back");
    ok(!defined $m->get("<>$uri"), "$way: no page");
    ok(wait_for(sub { !defined $m->get("<>$uri:lock") }), "$way: no lock");
}


# somebody deletes the page while it is refreshed: that wins

$uri = '/deleted';
$e = made($uri);
page_expire($m, $uri, 1000);
$o->hold_path($uri);
$one->get($uri);
$o->wait_requests(2, $uri);
$m->delete("<>$uri");
$o->release($uri);
ok(wait_for(sub { parts_of($uri) > 12 }), 'deleted: parts are stored');
ok(wait_for(sub { !defined $m->get("<>$uri:lock") }), 'deleted: unlocked');
ok(!defined $m->get("<>$uri"), 'deleted: the page is not');
ok(wait_for(sub { !grep { /^<>\Q$uri:part:/ && !/\Q$e->{generation}/
    && $m->ttl($_) == -1 && index($_, sprintf '%016x', $e->{generation}) < 0 }
    $m->keys() }), 'deleted: the new parts go away');

$t->done();
