#!/usr/bin/perl

# Copyright (C) mcds authors

# HTTP/3, where a browser sends :authority and no Host: the page is the one that
# HTTP/1.1 and HTTP/2 have under that URL, and the origin is asked for it alike.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Http3;

my $t = Test::Mcds->new()->allow(qr/client sent/);

Test::Mcds::Http3::needed($t);
$t->needs('IO::Socket::SSL');

my ($crt, $key) = $t->cert('localhost');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'answer %n of %u' });
my $f = $t->origin('f', sub {
    my ($o, $req) = @_;
    return { headers => ['Cache-Control' => 'max-age=60'],
        body => 'host ' . ($req->{params}{HTTP_HOST} // 'none') };
}, fastcgi => 1);

my $a = $t->nginx('a', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%% ssl;
        listen 127.0.0.1:%%PORT%% quic reuseport;
        http2 on;
        ssl_certificate     $crt;
        ssl_certificate_key $key;

        mcds_cache on;
        mcds_cache_session_cookies PHPSESSID;
        add_header X-Cache \$mcds_cache_status always;
        add_header X-Key   \$mcds_cache_key always;

        proxy_set_header X-Host \$http_host;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /purge {
            mcds_purge_api method=PURGE mode=delete;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /set {
            set \$before "\$http_host";
            mcds_cache_key "\$http_host\$uri";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fastcgi {
            fastcgi_param REQUEST_METHOD \$request_method;
            fastcgi_param REQUEST_URI \$request_uri;
            fastcgi_pass 127.0.0.1:%%PORT_f%%;
        }
        location /off {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi {
            ssi on;
            default_type text/html;
            mcds_cache off;
            return 200 '<!--#include virtual="/part?a=1" -->';
        }
    }
}
EOT

my $h = Test::Mcds::Http3->new($t, $a->port());


# one page for all protocols, whichever comes first

my $r = $h->get('/a?b=1');
is($r->status() . ' ' . $r->header('x-cache'), '200 MISS', 'a page is built');
is($h->get('/a?b=1')->header('x-cache'), 'HIT', 'a hit');
is(one('/a?b=1')->header('x-cache'), 'HIT', 'and one over HTTP/1.1');
ok(stored('<>https://localhost/a?b=1'), 'under its URL');

is(one('/b')->header('x-cache'), 'MISS', 'a page of HTTP/1.1');
is($h->get('/b')->header('x-cache'), 'HIT', 'is a hit over HTTP/3');

SKIP: {
    skip 'no curl with HTTP/2', 2
        if !$t->has('curl') || $t->curl('--version') !~ /HTTP2/;

    my $url = 'https://127.0.0.1:' . $a->port();
    my @curl = ('-i', '--http2', '-H', 'Host: localhost');

    like($t->curl(@curl, "$url/a?b=1"), qr/^HTTP\/2 200.*x-cache: HIT\r\n/s,
        'and over HTTP/2');
    $t->curl(@curl, "$url/c");
    is($h->get('/c')->header('x-cache'), 'HIT', 'and the other way');
}


# the host as it may be written

for my $host ('localhost:8443', 'localhost:443', 'LocalHost', 'LocalHost:0443',
    'localhost.', 'localhost.:443', 'localhost:', '127.0.0.1:8443',
    '[::1]:8443', 'a_b:1', 'other.example')
{
    my ($r1, $r3) = (one('/h', host => $host), $h->get('/h', host => $host));

    my $want = told($r1);

    # (what is asked for with upper-case letters is not stored)

    $want =~ s/MISS/HIT/ if $host !~ /[A-Z]/;

    is(told($r3), $want, "as over HTTP/1.1: $host");
}

is($h->get('/h', host => undef, headers => [Host => 'localhost'])
    ->header('x-key'), 'https://localhost/h', 'a Host alone');
is($h->get('/h', headers => [Host => 'localhost'])->header('x-key'),
    'https://localhost/h', 'both');


# what the origin sees

is_deeply([map { $_->{headers}{'x-host'} } $o->requests('/a'),
    $o->requests('/b')], ['localhost', 'localhost'],
    '$http_host, in both protocols');

$h->get('/b', headers => [Cookie => 'PHPSESSID=1']);
$h->get('/b', method => 'POST');
is_deeply([map { $_->{headers}{'x-host'} } ($o->requests('/b'))[1, 2]],
    ['localhost', 'localhost'], 'also of requests that bypass the cache');

$h->get('/set', host => 'localhost:8443');
is(($o->requests('/set'))[0]{headers}{'x-host'}, 'localhost:8443',
    'also where it was looked at before');
ok(stored('<>localhost:8443/set'), 'and in a key of the configuration');
is($h->get('/fastcgi')->body(), 'host localhost', 'HTTP_HOST of FastCGI');
like($h->get('/ssi', host => 'localhost:8443')->body(),
    qr/answer \d+ of \/part/, 'a subrequest');
ok(stored('<>https://localhost:8443/part?a=1'), 'has a key with the port');

$h->get('/off');
is(($o->requests('/off'))[0]{headers}{'x-host'},
    $t->nginx_name() eq 'Angie' ? 'localhost' : undef,
    'where nothing is cached, all is as nginx has it');


# invalidated and purged

$o->set('/b', { headers => [Location => 'https://localhost/c'] });
is($h->get('/b', method => 'POST', body => 'x')->status(), 200, 'a POST');
$o->set('/b', undef);
is($h->get('/b')->header('x-cache'), 'MISS', 'invalidates its page');
is($h->get('/c')->header('x-cache'), 'STALE', 'and the one of its Location');

one('/purge');
is($h->get('/purge')->header('x-cache'), 'HIT', 'a page to be purged');
is($h->get('/purge', method => 'PURGE')->status(), 200, 'is purged');
is(one('/purge')->header('x-cache'), 'MISS', 'for HTTP/1.1, too');

$h->close();

$t->done();


sub one {
    my ($uri, %o) = @_;
    return $a->get($uri, ssl => 1, %o);
}


sub stored {
    my ($key) = @_;
    return wait_for(sub { ($m->get($key) // '') =~ /answer/ });
}


sub told {
    my ($r) = @_;
    return join ' ', map { $_ // '-' } $r->status(), $r->header('x-cache'),
        $r->header('x-key');
}
