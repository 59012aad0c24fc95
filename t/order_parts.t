#!/usr/bin/perl

# Copyright (C) mcds authors

# What mcds adds to nginx where only a part of it is used: handlers of phases,
# filters of headers and of bodies, from the top on.  t/order.t has all of them,
# between those of nginx.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Dump qw/ dump_module /;
use Test::Mcds::Order qw/ order /;

my $t = Test::Mcds->new();
$t->needs('mcds large');
$t->needs('readelf');
my $so = dump_module($t, 'order');

my $m = $t->memcached('m');
my $n = 0;

# what there is always, and wherever anything of mcds is in use

my %always = (
    header => 'header_filter init_header_filter invalidate_header_filter '
        . 'coding_header_filter',
    body => 'body_filter init_body_filter invalidate_body_filter',
);

my %used = (%always, precontent => 'start_handler decide_handler');

for (
    ['nothing', '', %always],
    ['the cache', 'mcds_cache on;', %used],
    ['a counter', 'mcds_counter $n key=n;', %used],
    ['a counter of responses', 'mcds_counter $n key=n statuses=200;', %used,
        log => 'counting_log'],
    ['a counter with a first number',
        'mcds_counter $n key=n; mcds_counter_init $n /n;', %used],
    ['a lock', 'mcds_lock key;', %used,
        precontent => "lock_handler $used{precontent}"],
    ['a log', 'mcds_log live combined;', %used, log => 'log_handler'],
    ['an array', 'mcds_array_push a $uri;', %used, log => 'push_handler'],
    ['a table', 'mcds_table_lookup $n t k;', %used,
        'server rewrite' => 'get_early_handler',
        rewrite => 'get_early_handler'],
    ['a table, late', 'mcds_table_lookup $n t k phase=preaccess;', %used,
        preaccess => 'get_late_handler'],
    ['an API', 'mcds_counter_api prefix=n:;', %used],
    ['numbers', 'mcds_status;', %always],
) {
    my ($name, $location, %expected) = @$_;

    my $h = $t->nginx('h' . $n++, <<"EOT");
%%GLOBALS%%
load_module $so;
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { $location }
    }
}
EOT

    my $order = order($t, $h);
    my %added;

    for my $what (grep { !/variables|indexes|modules/ } keys %$order) {
        my @ours = map { /^ngx_http_mcds_(.*)/ } @{$order->{$what}};
        $added{$what} = "@ours" if @ours;
    }

    is_deeply(\%added, \%expected, "order: $name") or diag(explain(\%added));

    $h->stop();
}

$t->done();
