#!/usr/bin/perl

# Copyright (C) mcds authors

# nginx keeps headers in a list of parts, of 20 lines each at first: a header
# that matters is found in each place of a request, and of the answer of the
# origin, be it the first, the 20th, the 21st or the last.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $lines = 44;

my $m = $t->memcached('m');

# an answer has a header in the place that the request tells

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $in = $q->{headers};
    my ($place, $name, $value) = map { $_ // '' }
        @$in{qw/ x-place x-name x-value /};

    return {
        headers => ['Cache-Control' => 'max-age=600',
            $name ? places($place, $name => $value) : (),
            $q->{path} eq '/vary' ? (Vary => 'X-A') : ()],
        body => join ' ', map { $in->{$_} // 'none' }
            qw/ x-a x-forwarded-host x-http-method-override /,
    };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    large_client_header_buffers 8 16k;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache on;
    mcds_cache_session_cookies session;
    mcds_cache_request_control on;
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    proxy_buffers 16 16k;
    proxy_buffer_size 16k;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

# the header in its place among others

sub places {
    my ($place, @header) = @_;
    my @filler = map { ("X-Filler-$_" => $_) } 1 .. $lines - 1;

    splice @filler, 2 * $place, 0, @header;

    return @filler;
}

sub ask {
    my ($uri, @headers) = @_;
    my $r = $h->get($uri, headers => [@headers]);
    return $r->header('X-Cache') . ': ' . $r->body();
}

sub fresh {
    my ($uri, @headers) = @_;
    return wait_for(sub { ask($uri, @headers) =~ /^HIT fresh/ });
}


# requests

my %requests = (
    'a session' => ['/session', qr/^BYPASS session: none/,
        Cookie => 'session=1'],
    'a condition' => ['/control', qr/^BYPASS request: none/,
        'Cache-Control' => 'no-cache, no-store'],
    'another host' => ['/host', qr/^\S+ (?!fresh)\S+: none evil\d+ none$/,
        'X-Forwarded-Host' => 'evil%'],
    'another method' => ['/method', qr/^\S+ (?!fresh)\S+: none none PATCH$/,
        'X-HTTP-Method-Override' => 'PATCH'],
    'a variant' => ['/vary', qr/^MISS \S+: a\d+ none none$/, 'X-A' => 'a%'],
    'credentials' => ['/auth', qr/^BYPASS authorization: none/,
        Authorization => 'Basic eDp5'],
);

for my $what (sort keys %requests) {
    my ($uri, $re, $name, $value) = @{$requests{$what}};
    my $wrong = '';

    ok(fresh($uri), "$what: a page");

    for my $place (0 .. $lines - 1) {
        my $said = ask($uri, places($place, $name => $value =~ s/%/$place/r));

        $wrong .= "$place: $said\n" if $said !~ $re;
    }

    is($wrong, '', "$what: in each place of a request");
}


# answers

my %answers = (
    'a cookie' => ['Set-Cookie' => 'a=b'],
    'a Vary of everything' => ['Vary' => '*'],
    'no lifetime' => ['Cache-Control' => 'private'],
    'no lifetime for a CDN' => ['CDN-Cache-Control' => 'no-store'],
);

for my $what (sort keys %answers) {
    my ($name, $value) = @{$answers{$what}};
    my $wrong = '';

    for my $place (0 .. $lines - 1) {
        my $uri = "/$name/$place";
        my @headers = ('X-Place' => $place, 'X-Name' => $name,
            'X-Value' => $value);

        my @said = map { ask($uri, @headers) } 1, 2;

        $wrong .= "$place: $said[1]\n" if $said[1] =~ /^HIT/;
    }

    is($wrong, '', "$what: in each place of an answer");
}

$t->done();
