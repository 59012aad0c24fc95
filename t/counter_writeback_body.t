#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_writeback under a small "client_max_body_size", which is for the
# bodies of clients: a batch that is longer is posted all the same.  Nor does
# "lingering_timeout" end a POST whose answer takes longer, even if "error_page"
# has led it to another location.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

$t->leave('freenginx applies the limit to each request with a body')
    if $t->nginx_name() eq 'freenginx';

my $m = $t->memcached('m');
my $o = $t->origin('o', { status => 204 });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    client_max_body_size 100;
    lingering_timeout 50ms;
    mcds_zone 8m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_counter_writeback /save interval=100ms;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=$uri;
            mcds_return $n;
        }
        location = /save {
            internal;
            error_page 404 = /other;
            proxy_intercept_errors on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /other {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /put {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $long = 'k' x 200;

is($h->get("/1/$long")->status(), 200, 'a count with a long key');
ok($o->wait_requests(1, '/save'), 'its batch is posted');

my ($post) = $o->requests('/save');

is($post->{body}, qq([{"key":"/1/$long","delta":1}]\n), 'with the whole body');
is($post->{headers}{'content-length'}, length($post->{body}),
    'and its length');


# the answer takes a while

$o->set('/save', { status => 204, delay => 0.5 });
$h->get("/slow/$long");
ok($o->wait_requests(2, '/save'), 'slow: a batch is posted');
$h->get("/next/$long");
ok($o->wait_requests(3, '/save'), 'slow: the next one is posted');
is(join(' ', map { $_->{body} =~ m{"/(\w+)/} } $o->requests('/save')),
    '1 slow next', 'slow: each batch once');
ok(wait_for(sub { ($o->requests('/save'))[2]{end} }), 'slow: all are answered');


# a location to which the first one leads gets the batch, too

$o->set('/save', { status => 404 });
is($h->get("/2/$long")->status(), 200, 'another count');
ok($o->wait_requests(1, '/other'), 'error_page: its batch is posted');
is(($o->requests('/other'))[0]{body}, qq([{"key":"/2/$long","delta":1}]\n),
    'error_page: with the whole body');


# that location may take a while, too

$o->set('/other', { status => 204, delay => 0.5 });
$h->get("/slow/$long");
ok($o->wait_requests(2, '/other'), 'slow error_page: a batch is posted');
$h->get("/next/$long");
ok($o->wait_requests(3, '/other'), 'slow error_page: the next one is posted');
is(join(' ', map { $_->{body} =~ m{"/(\w+)/} } $o->requests('/other')),
    '2 slow next', 'slow error_page: each batch once');
ok(wait_for(sub { ($o->requests('/other'))[2]{end} }),
    'slow error_page: all are answered');

is($h->log_count(qr/tried again/), 0, 'each was accepted');

is($h->get('/put', method => 'PUT', body => $long)->status(), 413,
    'a client gets 413');

$t->allow(qr/client intended to send too large body: 200 bytes/);
$t->done();
