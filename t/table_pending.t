#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_table_api changes, reads and deletes a table of many elements on an idle
# memcached whatever max_pending of the pool is.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my %pools = (few => '20', bytes => '4096 16k', one => '1', least => '1 1');

my @pools = map { "mcds_pool $_ { server 127.0.0.1:%%PORT_m%%; timeout 20s;"
    . " max_pending $pools{$_}; }" } sort keys %pools;
my @places = map { "location /$_/ { mcds_use $_; mcds_table_api $_; }" }
    sort keys %pools;

local $" = "\n    ";

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    @pools
    mcds_api_methods GET POST DELETE;
    server {
        listen 127.0.0.1:%%PORT%%;
        @places
    }
}
EOT

my %type = ('Content-Type' => 'application/json');
my $elements = join ',', map { qq("name-$_":"$_)
    . 'x' x ($_ % 50 ? 10 : 5000) . '"' } 1 .. 300;

for my $pool (sort keys %pools) {
    my $r = $h->get("/$pool/", method => 'POST', body => "{$elements}",
        headers => \%type);

    is($r->status(), 204, "$pool: many are stored");
    is(join(',', sort $h->get("/$pool/?values=1")->body() =~ /("[^,]+")/g),
        join(',', sort split /,/, $elements), "$pool: and read");
    is($h->get("/$pool/", method => 'DELETE')->status(), 204,
        "$pool: and deleted");
    is(join(' ', $m->keys()), '', "$pool: none is left");
    $m->mc('flush_all');
}

$t->done();
