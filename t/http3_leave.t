#!/usr/bin/perl

# Copyright (C) mcds authors

# Clients of HTTP/3 that leave, a stream at a time or with the connection, with
# a word or without: it is noticed, who stays is answered, refreshes go on, and
# nothing is left over.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Http3;

my $t = Test::Mcds->new();

Test::Mcds::Http3::needed($t);

my ($crt, $key) = $t->cert('localhost');
my $wait = 10 * $t->slow();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

mkdir $t->dir() . '/a';
$t->write_file('a/page.conf', <<'EOT' =~ s/PORT/$t->port('o')/ger);
mcds_counter $hits key=hits:$uri;

location / {
    mcds_cache on;
    mcds_cache_site a;
    add_header X-Cache $mcds_cache_status always;
    proxy_pass http://127.0.0.1:PORT;

    location /on/ {
        proxy_ignore_client_abort on;
        proxy_pass http://127.0.0.1:PORT;
    }
}
EOT

my $host = $t->nginx('a', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    log_format left '\$uri \$status';
    access_log %%DIR%%/left.log left;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%% quic reuseport;
        ssl_certificate     $crt;
        ssl_certificate_key $key;
        include page.conf;
    }

    # where those who leave without a word are missed soon

    server {
        listen 127.0.0.1:%%PORT_soon%% quic reuseport;
        ssl_certificate     $crt;
        ssl_certificate_key $key;
        keepalive_timeout   1s;
        include page.conf;
    }
}
EOT


# a page is being built, others wait for it

for my $how (qw/ rst stop close abandon /) {
    my ($first, $second, $stays) = (client($how), client($how), client());
    my $uri = "/build/$how";

    $o->hold_path($uri);
    my $id = $first->request($uri);
    $o->wait_requests(1, $uri);

    my $waits = $second->request($uri);
    my $gets = $stays->request($uri);
    counted($uri, 3);

    $second->$how($waits);
    ok(wait_for(sub { done_of($uri) == 1 }, $wait), "$how: one that waits");

    $first->$how($id);
    ok($o->wait_requests(2, $uri), "$how: the one that builds; the next does");
    $o->release($uri);

    my $r = $stays->response($gets, $wait);
    like($r->body(), qr/^answer \d+ of $uri\n/, "$how: who stays has the page");
    is($stays->get($uri)->header('x-cache'), 'HIT', "$how: it is stored");
    $_->close() for $first, $second, $stays;
}


# a stream has left, and the build is to go on

for my $how (qw/ rst stop /) {
    my $first = client($how);
    my $uri = "/on/$how";

    $o->set($uri, { headers => ['Cache-Control' => 'max-age=60'],
        body => 'x' x 500_000 });
    $o->hold_path($uri);
    my $id = $first->request($uri);
    $o->wait_requests(1, $uri);
    $first->$how($id);
    $first->get('/beside');
    $o->release($uri);
    ok(wait_for(sub { $m->get("<a>https://localhost$uri") }, $wait),
        "$how: a build goes on without its client");
    is($o->count($uri), 1, "$how: one build");
    $first->close();
}


# nobody is left, and the page is built: nginx has not heard of it yet

my $h = client('abandon');

$o->hold_path('/alone');
$h->request('/alone');
$o->wait_requests(1, '/alone');
$h->abandon();
$o->release('/alone');
ok(wait_for(sub { $m->get('<a>https://localhost/alone') }, $wait),
    'a build without a client is stored');


# a refresh is nobody's

$h = client();
$o->set("/stale/$_", { headers => ['Cache-Control' => 'max-age=1'] }),
    $h->get("/stale/$_") for qw/ rst stop close abandon /;
sleep 1.1;
$h->close();

for my $how (qw/ rst stop close abandon /) {
    my $uri = "/stale/$how";

    $h = client($how);
    $o->set($uri, undef);
    $o->hold_path($uri);
    my $id = $h->request($uri);
    $o->wait_requests(2, $uri);
    is($h->response($id, $wait)->header('x-cache'), 'STALE', "$how: stale");
    $h->$how($h->request('/stale/none'));
    $o->release($uri);

    my $n = ($o->requests($uri))[1]{n};
    ok(wait_for(sub { ($m->get("<a>https://localhost$uri") // '')
        =~ /answer $n of/ }, $wait), "$how: the refresh is stored");
    $h->close();
}


# many at once, and nothing of them is left

$h = client();
$h->rst($h->request('/rapid')) for 1 .. 40;
is($h->get('/rapid')->status(), 200, 'after forty that were reset at once');
is($o->most('/rapid'), 1, 'never two builds');
$h->close();

$t->done();


# one that will leave so

sub client {
    my ($how, %o) = @_;

    return Test::Mcds::Http3->new($t,
        ($how // '') eq 'abandon' ? $t->port('soon') : $host->port(), %o);
}


sub counted {
    my ($uri, $n) = @_;
    return wait_for(sub { ($m->get("hits:$uri") // 0) == $n }, $wait);
}


# lines of the access log

sub done_of {
    my ($uri) = @_;
    return scalar(() = $t->read_file('a/left.log') =~ /^\Q$uri\E \d+$/mg);
}
