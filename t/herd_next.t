#!/usr/bin/perl

# Copyright (C) mcds authors

# A request on another host that waits for a build gets what that has made also
# if the next build has begun before the host looks again.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=1'],
        body => "page $q->{k}" };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_grace off;
    mcds_cache_lock_timeout 20s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

my ($one, $two) = map { $t->nginx($_, $conf) } 'one', 'two';

for my $n (1 .. 3) {
    my $uri = "/$n";

    # it takes longer than the page lives, which has expired when it comes

    $o->hold_path($uri);
    my $builds = start_get($one->port(), $uri);
    ok($o->wait_requests(1, $uri), "$n: one builds");
    my $waits = start_get($two->port(), $uri);
    $two->get('/other');

    my $start = time();
    sleep 0.05 while time() < $start + 1.1;

    $o->release($uri, 1);
    is(finish($builds)->body(), 'page 1', "$n: it has the page");

    $o->hold_path($uri);
    my $next = start_get($one->port(), $uri);

    my $r = finish($waits);
    is($r->header('X-Cache') . ' ' . $r->body(), 'HIT page 1',
        "$n: so has the one that has waited");

    ok($o->wait_requests(2, $uri), "$n: and another builds");
    $o->release($uri);
    is(finish($next)->body(), 'page 2', "$n: its own");
}

$t->done();
