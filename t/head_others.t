#!/usr/bin/perl

# Copyright (C) mcds authors

# A HEAD that the origin answers for one client alone, or that goes to the
# origin past the cache, leaves the page of all others as it is, also where the
# answer has no ETag and no Last-Modified.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Cache-Control' => 'max-age=600',
            $q->{method} eq 'HEAD' && $q->{path} eq '/led'
                ? ('X-Accel-Redirect' => '/inner') : ()],
        body => $q->{method} eq 'HEAD' ? 'another one' : 'page' };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_request_control on;
    mcds_cache_dry_run DRY;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /bypass {
            mcds_cache_bypass $cookie_x;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /rule {
            mcds_no_cache $cookie_x;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /inner {
            internal;
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $h = $t->nginx('h', $conf =~ s/DRY/off/r);

# a page, a HEAD that goes to the origin, and what others get then

sub after_head {
    my ($host, $uri, @headers) = @_;

    $h->get($uri);
    page_wait($m, key($uri)) or die "$uri is not stored\n";

    $o->mark();

    my $r = $host->get($uri, method => 'HEAD', headers => [@headers]);
    my @asked = map { $_->{method} } $o->requests($uri);

    return join ' ', $r->status(), "@asked", $h->get($uri)->header('X-Cache');
}

my @no_cache = ('Cache-Control' => 'no-cache');

is(after_head($h, '/any', @no_cache), '200 HEAD STALE',
    'a HEAD of anybody: stale');
is(after_head($h, '/login', Authorization => 'x'), '200 HEAD HIT',
    'with credentials: the page stays');
is(after_head($h, '/bypass', Cookie => 'x=1'), '200 HEAD HIT',
    'mcds_cache_bypass: the page stays');
is(after_head($h, '/rule', Cookie => 'x=1', @no_cache), '200 HEAD HIT',
    'mcds_no_cache: the page stays');
is(after_head($h, '/rule', @no_cache), '200 HEAD STALE',
    'mcds_no_cache, of anybody: stale');
is(after_head($h, '/led', @no_cache), '200 HEAD HIT',
    'led to another location: the page stays');

# a dry run: the cache is the same as without

my $dry = $t->nginx('dry', $conf =~ s/DRY/on/r);

is(after_head($dry, '/dry'), '200 HEAD HIT',
    'a dry run: what would be a hit leaves the page');
is($dry->get('/dry')->header('X-Cache'), 'HIT_DRY_RUN',
    'a dry run: it is a hit still');
is(after_head($dry, '/dry', @no_cache), '200 HEAD STALE',
    'a dry run: what would go to the origin does not');

$t->done();
