#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_writeback under "limit_rate": a batch whose answer has a long
# body is accepted, and is not sent again.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { body => 'x' x 200_000 });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    limit_rate 1k;
    mcds_zone 8m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_counter_writeback /save interval=100ms;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=$uri;
            mcds_return $n;
        }
        location = /save {
            mcds_cache on;
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my %sent;

for my $n (1 .. 3) {
    is($h->get("/$n")->status(), 200, "request $n is counted");
    ok($o->wait_requests($n, '/save'), "batch $n is sent");
}

$sent{$_->{headers}{'x-mcds-batch'}}++ for $o->requests('/save');

is(join(' ', values %sent), '1 1 1', 'each batch once');
is(join(' ', map { $_->{body} =~ /"\/?(\d)"/ } $o->requests('/save')), '1 2 3',
    'in their order');
is($h->log_count(qr/did not answer/), 0, 'each was answered');

$t->done();
