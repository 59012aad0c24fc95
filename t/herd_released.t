#!/usr/bin/perl

# Copyright (C) mcds authors

# The lock of a page is released although its server fails in between: the
# server is ejected, or a replica, when the build ends; it refuses the deletion;
# or it does not answer an extension, or the back-off that a failed build
# leaves.  The worker looks for the lock on the lock's own server, so that no
# host waits until the lock expires.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my @m = map { $t->memcached("m$_") } 0, 1;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=1'] });

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;
    my $mode = $f->mode() // '';

    return "SERVER_ERROR busy\r\n"
        if $mode eq 'error' && $line =~ m{^md \S*/error:lock};

    return $f->stall()
        if $mode eq 'kept' && $line =~ m{^ms \S*/kept:lock}
            && $value =~ /^kept/
        || $mode eq 'extend' && $line =~ m{^mg \S*/extend:lock};

    # done, and not answered

    if ($mode eq 'extend' && $line =~ m{^ms \S*/extend:lock .*\bC\d}
        && $value !~ /^kept/)
    {
        $f->default($line, $value);
        return $f->stall();
    }

    return;
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool fake {
        server       127.0.0.1:%%PORT_f%%;
        fail_timeout 300ms;
    }
    mcds_pool eject {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution ketama;
        eject        on;
        fail_timeout 300ms;
    }
    mcds_pool replicas {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution ketama;
        replicas     2;
        fail_timeout 300ms;
    }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache_lock_age      30s;
    mcds_cache_error_backoff 30s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache fake;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /extend {
            mcds_cache          fake;
            mcds_cache_lock_age 6s;
            proxy_pass          http://127.0.0.1:%%PORT_o%%;
        }
        location /eject/ {
            mcds_cache eject;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /replicas/ {
            mcds_cache replicas;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $soon = 4 * $t->slow();

sub lock_of {
    my ($uri, $server) = @_;
    return $server->get(key($uri) . ':lock') // '';
}


# the deletion is refused

$f->tell('error');
is($h->get('/error')->status(), 200, 'refused: answered');
ok(wait_for(sub { $f->count(qr{^md \S*/error:lock}) }),
    'refused: the lock is released');
$f->tell('');
ok(wait_for(sub { lock_of('/error', $f) eq '' }, $soon),
    'refused: and deleted all the same');


# the back-off after a failed build is not answered

$h->get('/kept');
ok(wait_for(sub { lock_of('/kept', $f) eq '' }, $soon), 'back-off: a page');
$o->set('/kept', { status => 500 });
$f->tell('kept');
ok(wait_for(sub { $h->get('/kept')->header('X-Cache') eq 'STALE' }, 5),
    'back-off: is stale');
ok(wait_for(sub { $f->count(qr{^ms \S*/kept:lock .*\bC\d}) }),
    'back-off: its build has failed');
$f->tell('');
ok(wait_for(sub { lock_of('/kept', $f) =~ /^kept 1 / }, $soon),
    'back-off: it is stored all the same');


# an extension is done and not answered, and then the build fails

$o->set('/extend', { status => 500 });
$o->hold_path('/extend');
$f->tell('extend');
my $p = start_get($h->port(), '/extend');
$o->wait_requests(1, '/extend');
ok(wait_for(sub { $f->count(qr{^ms \S*/extend:lock .*\bC\d}) }, 10),
    'extension: the lock is extended');
$o->release('/extend');
is(finish($p)->status(), 500, 'extension: the build fails');
$f->tell('');
ok(wait_for(sub { lock_of('/extend', $f) !~ /^[0-9a-f]{32}/ }, $soon),
    'extension: the lock is released');


# the server of the lock is away when the build ends

for my $pool ('eject', 'replicas') {
    my $uri = "/$pool/page";
    my $downs = $h->log_count(qr/is down after/);

    $o->hold_path($uri);
    $p = start_get($h->port(), $uri);
    ok($o->wait_requests(1, $uri), "$pool: a page is built");

    my ($own) = grep { lock_of($uri, $_) ne '' } @m;
    $own->freeze();

    my $n = 0;
    ok(wait_for(sub {
        $h->get("/$pool/" . $n++);
        return $h->log_count(qr/is down after/) > $downs;
    }, 10 * $t->slow()), "$pool: the server of its lock is away");

    $o->release($uri);
    is(finish($p)->status(), 200, "$pool: answered");

    # the worker looks for the lock while the server is away

    $h->get("/$pool/" . $n++) for 1 .. 3;
    $own->cont();

    ok(wait_for(sub { lock_of($uri, $own) eq '' }, $soon),
        "$pool: the lock is released when the server is back");
}

$t->done();
