#!/usr/bin/perl

# Copyright (C) mcds authors

# Locations with several names, which Angie calls combined: the part of the URI
# behind each name that is a prefix names an element of mcds_table_api, or a
# lock of mcds_lock_api, also in the blocks "if" and "limit_except"; only the
# URI of a name with "=", a regular expression or "@" stands for a whole table.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

$t->leave('only Angie has locations with several names')
    if $t->nginx_name() ne 'Angie';

$t->memcached('m');

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_api_methods GET PUT POST DELETE;

    server {
        listen 127.0.0.1:%%PORT%%;

        location =/t /t/ ^~/deep/t/ /deep/ ~\.regex$ @named {
            mcds_table_api t;
            if ($arg_if) { set $x 1; }
            limit_except GET { allow 127.0.0.1; deny all; }
        }
        location /to/ { error_page 418 = @named; return 418; }

        location /first/ /second/ {
            rewrite ^/second/out/(.*)$ /$1 break;
            mcds_table_api t;
        }
        location /locks /l/ { mcds_lock_api; }
        location = /all { mcds_table_api t; }
    }
}
EOC

for my $where ('/t/', '/deep/', '/deep/t/', '/second/') {
    for my $args ('', '?if=1') {
        my $one = "${where}a$args";
        fill();
        is($h->get($one)->body(), qq{"1"\n}, "GET $one: an element");
        is(delete_it($one), 204, "DELETE $one");
        is(left(), qq{["b"]\n}, "DELETE $one: no other element");
    }
}

for my $uri ('/t', '/t/', '/x.regex', '/to/a') {
    fill();
    is($h->get($uri)->body(), qq{["a","b"]\n}, "GET $uri: the table");
    is(delete_it($uri), 204, "DELETE $uri");
    is(left(), "[]\n", "DELETE $uri: all elements");
}

fill();
is(delete_it('/second/out/a'), 404, 'no name of the location begins the URI');
is(left(), qq{["a","b"]\n}, 'and no element is deleted');

for my $uri ('/locks/x', '/l/x') {
    my $r = $h->get($uri, method => 'POST', body => '{"owner":"me"}',
        headers => { 'Content-Type' => 'application/json' });
    like($r->body(), qr/^\{"name":"x","held":true,/, "POST $uri: a lock");
    is(delete_it("$uri?owner=me"), 204, "DELETE $uri");
}

$t->done();


sub fill {
    $h->get('/all', method => 'DELETE');
    $h->get('/all', method => 'POST', body => '["a","b"]',
        headers => { 'Content-Type' => 'application/json' });
}


sub left { return $h->get('/all')->body() }


sub delete_it { return $h->get($_[0], method => 'DELETE')->status() }
