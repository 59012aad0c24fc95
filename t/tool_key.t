#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds get and purge of a URL where the configuration has an mcds_cache_key: the
# text is made as nginx makes it in the location that answers, and where the URL
# does not tell it the tool says why.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache on;
    mcds_cache_key "$scheme://$host$request_uri";
    map $http_x_kind $kind { default desktop; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /uri/ {
            mcds_cache_key "${host}$uri$is_args$args, $request_method";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            location /uri/arg/ {
                mcds_cache_key "$document_uri: $arg_id";
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
            location = /uri/exact {
                mcds_cache_key "default $mcds_cache_key";
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
            location =/uri/word {
                mcds_cache_key "word $uri";
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
            location ^~/uri/first/ {
                mcds_cache_key "first $uri";
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
        }
        location /kind/ {
            mcds_cache_key "$mcds_cache_key $kind";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /sorted/ {
            mcds_cache_key $mcds_cache_key;
            mcds_cache_key_args sort;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            location /sorted/not/ {
                mcds_cache_key "not sorted $mcds_cache_key";
                mcds_cache_key_args off;
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
        }
    }
    server {
        listen 127.0.0.1:%%PORT_if%%;
        server_name www.example.com example.com;
        if ($host = example.com) {
            return 301 http://www.example.com$request_uri;
        }
        location / {
            mcds_cache_key "$scheme://$host$uri";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /outer/ {
            mcds_cache_key "outer $uri";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            if ($arg_x) { set $x 1; }
            location /outer/inner/ {
                mcds_cache_key "inner $uri";
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
        }
        location /limit/ {
            mcds_cache_key "limit $uri";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            limit_except GET { deny all; }
            location /limit/inner/ {
                mcds_cache_key "inner $uri";
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
        }
    }
    server {
        listen 127.0.0.1:%%PORT_other%%;
        mcds_cache_site other;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location ~ \.one$ {
            mcds_cache_key "one $uri";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $mcds = Test::Mcds::Tool->new($t, '-c', $h->dir() . '/nginx.conf');
my $at = 'http://localhost:' . $h->port();

# the page of a URL has this key, and is found and purged under it

sub purged {
    my ($host, $port, $uri, $key) = @_;

    my @where = "http://$host:$port$uri";

    Test::Mcds::Http::http_get("127.0.0.1:$port", $uri, host => "$host:$port");

    my $p;
    wait_for(sub {
        $p = $mcds->json('get', @where)->[0];
        return ($p->{state} // '') eq 'fresh';
    }, 10);

    is($p->{key}, $key, "$uri: the key");
    is($p->{state}, 'fresh', "$uri: found");

    $p = $mcds->json('purge', @where)->[0];
    is($p->{result}, 'expired', "$uri: purged");
    is($mcds->json('get', @where)->[0]{state}, 'invalidated', "$uri: seen");
    is($mcds->json('purge', '--delete', @where)->[0]{result}, 'deleted',
        "$uri: deleted");
    is($mcds->json('purge', @where)->[0]{result}, 'there is no such page',
        "$uri: nothing more");
}

# the location of the URL, in the server that listens on its port

purged('localhost', $h->port(), @$_)
    for ['/page?a=1', 'http://localhost/page?a=1'],
        ['/uri/1?b=2', 'localhost/uri/1?b=2, GET'],
        ['/uri/2', 'localhost/uri/2, GET'],
        ['/uri/%41', 'localhost/uri/A, GET'],
        ['/uri/arg/3?ID=7&id=8', '/uri/arg/3: 7'],
        ['/uri/arg/4?i=1', '/uri/arg/4: '],
        ['/uri/exact', "default $at/uri/exact"],
        ['/uri/word', 'word /uri/word'],
        ['/uri/first/1', 'first /uri/first/1'],
        ['/sorted/not/1?b=1&a=2', "not sorted $at/sorted/not/1?b=1&a=2"];

# an "if" of a server answers nothing, and a block of a location nothing that a
# location inside of it answers

purged('www.example.com', $t->port('if'), @$_)
    for ['/a?utm=1', 'http://www.example.com/a'],
        ['/outer/inner/1?x=1', 'inner /outer/inner/1'],
        ['/outer/1?x=1', 'outer /outer/1'],
        ['/limit/inner/1', 'inner /limit/inner/1'],
        ['/limit/1', 'limit /limit/1'];

# what the URL does not tell

for (['/kind/1',
        qr/mcds_cache_key has \$kind, which the URL does not determine/],
    ['http://localhost:' . $t->port('other') . '/x.one',
        qr/have different keys/],
    ['/sorted/1?b=1&a=2', qr/mcds_cache_key_args changes its arguments/])
{
    my ($uri, $why) = @$_;
    my $where = $uri =~ /^http/ ? $uri : "$at$uri";

    for my $command ('get', 'purge') {
        my $r = $mcds->run($command, $where);

        is($r->{code}, 1, "$uri: $command: not found");
        like($r->{err}, $why, "$uri: $command: why");
        like($r->{err}, qr/pass the text of the key with --key/,
            "$uri: $command: what then");
    }
}

# a page from before the location had a key of its own: it is not the one that
# is served

my $name = "<>$at/kind/old";
$m->set($name, page_encode(key => $name, body => 'old'));

my $old = $mcds->run('purge', '--delete', "$at/kind/old");

is($old->{code}, 1, 'an old page: it may be the wrong one');
like($old->{out}, qr/ yes +no +deleted /, 'which was there');
like($old->{err}, qr/mcds_cache_key has \$kind, .*pass the text of the key/,
    'this is said');

# for people

my $r = $mcds->run('purge', "$at/none");
like($r->{out}, qr/there is no such page/, 'in words');
is($r->{err}, '', 'it was looked for under its key');

$t->done();
