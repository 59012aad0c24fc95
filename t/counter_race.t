#!/usr/bin/perl

# Copyright (C) mcds authors

# The first view: a thousand counters that do not exist yet are created by 64
# clients on two hosts at once.  Each client counts once on each, so that each
# must end at 64 with the numbers 1 to 64 handed out, one to each.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', threads => 4);

# a request creates ten counters, so that a hundred rounds make a thousand

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    keepalive_requests 100000;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n0 key=${arg_k}0;
            mcds_counter $n1 key=${arg_k}1;
            mcds_counter $n2 key=${arg_k}2;
            mcds_counter $n3 key=${arg_k}3;
            mcds_counter $n4 key=${arg_k}4;
            mcds_counter $n5 key=${arg_k}5;
            mcds_counter $n6 key=${arg_k}6;
            mcds_counter $n7 key=${arg_k}7;
            mcds_counter $n8 key=${arg_k}8;
            mcds_counter $n9 key=${arg_k}9;
            mcds_return "$n0 $n1 $n2 $n3 $n4 $n5 $n6 $n7 $n8 $n9";
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } qw/ a b /;
my $clients = 64;
my @c = map { $hosts[$_ % 2]->conn() } 1 .. $clients;

for my $run (1 .. $t->size(1, 20)) {

    my (@wrong, %bad, $keys);

    for my $k (0 .. 99) {
        # every other time the workers find all requests in one turn

        my @stopped = $k % 2 ? @hosts : ();

        $_->freeze() for @stopped;
        $_->request("/?k=$run.key$k.") for @c;
        $_->cont() for @stopped;

        my @seen;

        for my $r (map { $_->response() } @c) {
            my @n = split / /, $r->body(), -1;
            $bad{$r->status()}++ if $r->status() != 200 || @n != 10;
            push @{$seen[$_]}, $n[$_] for 0 .. 9;
        }

        for my $i (0 .. 9) {
            my $numbers = join ' ', sort { $a <=> $b } @{$seen[$i]};
            my $value = $m->get("$run.key$k.$i") // 'nothing';

            push @wrong, "key$k.$i = $value, given: $numbers"
                if $value ne $clients
                || $numbers ne join(' ', 1 .. $clients);
            $keys++;
        }
    }

    is(join(' ', %bad), '', "run $run: all answered with ten numbers");
    is($keys, 1000, "run $run: a thousand keys");
    is(join("\n", @wrong), '', "run $run: each is exact");
}

$_->close() for @c;
$t->done();
