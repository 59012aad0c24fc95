#!/usr/bin/perl

# Copyright (C) mcds authors

# "error_page 302 = @follow": a redirect that nginx follows is no failure of the
# origin.  Those who wait for the page follow it, too, and a page that becomes a
# redirect is not shown any longer.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;
use Test::Mcds::Herd;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @cc = ('Cache-Control' => 'max-age=60');

    return { body => 'there' } if $q->{path} eq '/there';

    return { headers => \@cc, body => 'old' }
        if $q->{path} =~ /moved/ && $q->{k} == 1;

    return { status => 302, headers => [@cc, Location => '/elsewhere'] };
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
    proxy_intercept_errors on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /ok { mcds_cache off; return 200 ok; }
        location = /here { return 200 here; }
        location /follow/ {
            error_page 301 302 307 = @follow;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @follow {
            rewrite ^ /there break;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /own/ {
            error_page 302 = /here;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /503/ {
            error_page 302 =503 /here;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /file/ {
            error_page 302 =503 /nothing;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /nothing { root %%TMP%%; try_files /none @follow; }
    }
}
EOT

my %want = (follow => '200 there', own => '200 here', 503 => '503 here',
    file => '503 there');

for my $where (sort keys %want) {
    my $uri = "/$where/page";

    for my $r (herd($h, $o, $uri, '/ok' => 'ok')) {
        is($r->status() . ' ' . $r->body(), $want{$where}, "$uri: followed");
    }

    is($o->count($uri), 4, "$uri: each for itself");

    # a page that becomes a redirect

    $uri = "/$where/moved";

    is($h->get($uri)->body(), 'old', "$uri: a page");
    page_wait($m, key($uri));
    page_expire($m, key($uri), 1000);
    is($h->get($uri)->body(), 'old', "$uri: is refreshed");
    ok(wait_for(sub { page_decode($m->get(key($uri)))->{kind} != 0 }),
        "$uri: and withdrawn");

    my $r = $h->get($uri);
    is($r->status() . ' ' . $r->body(), $want{$where}, "$uri: followed");
}

$t->done();
