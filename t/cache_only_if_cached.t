#!/usr/bin/perl

# Copyright (C) mcds authors

# An origin that is a cache itself answers only-if-cached with 504.  Such a
# response concerns the client that has sent the directive: a page for all
# clients is built by the next request, without a back-off, and the directive is
# not sent with requests in the background.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { status => 504, body => 'not cached' }
        if $q->{head} =~ /^Cache-Control:.*only-if-cached/mi;

    return { headers => ['Cache-Control' => 'max-age=600'],
        body => "answer $q->{n}" };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_error_backoff 60s 60s;
    mcds_cache_background_update 0;
    mcds_cache_use_stale off;
    mcds_cache_wait 20s;
    mcds_cache_lock_timeout 20s;
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_set_header X-Control $http_cache_control;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /stale/ {
            mcds_cache_use_stale http_504;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /update/ {
            mcds_cache_background_update 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /update/control/ {
            mcds_cache_background_update 1h;
            mcds_cache_request_control on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @only = ('Cache-Control' => 'Only-If-Cached, max-stale=10');

sub told {
    my ($r) = @_;
    return join ' ', $r->status(), $r->header('X-Cache'), $r->body() =~ /(\w+)/;
}

# a page that has expired

sub expired {
    my ($uri) = @_;

    $h->get($uri);
    page_wait($m, $uri);
    page_expire($m, $uri, 1000);
}

sub unlocked {
    my ($uri) = @_;
    ok(wait_for(sub { !defined $m->get("<>$uri:lock") }),
        "$uri: neither lock nor back-off is left");
}

# no page

is(told($h->get('/a', headers => \@only)), '504 MISS not',
    'no page: the client gets the 504');
is(($o->requests('/a'))[0]{headers}{'cache-control'}, $only[1],
    'no page: the directive was passed on');
is(told($h->get('/a')), '200 MISS answer', 'no page: the next builds it');

# an old page

expired('/b');
is(told($h->get('/b', headers => \@only)), '504 EXPIRED not',
    'an old page: the client gets the 504');
unlocked('/b');
is(told($h->get('/b')), '200 EXPIRED answer', 'an old page: the next builds');
is($o->count('/b'), 3, 'an old page: the origin was asked each time');

expired('/stale/c');
is(told($h->get('/stale/c', headers => \@only)), '200 STALE answer',
    'use_stale: the client gets the old page');
unlocked('/stale/c');
is(told($h->get('/stale/c')), '200 EXPIRED answer',
    'use_stale: the next builds');
is($o->count('/stale/c'), 3, 'use_stale: the origin was asked each time');

# in the background

for my $uri ('/update/d', '/update/control/d') {
    expired($uri);

    my $r = $h->get($uri, headers => [@only, 'Cache-Control' => 'x=1']);
    is(told($r), '200 STALE answer', "$uri: the old page");
    ok($o->wait_requests(2, $uri), "$uri: is refreshed");

    my ($q) = ($o->requests($uri))[-1];
    is(join('|', map { $q->{headers}{$_} // '' } qw/ cache-control
        x-control /), 'x=1|x=1', "$uri: the directive is not sent");
    ok(wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' }),
        "$uri: is fresh");
    isnt($h->get($uri)->body(), $r->body(), "$uri: is new");
    is($o->count($uri), 2, "$uri: the origin was asked once");
}

# a request that waits builds the page itself

$o->hold_path('/w');

my $only = start_get($h->port(), '/w', headers => \@only);
ok($o->wait_requests(1, '/w'), 'wait: the origin is asked');

my $next = start_get($h->port(), '/w');
is(told($h->get('/a')), '200 HIT answer', 'wait: the worker goes on');

$o->release('/w');
is(finish($only)->status(), 504, 'wait: the client gets the 504');
is(finish($next)->status(), 200, 'wait: the next gets the page');
is($o->count('/w'), 2, 'wait: which it has built');

$t->done();
