#!/usr/bin/perl

# Copyright (C) mcds authors

# More variants than are stored: everybody still gets the right one, a new one
# takes the place of another, and memcached does not fill.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return {
        headers => ['Cache-Control' => 'max-age=60', Vary => 'X-A'],
        body => 'value ' . ($q->{headers}{'x-a'} // 'none') . ' ',
    };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /few/ {
            mcds_cache_max_variants 3;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOC

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

sub get {
    my ($uri, $v) = @_;
    my $r = $hosts[rand 2]->get($uri, headers => { 'X-A' => $v });
    return join ' ', $r->header('X-Cache'), $r->header('X-Reason'), $r->body;
}

# whether a variant that was built just now is used: perhaps it is still on its
# way to memcached, and the request waits for it

sub used {
    my ($uri, $v, $name) = @_;
    like(get($uri, $v), qr/^HIT (?:fresh|built) value $v $/, $name);
}

# how many variants stay in memcached, those on their way out left aside

sub stays {
    my ($uri) = @_;
    return scalar grep { /\Q$uri\E:vary:\w+:\w{32}$/
        && ($m->ttl($_) // 0) == -1 } $m->keys();
}

sub listed {
    my $e = page_decode($m->get(key(shift))) or return 0;
    return length($e->{body}) / 16;
}


# one after the other

for my $v (1 .. 3) {
    is(get('/few/a', $v), "MISS absent value $v ", "few: $v");
    ok(wait_for(sub { listed('/few/a') == $v }), "few: $v is on the list");
}

# the last one is stored after the list

ok(wait_for(sub { stays('/few/a') == 3 }), 'few: all are stored');
is(get('/few/a', $_), "HIT fresh value $_ ", "few: $_ is there") for 1 .. 3;
is(get('/few/a', 4), 'MISS absent value 4 ', 'few: one more');
used('/few/a', 4, 'few: is stored');
ok(wait_for(sub { stays('/few/a') == 3 }), 'few: another makes room');
is(listed('/few/a'), 3, 'few: three are on the list');


# which is gone soon, and comes back

{
    my $e = page_decode($m->get(key('/few/a')));
    my @listed = unpack '(H32)*', $e->{body};
    my @gone = grep { !{ map { $_ => 1 } @listed }->{substr $_, -32} }
        grep { /few\/a:vary:\w+:\w{32}$/ } $m->keys();

    is(scalar(@gone), 1, 'few: one is to go');
    ttl_between($m, $gone[0], 0, 10, 'few: within seconds');
    $m->delete($gone[0]);

    my @r = map { get('/few/a', $_) } 1 .. 4;
    cmp_ok(scalar(grep { /^MISS absent/ } @r), '>=', 1, 'few: it is built');
    is(scalar(grep { $r[$_] !~ /value @{[$_ + 1]} $/ } 0 .. 3), 0,
        'few: all are right');
}


# one that is not on the list is waited for, as any

$o->mark();
$o->hold_path('/few/a');
my @p = map { start_get($hosts[$_ % 2]->port(), '/few/a',
    headers => { 'X-A' => 9 }) } 1 .. 10;
$o->wait_requests(1, '/few/a');
get('/other', 1) for 1 .. 8;
is($o->held('/few/a'), 1, 'not listed: one asks');
$o->release('/few/a');
is(scalar(grep { finish($_)->body eq 'value 9 ' } @p), 10, 'not listed: right');
is($o->count('/few/a'), 1, 'not listed: for all');


# at once: the bound holds

for my $round (1 .. $t->size(2, 10)) {
    my $uri = "/few/herd$round";
    my @r = many(60, sub {
        my $v = $_[0] % 20;
        return [$hosts[$_[0] % 2]->port(), $uri, headers => { 'X-A' => $v }];
    }, concurrency => 60);

    is(scalar(grep { $_->body !~ /^value \d+ $/ } @r), 0, "herd $round: whole");
    cmp_ok(listed($uri), '<=', 3, "herd $round: the bound holds");
    ok(wait_for(sub { stays($uri) <= 5 }),
        "herd $round: in memcached, too") or diag(stays($uri));
}


# fewer are allowed than before: the list gets shorter with each new one

{
    my $e = page_decode($m->get(key('/few/a')));

    $m->set(key('/few/a'), page_encode(%$e, total => 128, length => 128,
        body => pack 'H32' x 8, map { sprintf '%032x', $_ } 1 .. 8));

    for my $v (11 .. 17) {
        my $n = $v < 16 ? 18 - $v : 3;

        get('/few/a', $v);
        ok(wait_for(sub { listed('/few/a') == $n }),
            "a longer list: $n are left") or diag(listed('/few/a'));
    }

    is(page_decode($m->get(key('/few/a')))->{generation}, $e->{generation},
        'a longer list: is the same');
    get('/few/a', 20);
    used('/few/a', 20, 'a longer list: is used');
}


# the bomb

{
    my $n = $t->size(1000, 10000);

    get('/bomb', 'good');
    page_wait($m, key('/bomb'));

    my @r = many($n, sub {
        my $v = $_[0];
        return [$hosts[$v % 2]->port(), '/bomb', headers => { 'X-A' => $v }];
    }, concurrency => 20);

    my %bodies = map { $_->body => 1 } @r;
    is(scalar(keys %bodies), $n, 'bomb: all got their own');
    is(listed('/bomb'), 32, 'bomb: 32 are stored');
    like(get('/bomb', 'good'), qr/^(?:HIT fresh|MISS absent) value good $/,
        'bomb: the first one may have made room');
    used('/bomb', 'good', 'bomb: and is back');
    cmp_ok(stays('/bomb'), '<', 40 + $n / 100, 'bomb: memcached does not fill');
}


# what is wrong in the configuration

for my $n (0, 1025, 'many') {
    like($t->conf_error(location => "mcds_cache_max_variants $n;"),
        qr/"$n" in .*, it must be (?:1 to 1024|a number)/, "max_variants $n");
}

$t->done();
