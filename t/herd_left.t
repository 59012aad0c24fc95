#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_cache_max_waiters bounds the requests that wait for a page at one time:
# those that have left do not wait any more, however many there were.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_max_waiters 3;
    mcds_cache_lock_timeout 60s;
    mcds_cache_lock_age 100s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /next { access_log off; return 204; }
    }
}
EOT

sub left { return scalar(() = $h->access_log() =~ / 499 /g) }

sub ask {
    my $p = start_get($h->port(), '/page');
    $h->get('/next') for 1 .. 3;
    return $p;
}

sub answered {
    my ($p) = @_;
    $p->fill(0);
    return length $p->{in} ? 1 : 0;
}

$o->hold_path('/page');

my $builder = start_get($h->port(), '/page');
ok($o->wait_requests(1, '/page'), 'the page is being built');

for my $i (1 .. 8) {
    my $p = ask();

    is(answered($p), 0, "request $i waits");
    $p->close();
    ok(wait_for(sub { left() == $i }), "request $i has left");
}

my @p = map { ask() } 1 .. 3;
is(scalar(grep { answered($_) } @p), 0, 'three may wait');

my $r = finish(ask());
is($r->status(), 503, 'a fourth one may not');

$o->release('/page');
is(finish($builder)->header('X-Cache'), 'MISS absent', 'the page is built');
is(join(', ', map { finish($_)->header('X-Cache') } @p),
    join(', ', ('HIT built') x 3), 'the waiting requests get it');
is($o->count('/page'), 1, 'asked for once');

$t->done();
