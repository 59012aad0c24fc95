#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_cache_error_backoff behind an old page: the time until the origin is
# asked again doubles with each failure, whichever host it was, up to the bound.
# What a failure has left in memcached tells when that is; the test takes it
# back, and goes on with a host that has not asked yet.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my @least = (1, 2, 4, 8, 10, 10);
my @h = map { $t->nginx("h$_", <<'EOT') } 0 .. $#least;
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache_key $uri;
    mcds_cache_error_backoff 1s 10s;
    mcds_cache_background_update 1h;
    add_header X-Cache $mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ahead {
            mcds_cache on;
            mcds_cache_error_backoff 1s 1s;
            mcds_cache_background_update off;
            add_header X-Reason $mcds_cache_reason;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $lock = '<>/a:lock';

$h[0]->get('/a');
page_wait($m, '/a');
page_expire($m, '/a', 1000);
$o->set('/a', { status => 500, body => 'broken' });

for my $i (0 .. $#least) {
    my ($step, $until);

    like($h[$i]->get('/a')->body(), qr/^answer/, "failure $i: the old page");

    ok(wait_for(sub {
        ($step, $until) = ($m->get($lock) // '') =~ /^kept (\d+) (\d+)$/;
        return ($step // 0) > $i;
    }), "failure $i: is noted") or diag($m->get($lock));

    my $seen = time();
    my ($last) = ($o->requests('/a'))[-1];

    is($step, $i + 1, "failure $i: so many");
    cmp_ok($until / 1000, '>=', $last->{start} + $least[$i] - 0.01,
        "failure $i: not asked for $least[$i] s");
    cmp_ok($until / 1000, '<=', $seen + $least[$i], "failure $i: nor longer");
    is($o->count('/a'), 2 + $i, "failure $i: asked once");

    # the time has come, for a host that has not failed itself

    $m->set($lock, "kept $step " . int(time() * 1000 - 1), 60);
}

# the clock of the host that has failed is an hour ahead: the others wait for no
# longer than their bound

$h[0]->get('/ahead');
page_wait($m, '/ahead');
page_expire($m, '/ahead', 1000);
$m->set('<>/ahead:lock', 'kept 1 ' . int((time() + 3600) * 1000), 60);

is($h[0]->get('/ahead')->header('X-Reason') // '', 'backoff',
    'a clock that is ahead: the failure of another host is seen');
is($o->count('/ahead'), 1, 'a clock that is ahead: not asked');

$m->delete('<>/ahead:lock');
ok(wait_for(sub { $h[0]->get('/ahead'); $o->count('/ahead') > 1 }),
    'a clock that is ahead: the pause ends');

$t->done();
