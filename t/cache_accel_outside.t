#!/usr/bin/perl

# Copyright (C) mcds authors

# X-Accel-Redirect leads from an application to a location with a cache: what
# the application says beside it counts, also if the application has none.

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
    my ($to) = $q->{path} =~ m{^/\w+/(\w+)/};

    return { headers => ['X-Accel-Redirect' => $to eq 'named' ? '@storage'
            : $to eq 'ignoring' ? '/ignoring'
            : $to eq 'again' ? '/again/uri/' : '/storage',
        'X-File' => "/$q->{headers}{'x-user'}",
        $q->{path} =~ m{^/again/} ? ()
            : split /: /, $q->{headers}{'x-say'} // ''] };
});
my $s = $t->origin('s', sub {
    my ($s, $q) = @_;

    return { headers => ['Cache-Control' => 'public, max-age=600'],
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
    mcds_cache_key $request_uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /off/ {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_a%%;
        }
        location /again/ {
            internal;
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_a%%;
        }
        location /asked/ {
            mcds_cache off;
            auth_request /ok;
            proxy_pass http://127.0.0.1:%%PORT_a%%;
        }
        location = /ok {
            mcds_cache off;
            return 204;
        }
        location = /ignoring {
            internal;
            mcds_ignore_headers Cache-Control Set-Cookie Vary;
            mcds_cache_valid 10m;
            set $file $upstream_http_x_file;
            proxy_pass http://127.0.0.1:%%PORT_s%%$file;
        }
        location = /storage {
            internal;
            mcds_purge_api method=PURGE $http_x_purge;
            set $file $upstream_http_x_file;
            proxy_pass http://127.0.0.1:%%PORT_s%%$file;
        }
        location @storage {
            mcds_purge_api method=PURGE $http_x_purge;
            set $file $upstream_http_x_file;
            proxy_pass http://127.0.0.1:%%PORT_s%%$file;
        }
    }
}
EOT

sub ask {
    my ($uri, $user, $say, @headers) = @_;

    my $r = $h->get($uri, headers => ['X-User' => $user,
        defined $say ? ('X-Say' => $say) : (), @headers]);

    return join ' ', $r->header('X-Cache') // '-', $r->body() =~ /(\w+)/;
}

for my $row (['private', 'Cache-Control: private'],
    ['no-store', 'Cache-Control: no-store'],
    ['expired', 'Cache-Control: max-age=0'],
    ['set-cookie', 'Set-Cookie: a=b'], ['vary', 'Vary: X-User'])
{
    my ($reason, $say) = @$row;

    for my $uri (map { "/off/$_/$reason" } qw/ uri named ignoring /) {
        is(ask($uri, 'alice', $say), "BYPASS $reason alice", "$uri: $say");
        is(ask($uri, 'bob', $say), "BYPASS $reason bob", "$uri: his own");
    }
}

# what the first of two applications has said is not known any more

for my $row (['vary', 'Vary: X-User'], ['expires', 'X-Accel-Expires: 0'],
    ['cdn', 'CDN-Cache-Control: private'], ['nothing'])
{
    my ($name, $say) = @$row;

    is(ask("/off/again/$name", $_, $say), "BYPASS error-page $_",
        "two in a row: $name: $_") for qw/ alice bob /;
}

for my $uri ('/off/uri/login', '/off/named/login') {
    my @login = (Authorization => 'x');

    is(ask($uri, 'alice', undef, @login), 'BYPASS authorization alice',
        "$uri: with a password");
    is(ask($uri, 'bob', undef), 'MISS absent bob', "$uri: without");
}

# what may be shared is

for my $say (undef, 'Cache-Control: max-age=600') {
    my $name = 'shared' . ($say ? 1 : 0);

    for my $uri (map { "/off/$_/$name" } qw/ uri named ignoring /) {
        is(ask($uri, 'alice', $say), 'MISS absent alice', "$uri: stored");
        ok(wait_for(sub { ask($uri, 'bob', $say) eq 'HIT fresh alice' }),
            "$uri: and shared");
        is(ask($uri, 'bob', 'Cache-Control: private'), 'BYPASS private bob',
            "$uri: unless the application forbids it");
    }
}

# and it is not purged by a request that the application has led there

for my $uri ('/off/uri/shared0', '/off/named/shared0') {
    is(ask($uri, 'bob', undef, 'X-Purge' => 1), 'HIT fresh alice',
        "$uri: no purge");
    is(ask($uri, 'bob'), 'HIT fresh alice', "$uri: not purged");
}

is(ask('/asked/uri/a', 'alice', undef, 'X-Purge' => 1),
    'BYPASS authorization alice', 'behind auth_request: no purge');

$t->done();
