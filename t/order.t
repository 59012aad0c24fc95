#!/usr/bin/perl

# Copyright (C) mcds authors

# The order in which nginx runs what the modules of mcds add to it: handlers of
# phases, filters of headers and of bodies; and in which they add variables.
# It depends on the order of the modules in config, on what each of them does
# when the configuration has been read, and on whether they are built in.  The
# module t/lib/order.c tells it; prove -v shows it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Dump qw/ dump_module /;
use Test::Mcds::Order qw/ order /;

my $t = Test::Mcds->new();
$t->needs('readelf');
my $so = dump_module($t, 'order');

my $m = $t->memcached('m');

my $h = $t->nginx('h', "%%GLOBALS%%\nload_module $so;\n" . <<'EOT');
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_zone 8m;
    mcds_counter_top popular size=10 window=1d prefix=views:;
    log_format live '$remote_addr $request';
    map $mcds_cache_status $mapped { HIT 1; default 0; }
    userid on;
    gzip on;
    charset utf-8;
    mcds_log live live;
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_table_lookup $early switches $host unset;
        location / {
            mcds_cache on;
            mcds_counter $views key=views:$uri top=popular;
            mcds_counter_init $views /views;
            mcds_counter $errors key=errors statuses=5xx;
            mcds_visitor_counter $online key=online window=5m;
            mcds_array_push searches $arg_q;
            mcds_table_lookup $late own $host none phase=preaccess;
            ssi on;
            sub_filter a b;
            sub_filter_once off;
            add_header X-Cache "$mcds_cache_status $mapped $views $online";
            try_files $uri @app;
        }
        location @app { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /locked {
            mcds_lock $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /views { internal; return 200 100; }
        location /status { mcds_status; }
        location /purge { mcds_purge_api method=PURGE; }
        location /counters { mcds_counter_api top=popular; }
    }
}
EOT

my $order = order($t, $h);


# the names of handlers and filters of mcds are those of functions, the others
# those of modules of nginx, of which some may be missing, and there may be more

my %expected = (
    'post read' => [qw/
        ngx_http_realip_module
    /],
    'server rewrite' => [qw/
        ngx_http_mcds_get_early_handler
        ngx_http_rewrite_module
    /],
    rewrite => [qw/
        ngx_http_mcds_get_early_handler
        ngx_http_rewrite_module
    /],
    preaccess => [qw/
        ngx_http_mcds_get_late_handler
        ngx_http_realip_module
        ngx_http_limit_req_module
        ngx_http_limit_conn_module
    /],
    access => [qw/
        ngx_http_access_module
        ngx_http_auth_basic_module
        ngx_http_auth_request_module
    /],
    precontent => [qw/
        ngx_http_mcds_lock_handler
        ngx_http_mcds_start_handler
        ngx_http_try_files_module
        ngx_http_mirror_module
        ngx_http_mcds_decide_handler
    /],
    content => [qw/
        ngx_http_random_index_module
        ngx_http_index_module
        ngx_http_autoindex_module
        ngx_http_dav_module
        ngx_http_gzip_static_module
        ngx_http_static_module
    /],
    log => [qw/
        ngx_http_log_module
        ngx_http_mcds_counting_log
        ngx_http_mcds_push_handler
        ngx_http_mcds_log_handler
    /],
    header => [qw/
        ngx_http_slice_filter_module
        ngx_http_not_modified_filter_module
        ngx_http_mcds_header_filter
        ngx_http_mcds_init_header_filter
        ngx_http_mcds_invalidate_header_filter
        ngx_http_headers_filter_module
        ngx_http_userid_filter_module
        ngx_http_gunzip_filter_module
        ngx_http_addition_filter_module
        ngx_http_sub_filter_module
        ngx_http_charset_filter_module
        ngx_http_ssi_filter_module
        ngx_http_mcds_coding_header_filter
        ngx_http_gzip_filter_module
        ngx_http_range_header_filter_module
        ngx_http_v3_filter_module
        ngx_http_v2_filter_module
        ngx_http_chunked_filter_module
        ngx_http_header_filter_module
    /],
    body => [qw/
        ngx_http_slice_filter_module
        ngx_http_range_body_filter_module
        ngx_http_copy_filter_module
        ngx_http_mcds_body_filter
        ngx_http_mcds_init_body_filter
        ngx_http_mcds_invalidate_body_filter
        ngx_http_headers_filter_module
        ngx_http_gunzip_filter_module
        ngx_http_addition_filter_module
        ngx_http_sub_filter_module
        ngx_http_charset_filter_module
        ngx_http_ssi_filter_module
        ngx_http_postpone_filter_module
        ngx_http_gzip_filter_module
        ngx_http_v3_filter_module
        ngx_http_chunked_filter_module
        ngx_http_write_filter_module
    /],
    variables => [qw/
        mcds_cache_key
        mcds_cache_status
        mcds_cache_reason
        mcds_cache_age
        mcds_cache_ttl
        mcds_cache_lock_wait
        mcds_lock_status
        mcds_lock_token
        mcds_lock_wait
        mcds_top_popular
        mapped
        early
        views
        errors
        online
        late
    /],
    indexes => [qw/
        mcds_cache_status
        early
        late
        mapped
        views
        online
    /],
    modules => [qw/
        ngx_http_range_header_filter_module
        ngx_http_gzip_filter_module
        ngx_http_mcds_coding_filter_module
        ngx_http_postpone_filter_module
        ngx_http_headers_filter_module
        ngx_http_mcds_module
        ngx_http_mcds_counter_module
        ngx_http_mcds_cache_module
        ngx_http_mcds_status_module
        ngx_http_mcds_data_module
        ngx_http_mcds_lock_module
        ngx_http_mcds_log_module
        ngx_http_mcds_top_module
        ngx_http_mcds_writeback_module
        ngx_http_mcds_filter_module
        ngx_http_copy_filter_module
    /],
);

for my $what (sort keys %expected) {
    my $list = $order->{$what} // [];
    my %there = map { $_ => 1 } @$list;
    my %known = map { $_ => 1 } @{$expected{$what}};
    my @ours = grep { $known{$_} || /mcds/ } @$list;

    note("$what:\n", map { "    $_\n" }
        $what =~ /variables|indexes|modules/ ? @ours : @$list);

    is_deeply(\@ours,
        [grep { $there{$_} || !/^ngx_http_(?!mcds)/ } @{$expected{$what}}],
        "order: $what");
}

$t->done();
