#!/usr/bin/perl

# Copyright (C) mcds authors

# The number of a lock's owner in a pool with replicas: it is larger than all
# earlier ones also if one server returns empty, and the other one dies then.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my @m = map { $t->memcached("m$_") } 0 .. 1;

my $pool = <<'EOT';
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution ketama;
        replicas     2;
        timeout      1s;
        fail_timeout 300ms;
EOT

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool meta {
$pool
    }
    mcds_pool classic {
$pool
        protocol     classic;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /meta {
            mcds_use  meta;
            mcds_lock \$uri ttl=5s wait=5s;
            mcds_return \$mcds_lock_token;
        }
        location /classic {
            mcds_use  classic;
            mcds_lock \$uri ttl=5s wait=5s;
            mcds_return \$mcds_lock_token;
        }
    }
}
EOT

sub number { return $h->get($_[0])->body() =~ /^(\d+)$/ ? $1 : 0 }

my @ways = qw{ /meta /classic };
my %first = map { $_ => number($_) } @ways;

for my $way (@ways) {
    is(number($way), $first{$way} + 1, "$way: both servers count");
    is($_->get("$way:fence"), $first{$way} + 1, "$way: each has the number")
        for @m;
}

$m[0]->flush();

my %anew = map { $_ => number($_) } @ways;

for my $way (@ways) {
    cmp_ok($anew{$way}, '>', $first{$way} + 1,
        "$way: one returns empty, and starts from the time");
    ok(wait_for(sub { ($m[1]->get("$way:fence") // 0) >= $anew{$way} }),
        "$way: the other one gets this number");
}

$m[0]->stop();

for my $way (@ways) {
    my $last = 0;
    ok(wait_for(sub { $last = number($way) }), "$way: a server has died");
    cmp_ok($last, '>', $anew{$way}, "$way: the number is larger");
}

$t->done();
