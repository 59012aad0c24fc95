#!/usr/bin/perl

# Copyright (C) mcds authors

# Programs POST lines of several time intervals to mcds_log_api in turns, such
# as an import of old lines beside new ones: in each interval, the lines go to
# further items when "max_chunk" is reached, and the log can be read.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 20s; }
    mcds_api_methods GET POST;
    log_format line '$uri';
    mcds_log live line chunk=10m chunks=6 max_chunk=32k if=$arg_never;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /log {
            mcds_log     off;
            mcds_log_api live;
        }
    }
}
EOT

# a tenth of an item at a time, three items in each of three intervals

my $line = 'x' x 3300;
my @times = map { -600 * $_ - 1 } 0 .. 2;
my %sent;

for my $i (1 .. 30) {
    for my $time (@times) {
        my $r = $h->get("/log?time=$time", method => 'POST',
            headers => { 'Content-Type' => 'application/json' },
            body => qq(["$i of $time $line"]));

        $sent{"$i of $time"} = 1 if $r->status() == 204;
    }
}

is(keys %sent, 90, 'all lines are taken');

my %items;

for my $key (grep { /^live:/ && !/size/ } $m->keys()) {
    $items{$key} = length($m->get($key) // '');
}

my @items = grep { $items{$_} > 1000 } keys %items;

cmp_ok(@items, '>=', 9, 'the intervals have several items');
is_deeply([grep { $items{$_} > 48 * 1024 } @items], [],
    'none is much larger than max_chunk')
    or diag(join "\n", map { "$_ $items{$_}" } sort @items);

my $r = $h->get('/log?limit=1000&last=0');
my %read = map { $_ => 1 } $r->body() =~ /(\d+ of -\d+) x/g;

is($r->status(), 200, 'the log can be read');
is_deeply(\%read, \%sent, 'and has all lines');

$t->done();
