#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_lock of each location to which X-Accel-Redirect leads a request, one
# after the other, also with recursive_error_pages, and from an error page; and
# not that of an error page.  The variables are about the lock of the location,
# also if the request comes back to a lock that it has taken before.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;

    return { headers => ['X-Accel-Redirect' => "/two$1"] }
        if $req->{path} =~ m{^/one(/.*)};
    return { headers => ['X-Accel-Redirect' => "/again$1"] }
        if $req->{path} =~ m{^/two(/back.*)};
    return { headers => ['X-Accel-Redirect' => "/three$1"] }
        if $req->{path} =~ m{^/two(/.*)};
    return { headers => ['X-Accel-Redirect' => '/three/led'] }
        if $req->{path} eq '/led';
    return { status => 502 } if $req->{path} =~ /fails/;
    return { body => "$req->{headers}{'x-token'}\n" };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 20s; }

    recursive_error_pages  off;
    proxy_intercept_errors on;
    proxy_set_header       X-Token $mcds_lock_token;
    error_page             502 = /sorry;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /one/ {
            mcds_lock  one;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /two/ {
            internal;
            mcds_lock  two;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /three/ {
            internal;
            mcds_lock  three;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /again/ {
            internal;
            mcds_lock  one;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /other/ {
            mcds_lock  one;
            error_page 423 502 = /led;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /led {
            mcds_lock  led;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /sorry {
            mcds_lock  sorry;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOC

for my $recursive (qw/ off on /) {
    my $h = $t->nginx($recursive,
        $conf =~ s/(recursive_error_pages) +off/$1 $recursive/r);
    my $name = "recursive_error_pages $recursive";

    $o->mark();
    $o->hold_path('/three/x');

    my $p = start_get($h->port(), '/one/x');

    ok($o->wait_requests(1, '/three/x'), "$name: led on twice");
    is(join(' ', grep { defined $m->get($_) } qw/ one two three sorry /),
        'one two three', "$name: all locks are held");
    is($h->get('/one/y')->status(), 423, "$name: others get none");

    $o->release('/three/x');

    my $r = finish($p);

    is($r->status(), 200, "$name: answered");
    is($r->body(), $m->get('three:fence') . "\n",
        "$name: the token is that of the last one");
    ok(wait_for(sub { !grep { defined $m->get($_) } qw/ one two three / }),
        "$name: all are released");

    is($h->get('/one/back')->body(), $m->get('one:fence') . "\n",
        "$name: the token is that of the location, which had its lock before");

    $o->mark();
    $o->hold_path('/three/led');

    $p = start_get($h->port(), '/other/fails');

    ok($o->wait_requests(1, '/three/led'), "$name: led on by an error page");
    is(join(' ', grep { defined $m->get($_) } qw/ one led three /),
        'one three', "$name: to a location, whose lock is held");

    $o->release('/three/led');
    is(finish($p)->body(), $m->get('three:fence') . "\n",
        "$name: the token is that of this location");

    # ... after a refusal

    $o->mark();
    $o->hold_path('/one/held');
    $o->hold_path('/three/led');

    my $owner = start_get($h->port(), '/one/held');

    $o->wait_requests(1, '/one/held');
    $p = start_get($h->port(), '/other/x');

    ok($o->wait_requests(1, '/three/led'), "$name: led on after a refusal");
    ok(defined $m->get('three'), "$name: the lock of the location is held");
    is($h->get('/other/y')->status(), 423, "$name: others do not get it");

    $o->release($_) for '/three/led', '/one/held';
    is(finish($_)->status(), 200, "$name: answered") for $p, $owner;

    is($h->get('/led')->body(), $m->get('three:fence') . "\n",
        "$name: without an error, too");

    is($h->get('/one/fails')->status(), 200, "$name: an error page");
    is($o->count('/sorry'), 1, "$name: is made");
    is($m->get('sorry:fence'), undef, "$name: without a lock");
}

$t->done();
