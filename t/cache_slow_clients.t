#!/usr/bin/perl

# Copyright (C) mcds authors

# H01: clients that read a page of 1 MiB byte by byte hold no connection to
# memcached and no more memory than their bodies; where the host keeps copies,
# where a page lies in parts and where it is decompressed, far less.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Slow;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');
$t->needs('mcds large');

my $n = $t->size(20, 1000);
my $size = 1024 * 1024;
my $item = 990_000;                             # memcached takes it as a whole

my $m = $t->memcached('m', memory => 256);

my $text = substr join('', map { "line $_ of a page\n" } 1 .. 60_000), 0,
    $size;

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $n = $q->{path} =~ /parts/ ? $size : $item;
    return { headers => ['Cache-Control' => 'max-age=600', 'Content-Type' =>
        'text/plain'], body => substr $text, 0, $n };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_zone 16m;
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=16k;
        send_timeout 1h;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /local/ {
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /gzip/ {
            mcds_cache_compress gzip;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub rss {
    my ($pid) = $h->workers();
    open my $fh, '<', "/proc/$pid/statm" or die "statm: $!\n";
    return (split ' ', <$fh>)[1] * 4096;
}

# the most that a client may need, as a part of its body

my @ways = (['/page', 1.1], ['/parts', 0.3], ['/local/page', 0.3],
    ['/gzip/page', 0.3]);

for (@ways) {
    my ($uri, $most) = @$_;
    my $body = substr $text, 0, $uri =~ /parts/ ? $size : $item;

    $h->get($uri);
    my $e = page_decode(page_wait($m, $uri)) // die "no page $uri\n";
    is($e->{parts} ? 'parts' : 'whole', $uri =~ /parts/ ? 'parts' : 'whole',
        "$uri: as meant");
    is($h->get($uri)->header('X-Cache'), 'HIT', "$uri: a hit");

    my $before = rss();
    my $opened = $m->stats()->{total_connections};
    my @slow = map { slow($h->port(), $uri) } 1 .. $n;
    my $used = rss() - $before;

    # two: one of them for large values

    cmp_ok($m->connections(), '<=', 2, "$uri: no connection is held");
    ok($h->get($uri)->body eq $body, "$uri: others get the page meanwhile");
    cmp_ok($m->stats()->{total_connections} - $opened, '<=', 3,
        "$uri: nor were more made");

    SKIP: {
        skip 'sanitizers have a use for memory themselves', 1
            if $t->watched();
        cmp_ok($used, '<=', $most * $n * $size, "$uri: memory");
    }

    # a byte each, then some go, and some want all of it

    for my $slow (@slow) {
        sysread $slow->[0], $slow->[1], 1, length $slow->[1];
    }

    close $_->[0] for splice @slow, 4;
    is(scalar(grep { rest($_) eq $body } @slow), 4, "$uri: the whole page");
}

$t->done();
