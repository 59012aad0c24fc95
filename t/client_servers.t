#!/usr/bin/perl

# Copyright (C) mcds authors

# A key lies on the server where libmemcached puts it: what a program stores
# through libmemcached is found and counted on by nginx.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->needs('cc');

# store <pool> <number of keys> <port or port=weight> ...

my $source = $t->write_file('store.c', <<'EOT');
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
main(int argc, char **argv)
{
    int            i, n;
    char           key[64], value[64], *p;
    memcached_st  *mc;

    if (strncmp(argv[3], "--", 2) == 0) {
        mc = memcached(argv[3], strlen(argv[3]));

    } else {
        mc = memcached_create(NULL);
    }

    if (strncmp(argv[1], "ketama", 6) == 0) {
        memcached_behavior_set(mc, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
    }

    if (strncmp(argv[1], "crc", 3) == 0) {
        memcached_behavior_set(mc, MEMCACHED_BEHAVIOR_HASH,
                               MEMCACHED_HASH_CRC);
    }

    if (strcmp(argv[1], "prefix") == 0) {
        memcached_callback_set(mc, MEMCACHED_CALLBACK_NAMESPACE, "site:");
    }

    for (i = 3; i < argc && argv[i][0] != '-'; i++) {
        p = strchr(argv[i], '=');
        memcached_server_add_with_weight(mc, "127.0.0.1", atoi(argv[i]),
                                         p ? atoi(p + 1) : 1);
    }

    for (n = 0; n < atoi(argv[2]); n++) {
        sprintf(key, "%s/%d", argv[1], n * 7919);
        sprintf(value, "%d", 1000000 + n);

        if (memcached_set(mc, key, strlen(key), value, strlen(value), 0, 0)
            != MEMCACHED_SUCCESS)
        {
            printf("%s: %s\n", key, memcached_last_error_message(mc));
            return 1;
        }
    }

    memcached_free(mc);

    return 0;
}
EOT

my $program = $t->dir() . '/store';
my $output = $t->run('cc', '-o', $program, $source, '-lmemcached');

is($output, '', 'the program is compiled');

my @m = map { $t->memcached("m$_") } 1 .. 3;
my @ports = map { $_->port() } @m;

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool modula {
        timeout 5s;
        server 127.0.0.1:%%PORT_m1%%;
        server 127.0.0.1:%%PORT_m2%%;
        server 127.0.0.1:%%PORT_m3%%;
        distribution modula;
    }
    mcds_pool crc {
        timeout 5s;
        server 127.0.0.1:%%PORT_m1%%;
        server 127.0.0.1:%%PORT_m2%%;
        server 127.0.0.1:%%PORT_m3%%;
        distribution modula_crc;
    }
    mcds_pool ketama {
        timeout 5s;
        distribution ketama;
        server 127.0.0.1:%%PORT_m1%%;
        server 127.0.0.1:%%PORT_m2%%;
        server 127.0.0.1:%%PORT_m3%%;
    }
    mcds_pool ketama-weight {
        timeout 5s;
        server 127.0.0.1:%%PORT_m1%%;
        server 127.0.0.1:%%PORT_m2%% weight=2;
        server 127.0.0.1:%%PORT_m3%% weight=4;
        distribution ketama;
    }
    mcds_pool prefix {
        timeout 5s;
        server 127.0.0.1:%%PORT_m1%%;
        server 127.0.0.1:%%PORT_m2%%;
        server 127.0.0.1:%%PORT_m3%%;
        distribution modula;
        prefix site:;
    }
    mcds_pool string {
        timeout 5s;
        libmemcached "--SERVER=127.0.0.1:%%PORT_m2%%
 --SERVER=127.0.0.1:%%PORT_m3%%/?5 --SERVER=127.0.0.1:%%PORT_m1%%";
    }
    mcds_pool consistent {
        timeout 5s;
        libmemcached "--HASH=MD5 --DISTRIBUTION=consistent
 --SERVER=127.0.0.1:%%PORT_m1%% --SERVER=127.0.0.1:%%PORT_m2%%/?3
 --SERVER=127.0.0.1:%%PORT_m3%%";
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        keepalive_requests 100000;
        location /modula/ {
            mcds_use modula;
            mcds_counter $n key=modula/$arg_k;
            mcds_return $n;
        }
        location /crc/ {
            mcds_use crc;
            mcds_counter $n key=crc/$arg_k;
            mcds_return $n;
        }
        location /ketama/ {
            mcds_use ketama;
            mcds_counter $n key=ketama/$arg_k;
            mcds_return $n;
        }
        location /ketama-weight/ {
            mcds_use ketama-weight;
            mcds_counter $n key=ketama-weight/$arg_k;
            mcds_return $n;
        }
        location /prefix/ {
            mcds_use prefix;
            mcds_counter $n key=prefix/$arg_k;
            mcds_return $n;
        }
        location /string/ {
            mcds_use string;
            mcds_counter $n key=string/$arg_k;
            mcds_return $n;
        }
        location /consistent/ {
            mcds_use consistent;
            mcds_counter $n key=consistent/$arg_k;
            mcds_return $n;
        }
    }
}
EOT

my %servers = map { $_ => [@ports] } qw/ modula crc ketama prefix /;

$servers{'ketama-weight'} = [$ports[0], "$ports[1]=2", "$ports[2]=4"];
$servers{string} = ["--SERVER=127.0.0.1:$ports[1] "
    . "--SERVER=127.0.0.1:$ports[2]/?5 --SERVER=127.0.0.1:$ports[0]"];
$servers{consistent} = ['--HASH=MD5 --DISTRIBUTION=consistent '
    . "--SERVER=127.0.0.1:$ports[0] --SERVER=127.0.0.1:$ports[1]/?3 "
    . "--SERVER=127.0.0.1:$ports[2]"];

my $n = $t->size(150, 5000);

for my $pool (sort keys %servers) {
    $_->flush() for @m;

    is($t->run($program, $pool, $n, @{$servers{$pool}}), '',
        "$pool: a program stores");

    my @items = map { $_->stats()->{curr_items} } @m;
    my $c = $h->conn();
    my $wrong = 0;

    for my $i (0 .. $n - 1) {
        my $k = $i * 7919;
        $wrong++ if $c->get("/$pool/?k=$k")->body ne 1000001 + $i;
    }

    $c->close();

    is($wrong, 0, "$pool: nginx finds all of @items");
    is(scalar(grep { $_ > $n / 50 } @items), 3, "$pool: on three servers");
}


# a server that is gone takes its keys along, others stay where they are

my $gone = $m[1];
my @keys = map { "modula/$_" } 1 .. 60;
my %at;

$_->flush() for @m;
$h->get("/modula/?k=$_") for 1 .. 60;

for my $m (@m) {
    $at{$_} = $m for grep { m{^modula/} } $m->keys();
}

is(scalar keys %at, 60, 'each key is on one server');

$t->allow(qr/is down after 3 failures/);
$gone->kill9();

my ($without, $moved) = (0, 0);

for my $key (@keys) {
    my $body = $h->get("/modula/?k=" . $key =~ s{.*/}{}r)->body;

    if ($at{$key} == $gone) {
        $without++ if $body eq '';

    } else {
        $moved++ if $body ne '2';
    }
}

is($without, scalar(grep { $_ == $gone } values %at),
    'those of the lost server have no number');
is($moved, 0, 'the others count on');

$t->done();
