#!/usr/bin/perl

# Copyright (C) mcds authors

# A request for a part of a page, or with a condition, has its page built by a
# request behind it.  If the application leads it to another location, whose
# page is built the same way, the client may leave while any of them is there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

# what is freed is overwritten

$ENV{MALLOC_PERTURB_} = 0xb5;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');
my $a = $t->origin('a', sub {
    my ($a, $q) = @_;

    # this one goes to nobody but the request behind, for which it takes a while

    return { headers => ['Cache-Control' => 'no-cache',
        'X-Accel-Limit-Rate' => 1000], parts => ['x', ['y', 1]] }
        if $q->{path} =~ /early/ && $q->{k} == 1;

    my $to = $q->{path} =~ s{^/app}{/then}r . "?n=$q->{k}";

    return { headers => ['X-Accel-Redirect' => $to] };
});
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

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
    server {
        listen 127.0.0.1:%%PORT%%;
        location /app/ { proxy_pass http://127.0.0.1:%%PORT_a%%; }
        location /then/ {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /alive { return 204; }
    }
}
EOT

# the application is asked by the request behind the client's, then by that one

my $left = 0;

for my $uri (qw{ led/close led/reset early/close }) {
    my ($how) = $uri =~ m{/(\w+)};

    $o->hold_path("/then/$uri");

    my $p = start_get($h->port(), "/app/$uri",
        headers => { Range => 'bytes=0-1' });

    ok($o->wait_requests(1, "/then/$uri?n=2"), "$uri: led on");

    my ($pid) = $h->workers();

    $p->$how();
    $left++;
    ok(wait_for(sub {
        $h->log_count(qr/client prematurely closed/) == $left
    }), "$uri: the client has left");
    $o->release("/then/$uri");
    ok(wait_for(sub { !grep { !defined $_->{end} }
        map { $_->requests() } $a, $o }),
        "$uri: what it has left is over");

    is($h->get('/alive')->status(), 204, "$uri: the worker is there");
    is(join(' ', $h->workers()), $pid, "$uri: and the same one");
}

$t->done();
