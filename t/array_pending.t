#!/usr/bin/perl

# Copyright (C) mcds authors

# Arrays of many parts, and lists of names, are written, read and deleted on an
# idle memcached whatever max_pending of the pool is.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my %pools = (few => '20', four => '4', bytes => '4096 64k', one => '1');

my @pools = map { "mcds_pool $_ { server 127.0.0.1:%%PORT_m%%; timeout 20s;"
    . " max_pending $pools{$_}; }" } sort keys %pools;
my @places = map { "location = /$_ { mcds_use $_; mcds_array_api $_; }
        location /t$_/ { mcds_use $_; mcds_table_api t$_; }" }
    sort keys %pools;

local $" = "\n    ";

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    @pools
    mcds_api_methods GET POST PUT DELETE;
    client_max_body_size 2m;

    server {
        listen 127.0.0.1:%%PORT%%;
        @places
    }
}
EOT

my %type = ('Content-Type' => 'application/json');
my $list = join ',', map { "\"$_-" . 'x' x 1000 . '"' } 1 .. 900;
my $long = join ',', map { "\"$_-" . 'x' x 65_000 . '"' } 1 .. 15;

# too few for the list to be compacted

my $names = join ',', map { "\"name-$_-" . 'y' x 200 . '"' } 1 .. 900;

for my $pool (sort keys %pools) {
    for my $body ("[$list]", "[$long]") {
        my $what = "$pool, " . ($body =~ tr/,// + 1) . ' values';

        is(json('PUT', "/$pool", $body)->status(), 204, "$what: stored");
        ok(wait_for(sub { keys_of($pool) == refs_of($pool) + 1 }),
            "$what: no other part is left");

        my $r = $h->get("/$pool");
        is($r->status(), 200, "$what: read");
        ok($r->body() eq "$body\n", "$what: all of them");
    }

    is(json('DELETE', "/$pool")->status(), 204, "$pool: deleted");
    ok(wait_for(sub { !keys_of($pool) }), "$pool: none is left");

    is(json('POST', "/t$pool/", "[$names]")->status(), 204,
        "$pool: a table stored");
    is($h->get("/t$pool/")->body() =~ tr/,// + 1, 900, "$pool: all names");
    is(json('DELETE', "/t$pool/")->status(), 204, "$pool: deleted");
    ok(wait_for(sub { !keys_of("t$pool") }), "$pool: no name is left");
}

$t->done();


sub json {
    my ($method, $uri, $body) = @_;

    return $h->get($uri, method => $method, body => $body // '',
        headers => \%type);
}


sub keys_of { return scalar grep { /^\Q$_[0]\E(?::|\z)/ } $m->keys() }


sub refs_of { return scalar(() = ($m->get($_[0]) // '') =~ /^@/mg) }
