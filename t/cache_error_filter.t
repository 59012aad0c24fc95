#!/usr/bin/perl

# Copyright (C) mcds authors

# An image that nginx's filter refuses, behind "error_page 415 = /empty", is no
# failure of the origin: those who wait for it get the error page, too, and an
# old image stays.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;
use Test::Mcds::Herd;

my $module = 'ngx_http_image_filter_module.so';
my $t = Test::Mcds->new()->needs($module);
my $images = $t->has($module);

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Cache-Control' => 'max-age=60',
        'Content-Type' => 'image/gif'],
        body => $q->{path} =~ /old/ && $q->{k} == 1 ? 'GIF89a' . 'x' x 100
            : 'no image' x 400 };
});

my $h = $t->nginx('h', "%%GLOBALS%%\nload_module $images;\n" . <<'EOT');
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_background_update off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /ok { mcds_cache off; return 200 ok; }
        location = /empty { empty_gif; }
        location = /busy { return 200 busy; }
        location /large/ {
            image_filter test;
            image_filter_buffer 1k;
            error_page 415 = /empty;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /none/ {
            image_filter test;
            error_page 415 = /empty;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /text/ {
            image_filter test;
            error_page 415 = /busy;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /plain/ {
            image_filter test;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my %want = (large => qr/^200 GIF/, none => qr/^200 GIF/, text => qr/^200 busy/,
    plain => qr/^415/);

for my $where (sort keys %want) {
    my $uri = "/$where/image";

    for my $r (herd($h, $o, $uri, '/ok' => 'ok')) {
        like($r->status() . ' ' . $r->body(), $want{$where}, $uri);
    }

    is($o->count($uri), 4, "$uri: each for itself");

    # behind an old image

    $uri = "/$where/old";

    is(substr($h->get($uri)->body(), 0, 3), 'GIF', "$uri: an image");
    page_wait($m, key($uri));
    page_expire($m, key($uri), 1000);

    my $r = $h->get($uri);
    like($r->status() . ' ' . $r->body(), $want{$where}, "$uri: is refused");
    is(page_decode($m->get(key($uri)))->{kind}, 0, "$uri: the old one stays");
    $h->get($uri);
    is($o->count($uri), 3, "$uri: and no back-off");
}

$t->done();
