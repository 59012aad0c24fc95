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
    mcds_cache_key_args ignore=utm_*,fbclid,gclid;
    add_header X-Key $mcds_cache_key always;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_set_header Host $host;
        location / {
            mcds_cache_key_args sort ignore=utm_*,fbclid,gclid;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ignore { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /plain {
            mcds_cache_key_args off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /only {
            mcds_cache_key_args only=id,p*;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /sorted {
            mcds_cache_key_args only=id,p* sort;
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

    ['/only?utm_a=1&page=2&id=1&x', '/only?page=2&id=1'],
    ['/only?idx=2&i=3&=4', '/only'],

    # what an origin may take for one of these
    ['/only?ID=1&x=1', '/only?ID=1'],
    ['/only?i%64=1&x', '/only?i%64=1'],
    ['/only?+id=1&id[]=2&.id=3&y=1', '/only?+id=1&id[]=2&.id=3'],
    ['/only?id%5b%5d=2&' . 'z' x 65 . '=1', '/only?id%5b%5d=2&' . 'z' x 65
        . '=1'],
    ['/only?x=1;id=2&id=3', '/only?x=1;id=2&id=3'],
    ['/only?id&p', '/only?id&p'],
    ['/sorted?page=2&b=1&id=1&id=1', '/sorted?id=1&page=2'],
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

for my $words ('sort', 'ignore=a', 'only=a', 'sort ignore=a,b*',
    'only=A,b sort', 'off')
{
    is($t->conf_error(location => "mcds_cache_key_args $words;"), '',
        "right: $words");
}

my $kind = qr/invalid parameter/;
my $empty = 'it must be a list of names, of which none is empty';

for (['""', $kind, ''], ['ignore=', $kind, 'ignore='],
    ['ignore=a,', qr/invalid value/, 'ignore=a,', $empty],
    ['only=,a', qr/invalid value/, 'only=,a', $empty],
    ['sort sort', qr/duplicate parameter/, 'sort'],
    ['only=a ignore=b', qr/duplicate parameter/, 'ignore=b'],
    ['ignore=a only=b', qr/duplicate parameter/, 'only=b'],
    ['utm_*', $kind, 'utm_*'], ['sort=on', $kind, 'sort=on'])
{
    my ($words, $re, $name, $why) = (@$_, '');
    like($t->conf_error(location => "mcds_cache_key_args $words;"),
        qr{$re "\Q$name\E" in "mcds_cache_key_args".*\Q$why\E},
        "wrong: $words");
}

like($t->conf_error(location => 'mcds_cache_key_args off sort;'),
    qr/"mcds_cache_key_args" directive "off" takes no further parameter/,
    'wrong: off sort');
like($t->conf_error(location => 'mcds_cache_key_args;'),
    qr/number of arguments/, 'wrong: nothing');
like($t->conf_error(location => 'mcds_cache_key_args sort; '
    . 'mcds_cache_key_args off;'), qr/is duplicate/, 'wrong: twice');

$t->done();
