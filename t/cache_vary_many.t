#!/usr/bin/perl

# Copyright (C) mcds authors

# More variants than are stored: everybody still gets the right one, those that
# are stored stay, nobody waits for the others, and memcached does not fill.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

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

sub key { 'http://localhost' . shift }

sub get {
    my ($uri, $v) = @_;
    my $r = $hosts[rand 2]->get($uri, headers => { 'X-A' => $v });
    return join ' ', $r->header('X-Cache'), $r->header('X-Reason'), $r->body;
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

is(get('/few/a', $_), "HIT fresh value $_ ", "few: $_ is there") for 1 .. 3;
is(get('/few/a', $_ % 2 + 4), 'MISS variants value ' . ($_ % 2 + 4) . ' ',
    'few: one more is not') for 1 .. 4;
is(get('/few/a', $_), "HIT fresh value $_ ", "few: $_ stays") for 1 .. 3;
is(listed('/few/a'), 3, 'few: three');
is(scalar(grep { /few\/a:vary/ } $m->keys()), 3, 'few: in memcached, too');


# nobody waits for those that are too many

$o->hold_path('/few/a');
my @p = map { start_get($hosts[$_ % 2]->port(), '/few/a',
    headers => { 'X-A' => 9 }) } 1 .. 10;
ok(wait_for(sub { $o->held('/few/a') == 10 }), 'too many: nobody waits');
$o->release('/few/a');
is(scalar(grep { finish($_)->body eq 'value 9 ' } @p), 10, 'too many: right');


# at once: the bound holds

for my $round (1 .. $t->size(2, 10)) {
    my $uri = "/few/herd$round";
    my @r = many(60, sub {
        my $v = $_[0] % 20;
        return [$hosts[$_[0] % 2]->port(), $uri, headers => { 'X-A' => $v }];
    }, concurrency => 60);

    is(scalar(grep { $_->body !~ /^value \d+ $/ } @r), 0, "herd $round: whole");
    cmp_ok(listed($uri), '<=', 3, "herd $round: the bound holds");
    cmp_ok(scalar(grep { /herd$round:vary/ && !/:lock/
        && page_decode($m->get($_))->{kind} == 0 } $m->keys()), '<=', 3,
        "herd $round: in memcached, too");
}


# a list that is full and old begins anew

{
    my $e = page_decode($m->get(key('/few/a')));
    my $old = $e->{generation};

    $m->set(key('/few/a'), page_encode(%$e,
        created => $e->{created} - 3601_000));
    is(get('/few/a', 1), 'HIT fresh value 1 ', 'old: what is there is good');
    is(get('/few/a', 7), 'MISS absent value 7 ', 'old: a new one is stored');
    ok(wait_for(sub { page_decode($m->get(key('/few/a')))->{generation}
        != $old }), 'old: in a new list');
    is(listed('/few/a'), 1, 'old: alone');
    is(get('/few/a', 7), 'HIT fresh value 7 ', 'old: and found');
    is(get('/few/a', 1), 'MISS absent value 1 ', 'old: others come again');
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
    is(get('/bomb', 'good'), 'HIT fresh value good ', 'bomb: the first stays');
    cmp_ok(scalar(grep { /bomb:vary/ && !/:lock/ } $m->keys()), '<', 100,
        'bomb: memcached does not fill');
}


# what is wrong in the configuration

for my $n (0, 1025, 'many') {
    like($t->conf_error(location => "mcds_cache_max_variants $n;"),
        qr/"$n" in .*, it must be (?:1 to 1024|a number)/, "max_variants $n");
}

$t->done();
