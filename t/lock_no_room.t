#!/usr/bin/perl

# Copyright (C) mcds authors

# A memcached that runs with -M is full: it deletes the item of a lock that is
# to be extended, and the lock is not lost.

use warnings;
use strict;

use Test::More;
use IO::Socket::INET;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', memory => 2, args => ['-M']);
my $o = $t->origin('o', {});

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            mcds_lock  $uri ttl=3s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /locks/ {
            mcds_lock_api;
            mcds_api_methods GET POST PUT DELETE;
        }
    }
}
EOC

$o->hold_path('/one');

my $p = start_get($h->port(), '/one');

$o->wait_requests(1, '/one');
is(api('POST', '{"owner":"a","ttl":60}')->status(), 200, 'a lock of the API');

# memcached keeps an item that has just been read for a moment longer, so the
# items are read without its notice

my %value = map { $_ => item($_) =~ s/ c\d+//r } '/one', 'api';

fill($_) for 1, 20, 40, 60, 80, 110, 150, 200, 250;
like($m->mc('ms new 1', 'x'), qr/^SERVER_ERROR/, 'memcached is full');


# extended by mcds_lock

for (1, 2) {
    my $cas = item('/one');

    ok(wait_for(sub { item('/one') =~ /^VA/ && item('/one') ne $cas }),
        'it is stored again');
    is(item('/one') =~ s/ c\d+//r, $value{'/one'}, 'it is the same');
    is($h->get('/one')->status(), 423, 'it is held');
}

ok($h->log_lacks(qr/was lost|has lost|may be lost/), 'none is lost');


# extended by its name

is(api('PUT', '{"owner":"a","ttl":600}')->status(), 200, 'API: extended');
ttl_between($m, 'api', 590, 602, 'API: its time');
is(item('api') =~ s/ c\d+//r, $value{api}, 'API: it is the same');
is(api('PUT', '{"owner":"b","ttl":60}')->status(), 409,
    'API: it is not of another');


# released

$o->release('/one');
is(finish($p)->status(), 200, 'the request ends');
ok(wait_for(sub { !defined $m->get('/one') }), 'it is released');
is($h->get('/locks/api?owner=a', method => 'DELETE')->status(), 204,
    'API: released');

$t->done();


sub api {
    my ($method, $body) = @_;

    return $h->get('/locks/api', method => $method, body => $body,
        headers => { 'Content-Type' => 'application/json' });
}


sub item { return $m->mc("mg $_[0] u c v") }


# stores items of that size until memcached has no memory for more

sub fill {
    my ($size) = @_;

    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $m->port()) or die "memcached: $!";

    for my $round (1 .. 200) {
        print $s map { "set fill-$size-$round-$_ 0 0 $size\r\n"
            . 'z' x $size . "\r\n" } 1 .. 500;

        my $stored = grep { <$s> =~ /^STORED/ } 1 .. 500;

        return if !$stored;
    }

    die "there is memory for more items of $size bytes";
}
