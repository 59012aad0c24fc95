#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_no_cache is evaluated with the variables that the request has in the
# location that responds.  A request with a mirror, or a part of a page, shares
# its variables with others, and need not have waited for memcached there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;

my $t = Test::Mcds->new();

mkdir $t->dir() . '/www' or die;
chmod 0755, $t->dir(), $t->dir() . '/www';
$t->write_file('www/index.php', '');

my $clock = Test::Mcds::Clock->new($t, 1_700_000_000);
my $m = $clock->memcached('m');

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($user) = ($q->{headers}{cookie} // '') =~ /user=(\w+)/;
    return { headers => ['Cache-Control' => 'max-age=60',
        'Content-Type' => 'text/html'], body => $q->{path} eq '/page'
            ? join(' ', map { "<!--# include virtual=\"/$_\" -->" } qw/ a b /)
            : 'for ' . ($user // 'all') };
});

my $h = $clock->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header   X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache   on;

    server {
        listen       127.0.0.1:%%PORT%%;
        server_name  index;
        root         %%TMP%%/www;
        mirror       /mirror;
        mcds_counter $views key=views;
        location / {
            set      $mine "";
            index    index.php;
        }
        location ~ \.php$ {
            set           $mine $cookie_user;
            mcds_no_cache $mine;
            proxy_pass    http://127.0.0.1:%%PORT_o%%;
        }
        location = /mirror { internal; return 204; }
    }

    server {
        listen          127.0.0.1:%%PORT%%;
        server_name     unlocked;
        root            %%TMP%%/www;
        mirror          /mirror;
        mcds_counter    $views key=views;
        mcds_cache_lock off;
        location / {
            set         $mine "";
            index       index.php;
        }
        location ~ \.php$ {
            set           $mine $cookie_user;
            mcds_no_cache $mine;
            proxy_pass    http://127.0.0.1:%%PORT_o%%;
        }
        location = /mirror { internal; return 204; }
    }

    server {
        listen           127.0.0.1:%%PORT%%;
        server_name      parts;
        mcds_cache_lock  off;
        mcds_cache_grace off;
        mcds_cache_local timed=1h;
        location /page {
            mcds_cache    off;
            ssi           on;
            proxy_pass    http://127.0.0.1:%%PORT_o%%;
        }
        location /a {
            set           $mine $cookie_user;
            mcds_no_cache $mine;
            proxy_pass    http://127.0.0.1:%%PORT_o%%;
        }
        location /b {
            set           $mine "";
            proxy_pass    http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $uri ('/index.php?1', '/?2') {
    is(ask('unlocked', $uri, 'alice'), 'MISS rule: for alice',
        "$uri: not stored");
    is(ask('unlocked', $uri), 'MISS absent: for all', "$uri: nor shown");
}

# both parts expire, and are asked for without waiting for memcached

is($h->get('/page', host => 'parts')->body(), 'for all for all', 'parts');
ok(wait_for(sub { ask('parts', '/a') =~ /^HIT/ }), 'the first is stored');
$clock->add(61);

$o->hold_path('/a');
my $alice = start_get($h->port(), '/page', host => 'parts',
    headers => { Cookie => 'user=alice' });
ok($o->wait_requests(2, '/b'), 'the second part is asked for');
$o->release('/a');
like(finish($alice)->body(), qr/^for alice/, 'a part that is not to be stored');
is(ask('parts', '/a'), 'EXPIRED stale: for all', 'is not shown to others');

# memcached is away: what is built here is for all who wait on this host

$m->stop();
$t->allow(qr/mcds|connect\(\) failed/);
ask('index', '/index.php?0') for 1 .. 5;

for my $uri ('/index.php?1', '/?2') {
    $o->hold_path('/index.php');
    $alice = start_get($h->port(), $uri, host => 'index',
        headers => { Cookie => 'user=alice' });
    ok(wait_for(sub { $o->held('/index.php') }), "$uri: memcached is away");
    my $other = start_get($h->port(), $uri, host => 'index');
    $h->handled('/mirror', host => 'index');
    $o->release('/index.php');
    is(shown(finish($alice)), 'MISS rule: for alice', "$uri: for one alone");
    is(shown(finish($other)), 'MISS memcached: for all',
        "$uri: others who wait do not get it");
}

$t->done();


sub ask {
    my ($host, $uri, $user) = @_;
    return shown($h->get($uri, host => $host,
        headers => $user ? { Cookie => "user=$user" } : { }));
}


sub shown {
    my ($r) = @_;
    return ($r->header('X-Cache') // 'none') . ': ' . $r->body();
}
