#!/usr/bin/perl

# Copyright (C) mcds authors

# A FastCGI application gets the same parameters from a refresh as from the
# request of a client, with Debian's fastcgi_params, by http and by https.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Refresh;

my $params = '/etc/nginx/fastcgi_params';

plan(skip_all => "no $params") if !-e $params;

my $t = Test::Mcds->new()->needs('http_ssl', 'openssl', 'IO::Socket::SSL');

$t->cert('localhost');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my $p = $req->{params};
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        body    => join '', "answer $req->{n}\n",
            (map { "$_=$p->{$_}\n" } sort keys %$p), "[$req->{body}]\n",
    };
}, fastcgi => 1);

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    upstream app { server 127.0.0.1:%%PORT_o%%; keepalive 2; }

    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_tls%% ssl;
        server_name www.example.com;
        ssl_certificate     %%TMP%%/localhost.crt;
        ssl_certificate_key %%TMP%%/localhost.key;

        root           %%TMP%%;
        mcds_cache     on;
        mcds_cache_key $scheme$request_uri;
        add_header     X-Cache $mcds_cache_status;

        location / {
            mcds_cache off;
            try_files $uri $uri/ /index.php?q=$uri&$args;
        }
        location ~ \.php(/|$) {
            fastcgi_split_path_info ^(.+?\.php)(/.*)$;
            set $path_info $fastcgi_path_info;
            include       /etc/nginx/fastcgi_params;
            fastcgi_param PATH_INFO       $path_info;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_pass  app;
            fastcgi_keep_conn on;
        }
    }
}
EOT

my @headers = ('X-Y', 'z', 'Cookie', 'a=1', 'Accept', 'text/html',
    'TE', 'trailers', 'Expect', '100-continue',
    'Upgrade', 'h2c', 'Keep-Alive', '5',
    'X-Forwarded-For', '9.9.9.9', 'Referer', 'http://else/');


for my $scheme ('http', 'https') {
    my $port = $scheme eq 'http' ? $h->port() : $t->port('tls');
    my %ssl = $scheme eq 'http' ? () : (ssl => 1);

    for my $case (
        ['/wp/hello?z=1', '/index.php', 'q=/wp/hello&z=1', ''],
        ['/a.php/info/b%20c?k=1', '/a.php', 'k=1', '/info/b c'])
    {
        my ($uri, $script, $query, $info) = @$case;
        my $name = "$scheme $uri";

        # what is told of the connection is the same on the same one

        my $c = conn($port, %ssl);
        my $body = refresh_same($t, $m, "<www.example.com>$scheme$uri", $name,
            sub {
                $c->get($uri, host => 'www.example.com',
                    headers => \@headers);
            });

        my %p = $body =~ /^(\w+)=(.*)$/mg;
        my %want = (
            QUERY_STRING => $query, REQUEST_METHOD => 'GET',
            CONTENT_TYPE => '', CONTENT_LENGTH => '', SCRIPT_NAME => $script,
            REQUEST_URI => $uri, DOCUMENT_URI => "$script$info",
            DOCUMENT_ROOT => $t->dir(), SERVER_PROTOCOL => 'HTTP/1.1',
            REQUEST_SCHEME => $scheme, GATEWAY_INTERFACE => 'CGI/1.1',
            REMOTE_ADDR => '127.0.0.1', SERVER_ADDR => '127.0.0.1',
            SERVER_PORT => $port, SERVER_NAME => 'www.example.com',
            REDIRECT_STATUS => 200, PATH_INFO => $info,
            SCRIPT_FILENAME => $t->dir() . $script, HTTP_X_Y => 'z',
            HTTP_COOKIE => 'a=1', HTTP_ACCEPT => 'text/html',
            HTTP_HOST => 'www.example.com', HTTP_X_FORWARDED_FOR => '9.9.9.9',
            HTTP_REFERER => 'http://else/',
            ($scheme eq 'https' ? (HTTPS => 'on') : ()),
        );

        is($p{$_}, $want{$_}, "$name: $_") for sort keys %want;

        ok(!exists $p{HTTPS}, "$name: no HTTPS") if $scheme eq 'http';
        ok(!exists $p{$_}, "$name: no $_")
            for qw/ HTTP_TE HTTP_UPGRADE HTTP_KEEP_ALIVE HTTP_CONNECTION
                HTTP_EXPECT /;
        like($p{REMOTE_PORT}, qr/^\d+$/, "$name: REMOTE_PORT");
        like($body, qr/^\[\]$/m, "$name: no body");
    }
}

$t->done(keep => ['o']);
