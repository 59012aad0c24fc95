#!/usr/bin/perl

# Copyright (C) mcds authors

# Clients of HTTP/3 that leave in the middle of a large page, while they wait
# for a lock, and while they follow a log: it is noticed at once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Http3;

my $t = Test::Mcds->new();
$t->needs('mcds large');

Test::Mcds::Http3::needed($t);

my ($crt, $key) = $t->cert('localhost');
my $large = join '', map { sprintf "%07d\n", $_ } 1 .. 150_000;
my $wait = 10 * $t->slow();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => { '/large' => { body => $large } });

my $host = $t->nginx('a', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    log_format left '\$uri \$status';
    access_log %%DIR%%/left.log left;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%% quic reuseport;
        ssl_certificate     $crt;
        ssl_certificate_key $key;

        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /lock {
            mcds_lock lock wait=1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /follow { mcds_log_api log; }
        location = /note { mcds_log log left; return 204; }
    }
}
EOT


# what is sent in parts, and taken no more

my $h = client(window => 20000);
is($h->get('/large')->body() eq $large, 1, 'a page in parts');

for my $how (qw/ rst stop close /) {
    $h = client(window => 20000) if $h->{closed};
    my $n = done_of('/large');
    my $id = $h->request('/large', paused => 1);
    $h->begun($id, $wait);
    $h->$how($id);
    ok(wait_for(sub { done_of('/large') > $n }, $wait), "$how: of a large one");
}


# a lock is waited for, a log is followed

for my $how (qw/ rst stop close /) {
    my ($has, $h) = (client(), client());

    $o->hold_path('/lock');
    my $id = $has->request('/lock');
    $o->wait_requests(1, '/lock');
    my $n = done_of('/lock');
    my $second = $h->request('/lock');
    $h->get('/note');
    $h->$how($second);
    ok(wait_for(sub { done_of('/lock') > $n }, $wait), "$how: for a lock");
    $o->release('/lock');
    is($has->response($id, $wait)->status(), 200, "$how: which is there");
    $o->mark();

    $h = client() if $how eq 'close';
    $n = done_of('/follow');
    $id = $h->request('/follow?follow=1');
    $h->begun($id, $wait);
    $h->$how($id);
    ok(wait_for(sub { done_of('/follow') > $n }, $wait), "$how: of a log");
    $_->close() for $has, $h;
}


$t->done();


sub client { return Test::Mcds::Http3->new($t, $host->port(), @_) }


# lines of the access log

sub done_of {
    my ($uri) = @_;
    return scalar(() = $t->read_file('a/left.log') =~ /^\Q$uri\E \d+$/mg);
}
