#!/usr/bin/perl

# Copyright (C) mcds authors

# A page in many parts needs no more operations at one time than max_pending
# allows: it is stored, served and removed on an idle memcached whatever the
# pool allows, if need be with one operation after the other.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();
$t->needs('mcds large');

my $m = $t->memcached('m', memory => 256);

# each byte tells its place

my $text = substr join('', map { "$_, " } 1 .. 1_100_000), 0, 8_000_000;

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($size) = $q->{path} =~ m{/(\d+)};
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        body => substr $text, 0, $size,
    };
});

my %pools = (
    bytes => '4096 512k',
    few => '20',
    one => '1',
    least => '1 1',
);

my @pools = map { "mcds_pool $_ { server 127.0.0.1:%%PORT_m%%;"
    . " timeout 20s; max_pending $pools{$_}; }" } sort keys %pools;
my @places = map { "location /$_ { mcds_cache $_;"
    . ' proxy_pass http://127.0.0.1:%%PORT_o%%; }' } sort keys %pools;
my @purges = map { "location = /purge/$_ { mcds_cache $_;"
    . ' mcds_purge_api on; }' } sort keys %pools;

local $" = "\n    ";

my $conf = <<"EOT";
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    @pools
    add_header X-Cache \$mcds_cache_status always;
    mcds_cache_key \$uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        @places
        @purges
    }
}
EOT

my $one = $t->nginx('one', $conf);
my $two = $t->nginx('two', $conf);

sub which {
    my ($r, $size) = @_;
    my $body = substr $text, 0, $size;
    return ($r->header('X-Cache') // 'none') . ' '
        . ($r->body() eq $body ? 'right' : 'wrong, ' . length $r->body());
}

sub parts_of {
    my ($uri) = @_;
    return grep { /\Q$uri:part:/ } $m->keys();
}

# parts that do not expire

sub left {
    my ($uri) = @_;
    return grep { $m->mc("mg $_ t") =~ /^HD t-1/ } parts_of($uri);
}

for my $pool (sort keys %pools) {
    for my $size (3_000_000, 8_000_000) {
        my $uri = "/$pool/$size";
        my @r = $one->get($uri);

        ok(page_wait($m, $uri), "$pool, $size: stored");
        push @r, map { $_->get($uri) } $two, $one;

        is(join(', ', map { which($_, $size) } @r),
            'MISS right, HIT right, HIT right', "$pool, $size: served");
        is($o->count($uri), 1, "$pool, $size: asked for once");

        cmp_ok(scalar parts_of($uri), '>', 11, "$pool, $size: its parts");
        $two->get("/purge/$pool?mode=delete&key=$uri");
        ok(wait_for(sub { !left($uri) }), "$pool, $size: purged");
    }
}

$t->done();
