#!/usr/bin/perl

# Copyright (C) mcds authors

# Memcached goes away in the back-off behind a failed refresh.  A request that
# has no stale page then does not obey the back-off: it asks the origin.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->allow(qr/mcds|memcached/);

# without it, workers do not know of the failures of others

$t->needs('mcds local');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        timeout      1s;
        fail_timeout 60s;
    }
    mcds_cache on;
    mcds_cache_error_backoff 60s 60s;
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

is($h->get('/page')->header('X-Cache'), 'MISS', 'a page is stored');
page_expire($m, key('/page'), 1000);

$o->set('/page', { status => 503 });
is($h->get('/page')->header('X-Cache'), 'STALE', 'it is stale');
ok(wait_for(sub { ($m->get(key('/page') . ':lock') // '') =~ /^kept/ }),
    'its refresh fails');
is($h->get('/page')->status(), 200, 'the next request gets it, too');
is($o->count('/page'), 2, 'and does not ask the origin');

$m->kill9();

is($h->get('/page')->status(), 503, 'without memcached: the origin is asked');
is($o->count('/page'), 3, 'by the request');

$o->set('/page', undef);

# a request fails if it comes within 30 ms of a failure

ok(wait_for(sub { $h->get('/page')->status() == 200 }, 10),
    'the origin has recovered');

$t->done();
