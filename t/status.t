#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_status tells what memcached's own statistics tell: operations by kind,
# hits, connections, bytes; of two workers and two pools.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'x' x 50000 });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool "quo\"te" {
        server 127.0.0.1:%%PORT_no%% down;
        server 127.0.0.1:%%PORT_no2%%;
        distribution modula;
    }
    mcds_use main;

    # has processes of its own, that are no workers
    proxy_cache_path %%TMP%%/cache keys_zone=c:1m;

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / {
            mcds_counter $n key=n:$uri;
            mcds_return "$n";
        }
        location /page {
            mcds_cache on;
            mcds_cache_key $uri;
            add_header X-Cache $mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /status { mcds_status; }
        location = /sub { ssi on; ssi_types *; default_type text/html;
            alias %%TMP%%/sub.html; }
    }
}
EOT

$t->write_file('sub.html', '<!--#include virtual="/status" -->');

# what a fresh one says

my $all = status($h);

is($all->{nginx}, $t->nginx_version() =~ s/^(\d+)(\d\d\d)(\d\d\d)$/
    join '.', map { $_ + 0 } $1, $2, $3/er, 'version of nginx');
like($all->{version}, qr/^\d+\.\d+\.\d+$/, 'and of mcds');
is($all->{workers}, $t->workers(2), 'workers');
is($all->{generation}, 1, 'generation');
cmp_ok(abs($all->{time} - time()), '<', 3 * $t->slow(), 'the time');
cmp_ok(abs($all->{since} - time()), '<', 60, 'the start');
ok((grep { $_ == $all->{pid} } $h->workers()), 'the pid of a worker');
is(join(' ', map { $_->{name} } @{$all->{pools}}), 'main quo"te', 'pools');
is(join(' ', map { $_->{breaker}{state} } @{$all->{pools}[1]{servers}}),
    'disabled closed', 'one is marked down');
is(sum_of(server($h, 'main')->{operations}), 0, 'nothing so far');

# work; memcached counts the bytes of each question for its statistics, too

my $before = $m->stats();
my $asked = 0;

many(60, sub { [$h->port(), '/' . $_[0] % 10] }, concurrency => 8);
$h->get("/page$_") for 1 .. 5;
ok(wait_for(sub {
    5 == grep { $h->get("/page$_")->header('X-Cache') eq 'HIT' } 1 .. 5;
}), 'pages are cached');
many(40, sub { [$h->port(), '/page' . (1 + $_[0] % 5)] }, concurrency => 8);

my $after;
my $s = settled($h, 'main', 0, sub {
    my ($s) = @_;

    $after = $m->stats();
    $after->{bytes_read} -= ++$asked * length "stats\r\n";

    return $s->{pending} == 0
        && $s->{bytes}{sent} == change('bytes_read');
});

my $ops = $s->{operations};

is($ops->{get}, change('cmd_get'), "get: $ops->{get}");
is($s->{hits}, change('get_hits'), "hits: $s->{hits}");
is($s->{misses}, change('get_misses'), "misses: $s->{misses}");
is($ops->{add} + $ops->{set}, change('cmd_set'), 'add and set');
is($ops->{incr}, change('incr_hits') + 10, "incr: $ops->{incr}");
is($ops->{delete}, change('delete_hits') + change('delete_misses'), 'delete');
is($s->{bytes}{sent}, change('bytes_read'), "bytes sent: $s->{bytes}{sent}");
cmp_ok($s->{bytes}{received}, '<', change('bytes_written'), 'bytes received');
cmp_ok($s->{bytes}{received}, '>', 40 * 50000, 'pages among them');
is($s->{connections}{opened}, change('total_connections'), 'connections');
is($s->{connections}{open}, $m->connections(), 'all are open');
is(sum_of($s->{connections}{lost}), 0, 'none was lost');

# what belongs together

is(sum_of($s->{errors}), 0, 'no errors');
is(sum_of($s->{answers}), sum_of($ops), 'each operation has its answer');
is($s->{latency}{count}, sum_of($ops), 'and its time');
cmp_ok($s->{latency}{sum_us}, '>', 20 * $s->{latency}{count}, 'of some time');
is($s->{latency}{le_us}{1000000}, $s->{latency}{count}, 'below a second');

my @le = map { $s->{latency}{le_us}{$_} }
    sort { $a <=> $b } keys %{$s->{latency}{le_us}};

is("@le", join(' ', sort { $a <=> $b } @le), 'buckets add up');
is($le[0] <= $s->{latency}{count}, 1, 'to no more than there are');
is($s->{breaker}{state} . $s->{breaker}{open_workers}, 'closed0', 'breaker');
ok(!defined $s->{breaker}{open_since}, 'is closed');
ok(exists $s->{breaker}{next_probe} && !defined $s->{breaker}{next_probe},
    'not tried again');

# as an answer

my $res = $h->get('/status', version => '1.0');
is($res->header('Content-Type'), 'application/json', 'its type');
is($res->header('Cache-Control'), 'no-store', 'is not to be stored');
is($res->header('Content-Length'), length $res->body(), 'its length');

my $head = http_head($h->port(), '/status');
is($head->status() . $head->body(), '200', 'HEAD');
is($head->header('Content-Type'), 'application/json', 'with its type');
is(http_post($h->port(), '/status', 'x')->status(), 405, 'not POST');
like($h->get('/sub')->body(), qr/\A\{"version".*\}\n\z/s, 'as a subrequest');

# mistakes

for (['mcds_status on;', qr/invalid parameter "on" in "mcds_status"/],
    ['mcds_status format=xml;',
        qr/invalid value "format=xml" in "mcds_status", it must be "auto", /],
    ['mcds_cache_label "";', qr/invalid name "" in "mcds_cache_label"/],
    ['mcds_cache_label a; mcds_cache_label b;',
        qr/"mcds_cache_label" directive is duplicate/],
    ['mcds_status; mcds_status;', qr/"mcds_status" directive is duplicate/])
{
    my ($text, $message) = @$_;
    my $error = $t->conf_error(location => $text);

    like($error, $message, $text);
    like($error, qr/nginx.conf:\d+/, 'with its place');
}

is($t->conf_error(location => 'mcds_status;'), '', 'without pools');

$t->done();


sub change {
    my ($name) = @_;
    return $after->{$name} - $before->{$name};
}
