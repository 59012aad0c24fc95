#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_return answers as "return" does, but in the content phase, when access
# was granted and the counters have their numbers.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

mkdir $t->dir() . '/root';
$t->write_file('root/ssi.html', '<!--# include virtual="/text" -->'
    . '<!--# include virtual="/empty" -->|'
    . '<!--# include virtual="/404t" -->');

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    default_type text/x-default;
    types { text/html html; }
    root %%TMP%%/root;

    server {
        listen 127.0.0.1:%%PORT%%;
        error_page 404 410 /error;
        absolute_redirect off;

        location = /error { mcds_return 200 "the error page of $uri"; }
        location = /text { mcds_return "some text"; }
        location = /empty { mcds_return ""; }
        location = /vars { mcds_return "$request_method $arg_a$arg_b."; }
        location = /type { default_type text/plain; mcds_return 200 "x"; }
        location = /page.html { mcds_return "typed by its name"; }
        location = /number { mcds_return 203 203; }

        location = /200 { mcds_return 200; }
        location = /201t { mcds_return 201 created; }
        location = /204 { mcds_return 204; }
        location = /404 { mcds_return 404; }
        location = /404t { mcds_return 404 "own text"; }
        location = /404v { mcds_return 404 "$arg_none"; }
        location = /500 { mcds_return 500; }
        location = /599t { mcds_return 599 "the last"; }
        location = /444 { mcds_return 444; }

        location = /301 { mcds_return 301 /to?$args; }
        location = /302 { mcds_return 302 https://other$uri; }
        location = /303 { mcds_return 303 /to; }
        location = /307 { mcds_return 307 /to; }
        location = /308 { mcds_return 308 /to; }

        location = /order {
            mcds_counter $n key=n;
            set $set "set";
            mcds_return "$n $set $late";
            set $late "late";
        }
        location = /deny { deny all; mcds_return "not seen"; }
        location = /if {
            if ($arg_a) { mcds_return 202 "inside"; }
            mcds_return "outside";
        }
        location = /other { if ($arg_a) { set $x 1; } mcds_return "outside"; }
        location = /status { if ($arg_a) { set $x 1; } mcds_return 202 "own"; }
        location /outer { mcds_return "outer"; location /outer/inner { } }
        location = /ssi.html { ssi on; }
    }
}
EOT


# uri, status, text or what it is like

my @table = (
    ['/text', 200, 'some text'],
    ['/empty', 200, ''],
    ['/vars?a=1', 200, 'GET 1.'],
    ['/vars', 200, 'GET .'],
    ['/number', 203, '203'],
    ['/200', 200, ''],
    ['/201t', 201, 'created'],
    ['/204', 204, ''],
    ['/404', 404, 'the error page of /error'],
    ['/404t', 404, 'own text'],
    ['/404v', 404, ''],
    ['/500', 500, qr/<h1>500 Internal Server Error/],
    ['/599t', 599, 'the last'],
    ['/order', 200, '1 set late'],
    ['/deny', 403, qr/<h1>403/],
    ['/if', 200, 'outside'],
    ['/if?a=1', 202, 'inside'],
    ['/other', 200, 'outside'],
    ['/outer', 200, 'outer'],
    ['/outer/inner', 404, 'the error page of /error'],
    ['/ssi.html', 200, 'some text|own text'],
);

for my $row (@table) {
    my ($uri, $status, $want) = @$row;
    my $r = $a->get($uri);
    my $got = $r->status() . ' ' . $r->body();

    ref $want ? like($got, qr/^$status .*$want/s, $uri)
        : is($got, "$status $want", $uri);
}

is($a->get("/$_->[0]")->header('Location') // '', $_->[1],
    "location of $_->[0]") for (
    ['301?a=b', '/to?a=b'], ['302', 'https://other/302'], ['303', '/to'],
    ['307', '/to'], ['308', '/to'], ['text', '']);
is($a->get("/$_")->status(), $_, "status $_") for 301, 302, 303, 307, 308;

is($a->get('/text')->header('Content-Type'), 'text/x-default', 'type');
is($a->get('/type')->header('Content-Type'), 'text/plain', 'own type');
is($a->get('/page.html')->header('Content-Type'), 'text/html', 'by name');
is(http_raw($a->port(), "GET /444 HTTP/1.0\r\n\r\n"), '', '444 closes');

# "if" without an own one has that of its location

is($a->get('/other?a=1')->body(), 'outside', 'if inherits it');
is($a->get("/status$_")->status() . $a->get("/status$_")->body(), '202own',
    "/status$_: with its status") for '', '?a=1';


# other methods; a body is read and forgotten

my $r = $a->get('/text', method => 'HEAD');
is($r->header('Content-Length') . $r->body(), '9', 'HEAD');

my $c = $a->conn();
is($c->get('/vars', body => 'x' x 200000)->body(), 'POST .', 'POST');
is($c->get('/404', body => 'x' x 200000)->status(), 404, 'POST and an error');
is($c->get('/302', body => 'x' x 200000)->status(), 302, 'POST and a redirect');
is($c->get('/text')->body(), 'some text', 'on the same connection');
$c->close();

$t->done();
