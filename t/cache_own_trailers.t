#!/usr/bin/perl

# Copyright (C) mcds authors

# A request with a condition or a range has its page built by a copy of it.  If
# the answer cannot be stored, and has trailers, the request goes to the origin
# itself, and gets them.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Origin2 qw/ head data /;

my $t = Test::Mcds->new()->needs('http_v2');
my $passes = $t->nginx_version() >= 1029004;

my $m = $t->memcached('m');
my $f = $t->origin('f', http2 => 1);
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $trailer = $q->{path} =~ /without/ ? '' : "X-Sum: 5\r\n";

    return { raw => "HTTP/1.1 200 OK\r\nCache-Control: private\r\n"
        . "Transfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n$trailer\r\n" };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache          on;
        mcds_cache_key      $request_uri;
        proxy_http_version  1.1;
        proxy_set_header    TE trailers;
        location / { grpc_pass grpc://127.0.0.1:%%PORT_f%%; }
        location /http/ {
            PASS
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

$conf =~ s/PASS/$passes ? 'proxy_pass_trailers on;' : ''/e;

my $h = $t->nginx('h', $conf);

# by HTTP/1.1, with the trailers as they are sent

sub ask {
    my ($uri, $line) = @_;

    return http_raw($h->port(), "GET $uri HTTP/1.1\r\nHost: localhost\r\n"
        . "TE: trailers\r\nConnection: close, TE\r\n"
        . ($line ? "$line\r\n" : '') . "\r\n");
}

my @private = ('cache-control' => 'private');
my @trailers = head('', ['grpc-status' => 0], 1);
my @ask = ('', 'If-None-Match: "x"', 'If-Match: *', 'Range: bytes=0-9');

for my $n (0 .. $#ask) {
    my $name = $ask[$n] || 'a plain request';

    # the copy and, with trailers, the request itself

    $f->set('/', { frames => [head(200, \@private), data('whole'),
        @trailers] });
    $f->mark();
    like(ask("/page$n", $ask[$n]),
        qr/\r\n5\r\nwhole\r\n0\r\ngrpc-status: 0\r\n/,
        "gRPC, $name: trailers");
    is($f->count(), $ask[$n] ? 2 : 1, "gRPC, $name: the origin is asked");

    $f->set('/', { frames => [head(200, [@private, 'content-length' => 5]),
        data('whole', 1)] });
    $f->mark();
    my $got = ask("/without$n", $ask[$n]);
    like($got, qr/whole/, "gRPC, $name: none");
    is($f->count(), 1, "gRPC, $name: the origin is asked once");
}

SKIP: {
    skip('nginx passes trailers of HTTP/1.1 since 1.29.4', 1) if !$passes;

    for my $n (0 .. $#ask) {
        my $name = $ask[$n] || 'a plain request';

        like(ask("/http/page$n", $ask[$n]), qr/\r\n0\r\nX-Sum: 5\r\n/i,
            "HTTP/1.1, $name: trailers");
        unlike(ask("/http/without$n", $ask[$n]), qr/X-Sum/i,
            "HTTP/1.1, $name: none");
    }

    is($o->count('/http/without1'), 1, 'HTTP/1.1: the origin is asked once');
}

$t->done();
