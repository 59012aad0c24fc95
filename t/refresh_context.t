#!/usr/bin/perl

# Copyright (C) mcds authors

# A refresh asks the origin as the client's own request would: the origin
# shows what it was asked with, and a page made by a refresh is the one that a
# fill has made, byte by byte, whatever the request came by.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new()->needs('http_ssl', 'http_v2', 'http_realip',
    'openssl', 'curl', 'IO::Socket::SSL');

$t->cert('localhost');
$t->cert('client');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        body    => "answer $req->{n}\n$req->{method} $req->{uri}\n"
            . "$req->{head}\n",
    };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    map $http_x_device $device {
        default             none;
        ~^mob(?<model>.*)$  "mobile $model";
    }
    map $cookie_lang $language { default en; de german; }
    map $http_range  $range    { default "part $http_range"; "" whole; }
    geo $near                  { default no; 127.0.0.0/8 yes; 1.2.3.0/24 real; }

    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_tls%% ssl http2;
        listen 127.0.0.1:%%PORT_h2c%% http2;
        listen 127.0.0.1:%%PORT_pp%% proxy_protocol;
        listen *:%%PORT_any%%;
        listen unix:%%SOCK_in%%;
        server_name ~^(?<sub>\w+)\.example\.com$ localhost;

        ssl_certificate     %%TMP%%/localhost.crt;
        ssl_certificate_key %%TMP%%/localhost.key;
        ssl_verify_client   optional_no_ca;

        root           %%TMP%%;
        mcds_cache        on;
        mcds_cache_shared on;
        mcds_cache_key    $request_uri;
        add_header     X-Cache $mcds_cache_status;

        proxy_set_header Host     $http_host;
        proxy_set_header X-Tls    "$scheme|$https|$ssl_protocol|$ssl_cipher";
        proxy_set_header X-Name   $ssl_server_name;
        proxy_set_header X-Cert   "$ssl_client_verify|$ssl_client_s_dn";
        proxy_set_header X-Print  $ssl_client_fingerprint;
        proxy_set_header X-Client "$remote_addr|$binary_remote_addr|$near";
        proxy_set_header X-Before "$realip_remote_addr|$proxy_protocol_addr";
        proxy_set_header X-Port   $proxy_protocol_port;
        proxy_set_header X-To     $proxy_protocol_server_addr;
        proxy_set_header X-Server "$server_addr|$server_port|$hostname";
        proxy_set_header X-Host   "$server_name|$sub|$host";
        proxy_set_header X-Uri    "$request_uri|$uri|$request_filename";
        proxy_set_header X-Args   "$args|$query_string|$is_args|$arg_x";
        proxy_set_header X-Line   "$request|$request_method|$http2";
        proxy_set_header X-Proto  $server_protocol;
        proxy_set_header X-Mapped "$device|$model|$language|$range";
        proxy_set_header X-For    $proxy_add_x_forwarded_for;
        proxy_set_header X-Cookie $cookie_id;
        proxy_set_header X-Same   $same;

        # what only requests of one connection have in common
        set $same "";
        if ($arg_same) {
            set $same $remote_port|$realip_remote_port|$connection;
            set $same $same|$request_length|$ssl_session_id;
        }

        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }

        location /real/ {
            set_real_ip_from  127.0.0.0/8;
            real_ip_header    X-Forwarded-For;
            real_ip_recursive on;
            proxy_pass        http://127.0.0.1:%%PORT_o%%;
        }
        location /realpp/ {
            set_real_ip_from  127.0.0.0/8;
            real_ip_header    proxy_protocol;
            proxy_pass        http://127.0.0.1:%%PORT_o%%;
        }
        location ~ ^/re/(\w+)/(?<id>\d+)$ {
            set $made "made-$1-$arg_x";
            proxy_set_header X-Made "$1|$2|$id|$made";
            proxy_pass       http://127.0.0.1:%%PORT_o%%/cap/$1?id=$2;
        }
        location /if/ {
            if ($uri ~ "^/if/(.)(.)") { set $made "$2$1"; }
            proxy_set_header X-Made "$1|$2|$made";
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
        }
        location /swap/ { proxy_pass http://127.0.0.1:%%PORT_o%%/with/; }

        # asks for all of it only when the client has gone
        location /late {
            mcds_cache_tag tls:$scheme:$https:$ssl_protocol:$ssl_cipher
                sni:$ssl_server_name
                cert:$ssl_client_s_dn:$ssl_client_fingerprint
                client:$remote_addr:$near to:$server_addr:$server_port
                line:$request_method:$request_uri:$server_protocol;
            proxy_set_header X-Tls "";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $port = $h->port();


# @like: what the origin must have seen

sub both {
    my ($name, $uri, $get, @like) = @_;
    my ($key) = $uri =~ m{^(?:http://[^/]+)?(/.*)};

    my $body = refresh_same($t, $m, $key, $name, sub { $get->($uri, @_) });

    like($body, $_, "$name: " . ("$_" =~ s/\s+/ /gr)) for @like;
}


# how many connections to a port of ours the worker has

sub connected {
    my ($port) = @_;
    my $tcp = $h->count_fds(($h->workers())[0])->{tcp};

    return scalar grep { $_ == $port } map { @$_ } values %$tcp;
}


# by a connection of the harness, the same one for both

sub kept {
    my ($where, %o) = @_;
    my %conn = map { exists $o{$_} ? ($_ => delete $o{$_}) : () }
        qw/ ssl preface /;
    my $c = conn($where, %conn);

    return sub {
        my ($uri, $last) = @_;
        my $r = $c->get($uri, %o);
        $c->close() if $last;
        return $r;
    };
}


# by curl, on a connection each

sub curled {
    my ($url, @args) = @_;

    return sub {
        my $out = $t->curl(@args, '-i', $url . shift);
        return Test::Mcds::Http::parse(\$out, 'GET', 1);
    };
}


my @headers = ('X-Device', 'mob7', 'Cookie', 'id=5; lang=de', 'X-Other', '1',
    'x-lower', 'as is', 'X-Other', '2', 'X-Empty', '', 'Accept', 'text/html',
    'Accept-Encoding', 'identity', 'User-Agent', 'test', 'Via', '1.0 a',
    'X-Forwarded-For', '9.9.9.9', 'X-Forwarded-For', '8.8.8.8');
my %tls = (SSL_cert_file => $t->dir() . '/client.crt',
    SSL_key_file => $t->dir() . '/client.key');

both('plain', '/a%20b//c?x=1&same=1', kept($port, host => 'foo.example.com',
    headers => \@headers),
    qr{^GET /a%20b//c\?x=1&same=1$}m,
    qr/^Host: foo\.example\.com\r$/m,
    qr/^X-Tls: http\|\|\|\r$/m,
    qr/^X-Client: 127\.0\.0\.1\|\x7f\x00\x00\x01\|yes\r$/m,
    qr/^X-Server: 127\.0\.0\.1\|$port\|./m,
    qr/^X-Host: ~.*\|foo\|foo\.example\.com\r$/m,
    qr{^X-Uri: /a%20b//c\?x=1&same=1\|/a b/c\|/.*/a b/c\r$}m,
    qr/^X-Args: (x=1&same=1)\|\1\|\?\|1\r$/m,
    qr{^X-Line: GET \S+ HTTP/1\.1\|GET\|\r$}m,
    qr{^X-Proto: HTTP/1\.1\r$}m,
    qr/^X-Mapped: mobile 7\|7\|german\|whole\r$/m,
    qr/^X-For: 9\.9\.9\.9, 8\.8\.8\.8, 127\.0\.0\.1\r$/m,
    qr/^X-Cookie: 5\r$/m,
    qr/^X-Same: (\d+)\|\1\|\d+\|\d+\|\r$/m,
    qr/^X-Device: mob7\r\nCookie: id=5; lang=de\r\nX-Other: 1\r\nx-lower: as/m,
    qr{^X-Other: 2\r\nX-Empty: \r\nAccept: text/html\r\nAccept-Encoding: i}m);

both('HTTP/1.0', '/old', kept($port, version => '1.0',
    headers => [Connection => 'keep-alive']),
    qr{^X-Line: GET /old HTTP/1\.0\|GET\|\r$}m);

both('no Host', '/nohost', kept($port, version => '1.0',
    headers => [Connection => 'keep-alive', Host => []]),
    qr/^X-Host: ~.*\|\|~/m);

both('absolute URI', 'http://bar.example.com/abs?x=2', kept($port),
    qr/^X-Host: .*\|bar\|bar\.example\.com\r$/m, qr{^X-Uri: /abs\?x=2\|}m);

# each on a connection of its own, so that the copy's has to be asked for it

both('any address', '/any', sub { http_get('127.0.0.5:' . $t->port('any'),
    shift) },
    qr/^X-Server: 127\.0\.0\.5\|${\$t->port('any')}\|/m);


# by TLS and HTTP/2

my @by_tls = (qr/^X-Tls: https\|on\|TLSv1\.[23]\|[\w-]+\r$/m,
    qr/^X-Name: localhost\r$/m, qr/^X-Cert: FAILED:[\w -]+\|CN=client\r$/m,
    qr/^X-Print: \w{40}\r$/m,
    qr/^X-Server: 127\.0\.0\.1\|${\$t->port('tls')}\|/m);

both('https', '/tls?same=1', kept($t->port('tls'), ssl => \%tls), @by_tls,
    qr/^X-Same: (\d+)\|\1\|\d+\|\d+\|\w*\r$/m);

both('https, no certificate', '/tls2', kept($t->port('tls'), ssl => {}),
    qr/^X-Tls: https\|on\|TLSv1\.[23]\|[\w-]+\r$/m, qr/^X-Cert: NONE\|\r$/m);

my $tls = 'https://localhost:' . $t->port('tls');
my @resolve = ('--resolve', 'localhost:' . $t->port('tls') . ':127.0.0.1');

both('HTTP/2 over TLS', '/h2?x=3', curled($tls, '--http2', @resolve,
    '--cert', $tls{SSL_cert_file}, '--key', $tls{SSL_key_file},
    '-H', 'Cookie: id=6', '-H', 'Cookie: lang=de', '-H', 'X-Device: mob8'),
    @by_tls,
    qr{^X-Line: GET /h2\?x=3 HTTP/2\.0\|GET\|h2\r$}m,
    qr{^X-Proto: HTTP/2\.0\r$}m,
    qr/^cookie: id=6; lang=de\r$/m,
    qr/^X-Mapped: mobile 8\|8\|german\|whole\r$/m,
    qr/^X-Cookie: 6\r$/m,
    qr/^Host: localhost:\d+\r$/m);

both('HTTP/2', '/h2c', curled('http://127.0.0.1:' . $t->port('h2c'),
    '--http2-prior-knowledge', '-H', 'Host: foo.example.com'),
    qr{^X-Line: GET /h2c HTTP/2\.0\|GET\|h2c\r$}m,
    qr/^X-Host: .*\|foo\|foo\.example\.com\r$/m);


# addresses

both('realip', '/real/1?same=1', kept($port,
    headers => ['X-Forwarded-For', '6.6.6.6, 1.2.3.4, 127.0.0.9']),
    qr/^X-Client: 1\.2\.3\.4\|\x01\x02\x03\x04\|real\r$/m,
    qr/^X-For: 6\.6\.6\.6, 1\.2\.3\.4, 127\.0\.0\.9, 1\.2\.3\.4\r$/m,
    qr/^X-Before: 127\.0\.0\.1\|\r$/m,
    qr/^X-Forwarded-For: 6.*9\r$/m);

my $proxied = "PROXY TCP4 1.2.3.4 10.0.0.1 5678 80\r\n";

both('proxy protocol', '/pp', kept($t->port('pp'), preface => $proxied),
    qr/^X-Before: 127\.0\.0\.1\|1\.2\.3\.4\r$/m, qr/^X-Port: 5678\r$/m,
    qr/^X-To: 10\.0\.0\.1\r$/m, qr/^X-Client: 127\.0\.0\.1\|/m);

both('proxy protocol, realip', '/realpp/1', kept($t->port('pp'),
    preface => $proxied), qr/^X-Client: 1\.2\.3\.4\|.{4}\|real\r$/m,
    qr/^X-Before: 127\.0\.0\.1\|1\.2\.3\.4\r$/m);

both('unix', '/unix', kept('unix:' . $t->dir() . '/in.sock'),
    qr/^X-Client: unix:\|/m, qr{^X-Server: unix:/\S+\.sock\|\|}m);


# captures

both('captures', '/re/word/42?x=7', kept($port),
    qr{^GET /cap/word\?id=42$}m, qr/^X-Made: word\|42\|42\|made-word-7\r$/m);
both('captures of if', '/if/ab', kept($port), qr/^X-Made: a\|b\|ba\r$/m);
both('URI of proxy_pass', '/swap/q%2Fz%20y%3F?x=1', kept($port),
    qr{^GET /with/q/z%20y%3F\?x=1$}m);


# variables that are asked for when the client has long gone: those of tags,
# when the answer of the origin comes

my $late = conn($t->port('tls'), ssl => \%tls);
my $before;

sub tags { return substr page_ext(page_decode(page_wait($m, '/late')), 2), 8 }

refresh_same($t, $m, '/late', 'client gone', sub {
        my ($last) = @_;

        if ($last) {
            $before = tags();
            $o->hold_path('/late');
        }

        my $r = $late->get('/late');
        $late->close() if $last;
        return $r;
    }, behind => sub {
        $o->wait_requests(2, '/late');
        ok(wait_for(sub { !connected($t->port('tls')) }),
            'the client has left');
        $o->release('/late');
    });

is(tags(), $before, 'client gone: the same tags');
like($before, $_, "client gone: $_") for
    qr/ tag:tls:https:on:TLSv1\.[23]:[\w-]+ /, qr/ tag:sni:localhost /,
    qr/ tag:cert:CN=client:\w{40} /, qr/ tag:client:127\.0\.0\.1:yes /,
    qr/ tag:to:127\.0\.0\.1:${\$t->port('tls')} /,
    qr{ tag:line:GET:/late:HTTP/1\.1( |$)};

$t->done();
