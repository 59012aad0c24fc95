#!/usr/bin/perl

# Copyright (C) mcds authors

# H06: requests with bodies, with two lengths or none, with a second request in
# the body: there is one answer to each, what is in a body is never a request,
# and no page is stored for one that nobody has asked for.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => "page %u\n" });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /open/ {
            proxy_http_version 1.1;
            proxy_request_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# a request that is no request: it is inside of something else

my $inner = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
my $n = length $inner;
my $chunk = sprintf "%x\r\n%s\r\n0\r\n\r\n", $n, $inner;

for my $uri ('/hit', '/open/hit', '/last') {
    $h->get($uri);
    wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' });
}

# the head of the first request, without its end; what follows; how many
# answers there are with the one to /last behind it, 0: the connection ends

my @rows;

for my $uri ('/hit', '/miss', '/open/hit', '/open/miss') {
    for my $method ('GET', 'HEAD', 'POST', 'DELETE') {
        push @rows,
            ["$method $uri, a body", "$method %u HTTP/1.1", $inner, 2,
                "Content-Length: $n"],
            ["$method $uri, chunks", "$method %u HTTP/1.1", $chunk, 2,
                'Transfer-Encoding: chunked'],
            ["$method $uri, 100-continue", "$method %u HTTP/1.1", $inner, 2,
                "Content-Length: $n", 'Expect: 100-continue'],
            ["$method $uri, both", "$method %u HTTP/1.1", $chunk, 0,
                "Content-Length: $n", 'Transfer-Encoding: chunked'],
            ["$method $uri, two lengths", "$method %u HTTP/1.1", $inner, 0,
                "Content-Length: $n", 'Content-Length: 0'],
            ["$method $uri, an odd coding", "$method %u HTTP/1.1", $inner, 0,
                'Transfer-Encoding: xchunked'],
            ["$method $uri, a coding twice", "$method %u HTTP/1.1", $chunk,
                0, 'Transfer-Encoding: chunked',
                'Transfer-Encoding: identity'];
    }
}

my (@many, @seen, @wrong);
my $i = 0;

for my $row (@rows) {
    my ($name, $line, $body, $answers, @headers) = @$row;
    my ($uri) = $name =~ m{(/\S+),};

    $uri .= '?' . ++$i if $uri =~ /miss/;

    my $all = http_raw($h->port(), join("\r\n", $line =~ s/%u/$uri/r,
        'Host: localhost', @headers, '', $body)
        . "GET /last HTTP/1.1\r\nHost: localhost\r\n"
        . "Connection: close\r\n\r\n");

    my @status = $all =~ m{^HTTP/1\.1 (\d+)}mg;
    @status = grep { $_ != 100 } @status;
    my $last = () = $all =~ m{^page /last$}mg;

    # nginx ends what it does not understand

    push @many, "$name: @status" if $answers && (@status != 2 || !$last)
        || !$answers && @status > 2 - $last && $all =~ /smuggled/;
    push @seen, $name if $all =~ m{page /smuggled};
    push @wrong, "$name: @status" if !$answers && $last && @status != 2;
}

is(join("\n", @many), '', 'one answer to each');
is(join("\n", @seen), '', 'nobody sees the answer to what was in a body');
is(join("\n", @wrong), '', 'nor one too few');
is($o->count('/smuggled'), 0, 'the origin was not asked for it');
ok(!grep({ /smuggled/ } $m->keys()), 'nor is it stored');


# bodies of GET reach the origin, and their answers nobody else

my $r = $h->get('/fat?x', method => 'GET', body => 'a=evil');
is($r->body(), "page /fat?x\n", 'GET with a body');
is(($o->requests('/fat?x'))[0]{body}, 'a=evil', 'GET with a body: reaches it');
is($h->get('/fat?x')->header('X-Cache'), 'MISS', 'GET with a body: not stored');

$t->done();
