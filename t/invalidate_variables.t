#!/usr/bin/perl

# Copyright (C) mcds authors

# The condition "if=" of mcds_cache_invalidate, and the keys of the pages that a
# response names, have the variables of the unsafe request, not those that the
# location of its mirror has set since.

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
    return { status => 201, headers => [Location => '/named'] }
        if $q->{method} eq 'POST';
    return { headers => ['Cache-Control' => 'max-age=60'] };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    map $changed $all { default 0; 1 1; }
    add_header X-Cache $mcds_cache_status always;

    server {
        listen           127.0.0.1:%%PORT%%;
        proxy_redirect   off;
        mcds_cache       on;
        mcds_cache_grace off;
        mcds_cache_key   $uri:$kind;

        set              $kind main;
        set              $changed 1;

        location /on {
            mcds_cache_invalidate on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /on/mirrored {
            mcds_cache_invalidate on;
            mirror     /mirror;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /set/mirrored {
            mcds_cache_invalidate on if=$changed;
            mirror     /mirror;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /map/mirrored {
            mcds_cache_invalidate on if=$all;
            mirror     /mirror;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /never/mirrored {
            set        $changed 0;
            mcds_cache_invalidate on if=$changed;
            mirror     /mirror/1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /mirror {
            internal;
            mcds_cache off;
            set        $kind mirror;
            set        $changed 0;
            if ($uri ~ 1$) { set $changed 1; }
            if ($all) { return 204; }
            return     204;
        }
        location /named { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

for my $uri (qw{ /on /on/mirrored /set/mirrored /map/mirrored }) {
    stored($_) for $uri, '/named';
    is(http_post($h->port(), $uri, 'x')->status(), 201, "$uri: changed");
    is(shown($uri), 'MISS', 'its page is gone');
    is(shown('/named'), 'EXPIRED', 'that of Location has expired');
}

stored('/never/mirrored');
is(http_post($h->port(), '/never/mirrored', 'x')->status(), 201,
    'a request that changes nothing, with a mirror that says it does');
is(shown('/never/mirrored'), 'HIT', 'its page stays');

$t->done();


sub stored {
    my ($uri) = @_;
    $h->get($uri);
    ok(page_wait($m, "$uri:main"), "$uri: stored");
    is(shown($uri), 'HIT', "$uri: a hit");
}


sub shown {
    my ($uri) = @_;
    return $h->get($uri)->header('X-Cache');
}
