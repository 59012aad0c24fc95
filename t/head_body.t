#!/usr/bin/perl

# Copyright (C) mcds authors

# An origin that sends a body for HEAD, as one of FastCGI may: the client that
# asked does not wait for the end of it when the page is made stale by that
# answer, nor does its next request on the connection.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Time::HiRes qw/ time /;

my $t = Test::Mcds->new();

$t->memcached('m');

# it is not told the method; what it says the second time is another page, the
# end of which is held back

$t->origin('f', sub {
    my ($o, $q) = @_;
    my $by = $q->{headers}{'x-by'};

    return {
        headers => ['Cache-Control' => 'max-age=600',
            ETag => $by ? '"2"' : '"1"'],
        $by ? (parts => ['begin ', ['end', 5]]) : (body => 'begin end'),
    };
}, fastcgi => 1);

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason";
    gzip on;
    gzip_min_length 0;
    gzip_types text/plain;
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache        on;
        mcds_cache_bypass $http_x_by;
        location / {
            fastcgi_param REQUEST_METHOD GET;
            fastcgi_param REQUEST_URI    $uri;
            fastcgi_pass  127.0.0.1:%%PORT_f%%;
        }
    }
}
EOT

$h->get('/page');
ok(wait_for(sub { $h->get('/page')->header('X-Cache') =~ /^HIT/ }), 'stored');

for my $accept ('', 'gzip') {
    my @headers = ('X-By' => 1, 'Accept-Encoding' => $accept);

    $h->get('/page');
    wait_for(sub { $h->get('/page')->header('X-Cache') eq 'HIT fresh' });

    my $c = $h->conn();
    my $start = time();
    my $r = $c->get('/page', method => 'HEAD', headers => [@headers]);

    is($r->status(), 200, "HEAD \"$accept\"");
    is($r->header('ETag') =~ s/^W\///r, '"2"', 'tells of another page');
    is($r->header('Content-Encoding') // '', $accept,
        'with the headers of its answer');
    is($c->get('/page')->body(), 'begin end', 'another request follows');
    cmp_ok(time() - $start, '<', 4, 'and the body was not waited for');
}

$t->done();
