#!/usr/bin/perl

# Copyright (C) mcds authors

# A page that was found by an internal redirect, or is made by one, is
# refreshed like any other: try_files, error_page, named locations, rewrite,
# X-Accel-Redirect, index, mirror.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my %accel = ('/accel/named' => '@named', '/accel/uri' => '/then/z?q=1');
    my $to = $req->{headers}{'x-named'} ? undef : $accel{$req->{path}};
    return {
        headers => ['Cache-Control' => 'max-age=60',
            $to ? ('X-Accel-Redirect' => $to) : ()],
        body    => "answer $req->{n}\n$req->{uri}\n$req->{head}\n",
    };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    upstream origin { server 127.0.0.1:%%PORT_o%%; }

    server {
        listen 127.0.0.1:%%PORT%%;

        root             %%TMP%%/root;
        mcds_cache_key   $request_uri;
        add_header       X-Cache $mcds_cache_status always;
        proxy_set_header X-Uri   "$request_uri|$uri|$args|$status";
        proxy_set_header X-From  $from;
        set              $from   "";

        # before the page is asked for
        location /try/     { set $from try; try_files /none $uri @page; }
        location /index/   { try_files $uri $uri/ /front.php?q=$uri&$args; }
        location /error/   { set $from error; error_page 404 = @page; }
        location /return/  { return 404; error_page 404 = @page; }
        location /rewrite/ { rewrite ^/rewrite/(.*)$ /target/$1?r=$1 last; }
        location = /front.php { mcds_cache on; proxy_pass http://origin; }
        location /target/     { mcds_cache on; proxy_pass http://origin; }
        location @page {
            mcds_cache on;
            proxy_set_header X-Named "page $from";
            proxy_set_header X-Uri   "$request_uri|$uri|$args|$status";
            proxy_pass http://origin;
        }

        # and after it: the copy goes through all of it once more
        location /in/ {
            mcds_cache on;

            location /in/try/ {
                set $from "in $arg_x";
                try_files /none @named;
            }
            location /in/index/ { try_files $uri /then/i?$args; }
            location /in/error/ {
                set $from "in $arg_x";
                error_page 404 = @named;
            }
            location /in/error2/ { error_page 404 = /then/e?$args; }
            location /in/break/ {
                rewrite ^/in/(.*)$ /moved/$1?b=1 break;
                proxy_pass http://origin;
            }
            location /in/mirror/ { mirror /mirror; proxy_pass http://origin; }
        }
        location /accel/ { mcds_cache on; proxy_pass http://origin; }
        location /then/ {
            internal;
            mcds_cache on;
            proxy_set_header X-Then $arg_q$arg_x;
            proxy_set_header X-Uri  "$request_uri|$uri|$args|$status";
            proxy_pass http://origin;
        }
        location @named {
            mcds_cache on;
            proxy_set_header X-Named "named $from";
            proxy_set_header X-Uri   "$request_uri|$uri|$args|$status";
            proxy_pass http://origin;
        }
        location = /mirror { internal; proxy_pass http://origin/mirrored; }

        # an error of the origin leads to another page, which is not this one
        location /fails/ {
            mcds_cache on;
            proxy_intercept_errors on;
            error_page 502 503 = /then/failed;
            proxy_pass http://origin;
        }

        # files of another server
        location /file/ {
            mcds_cache       on;
            mcds_cache_valid 200 404 60s;
            error_page       404 /file/404.html;
            proxy_pass       http://127.0.0.1:%%PORT_files%%;
        }
        # and of this one
        location /own/ {
            mcds_cache       on;
            mcds_cache_valid 200 60s;
            alias            %%TMP%%/root/file/;
        }
    }
    server {
        listen 127.0.0.1:%%PORT_files%%;
        root   %%TMP%%/root;
    }
}
EOT

mkdir $t->dir() . $_ for '/root', '/root/file', '/root/index';


sub both {
    my ($uri, @like) = @_;

    my $body = refresh_same($t, $m, $uri, $uri, sub { $h->get($uri) });
    like($body, $_, "$uri: $_") for @like;
}


# the page of the location that the application names is a variant

sub accel {
    my ($uri, @like) = @_;

    my $body = refresh_same($t, $m, sub { refresh_variant($m, $uri) }, $uri,
        sub { $h->get($uri) });
    like($body, $_, "$uri: $_") for @like;
}


both('/try/a%20b?x=1', qr/^X-Named: page try\r$/m,
    qr{^X-Uri: /try/a%20b\?x=1\|/try/a b\|x=1\|}m, qr{^/try/a%20b\?x=1$}m);
both('/index/hello?x=2', qr{^/front.php\?q=/index/hello&x=2$}m,
    qr{^X-Uri: /index/hello\?x=2\|/front.php\|q=/index/hello&x=2\|}m);
both('/error/x?x=3', qr/^X-Named: page error\r$/m, qr{^/error/x\?x=3$}m);
both('/return/x', qr/^X-Named: page \r$/m, qr{^/return/x$}m);
both('/rewrite/x?x=4', qr{^/target/x\?r=x&x=4$}m);

both('/in/try/x?x=5', qr/^X-Named: named in 5\r$/m, qr{^/in/try/x\?x=5$}m,
    qr{^X-Uri: /in/try/x\?x=5\|/in/try/x\|x=5\|}m);
both('/in/index/x?x=6', qr{^/then/i\?x=6$}m, qr/^X-Then: 6\r$/m,
    qr{^X-Uri: /in/index/x\?x=6\|/then/i\|x=6\|}m);
both('/in/error/x?x=7', qr/^X-Named: named in 7\r$/m,
    qr{^/in/error/x\?x=7$}m);
both('/in/error2/x?x=8', qr{^/then/e}m,
    qr{^X-Uri: /in/error2/x\?x=8\|/then/e\|}m);
both('/in/break/x%2Fy?x=9', qr{^/moved/break/x/y\?b=1&x=9$}m);

if ($t->has('mcds vary')) {
    accel('/accel/named', qr/^X-Named: named \r$/m);
    accel('/accel/uri', qr{^/then/z\?q=1$}m, qr/^X-Then: 1\r$/m,
        qr{^X-Uri: /accel/uri\|/then/z\|q=1\|}m);
}

both('/in/mirror/x', qr{^/in/mirror/x$}m);
is($o->count('/mirrored'), 2, 'mirror: of the client\'s requests only');


# an error page in the place of a refreshed page

my $r = $h->get('/fails/x');
is($r->header('X-Cache'), 'MISS', 'error: filled');
page_wait($m, '/fails/x');
page_expire($m, '/fails/x', 1000);
$o->set('/fails/x', { status => 502 });

is($h->get('/fails/x')->body(), $r->body(), 'error: the old page');
ok($o->wait_requests(1, '/then/failed'), 'error: leads to another page');
is(page_decode($m->get('<>/fails/x'))->{body}, $r->body(),
    'error: which is not stored');
is($h->get('/fails/x')->body(), $r->body(), 'error: nor shown');


# files, which nginx finds again by itself, but for its own

for my $f (['/file/a', '/file/a'], ['/file/', '/file/index.html']) {
    my ($uri, $file) = @$f;
    $t->write_file("root$file", 'answer 1');
    refresh_same($t, $m, $uri, $uri, sub {
        $t->write_file("root$file", 'answer 2') if $_[0];
        return $h->get($uri);
    });
}

is($h->get('/own/a')->body() . ($h->get('/own/a')->header('X-Cache') // ''),
    'answer 2', 'a file of its own');
ok(!grep({ /own/ } $m->keys()), 'is not stored');

$t->done();
