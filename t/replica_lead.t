#!/usr/bin/perl

# Copyright (C) mcds authors

# A page is added on the first of its servers, and then goes to the other one,
# whatever that has: an older page that came back with it, while
# the new one was built, does not stay there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my @f = map { $t->fake("f$_") } 0 .. 1;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => 'version %k' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_f0%%;
        server       127.0.0.1:%%PORT_f1%%;
        distribution modula;
        replicas     2;
        timeout      20s;
    }
    mcds_cache_key $uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $uri ('/a', '/b', '/c') {
    my $key = "<>$uri";
    my $body = sub {
        my $e = page_decode($_[0]->get($key));
        return $e ? $e->{body} : 'nothing';
    };
    my $both = sub { join ', ', map { $body->($_) } @f };

    $_->mark() for @f;
    is($h->get($uri)->body(), 'version 1', "$uri: built");
    ok(wait_for(sub { $both->() eq 'version 1, version 1' }),
        "$uri: both servers have it");

    my @first = grep { $_->count(qr/^ms \Q$key\E .*ME/) } @f;
    is(scalar(@first), 1, "$uri: one server decides");

    my ($other) = grep { $_ != $first[0] } @f;
    my $old = $other->get($key);

    # both have lost it; one has it again when the origin answers

    $_->delete($key) for @f;
    $o->hold_path($uri);

    my $p = start_get($h->port(), $uri);

    ok($o->wait_requests(2, $uri), "$uri: is built again");
    $other->set($key, $old);
    $o->release($uri);
    is(finish($p)->body(), 'version 2', "$uri: built again");
    ok(wait_for(sub { $both->() eq 'version 2, version 2' }),
        "$uri: both servers have the new one") or diag($both->());
}

$t->done();
