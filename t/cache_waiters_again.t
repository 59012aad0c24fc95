#!/usr/bin/perl

# Copyright (C) mcds authors

# A request that has waited for a page which it does not accept waits for the
# next one, but not longer than it may all in all.  Which request has ended
# first is told by the host, on a busy machine, too.  What a request has spent
# at a page that X-Accel-Redirect leads away from is no wait for the other page.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=60',
        $q->{path} =~ m{^/led/} ? ('X-Accel-Redirect' => '/then') : ()],
        hold => 1 };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 20s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_request_control on;
    mcds_cache_lock_timeout 6s;
    mcds_cache_lock_age 60s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /then {
            internal;
            mcds_cache_key $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /next { return 204; }
    }
}
EOT

sub ask {
    my ($uri, @headers) = @_;
    my $p = start_get($h->port(), $uri, headers => { @headers });

    $h->get('/next') for 1 .. 3;

    return $p;
}

my @p = map { ask($_) } '/page', '/other';
ok($o->wait_requests(1, $_), "$_: is being built") for '/page', '/other';

# each of these builds a page of its own, and waits for nobody

my @led = map { ask($_) } '/led/a', '/led/b';
ok($o->wait_requests(1, $_), "$_: is asked for") for '/led/a', '/led/b';

# neither of these accepts the page that is being built: one of them builds
# then, and the other one waits for that

my @new = map { ask('/page', 'Cache-Control' => 'min-fresh=100') } 1, 2;
sleep 0.5;

# this one comes later, and waits for as long as it may

my $late = ask('/other');
sleep 0.5;

$o->release('/page');
is(finish($p[0])->header('X-Cache'), 'MISS absent', 'the page is built');
ok($o->wait_requests(2, '/page'), 'and asked for anew');

my $r = finish($late);
is($r->status() . ' ' . $r->header('X-Cache'), '503 MISS timeout',
    'another page is waited for in vain');

# the origin answers the second build only now

sleep 0.1;
$o->release('/page');
$o->release('/other');

my @r = map { finish($_) } @new;
my ($waited) = grep { $_->status() == 503 } @r;

ok($waited, 'so is the one that is built anew')
    or diag(map { $_->status() . ' ' . $_->header('X-Cache') . "\n" } @r);

# both may end in one turn of the worker, in the order of their times

my @ended;

wait_for(sub {
    @ended = $h->access_log() =~ m{"GET (\S+) [^"]*" 503 }g;
    return @ended >= 2;
});
is("@ended", '/page /other',
    'and has ended before the request that came later') if $waited;

finish($p[1]);

# by now they have been there for longer than they may wait; one of them builds
# the page that both are led on to, and the other one waits for it

if ($t->has('mcds vary')) {
    $o->release('/led/a');
    ok($o->wait_requests(1, '/then'), 'led on, to a page that is being built');

    $o->release('/led/b');
    ok(wait_for(sub { defined +($o->requests('/led/b'))[0]{end} }),
        'led on to the same page');
    $h->get('/next') for 1 .. 3;
    $o->release('/then');

    is(finish($_)->status(), 200, 'may wait for it') for @led;
    is($o->count('/then'), 1, 'which is built once');

} else {
    $_->close() for @led;
}

$t->done();
