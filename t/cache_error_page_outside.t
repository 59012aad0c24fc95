#!/usr/bin/perl

# Copyright (C) mcds authors

# "error_page =" leads from an application to a location with a cache: what the
# application has said is for one visitor, also if its location has no cache.
# Without an application before it, that location makes a page.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

# whose file a visitor gets is what the application says

my $m = $t->memcached('m');
my $a = $t->origin('a', sub {
    my ($a, $q) = @_;

    return { headers => ['X-Accel-Redirect' => '@storage',
            'X-File' => $q->{path} =~ s/.*(?=\/)//r] }
        if $q->{path} =~ /gate/;

    return { status => $q->{path} =~ /moved/ ? 302 : 503, headers =>
        [Location => "/$q->{headers}{'x-user'}"] };
});
my $s = $t->origin('s', sub {
    my ($s, $q) = @_;

    return { headers => ['Cache-Control' => 'public, max-age=600'],
        body => "$q->{path} $q->{k}" };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_key $host$request_uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_intercept_errors on;
        location /off/ {
            mcds_cache off;
            error_page 302 503 = @files;
            proxy_pass http://127.0.0.1:%%PORT_a%%;
        }
        location /off/uri/ {
            mcds_cache off;
            error_page 302 503 = /files;
            proxy_pass http://127.0.0.1:%%PORT_a%%;
        }
        location /off/led/ {
            mcds_cache off;
            error_page 302 503 = @led;
            proxy_pass http://127.0.0.1:%%PORT_a%%;
        }
        location @led {
            mcds_cache off;
            set $file $upstream_http_location;
            proxy_pass http://127.0.0.1:%%PORT_a%%/gate$file;
        }
        location @storage {
            set $file $upstream_http_x_file;
            proxy_pass http://127.0.0.1:%%PORT_s%%$file;
        }
        location @files {
            set $file $upstream_http_location;
            proxy_pass http://127.0.0.1:%%PORT_s%%$file;
        }
        location = /files {
            internal;
            set $file $upstream_http_location;
            proxy_pass http://127.0.0.1:%%PORT_s%%$file;
        }
        location /static/ {
            mcds_cache off;
            root %%TMP%%/none;
            log_not_found off;
            error_page 404 = @pages;
        }
        location @pages { proxy_pass http://127.0.0.1:%%PORT_s%%; }
    }
}
EOT

my %hosts = (
    once => $t->nginx('h', $conf),
    recursive => $t->nginx('r',
        $conf =~ s/(proxy_intercept_errors on;)/$1 recursive_error_pages on;/r),
);

sub ask {
    my ($name, $uri, $user) = @_;

    my $r = $hosts{$name}->get($uri, host => $name,
        headers => ['X-User' => $user]);

    return join ' ', $r->header('X-Cache') // '-', $r->body() =~ /(\w+)/;
}

for my $name (sort keys %hosts) {
    for my $uri (map { ("/off$_/moved", "/off$_/failed") } '', '/uri', '/led') {
        is(ask($name, $uri, 'alice'), 'error-page alice',
            "$name: $uri: her own");
        is(ask($name, $uri, 'bob'), 'error-page bob',
            "$name: $uri: his own");
    }

    is(ask($name, '/static/a', 'alice'), 'MISS absent static',
        "$name: no file");
    ok(wait_for(sub { ask($name, '/static/a', 'bob') eq 'HIT fresh static' }),
        "$name: no file: stored for all");
}

$t->done();
