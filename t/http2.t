#!/usr/bin/perl

# Copyright (C) mcds authors

# HTTP/2: many streams of one connection count, share one build, and outlive
# one another (H10).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Http2;

my $t = Test::Mcds->new()->needs('http_v2');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%% http2;
        mcds_counter $hits key=hits:$uri;

        location /count { mcds_return 200 "$hits\n"; }
        location /views { mcds_return 200 "$hits\n"; }

        location / {
            mcds_cache       on;
            add_header       X-Cache $mcds_cache_status;
            add_header       X-Hits  $hits;
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
            proxy_set_header X-Proto "$server_protocol $http2";
        }
    }
}
EOT

my $wait = 10 * $t->slow();


# counters: each stream has a number of its own

my $h = Test::Mcds::Http2->new($a->port());
my @r = all($h, map { $h->request('/count') } 1 .. 100);

my %numbers = map { $_->body() + 0 => 1 } @r;
is(scalar(grep { $numbers{$_} } 1 .. 100), 100, '100 streams count to 100');
is($m->get('hits:/count'), 100, 'and memcached has that');


# one cold page, streams of two connections

$o->hold_path('/cold');
my @h = map { Test::Mcds::Http2->new($a->port()) } 1 .. 2;
my @ids = map { my $h = $_; map { [$h, $h->request('/cold')] } 1 .. 100 } @h;

$o->wait_requests(1, '/cold');
ok(wait_for(sub { ($m->get('hits:/cold') // 0) == 200 }, $wait),
    'all are there');
$o->release('/cold');

@r = map { $_->[0]->response($_->[1], $wait) } @ids;
is(scalar(grep { $_->status() == 200 && $_->complete() } @r), 200,
    '200 streams on a cold page');
is(scalar(grep { $_->body() eq "answer 1 of /cold\n" } @r), 200,
    'all get the one answer');
is($o->count('/cold'), 1, 'one request to the origin');


# who builds leaves, and a stream beside it takes over

$o->hold_path('/left');
my $first = $h->request('/left');
$o->wait_requests(1, '/left');
my @more = map { $h->request('/left') } 1 .. 20;
ok(wait_for(sub { ($m->get('hits:/left') // 0) == 21 }, $wait),
    'others wait behind a stream');

$h->rst($first);
ok($o->wait_requests(2, '/left'), 'one of them builds when it is reset');
$o->release('/left');

@r = all($h, @more);
is(scalar(grep { $_->body() eq "answer 3 of /left\n" } @r), 20,
    'and all get what it built');


# rapid resets: headers and reset in one write

my $c = $h->{c};

for (1 .. 5) {
    my ($bytes, $send) = ('');

    {
        no warnings 'redefine';
        local *Test::Mcds::Http::send = sub { $bytes .= $_[1]; 1 };
        $h->rst($h->request('/rapid')) for 1 .. 40;
    }

    $c->send($bytes);
    ok($h->ping($wait), '40 streams, reset at once') if $_ == 5;
}

is($h->response($h->request('/rapid'), $wait)->status(), 200,
    'the page can be built after that');
is($o->most('/rapid'), 1, 'never two builds at once');


# a refresh does not end with the connection that led to it

$o->set('/stale', { headers => ['Cache-Control' => 'max-age=1'] });
is($h->response($h->request('/stale'), $wait)->status(), 200,
    'a page that expires');
$o->set('/stale', undef);
sleep 1.1;

$o->hold_path('/stale');
@r = all($h, map { $h->request('/stale') } 1 .. 50);
like($r[$_]->body(), qr/^answer \d+ of \/stale\n$/, 'the old page at once')
    for 0, 49;
ok($o->wait_requests(2, '/stale'), 'and a refresh behind');
is(($o->requests('/stale'))[1]{headers}{'x-proto'}, 'HTTP/2.0 h2c',
    'which knows of HTTP/2');

$h->close();
$o->release('/stale');

my $new = ($o->requests('/stale'))[1]{n};
ok(wait_for(sub { ($m->get('<>http://localhost/stale') // '')
    =~ /answer $new of/ }, $wait), 'is stored though the connection is gone');
is($o->count('/stale'), 2, 'one refresh');


# what a browser would see

SKIP: {
    skip 'no curl', 3 if !$t->has('curl');

    my @curl = ('-si', '--http2-prior-knowledge', '-H', 'Host: localhost');
    my $url = 'http://127.0.0.1:' . $a->port();
    my $answer = $t->curl(@curl, "$url/stale");

    like($answer, qr/^HTTP\/2 200.*x-cache: HIT\r\n/si, 'curl: a hit');
    like($answer, qr/\r\nage: \d+\r\n/i, 'curl: its age');
    unlike($t->curl(@curl, '--head', "$url/stale"), qr/answer \d/,
        'curl: HEAD has no body');
}

$_->close() for @h;

$t->done();


sub all {
    my ($h, @ids) = @_;
    return map { $h->response($_, $wait) } @ids;
}
