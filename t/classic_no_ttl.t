#!/usr/bin/perl

# Copyright (C) mcds authors

# "protocol classic ttl=off": a store that ignores lifetimes.  What is deleted
# with a condition, or because the list has not changed, is not there any more.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
$t->needs('mcds data');

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if $line !~ s/^((?:set|add|replace|cas) \S+ \d+) \d+ /$1 0 /;
    return $f->default($line, $value);
});

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_f%%;
        protocol classic ttl=off;
    }
    mcds_api_methods GET PUT POST PATCH DELETE;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /t/ { mcds_table_api t; }
        location = /a { mcds_array_api a; }
        location = /get {
            mcds_table_lookup $v t $arg_k default remember=off;
            return 200 "$v\n";
        }
    }
}
EOC

for my $match ('*', undef) {
    is(ask('PUT', '/t/x', '"text"')->status(), 204, 'an element');

    my $tag = $match // $h->get('/t/x')->header('ETag');

    is(ask('DELETE', '/t/x', undef, 'If-Match' => '"1-00000000"')->status(),
        412, "$tag: not if it is another");
    is($h->get('/t/x')->body(), qq{"text"\n}, "$tag: it is still there");
    is(ask('DELETE', '/t/x', undef, 'If-Match' => $tag)->status(), 204,
        "$tag: is deleted");
    is($h->get('/t/x')->status(), 404, "$tag: it is gone");
    is($h->get('/t/')->body(), "[]\n", "$tag: so is its name");
    is($h->get('/get?k=x')->body(), "default\n", "$tag: and for lookups");
    is(ask('DELETE', '/t/x', undef, 'If-Match' => $tag)->status(), 412,
        "$tag: not twice");
    is(ask('PUT', '/t/x', '"new"', 'If-None-Match' => '*')->status(), 204,
        "$tag: it can be made");
    is(ask('DELETE', '/t/x')->status(), 204, "$tag: without a condition");
}

is(ask('PUT', '/a', '[1]')->status(), 204, 'an array');
is(ask('DELETE', '/a')->status(), 204, 'is deleted');
is($h->get('/a')->body(), "[]\n", 'it is empty');
is($h->get('/a')->header('ETag'), undef, 'without ETag');
is(ask('PUT', '/a', '[2]', 'If-Match' => '*')->status(), 412,
    'it is not there');
is(ask('PUT', '/a', '[3]', 'If-None-Match' => '*')->status(), 204,
    'it can be made');
is($h->get('/a')->body(), "[3]\n", 'and is there');

$t->done();


sub ask {
    my ($method, $uri, $body, @headers) = @_;

    return $h->get($uri, method => $method, body => $body,
        headers => { 'Content-Type' => 'application/json', @headers });
}
