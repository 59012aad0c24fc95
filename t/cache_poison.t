#!/usr/bin/perl

# Copyright (C) mcds authors

# An origin makes links of the Host header as it came: a page is only shown to
# those who have sent the same one, whatever nginx takes for the host.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Http2;

my $t = Test::Mcds->new();

my $http2 = $t->has('http_v2') ? 'http2' : '';

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        body => 'host ' . ($q->{params}{HTTP_HOST} // 'none'),
    };
}, fastcgi => 1);

my $h = $t->nginx('h', <<'EOT' =~ s/%%HTTP2%%/$http2/r);
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
        listen 127.0.0.1:%%PORT_two%% %%HTTP2%%;
        server_name victim.example;
        location / {
            fastcgi_pass 127.0.0.1:%%PORT_o%%;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
        }
    }
}
EOT

my $victim = 'victim.example';


# the answer to a request of these bytes; the status with it

sub ask {
    my ($line, @hosts) = @_;

    my $c = conn($h->port());
    $c->send(join "\r\n", $line, (map { "Host: $_" } @hosts),
        'Connection: close', '', '');
    my $r = $c->response();
    $c->close();

    return join ' ', $r->header('X-Cache') // $r->status(), $r->body();
}

sub plain { ask("GET $_[0] HTTP/1.1", $victim) }


# who comes first must not decide what the others see: request line, Host,
# what the origin sees, and whether that may be shown to the same again

my @rows = (
    ['another Host', 'http://%h%u HTTP/1.1', 'evil.example', 'BYPASS'],
    ['another Host, begun alike', 'http://%h%u HTTP/1.1', "$victim.evil",
        'BYPASS'],
    ['another Host, as a port', 'http://%h%u HTTP/1.1', "$victim:evil",
        'BYPASS'],
    ['a shorter Host', 'http://%h%u HTTP/1.1', 'victim', 'BYPASS'],
    ['a request line with a host, 1.0', 'http://%h%u HTTP/1.0', undef,
        'BYPASS'],
    ['no Host', '%u HTTP/1.0', undef, 'HIT'],
    ['a port', '%u HTTP/1.1', "$victim:1337", 'HIT'],
    ['a port in the Host only', 'http://%h%u HTTP/1.1', "$victim:1338",
        'HIT'],
    ['a port in the request line only', 'http://%h:1337%u HTTP/1.1', $victim,
        'BYPASS'],
    ['a port in both', 'http://%h:1337%u HTTP/1.1', "$victim:1337", 'HIT'],
    ['two ports', 'http://%h:1339%u HTTP/1.1', "$victim:1340", 'BYPASS'],
    ['a colon', '%u HTTP/1.1', "$victim:", 'HIT'],
    ['a dot', '%u HTTP/1.1', "$victim.", 'BYPASS'],
);

# newer nginx tell the origin the host that they have chosen themselves, with
# the port from where they have the host

my $chosen = $t->nginx_version() >= 1030000;

for my $i (0 .. $#rows) {
    my ($name, $line, $host, $again) = @{$rows[$i]};

    next if $chosen && $name eq 'another Host, as a port';
    next if !$chosen && $name =~ /request line only|two ports/;

    my $uri = "/$i";
    my $seen = !$chosen ? $host // 'none'
        : $line =~ /(:\d+)/ ? "$victim$1"
        : $name eq 'a port' ? $host : $victim;
    my @request = ("GET $line" =~ s/%h/$victim/r =~ s/%u/$uri/r, $host // ());
    my $first = $again eq 'HIT' ? 'MISS' : $again;

    is(ask(@request), "$first host $seen", "$name: as the origin sees it");
    is(plain($uri), "MISS host $victim", "$name: not for others");
    is(plain($uri), "HIT host $victim", "$name: these have their own");
    is(ask(@request), "$again host $seen", "$name: again");
}

# what differs in nothing that matters is one page

is(ask("GET http://$victim/0 HTTP/1.1", $victim), "HIT host $victim",
    'a request line with the same host');
is(ask("GET /0 HTTP/1.1", uc $victim), "HIT host $victim", 'in upper case');

is(join(' ', grep { m{/6$} } $m->keys()),
    "<$victim>http://$victim/6 <$victim>http://$victim:1337/6",
    'keys with and without a port');
ok(!grep({ /evil/ } $m->keys()), 'nothing of the others is stored');


# HTTP/2 has the name of the host in the place of that header, or beside it

SKIP: {
    skip 'no HTTP/2', 5 if !$http2;

    my $c = Test::Mcds::Http2->new($t->port('two'));
    my $two = sub { $c->response($c->request(@_))->body() };

    $o->mark();
    is($two->('/0', host => $victim), "host $victim", 'HTTP/2');
    is($o->count('/0'), 0, 'HTTP/2: a hit');
    is($two->('/p', host => "$victim:1337"), "host $victim:1337",
        'HTTP/2: a port');
    $two->('/p', host => $victim, headers => [Host => 'evil.example']);
    is(plain('/p'), "MISS host $victim", 'HTTP/2: not for others');
    is($two->('/p', host => $victim), "host $victim", 'HTTP/2: their own');

    $c->close();
}

$t->done();
