#!/usr/bin/perl

# Copyright (C) mcds authors

# An expired page that may be shown in the place of an error alone, by
# stale-if-error, and one with a grace: for the second one a request waits for
# mcds_cache_wait, for the first one as long as without an old page.  Which
# comes first is told by the host, on a busy machine, too.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=60, stale-if-error=1000'],
        $q->{path} =~ /broken/ && $q->{k} > 1 ? (status => 502) : () };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_key $uri;
    add_header X-End $msec always;
    mcds_cache_lock_timeout 2s;
    mcds_cache_wait 300ms;
    mcds_cache_lock_age 60s;
    mcds_cache_background_update off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache_grace off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /grace {
            mcds_cache_grace 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub said { return join ' ', $_[0]->status(), $_[0]->header('X-Cache') }

my @uris = ('/page', '/grace');
my @p;

for my $uri (@uris) {
    $h->get($uri);
    page_wait($m, $uri);
    page_expire($m, $uri, 10_000);
    $o->hold_path($uri);
    push @p, start_get($h->port(), $uri);
    ok($o->wait_requests(2, $uri), "$uri: is being rebuilt");
}

my @r = map { finish($_) } map { start_get($h->port(), $_) } @uris;

is(said($_), '200 STALE timeout', 'waited for in vain') for @r;
cmp_ok($r[1]->header('X-End'), '<', $r[0]->header('X-End'),
    'the one with a grace for a shorter time');

$o->release($_) for @uris;
is(said(finish($_)), '200 EXPIRED stale', 'rebuilt') for @p;

# for an error it is there

$h->get('/broken');
page_wait($m, '/broken');
page_expire($m, '/broken', 10_000);
like(said($h->get('/broken')), qr/^200 STALE/, 'in the place of an error');

$t->done();
