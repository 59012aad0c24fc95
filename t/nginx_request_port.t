#!/usr/bin/perl

# Copyright (C) mcds authors

# $request_port: a page is kept under the port that its client has named, and
# what asks the origin, a build or a refresh behind it, knows that port.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new()->needs('http_v2', 'curl')
    ->since('1.29.3', '$request_port');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        body    => "answer $req->{n}\n$req->{head}\n",
    };
});

my $f = $t->origin('f', fastcgi => 1, answer => sub {
    my ($f, $req) = @_;
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        body    => "answer $req->{n}\n$req->{params}{HTTP_HOST}\n",
    };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    # is asked for by name only, and by the origin's side only
    map $arg_late$is_request_port $late {
        volatile;
        default no;
        "1:"    $request_port;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_h2c%%;
        http2  on;

        mcds_cache       on;
        mcds_cache_key   $host$is_request_port$request_port$uri;
        add_header       X-Cache $mcds_cache_status;
        proxy_set_header Host $host$is_request_port$request_port;
        proxy_set_header X-Port "$request_port|$is_request_port";
        proxy_set_header X-Late $late;

        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }

        # nothing has asked for the port before the origin's side does
        location /only/ {
            mcds_cache_key $uri;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }

        # what nginx 1.29.5 and later tells an application by itself
        location /app/ {
            mcds_cache_key $uri;
            fastcgi_param  REQUEST_URI $request_uri;
            fastcgi_pass   127.0.0.1:%%PORT_f%%;
        }

        # the page of a subrequest
        location /ssi/ {
            mcds_cache    off;
            ssi           on;
            ssi_types     *;
            mcds_return   '<!--# include virtual="/part" -->';
        }
    }
}
EOT

my $port = $h->port();
my $h2c = 'http://127.0.0.1:' . $t->port('h2c');


# by connections of both protocols

sub by_http {
    my ($uri, %o) = @_;
    return sub { return $h->get($uri, %o) };
}


sub by_http2 {
    my ($uri, $host) = @_;

    return sub {
        my $out = $t->curl('-si', '--http2-prior-knowledge', '-H',
            "Host: $host", "$h2c$uri");
        return Test::Mcds::Http::parse(\$out, 'GET', 1);
    };
}


for my $case (
    ['Host', 'a:8080/1', by_http('/1?late=1', host => 'a:8080'), '8080|:'],
    ['no port', 'a/1', by_http('/1', host => 'a'), '|'],
    ['another', 'a:81/1', by_http('/1', host => 'a:81'), '81|:'],
    ['request line', 'b:82/1', by_http('http://b:82/1', host => 'b:82'),
        '82|:'],
    ['HTTP/2', 'c:8443/1', by_http2('/1', 'c:8443'), '8443|:'],
    ['HTTP/2, no port', 'c/1', by_http2('/1', 'c'), '|'],
    ['only the origin asks', '/only/1', by_http('/only/1', host => 'd:83'),
        '83|:'])
{
    my ($name, $key, $get, $value) = @$case;
    my $body = refresh_same($t, $m, $key, $name, $get);

    like($body, qr/^X-Port: \Q$value\E\r?$/m, "$name: \$request_port");
}

is($o->count(), 14, 'each page was built once and refreshed once');
like((page_decode($m->get('<>a:8080/1')))->{body}, qr/^X-Late: 8080\r?$/m,
    'a variable that is never kept');
like((page_decode($m->get('<>a:8080/1')))->{body}, qr/^Host: a:8080\r?$/m,
    'in the header that the origin makes links of');

like(refresh_same($t, $m, '/app/1', 'FastCGI',
    by_http('/app/1', host => 'e:85')), qr/^e:85$/m, 'FastCGI: HTTP_HOST');

is($h->get('/1', host => 'a:81')->header('X-Cache'), 'HIT', 'hit');
is($h->get('/1', host => 'a:84')->header('X-Cache'), 'MISS',
    'another port, another page');


# until 1.29.8 nginx itself knows of no port in a subrequest

SKIP: {
    skip 'subrequests have no port before nginx 1.29.8', 3
        if $t->nginx_version() < 1029008;

    my $first = $h->get('/ssi/', host => 'a:8080')->body();
    like($first, qr/^X-Port: 8080\|:\r?$/m, 'a part of a page');

    page_expire($m, 'a:8080/part', 1000);
    is($h->get('/ssi/', host => 'a:8080')->body(), $first, 'which is stale');

    my $page = refresh_wait($m, 'a:8080/part', 5 * $t->slow());
    is($page && $page->{body} =~ s/^answer \d+//r, $first =~ s/^answer \d+//r,
        'is refreshed by the same question');
}

$t->done();
