#!/usr/bin/perl

# Copyright (C) mcds authors

# Upstreams with sessions: the cookie by which nginx finds the server again is
# no reason not to store the page, nor a part of it; one of the server is.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new()->since('1.29.6', 'sticky', 'Angie');

$t->leave('no http_upstream_sticky')
    if $t->{version} =~ /--without-http_upstream_sticky/
    || $t->{version} !~ m{nginx version: nginx/};

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { headers => ['Cache-Control' => 'max-age=60',
        $req->{args} ? ('Set-Cookie' => $req->{args}) : ()],
        body => "answer $req->{n}\n" };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    upstream named {
        server 127.0.0.1:%%PORT_o%% route=one;
        sticky cookie server path=/ expires=1h;
    }
    upstream hashed {
        server 127.0.0.1:%%PORT_o%%;
        sticky cookie server;
    }
    upstream learned {
        server 127.0.0.1:%%PORT_o%%;
        sticky learn create=$upstream_cookie_id lookup=$cookie_id
               zone=learned:1m;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache     on;
        mcds_cache_key $request_uri;
        add_header     X-Cache $mcds_cache_status;

        location /named/   { proxy_pass http://named; }
        location /hashed/  { proxy_pass http://hashed; }
        location /learned/ { proxy_pass http://learned; }
    }
}
EOT


sub cookies {
    my ($r) = @_;
    return join ' | ', $r->head() =~ /^Set-Cookie: (.*?)\r?$/mig;
}


for my $case (['/named/', qr/^server=one; .*path=\/$/],
    ['/hashed/', qr/^server=\w{32}$/], ['/learned/', qr/^$/])
{
    my ($where, $cookie) = @$case;
    my $uri = "${where}a";

    my $r = $h->get($uri);
    is($r->header('X-Cache'), 'MISS', "$uri: built");
    like(cookies($r), $cookie, "$uri: with nginx's cookie");
    ok(page_wait($m, $uri), "$uri: stored");
    unlike($m->get("<>$uri"), qr/cookie/i, "$uri: without it");

    $r = $h->get($uri);
    is($r->header('X-Cache') . cookies($r), 'HIT', "$uri: a hit has none");

    page_expire($m, $uri, 1000);
    is($h->get($uri)->header('X-Cache'), 'STALE', "$uri: stale");
    my $page = refresh_wait($m, $uri, 5 * $t->slow());
    like($page && $page->{body}, qr/^answer/, "$uri: refreshed");
    unlike($m->get("<>$uri"), qr/cookie/i, "$uri: without it");

    # the origin's own, also where it looks like the other

    for my $own ('id=5', 'server=one', 'server=one; path=/') {
        $uri = "${where}b?" . $own =~ s/ //gr;
        $r = $h->get($uri);
        like(cookies($r), qr/\Q${\($own =~ s{ }{}gr)}\E/,
            "$uri: the origin's");
        is($h->get($uri)->header('X-Cache'), 'MISS', "$uri: not stored");
    }
}

$t->done();
