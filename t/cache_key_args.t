#!/usr/bin/perl

# Copyright (C) mcds authors

# Arguments in the default key: some are left out, the others are put in order,
# and nothing that an application could tell apart has one key.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'answer %n of %u' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache on;
    mcds_cache_key_ignore_args utm_* fbclid;
    mcds_cache_key_ignore_args gclid;
    add_header X-Key $mcds_cache_key always;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_set_header Host $host;
        location / {
            mcds_cache_key_sort_args on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ignore { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /plain {
            mcds_cache_key_ignore_args off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /more {
            mcds_cache_key "$mcds_cache_key $http_x_kind";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi {
            ssi on;
            default_type text/html;
            mcds_cache off;
            return 200 '<!--#include virtual="/sub?b=2&utm_x=1&a=1" -->';
        }
    }
}
EOT

# uri => what its key is, behind the host

my @rows = (
    ['/a', '/a'],
    ['/a?', '/a'],
    ['/a?b=1', '/a?b=1'],
    ['/a?b=1&a=2', '/a?a=2&b=1'],
    ['/a?&b=1&&a=2&', '/a?a=2&b=1'],
    ['/a?utm_source=x', '/a'],
    ['/a?utm_source=x&b=1&fbclid=2&gclid', '/a?b=1'],
    ['/a?utm=x&xutm_a=1&gclidx=1', '/a?gclidx=1&utm=x&xutm_a=1'],
    ['/a?a=utm_source', '/a?a=utm_source'],

    # values of one name keep their order, and repeat once
    ['/a?a=2&a=1', '/a?a=2&a=1'],
    ['/a?a=1&a=2&a=1', '/a?a=1&a=2&a=1'],
    ['/a?a=1&b=1&a=1', '/a?a=1&b=1'],
    ['/a?a&a=&a', '/a?a&a=&a'],
    ['/a?a[]=1&a[]=1', '/a?a[]=1&a[]=1'],
    ['/a?a%5b%5d=1&a%5b%5d=1', '/a?a%5b%5d=1&a%5b%5d=1'],
    ['/a?b&a&ab', '/a?a&ab&b'],
    ['/a?q=x?y&b', '/a?b&q=x?y'],

    ['/ignore?b=1&utm_a=1&a=1', '/ignore?b=1&a=1'],
    ['/ignore?b=1&b=1', '/ignore?b=1&b=1'],
    ['/plain?utm_a=1&a=1&a=1', '/plain?utm_a=1&a=1&a=1'],
);

for (@rows) {
    my ($uri, $key) = @$_;

    my $r = $h->get($uri);
    is($r->header('X-Key'), "http://localhost$key", $uri);
    ok(wait_for(sub { defined $m->get("<>http://localhost$key") }),
        "$uri is stored there");
}

$o->mark();
$h->get('/one?a=1&b=2');
like($h->get('/one?b=2&utm_campaign=x&a=1')->body(), qr/one\?a=1&b=2$/,
    'one page for both');
is($o->count('/one'), 1, 'asked once');

$h->get('/two?b=2&utm_x=3&a=1');
is(($o->requests('/two'))[0]->{uri}, '/two?b=2&utm_x=3&a=1',
    'the origin gets all of it, in its order');

my $many = join '&', map { "k$_=" . (300 - $_) } reverse 1 .. 300;
is($h->get("/many?$many")->header('X-Key'), "http://localhost/many?$many",
    'too many of them stay as they are');

is($h->get('/more?b=1&utm_x=1', headers => { 'X-Kind' => 'k' })
    ->header('X-Key'), 'http://localhost/more?b=1 k',
    'a key made of the default one');
is($h->get('/off')->header('X-Key'), undef, 'no key without a cache');

like($h->get('/ssi')->body(), qr/answer/, 'a subrequest');
ok(wait_for(sub { defined $m->get('<>http://localhost/sub?a=1&b=2') }),
    'has its arguments alike');

like($t->conf_error(location => 'mcds_cache_key_ignore_args "";'),
    qr/"mcds_cache_key_ignore_args" directive has an empty name/,
    'an empty name');
like($t->conf_error(location => 'mcds_cache_key_sort_args yes;'),
    qr/invalid value "yes" in "mcds_cache_key_sort_args"/, 'no flag');

$t->done();
