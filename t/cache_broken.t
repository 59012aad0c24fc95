#!/usr/bin/perl

# Copyright (C) mcds authors

# An answer that the origin did not end properly is never stored, and the lock
# is free at once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $size = 100_000;
my @cuts = (0, 1, 4095, 32_768, 65_536, $size - 1);
my %ways;

# in front of the cut: a length that is longer, chunks without the last one,
# and a reset instead of an end; then FastCGI without its last record

for my $cut (@cuts) {
    $ways{"/length/$cut"} = { truncate => $cut };
    $ways{"/chunked/$cut"} = { chunked => 1, truncate => $cut };
    $ways{"/reset/$cut"} = { abort => 100 + $cut };
}

$ways{'/chunk'} = { raw => "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
    . "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n" };
$ways{'/head'} = { raw => "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n" };
$ways{'/silent'} = { raw => "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
    . "Content-Length: 10\r\n\r\nhello" };

my $long = { headers => ['Cache-Control' => 'max-age=60'],
             body => 'x' x $size };

my $m = $t->memcached('m');
my $o = $t->origin('o', $long, paths => {
    map { ($_ => $ways{$_}, "/direct$_" => $ways{$_}) } keys %ways
});
my $f = $t->origin('f', $long, fastcgi => 1, paths => {
    map { ("/fast/$_" => { truncate => $_ },
        "/fast/direct/$_" => { truncate => $_ }) } @cuts[1 .. $#cuts]
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_valid any 1m;
    mcds_cache_error_backoff off;
    proxy_http_version 1.1;
    proxy_read_timeout 2s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /direct/ {
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fast/ {
            fastcgi_pass 127.0.0.1:%%PORT_f%%;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
        }
        location /fast/direct/ {
            fastcgi_buffering off;
            fastcgi_pass 127.0.0.1:%%PORT_f%%;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
        }
    }
}
EOT

my @uris = ((map { ($_, "/direct$_") } sort keys %ways),
    map { ("/fast/$_", "/fast/direct/$_") } @cuts[1 .. $#cuts]);

for my $uri (@uris) {
    my $r = $h->get($uri);

    # nginx shows a FastCGI answer without its end as a good one

    ok(!$r->complete() || $r->status() >= 500, "$uri: seen to be broken")
        if $uri !~ /fast/;
    ok(wait_for(sub { !defined $m->get(key($uri) . ':lock') }),
        "$uri: unlocked");
    isnt((page_decode($m->get(key($uri))) // { kind => 'nothing' })->{kind},
        0, "$uri: not stored");
}

# and the same ones when they are whole

for my $uri (@uris) {
    $_->set($uri, $long) for $o, $f;
    $_->set($uri, { %$long, abort => undef, truncate => undef, raw => undef })
        for $o, $f;

    $h->get($uri);
    page_wait($m, key($uri));
    my $r = $h->get($uri);

    is($r->header('X-Cache') . length $r->body(), "HIT$size",
        "$uri: stored when it is whole");
}

# over an old page, which stays

$h->get('/old');
page_expire($m, key('/old'), 61000);
my $old = $m->get(key('/old'));
$o->set('/old', { truncate => 50_000 });
ok(!$h->get('/old')->complete(), 'old page: a broken rebuild');
ok($m->get(key('/old')) eq $old, 'old page: stays');

$t->done();
