#!/usr/bin/perl

# Copyright (C) mcds authors

# The rates of nginx hold also for the client whose request builds a page that
# is compressed, and for builds that have no client; who waits for the page does
# not wait for that client, and other requests do not wait for the compression.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');
my $text = join '', map { "line $_ of a page\n" } 1 .. 52_000;

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=600', 'Content-Type' =>
        'text/plain', $q->{path} =~ /accel/ ? ('X-Accel-Limit-Rate' => 500_000)
        : ()], body => $text, chunked => $q->{path} =~ /chunked/ ? 1 : 0 };
});

# an origin that is as fast as can be

my $large = join '', map { "line $_ of a page\n" } 1 .. 200_000;

mkdir $t->dir() . '/www';
chmod 0755, $t->dir() . '/www';
$t->write_file("www/$_", $large) for 'page', 'chunked';

my $b = $t->nginx('b', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=4m;
        default_type text/plain;
        root %%TMP%%/www;
        location = /chunked { ssi on; ssi_types text/plain; }
    }
}
EOT

my $h = $t->nginx('h', <<'EOT', loop => !$t->watched());
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_valid 1h;
    mcds_cache_compress gzip;
    proxy_http_version 1.1;
    map $uri $rate { default 500k; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /client/ {
            limit_rate 500k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /variable/ {
            limit_rate $rate;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /set/ {
            set $limit_rate 500k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /accel/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /origin/ {
            proxy_limit_rate 500k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /slow/ {
            limit_rate 8k;
            proxy_pass http://127.0.0.1:%%PORT_b%%/;
        }
        location /short/ {
            limit_rate 8k;
            proxy_max_temp_file_size 64k;
            proxy_pass http://127.0.0.1:%%PORT_b%%/;
        }
        location /fast/ {
            limit_rate 0;
            proxy_pass http://127.0.0.1:%%PORT_b%%/;
        }
    }
}
EOT

my @uris = map { ("$_/page", "$_/chunked") }
    qw{ /client /variable /set /accel /origin };

for my $status ('MISS', 'HIT') {
    my @r = many(scalar @uris, sub { [$h->port(), $uris[$_[0]]] });

    for my $uri (@uris) {
        my $r = shift @r;

        is($r->header('X-Cache'), $status, "$uri: $status");
        ok($r->complete() && $r->body() eq $text, "$uri: whole");
        cmp_ok($r->time(), '>', 0.5, "$uri: slowly")
            if $status eq 'MISS' || $uri !~ /origin/;

        my $e = page_decode(page_wait($m, $uri));
        is("$e->{coding} $e->{length}", '1 ' . length $text, "$uri: stored");
    }
}


# a build behind an old page

for my $uri ('/origin/page', '/origin/chunked') {
    page_expire($m, $uri, 1000);
    my $begin = time();
    is($h->get($uri)->header('X-Cache'), 'STALE', "$uri: old");
    ok(wait_for(sub { page_decode($m->get("<>$uri"))->{expire}
        > 1000 * time() }), "$uri: refreshed");
    cmp_ok(time() - $begin, '>', 0.5, "$uri: slowly");
}


# nobody else has to be patient, and a turn of the worker is short

for my $uri (map { ("$_/page", "$_/chunked") } qw{ /slow /short /fast }) {
    $h->loop_begin() if !$t->watched();

    my $p = start_get($h->port(), $uri);
    my $e = page_decode(page_wait($m, $uri));
    my $turns = $t->watched() ? 1000 : $h->loop()->{turns};

    cmp_ok($turns, '>=', length($large) / 65536, "$uri: compressed in turns");
    is("$e->{coding} $e->{length}", '1 ' . length $large, "$uri: stored");

    if ($uri =~ /slow/) {
        $p->fill(0);
        cmp_ok(length $p->{in}, '<', length $large, "$uri: before it is read");
        $p->close();

    } else {
        my $r = finish($p);
        ok($r->complete() && $r->body() eq $large, "$uri: whole");
    }
}

$t->done();
