#!/usr/bin/perl

# Copyright (C) mcds authors

# What an origin that speaks HTTP/2 breaks off, in any way that HTTP/2 has for
# that, is not stored, and ends the wait of others; what is odd, and whole, is
# stored.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Origin2 qw/ head data /;

my $t = Test::Mcds->new()->needs('http_v2')
    ->since('1.29.4', 'HTTP/2 to the origin');

my $m = $t->memcached('m');
my $f = $t->origin('f', http2 => 1);

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_counter        $here key=here:$uri;
        mcds_cache          on;
        mcds_cache_key      $uri;
        add_header          X-Cache $mcds_cache_status always;
        proxy_http_version  2;
        proxy_pass_trailers on;

        location /barrier { mcds_return 200 "$here"; }

        location / { proxy_pass http://127.0.0.1:%%PORT_f%%; }
        location /bare/ {
            proxy_buffering off;
            proxy_pass      http://127.0.0.1:%%PORT_f%%;
        }
    }
}
EOT

# what the origin breaks off, in each way that there is

my @cc = ('cache-control' => 'max-age=60');
my $body = data('part of it');

sub over {
    my ($key) = @_;
    return wait_for(sub { ($m->get("<>$key:lock") // '') =~ /^kept/ });
}

my %broken = (
    'RST_STREAM' => [frames => [head(200, \@cc), $body, [3, 0, pack 'N', 2]]],
    'RST_STREAM without an error' =>
        [frames => [head(200, \@cc), $body, [3, 0, pack 'N', 0]]],
    'GOAWAY, and it is not done' => [frames => [head(200, \@cc), $body,
        [7, 0, pack('NN', 0, 0), 0]], last => 1],
    'GOAWAY with an error' => [frames => [head(200, \@cc), $body,
        [7, 0, pack('NN', 0x7fffffff, 2), 0]], last => 1],
    'FIN' => [frames => [head(200, \@cc), $body], last => 1],
    'RST' => [frames => [head(200, \@cc), $body], abort => 60],
    'FIN in a frame' => [frames => [head(200, \@cc), data('x' x 100)],
        abort => 100],
    'less than its length' => [frames =>
        [head(200, [@cc, 'content-length' => 99]), data('part of it', 1)]],
    'nothing of its length' =>
        [frames => [head(200, [@cc, 'content-length' => 99], 1)]],
    'trailers that do not end it' => [frames => [head(200, \@cc), $body,
        head('', ['x-sum' => 1])], last => 1],
    'a frame of no stream' => [frames => [head(200, \@cc), $body,
        [0, 1, 'more', 99]]],
    'a status 100' => [frames => [head(100), head(200, \@cc), data('all', 1)]],
);

for my $uri ('/piped/', '/bare/') {
    for my $name (sort keys %broken) {
        my $key = $uri . $name =~ s/\W+/-/gr;
        my %answer = @{$broken{$name}};

        $f->set('/', \%answer);
        my $r = $h->get($key);
        ok(!$r->complete() || $r->status() == 502, "$uri $name: broken");
        ok(over($key), "$uri $name: is over");
        ok(!defined $m->get("<>$key"), "$uri $name: not stored");

        # behind an old page

        $key .= '-old';
        $f->set('/', { frames => [head(200, \@cc), data('old', 1)] });
        $h->get($key);
        page_expire($m, $key, 1000);
        $f->mark();
        $f->set('/', \%answer);
        is($h->get($key)->header('X-Cache'), 'STALE', "$uri $name: behind");
        ok($f->wait_requests(1) && over($key), "$uri $name: is over, too");
        is(page_decode($m->get("<>$key"))->{body}, 'old',
            "$uri $name: the old page stays");
    }
}


# those who wait are told, and do not ask one after the other

for my $uri ('/piped/herd', '/bare/herd') {
    $f->set('/', {@{$broken{'RST_STREAM'}}});
    $f->hold_path('/');
    $f->mark();
    my @p = map { start_get($h->port(), $uri) } 1 .. 10;
    ok(wait_for(sub { ($m->get("here:$uri") // 0) == 10 }), "$uri: all came");
    is($h->get('/barrier')->status(), 200, "$uri: and wait");
    $f->wait_requests(1);
    $f->release('/');
    my @r = map { finish($_) } @p;
    is(scalar(grep { $_->status() == 503 } @r), 9, "$uri: all are told");
    is($f->count(), 1, "$uri: the origin is asked once");
}


# what is odd and whole

my %whole = (
    'no length' => [head(200, \@cc), data('whole', 1)],
    'an empty frame at the end' => [head(200, \@cc), data('whole'),
        data('', 1)],
    'trailers' => [head(200, \@cc), data('whole'), head('', ['x-sum', 5], 1)],
    'GOAWAY, and it is still done' => [head(200, \@cc),
        [7, 0, pack('NN', 0x7fffffff, 0), 0], data('whole', 1)],
    'RST_STREAM behind the end' => [head(200, \@cc), data('whole', 1),
        [3, 0, pack 'N', 0]],
    'padding' => [head(200, \@cc), [0, 8 | 1, "\3whole\0\0\0"]],
    'PING between' => [head(200, \@cc), data('wh'), [6, 0, 'x' x 8, 0],
        data('ole', 1)],
    'a status 103' => [head(103, ['link' => '</s>']), head(200, \@cc),
        data('whole', 1)],
);

for my $uri ('/piped/', '/bare/') {
    for my $name (sort keys %whole) {
        my $key = $uri . $name =~ s/\W+/-/gr;

        $f->set('/', { frames => $whole{$name} });
        is($h->get($key)->body(), 'whole', "$uri $name: built");
        ok(page_wait($m, $key), "$uri $name: stored");
        my $r = $h->get($key);
        is($r->header('X-Cache') . $r->body(), 'HITwhole', "$uri $name: hit");
    }
}

$t->allow(qr/upstream (?:sent|prematurely|rejected)/,
    qr/recv\(\) failed \(104/, qr/page is still|page could not/);
$t->done();
