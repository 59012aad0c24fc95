#!/usr/bin/perl

# Copyright (C) mcds authors

# A worker that has seen a million requests of all kinds has the memory and the
# descriptors that it had before, and ten reloads leave nothing in the master
# (R03).  Counted is what is allocated and not freed, to the byte, and what the
# kernel sees.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Memory;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

$t->leave('sanitizers have allocations of their own') if $t->watched();

my $m = $t->memcached('m');

# the origin is an nginx, since it is asked for much; of what is large each
# answer has another length

my $o = $t->nginx('o', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { worker_connections 2048; }
http {
    %%HTTP%%
    keepalive_requests 1000000;
    map $msec $fraction { "~\.(\d+)$" $1; }
    server {
        listen 127.0.0.1:%%PORT%%;
        add_header Cache-Control max-age=1;
        location / { return 200 "page of $uri\n"; }
        location /large/ { alias %%TMP%%/large/; }
        location /vary { add_header Cache-Control max-age=1;
                         add_header Vary X-Kind; return 200 "$http_x_kind\n"; }
        location /never { add_header Cache-Control no-store; return 200 "x"; }
        location /error { return 503; }
        location /begin { return 200 7; }
        location /save { return 204; }
    }
}
EOT

mkdir $t->dir() . '/large';
chmod 0755, $t->dir() . '/large';
$t->write_file("large/$_", 'x' x (200_000 + 400_000 * $_)) for 0 .. 3;

my $h = $t->nginx('h', <<'EOT', memory => 1, spare => 1);
%%GLOBALS%%
worker_processes 1;
events { worker_connections 2048; }
http {
    %%HTTP%%
    access_log off;
    keepalive_requests 1000000;
    mcds_pool main {
        server  127.0.0.1:%%PORT_m%%;
        timeout 5s;
    }
    mcds_zone        2m;
    mcds_api_methods GET POST PUT DELETE;
    mcds_counter_top popular flush=200ms keys=20;
    log_format       line $uri;
    map              $msec $visitor { "~(\d\d)$" $1; }
    map              $msec $kind    { "~(\d)$" $1; }
    upstream o {
        server 127.0.0.1:%%PORT_o%%;
        keepalive 8;
        keepalive_timeout 100ms;
    }
    proxy_http_version 1.1;
    proxy_set_header   Connection "";
    proxy_buffers      16 32k;

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache_key $uri;

        location /count {
            mcds_counter $n key=n:$uri top=popular statuses=any;
            mcds_counter_durable $n on;
            mcds_counter $a key=a async;
            mcds_counter $b key=b:$uri;
            mcds_counter_init $b /begin;
            mcds_counter $c key=c;
            mcds_counter_buffer $c on;
            mcds_counter_writeback $c on;
            mcds_counter_writeback /save interval=200ms;
            mcds_visitor_counter $v visitor=$visitor window=2s slots=2
                                 interpolate=off;
            mcds_return  "$a $b $v";
        }
        location /begin { proxy_pass http://o; }
        location /save  { proxy_pass http://o; }
        location /page {
            mcds_counter   $n key=p:$uri;
            mcds_cache     on;
            mcds_cache_tag $kind;
            mcds_log       log line chunk=1s chunks=5;
            proxy_pass     http://o;
        }
        location /local { mcds_cache on; mcds_cache_local validated;
                          proxy_pass http://o; }
        location /compressed { mcds_cache on; proxy_pass http://o;
                          mcds_cache_compress gzip min_length=1 types=*; }
        location /vary  { mcds_cache on; proxy_set_header X-Kind $kind;
                          proxy_pass http://o; }
        location /large/ { mcds_cache on; proxy_pass http://o; }
        location /miss  { mcds_cache on; mcds_cache_key $request_id;
                          proxy_pass http://o; }
        location /never { mcds_cache on; proxy_pass http://o; }
        location /error { mcds_cache on; proxy_pass http://o; }
        location /purge { mcds_purge_api on mode=delete; }

        location /array { mcds_array_api array max=30; }
        location /push  { mcds_array_push pushed $uri max=30;
                          return 204; }
        location /table/ { mcds_table_api table ttl=1s; }
        location /look  { mcds_table_lookup $x table $uri none remember=10ms;
                          mcds_return "$x"; }
        location /lock  { mcds_lock lock:$kind wait=1s; mcds_return "x"; }
        location /locks/ { mcds_lock_api ttl=2s; }
        location /numbers { mcds_counter_api prefix=numbers: count=on; }
        location /lines  { mcds_log_api log chunk=1s chunks=5; }
        location /status { mcds_status; }
    }
}
EOT

my ($worker) = $h->workers();
my $memory = Test::Mcds::Memory->of($h, $worker);

# each with its part of the requests

my @mix = (
    [60, uris => [map { "/page$_" } 1 .. 20], abort => 2],
    [40, uris => [map { "/count$_" } 1 .. 5], abort => 1],
    [20, uris => [qw{ /local1 /local2 /compressed1 /vary1 /vary2 /never }]],
    [10, uris => [qw{ /miss /error /push /lock }]],
    [5, uris => [map { "/large/$_" } 0 .. 3], abort => 20],
    [5, uris => [qw{ /look1 /look2 /status /lines?limit=5 /array /table/
                     /numbers?key=a&key=b }]],
    [2, uris => [map { "/purge?key=/page$_&tag=$_" } 1 .. 9]],
    [2, uris => ['/array'], method => 'POST', body => '[1, "two", {"a": 3}]'],
    [2, uris => ['/table/'], method => 'POST', body => '{"/look1": "1"}'],
    [1, uris => ['/locks/a?owner=me'], method => 'PUT', body => '{}'],
    [2, uris => ['/numbers?key=a'], method => 'POST', body => '{}'],
);

my $parts = 0;
$parts += $_->[0] for @mix;

sub mixed {
    my ($total) = @_;
    my $done = 0;

    my @load = map {
        my ($part, %o) = @$_;
        $t->load(port => $h, clients => 8, background => 1, %o,
            requests => int($total * $part / $parts));
    } @mix;

    for my $load (@load) {
        my $r = $load->wait();
        $done += $r->{requests};
    }

    return $done;
}


# until all that is kept has been seen: 4096 pages among it

$t->load(port => $h, uri => '/miss', requests => 6000, clients => 8);
mixed($t->size(5_000, 100_000));
settle();

my $fds = $h->fds($worker);
my @was = (seen());
my $total = $t->size(12_000, 1_000_000);
my $requests = 0;
my $parts_of = $t->size(2, 10);

for (1 .. $parts_of) {
    $requests += mixed($total / $parts_of);
    settle();
    push @was, seen();
}

my $growth = $was[-1]{bytes} - $was[0]{bytes};

note(sprintf '%d requests: %+d blocks, %+d bytes, seen by the kernel %s KB',
    $requests, $was[-1]{blocks} - $was[0]{blocks}, $growth,
    join ', ', map { $_->{rss} } @was);

cmp_ok($requests, '>', 0.99 * $total, 'requests of all kinds');
cmp_ok($growth, '<', $t->size(8 * $requests, $requests),
    'no more than buffers that come and go');
is(($h->workers())[0], $worker, 'in one worker');
cmp_ok($h->fds($worker), '<=', $fds, 'no descriptor stays');

cmp_ok($was[-1]{rss} - $was[1]{rss}, '<', $requests / 1024,
    'nor does the worker grow') if $t->full();


# reloads, each with some requests

my $master = Test::Mcds::Memory->of($h, $h->pid());
my (@master, @rss);

for (0 .. 10) {
    $h->reload(wait_old => 1);
    mixed(300);
    $h->reload(wait_old => 1) if $_ == 0;
    push @master, $master->now()->{bytes};
    $master->trim();
    push @rss, rss($h->pid());
}

# but what nginx itself forgets, of regular expressions: 72 bytes each time

cmp_ok($master[-1], '<=', $master[0] + 10 * 88,
    'ten reloads leave nothing in the master') or diag("@master");

SKIP: {
    skip 'the one process has the requests, too', 1 if $t->mode() eq 'single';

    # pages of the program that it touches late count once

    my ($most) = sort { $b <=> $a } @rss[0 .. 5];

    cmp_ok($rss[-1], '<=', $most, 'nor does it grow') or diag("@rss");
}

$t->done();


# nothing goes on any more: what is open to the origin, too, is closed, and what
# was kept for the next values is freed, within a second

sub settle {
    my ($bytes, $since) = (-1, 0);

    wait_for(sub { !$h->count_fds($worker)->{tcp}{$o->port()} }, 10);

    wait_for(sub {
        my $now = $memory->now()->{bytes};

        $since = time if $bytes - $now > 1024 || $bytes < 0;
        $bytes = $now;

        return time - $since > 1.5;
    }, 20);

    $memory->quiet();
}


# the least that there is within some time, since buffers come and go

sub seen {
    my ($least) = $memory->now();

    for (1 .. 40) {
        my $now = $memory->now();

        $least = $now if $now->{bytes} < $least->{bytes};
        sleep 0.01;
    }

    $memory->trim();
    $h->get('/status');

    return { %$least, rss => rss($worker) };
}


# kilobytes that are nobody else's

sub rss {
    my ($pid) = @_;
    my ($kb) = $t->run('cat', "/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m;
    return $kb;
}
