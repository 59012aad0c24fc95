#!/usr/bin/perl

# Copyright (C) mcds authors

# A request with a body is none for the cache, whatever tells that there is one,
# its length or its chunks: the body may ask for something else.  A body of no
# bytes with a length is none.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=600'],
        body => 'for "' . ($q->{body} // '') . '"' };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

my %bodies = (
    'a length' => "Content-Length: 3\r\n\r\nabc",
    'chunks' => "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    'empty chunks' => "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
);

sub ask {
    my ($uri, $rest) = @_;
    my $text = http_raw($h->port(), "GET $uri HTTP/1.1\r\nHost: localhost\r\n"
        . "Connection: close\r\n$rest");
    my ($cache) = $text =~ /^X-Cache: (.*?)\r$/m;
    my ($for) = $text =~ /for "(.*)"/;

    return join ': ', map { $_ // 'none' } $cache, $for;
}

for my $name (sort keys %bodies) {
    my $uri = '/' . $name =~ s/\W//gr;
    my $want = ' body: ' . ($name =~ /empty/ ? '' : 'abc');

    is(ask($uri, $bodies{$name}), $want, "$name: not from the cache") for 1, 2;
    is(ask($uri, "\r\n"), 'MISS absent: ', "$name: nor stored");
    ok(wait_for(sub { ask($uri, "\r\n") eq 'HIT fresh: ' }),
        "$name: the page of those without");
    is(ask($uri, $bodies{$name}), $want, "$name: which this one does not get");
}

is(ask('/none', "Content-Length: 0\r\n\r\n"), 'MISS absent: ',
    'no bytes: a page');
ok(wait_for(sub { ask('/none', "\r\n") eq 'HIT fresh: ' }), 'which is stored');

$t->done();
