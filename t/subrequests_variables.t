#!/usr/bin/perl

# Copyright (C) mcds authors

# A request and its subrequests have the same variables.  A part of a page that
# has waited for memcached goes on with the values that its own location has
# set, by "set" or by named captures, although other parts have set others, and
# without those that it has not set.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $includes = sub {
    my ($where) = @_;
    return join ' ', map { "<!--# include virtual=\"/$where/$_/x\" -->" }
        qw/ de en fr /;
};

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Content-Type' => 'text/html',
    'Cache-Control' => 'max-age=60'], body => '%u' }, paths => {
        map { ("/page/$_" => { body => $includes->($_),
            headers => ['Content-Type' => 'text/html'] }) }
        qw/ set named wait bare id private tag unset /,
    });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    map $role $right { default none; admin all; }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /page/ { ssi on; proxy_pass http://127.0.0.1:%%PORT_o%%; }

        location ~ ^/(set|bare)/ {
            mcds_cache on;
            set        $lang $uri;
            if ($uri ~ ^/bare) { set $lang "$lang-bare"; }
            proxy_pass http://127.0.0.1:%%PORT_o%%/in?lang=$lang;
        }
        location ~ ^/named/(?<name>\w+)/ {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%/in?lang=$name;
        }
        location /wait/ {
            mcds_table_lookup $found t $uri remember=off phase=preaccess;
            set        $way $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%/in?lang=$way;
        }

        location /private/ {
            mcds_cache on;
            set        $private 0;
            if ($uri ~ /en/) { set $private 1; }
            mcds_no_cache $private;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location ~ ^/tag/(?<part>\w+)/ {
            mcds_cache     on;
            mcds_cache_tag part-$part;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_purge_api on; }
        location /id/ {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%/in?id=$request_id;
        }

        location /unset/ {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%/in?role=$role-$right;
        }
        location /unset/en/ {
            mcds_cache on;
            set        $role admin;
            proxy_pass http://127.0.0.1:%%PORT_o%%/in?role=$role-$right;
        }
        location /unset/alone {
            mcds_cache on;
            mirror     /copy;
            proxy_pass http://127.0.0.1:%%PORT_o%%/in?role=$role-$right;
        }

        location /both/ {
            mcds_cache on;
            mirror     /copy;
            set        $side main;
            proxy_pass http://127.0.0.1:%%PORT_o%%/in?side=$side;
        }
        location /copy {
            set        $side copy;
            set        $role admin;
            proxy_pass http://127.0.0.1:%%PORT_o%%/in?side=$side;
        }
    }
}
EOT

sub parts { join ' ', map { "/in?lang=$_" } @_ }

for my $i (1, 2) {
    is($h->get('/page/set')->body(),
        parts(map { "/set/$_/x" } qw/ de en fr /), "set: page $i");
    is($h->get('/page/bare')->body(),
        parts(map { "/bare/$_/x-bare" } qw/ de en fr /), "set in if: page $i");
    is($h->get('/page/named')->body(), parts(qw/ de en fr /),
        "named captures: page $i");
    is($h->get('/page/wait')->body(),
        parts(map { "/wait/$_/x" } qw/ de en fr /), "a look-up: page $i");
}

is($h->get('/page/private')->body(), join(' ', map { "/private/$_/x" }
    qw/ de en fr /), "a part that is not to be stored: $_") for 1 .. 3;
is($o->count('/private/de/x') . $o->count('/private/en/x'), 13,
    'mcds_no_cache has the variables of this part');

$h->get('/page/tag') for 1 .. 2;
is($h->get('/purge?tag=part-de', method => 'POST')->status(), 200,
    'a purge by the tag of a part');
$h->get('/page/tag');
ok($o->wait_requests(2, '/tag/de/x'), 'reaches this part');
is($o->count('/tag/fr/x'), 1, 'and no other');

like($h->get('/page/id')->body(), qr{^(/in\?id=\w+) \1 \1$},
    'one $request_id for all parts');

# a part that comes later has the variable, as without mcds

like($h->get('/page/unset')->body(), qr{^/in\?role=-none /in\?role=admin-all },
    'a part goes on without a variable that only another part sets');
is($h->get('/unset/alone')->body(), '/in?role=-none', 'or only a mirror');

is($h->get('/both/x')->body(), '/in?side=main', 'mirror');

$t->done();
