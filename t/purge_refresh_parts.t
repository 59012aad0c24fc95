#!/usr/bin/perl

# Copyright (C) mcds authors

# A purge with mode=refresh of a page in parts: the old parts expire when the
# page is rebuilt, even if the worker that rebuilds it has never read it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('single', 'nginx cannot reload then');
$t->needs('mcds large');

my $size = 2_000_000;
my $m = $t->memcached('m', memory => 256);
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=60'],
        body => substr "answer $q->{k}, " x ($size / 10), 0, $size };
});

$t->write_file('hmac.key', "a key of these hosts, longer than 32 bytes\n");

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 2s; }
    mcds_cache     on;
    mcds_cache_key $uri;
    mcds_purge_api method=PURGE mode=refresh;

    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /signed {
            mcds_cache_hmac_key %%TMP%%/hmac.key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $uri (qw{ /known /unknown /signed }) {
    $h->get($uri);
    ok(page_wait($m, $uri), "$uri: stored");

    my $old = generation($uri);
    my @parts = parts($old);
    is(scalar(@parts), 8, 'in parts');

    $h->reload(wait_old => 1) if $uri ne '/known';

    my $r = http_request($h->port(), $uri, method => 'PURGE');
    like($r->body(), qr/"refresh":true/, 'purged');
    ok(wait_for(sub { generation($uri) ne $old }), 'rebuilt');
    ok(wait_for(sub { !grep { $m->ttl($_) !~ /^\d+$/ } parts($old) }),
        'the old parts expire');
    ttl_between($m, $parts[0], 30, 60, 'in a minute');
    is((grep { $m->ttl($_) != -1 } parts(generation($uri))), 0,
        'the new ones do not');
}

$t->done();


sub generation {
    my ($uri) = @_;
    return sprintf '%016x', page_decode($m->get("<>$uri"))->{generation};
}


sub parts {
    my ($generation) = @_;
    return grep { /part:\Q$generation\E:/ } $m->keys();
}
