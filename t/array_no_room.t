#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached deletes an item whose new content it refuses, as it is larger than
# items may be (-I), or as there is no memory for it (-M): an array stays as it
# was, and the name of an element of a table goes with the element.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', args => ['-I', '16k', '-o', 'slab_chunk_max=8192']);
my $full = $t->memcached('full', memory => 4, args => ['-M']);

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool small { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_pool classic {
        server 127.0.0.1:%%PORT_m%%;
        timeout 5s;
        protocol classic;
    }
    mcds_pool full { server 127.0.0.1:%%PORT_full%%; timeout 5s; }
    mcds_api_methods GET POST PUT PATCH DELETE;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /small { mcds_use small; mcds_array_api small; }
        location = /classic { mcds_use classic; mcds_array_api classic; }
        location = /full { mcds_use full; mcds_array_api full; }
        location /t/ { mcds_use small; mcds_table_api t; }
        location /ft/ { mcds_use full; mcds_table_api ft; }
    }
}
EOC

my $large = '[' . join(',', map { '"' . 'x' x 1000 . '"' } 1 .. 12) . ']';
my $parts = $large =~ s/x/yyyy/gr;


# larger than an item may be

for my $uri ('/small', '/classic') {
    for my $row (['PATCH', qq({"add":$large})], ['PATCH', qq({"add":$parts})],
        ['PUT', $large =~ s/x/yy/gr], ['PUT', $parts])
    {
        my ($method, $body) = @$row;
        my $what = "$uri, $method of " . length $body;

        is(json('PUT', $uri, $large)->status(), 204, "$what: an array");
        is(json($method, $uri, $body)->status(), 507, "$what: 507");
        ok(list($uri) eq $large, "$what: as it was");
    }
}

is(json('POST', '/small', '"new"')->status(), 204, 'a small value');
ok(list('/small') eq $large =~ s/]/,"new"]/r, 'it is appended');
is(json('PUT', '/small', '[]')->status(), 204, 'an empty array');
ok(wait_for(sub { !grep { /^small/ } $m->keys() }), 'no part is left');

$m->flush();
is(json('PUT', '/small', $large =~ s/x/yy/gr)->status(), 507, 'a new array');
is(list('/small'), '[]', 'there is none');


# an element of a table

put('/t/x', 'ban');
put('/t/y', 'ban');
is(put('/t/x', 'z' x 16384)->status(), 507, 'an element: 507');
is($h->get('/t/x')->status(), 404, 'the element is gone');
is(list('/t/'), '["y"]', 'so is its name');
is(put('/t/x', 'ban')->status(), 204, 'the element is set again');
is(list('/t/'), '["x","y"]', 'its name is back');


# no memory

is(json('PUT', '/full', '["a","b","c"]')->status(), 204, 'in little memory');
put('/ft/x', 'ban');

for my $size (3000, 9000, 12_050) {
    my $n = 0;

    $n++ while $n < 5000
        && $full->mc("ms fill-$size-$n $size", 'z' x $size) =~ /^HD/;
    cmp_ok($n, '<', 5000, "no memory for $size bytes");
}

for my $row (['PUT', $large], ['PATCH', qq({"add":$large})]) {
    my ($method, $body) = @$row;

    my $r = json($method, '/full', $body);
    is($r->status(), 503, "no memory, $method: 503");
    like($r->body(), qr/memcached has refused it/, "$method: which is said");
    is(list('/full'), '["a","b","c"]', "$method: as it was");
}

is(put('/ft/x', 'z' x 9000)->status(), 503, 'no memory, an element: 503');
is($h->get('/ft/x')->status(), 404, 'the element is gone');
is(list('/ft/'), '["x"]', 'the list of names is not written to');

$t->done();


sub json {
    my ($method, $uri, $body) = @_;

    return $h->get($uri, method => $method, body => $body,
        headers => { 'Content-Type' => 'application/json' });
}


sub put { return $h->get($_[0], method => 'PUT', body => $_[1]) }


sub list { return $h->get($_[0])->body() =~ s/\n$//r }
