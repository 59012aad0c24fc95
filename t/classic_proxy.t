#!/usr/bin/perl

# Copyright (C) mcds authors

# A store and a proxy that know the classic protocol alone: a pool that says
# nothing of it names them and does not use them; with "protocol classic" they
# are used, and when a server behind the proxy dies only its keys are missed.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Stores;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers')->needs('yrmcdsd', 'nutcracker')
    ->allow(qr/does not speak the meta commands/,
        qr/is down after 3 failures/, qr/"(?:proxy|meta_proxy)"/);

my @m = map { $t->memcached($_) } qw/ one two /;
my $p = Test::Mcds::Stores::nutcracker($t, 'proxy', @m,
    { distribution => 'ketama' });

Test::Mcds::Stores::yrmcds($t, 'store');

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=100'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool meta_store {
        server       127.0.0.1:%%PORT_store%%;
        fail_timeout 200ms;
    }
    mcds_pool meta_proxy {
        server       127.0.0.1:%%PORT_proxy%%;
        fail_timeout 200ms;
    }
    mcds_pool proxy {
        server       127.0.0.1:%%PORT_proxy%%;
        protocol     classic;
        timeout      2s;
        fail_timeout 200ms;
    }
    mcds_pool direct {
        server       127.0.0.1:%%PORT_one%%;
        server       127.0.0.1:%%PORT_two%%;
        distribution ketama;
    }
    add_header X-N $n;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /meta_store/ {
            mcds_use meta_store;
            mcds_counter $n;
            mcds_return "page";
        }
        location /meta_proxy/ {
            mcds_use meta_proxy;
            mcds_counter $n;
            mcds_return "page";
        }
        location /count/ {
            mcds_use proxy;
            mcds_counter $n key=$uri;
            mcds_return "page";
        }
        location ~ ^/direct/(.+) {
            mcds_use direct;
            mcds_counter $n key=$1;
            mcds_return "page";
        }
        location / {
            mcds_cache proxy;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# not said to be classic

for my $name (qw/ meta_store meta_proxy /) {
    for (1 .. 5) {
        my $r = $h->get("/$name/");
        is($r->status() . ($r->header('X-N') // ''), 200, "$name: no number");
    }
}

my $hint = 'unless with "protocol classic"';
ok($h->log_has(qr/"meta_store" does not speak the meta .* "yrmcds .*$hint/),
    'the store is named');

$hint = 'if it is a proxy it may need "protocol classic"';
ok($h->log_has(qr/"meta_proxy" is down after 3 failures, .*; $hint/),
    'the proxy too');


# which keys lie where

my @keys = map { "k$_" } 1 .. 40;

$h->get("/count/$_") for @keys;

my @of = map { my $m = $_; [grep { defined $m->get("/count/$_") } @keys] } @m;

is(scalar(map { @$_ } @of), 40, 'all keys are there');
cmp_ok(scalar(@{$of[0]}), '>', 2, 'some with the first server');
cmp_ok(scalar(@{$of[1]}), '>', 2, 'some with the second');

sub numbers {
    return join ' ', map { $h->get("/count/$_")->header('X-N') // '-' } @_;
}


# one of them dies

$m[1]->kill9();

is(numbers(@{$of[0]}), join(' ', (2) x @{$of[0]}), 'the others count on');
is(numbers(@{$of[1]}), join(' ', ('-') x @{$of[1]}), 'these do not');

for my $uri (map { "/page$_" } 1 .. 10) {
    is($h->get($uri)->status() . $h->get($uri)->status(), 200200,
        "$uri is answered");
}

is($h->log_count(qr/pool "proxy" is down/), 0, 'the proxy is well');
is($h->log_count(qr/memcached sent/), 0, 'and understood');


# greeted anew, while none is there that could say its version

$m[0]->kill9();
ok($h->reload(wait_old => 1), 'a new worker');
is($h->get('/count/k1')->status(), 200, 'answered');
is($h->log_count(qr/pool "proxy" (?:is down|does not speak)/), 0,
    'the proxy is well still');

$_->up() for @m;

ok(wait_for(sub { numbers(@keys) !~ /-/ }, 10), 'all count again');


# a pool that finds the servers as the proxy does shares its keys

for my $i (1 .. 50) {
    $p->set("shared$i", 100);
}

is(join(' ', map { $h->get("/direct/shared$_")->header('X-N') // '-' }
    1 .. 50), join(' ', (101) x 50), 'the same keys without the proxy');


# the proxy itself

$p->stop();
is($h->get('/count/k1')->status(), 200, 'without the proxy') for 1 .. 5;
ok($h->log_has(qr/pool "proxy" is down/), 'which is told');

$p->up();

ok(wait_for(sub { numbers(@keys) !~ /-/ }, 10), 'and again');

$t->done();
