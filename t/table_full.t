#!/usr/bin/perl

# Copyright (C) mcds authors

# A table whose list of names is full of obsolete lines, or would be with the
# lines of a change: the list is written anew without them, whether elements are
# set again, deleted, or gone.  Only a list of too many names refuses more.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', memory => 512);

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 10s; }

    server {
        listen 127.0.0.1:%%PORT%%;
        client_max_body_size 2m;

        location /t/ {
            mcds_table_api   t;
            mcds_api_methods GET PUT POST DELETE;
        }
    }
}
EOC

# names of 1000 bytes, 900 in a request; 10 requests fill half of the list

my @names = map { my $i = $_; [map { sprintf '%03d-%03d-%s', $i, $_, 'x' x 992 }
    1 .. 900] } 0 .. 19;


# the same again

is(post($_), 204, "names $_") for 0 .. 9;
is(post($_), 204, "names $_ again") for 0 .. 9;
ok(list() eq shown(0 .. 9), 'the list has each of them once');

my $one = "/t/$names[3][5]";

is($h->get($one, method => 'DELETE')->status(), 204, 'one is deleted');
unlike(list(), qr/\Q$names[3][5]\E/, 'its name, too');
is($h->get($one, method => 'PUT', body => 'new')->status(), 204, 'set');
is($h->get($one)->body(), qq{"new"\n}, 'it is there');
like(list(), qr/\Q$names[3][5]\E/, 'its name, too');


# all

is($h->get('/t/', method => 'DELETE')->status(), 204, 'all are deleted');
is(list(), "[]\n", 'none is left');
ok(wait_for(sub { !$m->keys() }), 'nor anything of the list');


# too many names

my $n = 0;

$n++ while $n < 20 && post($n) == 204;

cmp_ok($n, '>', 16, 'a list of 15 MB is not full');
is(post($n), 507, 'a list of more than 16 MB is');
ok(list() eq shown(0 .. $n - 1), 'it has all names before');
is($h->get("/t/$names[0][0]", method => 'DELETE')->status(), 204,
    'an element is deleted');
is($h->get('/t/', method => 'DELETE')->status(), 204, 'so are all');
is(list(), "[]\n", 'none is left');


# elements that memcached has lost

is(post($_), 204, "names $_") for 0 .. 9;
$m->delete($_) for grep { !/^t(?::[0-9a-f]{16})?$/ } $m->keys();
ok(list() eq shown(0 .. 9), 'the list has names of lost elements');
is($h->get('/t/?values=1')->body(), "{}\n", 'there are none');
ok(wait_for(sub { list() eq "[]\n" }), 'and the names go');

$t->done();


sub post {
    my ($i) = @_;

    return $h->get('/t/', method => 'POST',
        body => '["' . join('","', @{$names[$i]}) . '"]',
        headers => { 'Content-Type' => 'application/json' })->status();
}


sub list { return $h->get('/t/')->body() }


sub shown {
    return '["' . join('","', map { @{$names[$_]} } @_) . "\"]\n";
}
