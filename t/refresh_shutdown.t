#!/usr/bin/perl

# Copyright (C) mcds authors

# With worker_shutdown_timeout a refresh looks now and then whether the worker
# shuts down.  One that has ended does not look any more: its memory belongs to
# others then.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => 'version %k' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
worker_shutdown_timeout 10s;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache_key $uri;
    add_header X-Cache $mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my ($worker) = $h->workers();
my @uris = map { "/$_" } 1 .. 20;

$h->get($_) for @uris;
page_wait($m, $_) for @uris;

for my $version (2, 3) {
    page_expire($m, $_, 1000) for @uris;
    is(scalar(grep { $h->get($_)->header('X-Cache') ne 'STALE' } @uris), 0,
        "version $version: refreshed behind the old one");
    ok(wait_for(sub {
        !grep { $h->get($_)->body() ne "version $version" } @uris;
    }), "version $version: all are there");

    # the time of some looks

    for (1 .. 4) {
        sleep 0.1;
        $h->get($_) for @uris;
    }
}

is(($h->workers())[0], $worker, 'the worker lives');
is($o->count(), 3 * @uris, 'asked for once each');

$t->done();
