#!/usr/bin/perl

# Copyright (C) mcds authors

# X-Forwarded-Host and the like: what tells requests apart that nginx has taken
# for the same, whatever the order and the spelling of the headers.  And method
# overrides: such a request neither gets a page nor makes one.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Dump qw/ dump_module /;

my $t = Test::Mcds->new();
my $so = dump_module($t);

my $m = $t->memcached('m');

# an application that obeys the header, as WordPress does

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $headers = $q->{headers};

    # a path for https alone, and the scheme as Rack 2 finds it

    return { status => 301, headers => ['Cache-Control' => 'max-age=60',
        Location => 'https://a/'] } if $q->{uri} =~ m{^/tls}
        && ($headers->{'x-forwarded-scheme'} // $headers->{'x-forwarded-proto'}
            // '') ne 'https';

    my ($method) = map { $headers->{$_} // () } 'x-http-method-override',
        'x-http-method', 'x-method-override';
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        body => (($method // 'GET') eq 'GET' ? 'a page' : "for $method")
            . (exists $headers->{'x-forwarded-host'}
                ? " of $headers->{'x-forwarded-host'}" : ''),
    };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    underscores_in_headers on;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            mcds_purge_api method=PURGE mode=delete;
            add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /some {
            mcds_cache_forwarded_headers X-Tenant;
            location /some/more { mcds_cache_forwarded_headers default; }
            location /some/off { mcds_cache_forwarded_headers off; }
        }
        location /more { mcds_cache_forwarded_headers X-Tenant default; }
    }
}
EOT

# one host says what it would take for the same, and answers nothing else

my $h = $t->nginx('h', $conf =~ s/%%GLOBALS%%/%%GLOBALS%%\nload_module $so;/r);
my $port = $h->port();

sub text {
    my ($uri, @headers) = @_;
    my $r = $h->get($uri, host => "localhost:$port", headers => [@headers]);
    return $r->body() =~ /^forwarded=(.*)$/m ? $1 : 'no answer';
}

sub one { join '', map { length($_) . ":$_," } @_ }

my $evil = one('x-forwarded-host', 'evil');

for (
    ['none', ''],
    ['no address', '', 'X-Forwarded-For' => '1.2.3.4', 'X-Real-IP' => 1],
    ['the host', '', 'X-Forwarded-Host' => "localhost:$port",
        'X-Host' => "localhost:$port"],
    ['the host, in upper case', one('x-host', "LOCALHOST:$port"),
        'X-Host' => "LOCALHOST:$port"],
    ['the host, without its port', one('x-host', 'localhost'),
        'X-Host' => 'localhost'],
    ['another host', $evil, 'X-Forwarded-Host' => 'evil'],
    ['in any spelling', $evil, 'x_FORWARDED_host' => 'evil'],
    ['the scheme', '', 'X-Forwarded-Proto' => 'http', 'X-Scheme' => 'http',
        'X-Forwarded-Ssl' => 'off'],
    ['the scheme, in upper case', one('x-scheme', 'HTTP'),
        'X-Scheme' => 'HTTP'],
    ['no TLS, in upper case', one('x-forwarded-ssl', 'Off'),
        'X-Forwarded-Ssl' => 'Off'],
    ['another scheme', one('x-forwarded-proto', 'https'),
        'X-Forwarded-Proto' => 'https'],
    ['the port', '', 'X-Forwarded-Port' => $port],
    ['the port, after a zero', one('x-forwarded-port', "0$port"),
        'X-Forwarded-Port' => "0$port"],
    ['another port', one('x-forwarded-port', 80), 'X-Forwarded-Port' => 80],
    ['a path', one('x-original-url', '/'), 'X-Original-URL' => '/'],
    ['an empty one', one('x-forwarded-prefix', ''),
        'X-Forwarded-Prefix' => ''],
    ['twice', one('x-host', 'a') . one('x-host', 'b'), 'X-Host' => 'a',
        'X-Host' => 'b'],
    ['only one of them differs', one('x-host', "localhost:$port")
        . one('x-host', 'b'), 'X-Host' => "localhost:$port", 'X-Host' => 'b'],
    ['one differs, and another repeats', one('x-forwarded-proto', 'https')
        . one('x-forwarded-scheme', 'http'),
        'X-Forwarded-Scheme' => 'http', 'X-Forwarded-Proto' => 'https'],
    ['a list of pairs repeats', one('forwarded', 'proto=http')
        . one('x-forwarded-proto', 'https'),
        'X-Forwarded-Proto' => 'https', Forwarded => 'proto=http'],
    ['two', $evil . one('x-forwarded-proto', 'https'),
        'X-Forwarded-Host' => 'evil', 'X-Forwarded-Proto' => 'https'],
    ['in another order', $evil . one('x-forwarded-proto', 'https'),
        'X-Forwarded-Proto' => 'https', 'X-Forwarded-Host' => 'evil'],
    ['Forwarded', '', Forwarded => "for=1.2.3.4;proto=http;host=\"localhost:"
        . "$port\", for=_x;by=_y"],
    ['Forwarded, in upper case', one('forwarded', 'proto=HTTP'),
        Forwarded => 'Proto=HTTP'],
    ['Forwarded, with another host', one('forwarded', ',host=evil'),
        Forwarded => 'for=1.2.3.4, for=_x;host=evil']
)
{
    my ($name, $text, @headers) = @$_;
    is(text('/', @headers), $text, $name);
}

is(text('/some', 'X-Tenant' => 'a', 'X-Host' => 'b'), one('x-tenant', 'a'),
    'names of a list instead');
is(text('/some/more', 'X-Tenant' => 'a', 'X-Host' => 'b'), one('x-host', 'b'),
    'and back to the built-in ones');
is(text('/some/off', 'X-Tenant' => 'a', 'X-Host' => 'b'), '', 'off');
is(text('/more', 'X-Tenant' => 'a', 'X-Host' => 'b'), one('x-tenant', 'a')
    . one('x-host', 'b'), 'both');
is(length text('/', map { ('X-Host' => 'evil') } 1 .. 300),
    300 * length one('x-host', 'evil'), '300 headers');


# method overrides

my $b = $t->nginx('b', $conf);

sub ask {
    my ($uri, @o) = @_;
    my $r = $b->get($uri, @o);
    return $r->header('X-Cache') . ': ' . $r->body();
}

for my $name ('X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override') {
    my $uri = "/$name";
    my @head = (headers => [$name => 'HEAD']);

    is(ask($uri, @head), 'BYPASS method-override: for HEAD', "$name: no page");
    is(ask($uri), 'MISS absent: a page', 'and none is made');
    is(ask($uri, @head), 'BYPASS method-override: for HEAD', 'not the page');
    is(ask($uri), 'HIT fresh: a page', 'which stays');
    is(ask($uri, headers => [$name => 'GET']), 'HIT fresh: a page', 'GET');
    like(ask($uri, headers => [$name => $_]), qr/^BYPASS method-override/,
        "'$_'") for 'get', 'GET, HEAD', 'DELETE', '';
    like(ask($uri, headers => [$name => 'GET', $name => 'HEAD']),
        qr/^BYPASS method-override/, 'in the second line');
    is(http_head($b->port(), $uri, headers => [$name => 'HEAD'])
        ->header('X-Cache'), 'BYPASS method-override', 'HEAD, as it is');
}

like(ask('/x', headers => ['x_http_method_OVERRIDE' => 'HEAD']),
    qr/^BYPASS method-override/, 'as CGI spells it');


# such headers tell pages apart, and a purge is of all of them

my @evil = (headers => ['X-Forwarded-Host' => 'evil']);
my @same = (headers => ['X-Forwarded-Host' => 'localhost']);

for my $round (1, 2) {
    like(ask('/apart'), qr/^MISS \w+: a page$/, "$round: a page");
    like(ask('/apart', @evil), qr/^MISS \w+: a page of evil$/,
        "$round: another one");

    for my $o ([], \@same, \@evil) {
        ok(wait_for(sub { ask('/apart', @$o) =~ /^HIT fresh: a page(.*)/
            && ($1 eq ' of evil') == ($o == \@evil) }),
            "$round: each is kept");
    }

    is($b->get('/apart', method => 'PURGE')->status(), 200,
        "$round: purged");
}


# an application may answer with the host as a proxy has written it, or redirect
# from it to the usual one: that is not the page of others

like(ask('/case', headers => ['X-Forwarded-Host' => 'LocalHost']),
    qr/^MISS \w+: a page of LocalHost$/, 'a host in upper case');
like(ask('/case'), qr/^MISS \w+: a page$/, 'has a page of its own');
ok(wait_for(sub { ask('/case') eq 'HIT fresh: a page' }), 'the page is kept');
is(ask('/case', @same), 'HIT fresh: a page', 'also for the host as it is');


# what repeats nginx and contradicts the balancer makes a page of its own

my @tls = ('X-Forwarded-Proto' => 'https');

for my $more (['X-Forwarded-Scheme' => 'http'],
    ['X-Forwarded-Ssl' => 'off'], [Forwarded => 'proto=http'])
{
    my $uri = "/tls/$more->[0]";

    like(ask($uri, headers => [@tls, @$more]), qr/^MISS /, "$more->[0]");
    like(ask($uri, headers => [@tls]), qr/^MISS \w+: a page$/,
        'is not the page of others');
}

$t->done();
