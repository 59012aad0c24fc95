#!/usr/bin/perl

# Copyright (C) mcds authors

# Responses over grpc_pass: one that has its status in a trailer is not stored,
# as pages have no trailers, nor is one that is shorter than it says; one with
# other trailers is.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Origin2 qw/ head data /;

my $t = Test::Mcds->new()->needs('http_v2');

my $m = $t->memcached('m');
my $f = $t->origin('f', http2 => 1);

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_background_update off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /ok { mcds_cache off; return 200 ok; }
        location / { grpc_pass grpc://127.0.0.1:%%PORT_f%%; }
        location /hidden/ {
            grpc_hide_header grpc-status;
            grpc_pass grpc://127.0.0.1:%%PORT_f%%;
        }
    }
}
EOT

# by HTTP/1.1, with the trailers as they are sent

sub request {
    return "GET $_[0] HTTP/1.1\r\nHost: localhost\r\n"
        . "TE: trailers\r\nConnection: close, TE\r\n\r\n";
}

my @cc = ('cache-control' => 'max-age=60');

# the status of gRPC

for my $case (['/done', 0], ['/fails', 14], ['/hidden/done', 0],
    ['/hidden/fails', 14])
{
    my ($uri, $status) = @$case;
    my $trailer = $uri =~ /hidden/ ? '' : "grpc-status: $status\r\n";

    $f->set('/', { frames => [head(200, \@cc), data('whole'),
        head('', ['grpc-status' => $status], 1)] });
    $f->mark();

    for my $n (1, 2) {
        my $raw = http_raw($h->port(), request($uri));
        like($raw, qr/X-Cache: MISS/, "$uri $n: from the origin");
        like($raw, qr/\r\n5\r\nwhole\r\n0\r\n$trailer\r\n\z/,
            "$uri $n: as it came");
        ok(wait_for(sub { defined $m->get("<>$uri") }), "$uri $n: over");
        isnt(page_decode($m->get("<>$uri"))->{kind}, 0, "$uri $n: no page");
    }

    is($f->count(), 2, "$uri: the origin is asked each time");
}

# of a page that becomes one

$f->set('/', { frames => [head(200, \@cc), data('old', 1)] });
is($h->get('/old')->body(), 'old', 'a page');
page_wait($m, '/old');
page_expire($m, '/old', 1000);
$f->set('/', { frames => [head(200, \@cc), data('new'),
    head('', ['grpc-status' => 0], 1)] });
is($h->get('/old')->body(), 'new', 'that gets a status');
ok(wait_for(sub { page_decode($m->get('<>/old'))->{kind} != 0 }),
    'is withdrawn');

# others

$f->set('/', { frames => [head(200, \@cc), data('whole'),
    head('', ['x-grpc-status' => 1, 'x-sum' => 5], 1)] });
like(http_raw($h->port(), request('/sum')), qr/\r\n0\r\n.*x-sum: 5\r\n/s,
    'other trailers');
page_wait($m, '/sum');
my $r = $h->get('/sum');
is($r->header('X-Cache') . $r->body(), 'HIT freshwhole',
    'and the page is stored');

# what ends before its length, even with its header

for my $case (['none', 99, 0], ['part', 99, 1], ['empty', 0, 0]) {
    my ($name, $length, $body) = @$case;
    my $header = [@cc, 'content-length' => $length];
    my $uri = "/length/$name";
    my @frames = $body ? (head(200, $header), data('part of it', 1))
        : head(200, $header, 1);

    $f->set('/', { frames => \@frames });
    $h->get($uri);

    if ($length == 0) {
        ok(page_wait($m, $uri), "$uri: stored");
        is($h->get($uri)->header('X-Cache'), 'HIT fresh', "$uri: a hit");
        next;
    }

    ok(wait_for(sub { ($m->get("<>$uri:lock") // '') =~ /^kept/ }),
        "$uri: over");
    is($m->get("<>$uri"), undef, "$uri: not stored");

    # behind an old page

    $uri .= '/old';
    $f->set('/', { frames => [head(200, \@cc), data('old', 1)] });
    $h->get($uri);
    page_wait($m, $uri);
    page_expire($m, $uri, 1000);
    $f->set('/', { frames => \@frames });
    $h->get($uri);
    ok(wait_for(sub { ($m->get("<>$uri:lock") // '') =~ /^kept/ }),
        "$uri: over");
    is(page_decode($m->get("<>$uri"))->{body}, 'old', "$uri: stays");
}

$t->allow(qr/upstream (?:sent|prematurely)/, qr/instead of \d+ is not stored/,
    qr/page could not/);
$t->done();
