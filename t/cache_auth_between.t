#!/usr/bin/perl

# Copyright (C) mcds authors

# A request leaves its first location for one with auth_request, and comes back:
# what it gets there is for one client, as behind auth_request.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

$t->write_file('page', '');
$t->write_file('public', '');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Cache-Control' => ($q->{path} eq '/public'
            ? 'public, ' : '') . 'max-age=600'],
        body => $q->{headers}{'x-user'} };
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
    root %%TMP%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            try_files $uri /check/?$args;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /check/ {
            auth_request /ok;
            try_files /none /$arg_to?$args;
        }
        location = /ok {
            mcds_cache off;
            return 204;
        }
    }
}
EOT

sub ask {
    my ($uri, $user) = @_;

    my $r = $h->get($uri, headers => ['X-User' => $user]);

    return join ' ', $r->header('X-Cache') // '-', $r->body();
}

is(ask('/a?to=page', 'alice'), 'MISS authorization alice', 'checked');
is(ask('/a?to=page', 'bob'), 'MISS authorization bob',
    'checked: not the page of another client');

is(ask('/a?to=public', 'alice'), 'MISS absent alice', 'public');
ok(wait_for(sub { ask('/a?to=public', 'bob') eq 'HIT fresh alice' }),
    'public: shared');

is(ask('/page', 'alice'), 'MISS absent alice', 'unchecked');
ok(wait_for(sub { ask('/page', 'bob') eq 'HIT fresh alice' }),
    'unchecked: shared');

$t->done();
