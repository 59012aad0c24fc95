#!/usr/bin/perl

# Copyright (C) mcds authors

# The status that counts for an old page behind an error page is that of the
# answer which the error page has replaced: of several attempts the last one's,
# not that of a server tried before, nor that of what X-Accel-Redirect came
# from, nor that of the error page's own origin.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Cache-Control' => 'max-age=60',
        $q->{path} =~ /^.led/ ? ('X-Accel-Redirect' => '/then') : ()],
        body => "page $q->{path}" };
});
my $s = $t->origin('s', { body => 'sorry' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    # nobody listens at the first server

    upstream two {
        server 127.0.0.1:%%PORT_dead%% max_fails=0;
        server 127.0.0.1:%%PORT_o%% max_fails=0 backup;
    }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_background_update off;
    mcds_cache_grace 1h;
    mcds_cache_error_backoff off;
    proxy_intercept_errors on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /moved/ {
            error_page 404 =302 https://example.com/gone;
            proxy_pass http://two;
        }
        location /other/ {
            error_page 502 =200 @other;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @other {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_s%%;
        }
        location /led {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /then {
            internal;
            error_page 502 =200 /sorry;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /sorry { return 200 sorry; }
    }
}
EOT

sub ask {
    my ($uri) = @_;
    my $r = $h->get($uri);

    return join ' ', $r->status(), $r->header('X-Cache') // '-',
        $r->status() == 302 ? $r->header('Location') : $r->body();
}

# the second server has no such page any more

my $uri = '/moved/page';

is(ask($uri), "200 MISS page $uri", 'two servers: a page');
page_wait($m, $uri);
page_expire($m, $uri, 1000);
$o->set($uri, { status => 404 });

like(ask($uri), qr{^302 \w+ https://example.com/gone$}, "two servers: gone, $_")
    for 1, 2;
ok(wait_for(sub { page_decode($m->get("<>$uri"))->{kind} != 0 }),
    'two servers: and the old page is withdrawn');

# the first one is as good as gone, whatever another origin says instead

$uri = '/other/page';

is(ask($uri), "200 MISS page $uri", 'another origin: a page');
page_wait($m, $uri);
page_expire($m, $uri, 1000);
$o->set($uri, { abort => 0 });

is(ask($uri), "200 STALE page $uri", 'another origin: does not count');
is($s->count($uri), 1, 'another origin: was asked');

# the application is there, but not what it leads to

if ($t->has('mcds vary')) {
    is(ask('/led'), '200 MISS page /then', 'led on: a page');

    page_wait($m, '/then');
    page_expire($m, '/then', 1000);
    $o->set('/then', { abort => 0 });

    is(ask('/led'), '200 STALE page /then', 'led on: the old page');
    is($o->count('/then'), 2, 'led on: behind an origin that has failed');
}

$t->done();
