#!/usr/bin/perl

# Copyright (C) mcds authors

# A page that is sent a few buffers at a time, with a postpone_output that is
# larger than these buffers: the client gets the whole page, also if nginx
# compresses it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

use IO::Uncompress::Gunzip qw/ gunzip /;

my $t = Test::Mcds->new();
$t->needs('mcds large', 'mcds compress');

my $m = $t->memcached('m', memory => 128);

$t->seed(1);

my %text = (
    packed => join('', map { "line $_ of a page\n" } 1 .. 50_000),
    parts => join('', map { chr 38 + rand 80 } 1 .. 6_000_000),
);

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=60', 'Content-Type' =>
        'text/html'], body => $text{$q->{path} =~ s{/}{}r} };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_max_size 16m;
    server {
        listen 127.0.0.1:%%PORT%%;
        gzip on;
        gzip_proxied any;
        gzip_http_version 1.0;
        location /packed {
            gzip off;
            postpone_output 128k;
            mcds_cache_compress gzip;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /parts {
            postpone_output 32m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $name (sort keys %text) {
    $h->get("/$name");
    my $e = page_decode(page_wait($m, "/$name"));
    ok($name eq 'packed' ? $e->{coding} : $e->{parts}, "$name: is stored");

    my $r = $h->get("/$name", timeout => 10);
    is($r->header('X-Cache'), 'HIT', "$name: a hit");
    ok($r->complete && $r->body eq $text{$name}, "$name: whole");

    $r = $h->get("/$name", timeout => 10, headers => { Range => 'bytes=5-' });
    ok($r->complete && $r->body eq ($r->status() == 206
        ? substr $text{$name}, 5 : $text{$name}), "$name: a range");
}

# nginx compresses the page in parts: each part does not end the compression

my $r = $h->get('/parts', timeout => 10, headers => { 'Accept-Encoding' =>
    'gzip' });
gunzip(\$r->body, \my $body);
is($r->header('Content-Encoding'), 'gzip', 'compressed by nginx');
ok($r->complete && $body eq $text{parts}, 'compressed by nginx: whole');

$t->done();
