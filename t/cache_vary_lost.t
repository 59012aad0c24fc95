#!/usr/bin/perl

# Copyright (C) mcds authors

# The list of a page that varies is deleted while a variant is built that it
# lacks: no list leads to this variant, so it stays in memcached for some
# seconds only, as do the parts of its body.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();
$t->needs('mcds vary', 'mcds large');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $body = "variant $q->{headers}{'x-a'}";

    return { headers => ['Cache-Control' => 'max-age=600', Vary => 'X-A'],
        body => $q->{path} =~ /large/ ? "$body " x 150_000 : $body,
        hold => $q->{headers}{'x-a'} eq 'two' };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_lock_age 60s;
    mcds_cache_max_size 8m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /off/ {
            mcds_cache_lock off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /bypass/ {
            mcds_cache_bypass $http_x_bypass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_cache off; mcds_purge_api on; }
    }
}
EOT

for my $uri ('/plain', '/off/plain', '/bypass/plain', '/large', '/off/large',
    '/bypass/large')
{
    $h->get($uri, headers => { 'X-A' => 'one' });
    ok(page_wait($m, $uri), "$uri: a list");

    my ($old) = grep { /^<>\Q$uri\E:vary:[^:]+:[^:]+$/ } $m->keys();
    ok($old, "$uri: and a variant");

    my $p = start_get($h->port(), $uri, headers => { 'X-A' => 'two',
        'X-Bypass' => $uri =~ /bypass/ ? 1 : '' });
    ok($o->wait_requests(2, $uri), "$uri: another variant is being built");
    is($h->get("/purge?key=$uri&mode=delete")->status(), 200,
        "$uri: the list is deleted");
    $o->release($uri);
    like(finish($p)->body(), qr/^variant two/, "$uri: the variant");

    # all items of the new variant

    my $parts = $uri =~ /large/ ? 2 : 0;
    my @new;

    ok(wait_for(sub {
        @new = grep { /^<>\Q$uri\E:vary:/ && !/:lock$/ && !/^\Q$old\E/ }
            $m->keys();
        return @new > $parts;
    }), "$uri: is stored") or diag("@new");

    ok(wait_for(sub { !grep { my $s = $m->ttl($_) // 0; $s < 0 || $s > 60 }
        @new }), "$uri: for a while") or diag(map { "$_ "
            . ($m->ttl($_) // 'gone') . "\n" } @new);
}

$t->done();
