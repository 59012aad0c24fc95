#!/usr/bin/perl

# Copyright (C) mcds authors

# The time for which a stale page may be served ends while a request waits for
# the new page: the request does not get the stale page any more, but what a
# request without a stale page gets.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { abort => 0 } if $q->{path} =~ /behind/ && $q->{k} == 2;
    return { headers => ['Cache-Control' => 'max-age=60'
        . ($q->{path} =~ /grace/ ? '' : $q->{path} =~ /long/
        ? ', stale-if-error=1000' : ', stale-if-error=10')] };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_lock_timeout 3s;
    mcds_cache_wait 3s;
    mcds_cache_lock_age 60s;
    mcds_cache_background_update off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache_grace off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /pass {
            mcds_cache_grace off;
            mcds_cache_lock_timeout 3s pass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /grace {
            mcds_cache_grace 10s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /grace/long {
            mcds_cache_grace 1000s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /grace/behind {
            mcds_cache_grace 10s;
            mcds_cache_lock_timeout 20s;
            mcds_cache_wait 20s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub said { return join ' ', $_[0]->status(), $_[0]->header('X-Cache') }

my @uris = ('/error', '/error/long', '/grace', '/grace/long', '/pass');
my $behind = '/grace/behind';
my @p;

for my $uri (@uris, $behind) {
    $h->get($uri);
    page_wait($m, $uri) or die "$uri is not stored\n";
    page_expire($m, $uri, 8_000);
    $o->hold_path($uri);
    push @p, start_get($h->port(), $uri,
        $uri eq $behind ? (headers => { Range => 'bytes=0-2' }) : ());
    ok($o->wait_requests(2, $uri), "$uri: is being rebuilt");
}

my $range = pop @p;

my @q = map { start_get($h->port(), $_) } @uris;

# the request in /pass asks the origin when it has waited

ok($o->wait_requests(3, '/pass', 8), '/pass: asks the origin, too');
$o->release('/pass');

my @r = map { finish($_) } @q;

is(said($r[0]), '503 EXPIRED timeout', 'stale-if-error is over');
is($r[0]->header('Retry-After'), 1, 'and when to come again');
is(said($r[1]), '200 STALE timeout', 'stale-if-error is not over');
is(said($r[2]), '503 EXPIRED timeout', 'mcds_cache_grace is over');
is(said($r[3]), '200 STALE timeout', 'mcds_cache_grace is not over');
is(said($r[4]), '200 EXPIRED timeout', 'pass: the response of the origin');

# a build in the background has failed: the request goes to the origin

$o->release($behind);
is(said(finish($range)), '200 EXPIRED backoff', 'the build has failed');
is($o->count($behind), 3, 'the origin answers the request');

$o->release($_) for @uris;
is(said(finish($_)), '200 EXPIRED stale', 'rebuilt') for @p;

$t->done();
