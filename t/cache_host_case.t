#!/usr/bin/perl

# Copyright (C) mcds authors

# An origin sees the Host header in the client's own writing, and may answer
# with it, or redirect to the usual one.  Who writes it otherwise gets the page
# of all, but makes none for them.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $usual = 'www.example';

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $host = $q->{headers}{host};

    return { status => 301, headers => ['Cache-Control' => 'max-age=600',
        Location => "http://$usual$q->{path}"], body => '' }
        if $host ne lc $host;
    return { headers => ['Cache-Control' => 'max-age=600'],
        body => "page $q->{k}" };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_background_update 10m;
    mcds_purge_api method=PURGE mode=refresh;
    proxy_set_header Host $http_host;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /own/ {
            mcds_cache_key http://$host$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub ask {
    my ($uri, $host, @o) = @_;
    my $r = $h->get($uri, host => $host, @o);

    return join ' ', $r->header('X-Cache') // '-', $r->status(),
        $r->body() =~ /page/ ? $r->body() : ();
}

for my $uri ('/page', '/own/page') {
    my $key = "<>http://$usual$uri";

    is(ask($uri, uc $usual), 'MISS 301', "$uri: an unusual writing");
    is(ask($uri, 'wWw.example'), 'MISS 301', "$uri: another one");
    is(ask($uri, $usual), 'MISS 200 page 3', "$uri: the usual one");
    ok(wait_for(sub { ask($uri, $usual) eq 'HIT 200 page 3' }),
        "$uri: stored");
    is(ask($uri, uc $usual), 'HIT 200 page 3', "$uri: also for the others");

    page_expire($m, $key, 1000);
    is(ask($uri, uc $usual), 'UPDATING 200 page 3',
        "$uri: they get the old page");
    is($o->count($uri), 3, "$uri: and do not have it rebuilt");
    is(ask($uri, $usual), 'STALE 200 page 3', "$uri: the usual one does");
    ok(wait_for(sub { ask($uri, $usual) eq 'HIT 200 page 4' }),
        "$uri: rebuilt");

    my $r = $h->get($uri, host => uc $usual, method => 'PURGE');
    is($r->status(), 200, "$uri: purged");
    ok(!decode_json($r->body())->{refresh}, "$uri: and not rebuilt");

    $r = $h->get($uri, host => $usual, method => 'PURGE');
    ok(decode_json($r->body())->{refresh}, "$uri: a purge that rebuilds");
    ok(wait_for(sub { ask($uri, $usual) eq 'HIT 200 page 5' }),
        "$uri: rebuilt by it");
}

$t->done();
