#!/usr/bin/perl

# Copyright (C) mcds authors

# Which part of the URI names an element of mcds_table_api: what follows a
# prefix location.  The blocks "limit_except" and "if" of a location do as the
# location does, of whatever kind it is; a URI that a rewrite has led out of its
# location names nothing, least of all the whole table.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

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

        location /prefix/ {
            mcds_table_api t;
            if ($arg_if) { set $x 1; }
            limit_except GET { allow 127.0.0.1; deny all; }
        }
        location ~ ^/caret {
            mcds_table_api t;
            if ($arg_if) { set $x 1; }
            limit_except GET { allow 127.0.0.1; deny all; }
        }
        location ~ /regex/ {
            mcds_table_api t;
            if ($arg_if) { set $x 1; }
            limit_except GET { allow 127.0.0.1; deny all; }
        }
        location = /exact {
            mcds_table_api t;
            if ($arg_if) { set $x 1; }
            limit_except GET { allow 127.0.0.1; deny all; }
        }
        location @named {
            mcds_table_api t;
            if ($arg_if) { set $x 1; }
            limit_except GET { allow 127.0.0.1; deny all; }
        }
        location /to/ { error_page 418 = @named; return 418; }

        location /cut/ {
            rewrite ^/cut/(.*)$ /$1 break;
            mcds_table_api t;
        }
        location /lock/ {
            rewrite ^/lock/(.*)$ /$1 break;
            mcds_lock_api;
        }
    }
}
EOC

my %whole = map { $_ => 1 } qw{ /caret/ /regex/ /exact /to/ };

for my $uri ('/prefix/', sort keys %whole) {
    my $one = $uri eq '/exact' ? $uri : "${uri}a";

    for my $args ('', '?if=1') {
        fill();

        my ($got, $left) = $whole{$uri} ? (qq{["a","b"]\n}, "[]\n")
                                        : (qq{"1"\n}, qq{["b"]\n});

        is($h->get("$one$args")->body(), $got, "GET $one$args");
        is(delete_it("$one$args"), 204, 'DELETE has the same object');
        is(left(), $left, 'and no other');
    }

    fill();
    is(delete_it("$one?name=a"), 204, 'an argument names an element');
    is(left(), qq{["b"]\n}, 'and no other');
}


# out of the location

fill();

for my $name ('', 'a', 'abc/a', 'abcd/a', 'cutxa', 'a' x 100) {
    is(delete_it("/cut/$name"), 404, "/$name is not in the location");

    my $r = $h->get("/lock/$name");

    is($r->status(), 404, 'nor is a lock');
    like($r->body(), qr/"detail":"the URI names nothing here"/, 'says so');
    is($r->header('Cache-Control'), 'no-store', 'not to be kept');
}

is(left(), qq{["a","b"]\n}, 'nothing has changed');
is(delete_it('/cut/cut/a'), 204, 'a rewrite within the location');
is(left(), qq{["b"]\n}, 'names an element');

$t->done();


sub fill {
    $h->get('/exact', method => 'DELETE');
    $h->get('/exact', method => 'POST', body => '["a","b"]',
        headers => { 'Content-Type' => 'application/json' });
}


sub left { return $h->get('/exact')->body() }


sub delete_it { return $h->get($_[0], method => 'DELETE')->status() }
