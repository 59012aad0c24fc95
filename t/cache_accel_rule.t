#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_no_cache may refer to the response of the application, also to one with
# X-Accel-Redirect: what comes from the location to which that leads is not
# stored then.

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

    return { headers => ['X-Accel-Redirect' =>
            $q->{path} =~ /off/ ? '@ruled' : '@storage',
        'X-File' => "/$q->{headers}{'x-user'}",
        $q->{headers}{'x-say'} ? ('X-Private' => 1) : ()] };
});
my $s = $t->origin('s', sub {
    my ($s, $q) = @_;

    return { headers => [$q->{headers}{'x-own'} ? ('X-Private' => 1) : ()],
        body => "$q->{path} $q->{k}" };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_valid 200 10m;
    mcds_cache_key $request_uri;
    map $upstream_http_x_private $private { default $upstream_http_x_private; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /first/ {
            mcds_no_cache $upstream_http_x_private;
            proxy_pass http://127.0.0.1:%%PORT_a%%;
        }
        location /mapped/ {
            mcds_no_cache $private;
            proxy_pass http://127.0.0.1:%%PORT_a%%;
        }
        location @storage {
            set $file $upstream_http_x_file;
            proxy_pass http://127.0.0.1:%%PORT_s%%$file;
        }
        location /off/ {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_a%%;
        }
        location @ruled {
            mcds_no_cache $private;
            set $file $upstream_http_x_file;
            proxy_pass http://127.0.0.1:%%PORT_s%%$file;
        }
    }
}
EOT

sub ask {
    my ($uri, $user, @headers) = @_;

    my $r = $h->get($uri, headers => ['X-User' => $user, @headers]);

    return join ' ', $r->header('X-Cache') =~ /^(\w+)/, $r->body() =~ /(\w+)/;
}

for my $uri ('/first/a', '/mapped/a', '/off/a') {
    my @say = ('X-Say' => 1);

    for my $user (qw/ alice bob /) {
        like(ask($uri, $user, @say), qr/^(?:MISS|BYPASS) $user$/,
            "$uri: $user, as the application says");
    }

    # the other response is heard, too

    for my $user (qw/ alice bob /) {
        is(ask($uri, $user, 'X-Own' => 1), "MISS $user",
            "$uri: $user, as the other location says");
    }

    is(ask($uri, 'alice'), 'MISS alice', "$uri: neither says so");
    ok(wait_for(sub { ask($uri, 'bob') eq 'HIT alice' }), "$uri: shared")
        if $t->has('mcds vary') || $uri =~ /off/;
    like(ask($uri, 'bob', @say), qr/^(?:MISS|BYPASS) bob$/,
        "$uri: his own again");
}

$t->done();
