#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_status beside other directives of its location: "if" and "limit_except"
# are still that location, with its format; "gzip_types" and "expires" apply.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

# (\x is Perl's, all else is as it stands)

my $h = $t->nginx('h', <<'EOT' =~ s/\\x(..)/chr hex $1/ger);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:1; }
    gzip on;
    gzip_min_length 1;
    gzip_types text/plain application/json;
    server {
        listen 127.0.0.1:%%PORT%%;

        location = /auto {
            mcds_status;
            if ($arg_x) { set $y 1; }
            limit_except POST { allow all; }
        }

        location = /prometheus {
            mcds_status format=prometheus;
            if ($arg_x) { set $y 1; }
            limit_except POST { allow all; }
        }

        location = /expires { expires 1h; mcds_status; }

        location /odd/1 { mcds_cache on; mcds_cache_label "a\xfe"; }
        location /odd/2 { mcds_cache on; mcds_cache_label "a\xff"; }
        location /odd/3 { mcds_cache on; mcds_cache_label "a?"; }
        location /odd/4 { mcds_cache on; mcds_cache_label "\xc3\xa9"; }
        location /odd/5 { mcds_cache on; mcds_cache_label "a\x5c\x5cxff"; }

        location /outer {
            mcds_status;
            location /outer/in { }
        }
    }
}
EOT

my %types = (
    json => qr{^application/json$},
    prometheus => qr{^text/plain; version=0\.0\.4; charset=utf-8$},
    html => qr{^text/html; charset=utf-8$},
);

# limit_except is where GET is, without "if"; with it, "if" is in that

for my $if ('', '&x=1') {
    my $where = $if ? 'if in limit_except' : 'limit_except';

    for my $format (sort keys %types) {
        my $r = $h->get("/auto?format=$format$if");

        is($r->status(), 200, "$where: $format can be had");
        like($r->header('Content-Type') // '', $types{$format},
            "$where: as $format");
    }

    my $r = $h->get("/prometheus?$if");

    is($r->status(), 200, "$where: a fixed format");
    like($r->header('Content-Type') // '', $types{prometheus}, 'is kept');
    is($h->get("/prometheus?format=json$if")->status(), 400,
        'and others are refused');

    is($h->get("/auto?$if", method => 'POST')->status(), 405,
        "$where: POST is refused");
}

is($h->get('/outer/in')->status(), 404, 'not in another location');

# names that are no UTF-8 are told from each other

my %series;

$series{$_}++ for $h->get('/prometheus')->body() =~ /^(mcds_.*) \S+$/mg;

is(join(' ', grep { $series{$_} > 1 } sort keys %series), '',
    'each series once');
is(join(' ', sort map { /^mcds_cache_purges_total\{cache="(.*)"\}/ ? $1 : () }
    keys %series), join(' ', 'a?', 'a\\\\xff', "\xc3\xa9",
        "\xef\xbf\xbda\\\\xfe", "\xef\xbf\xbda\\\\xff"),
    'by their bytes');

# filters

for my $format (sort keys %types) {
    my $r = $h->get("/expires?format=$format",
        headers => ['Accept-Encoding' => 'gzip']);

    is($r->header('Content-Encoding'), 'gzip', "$format is compressed");
    is_deeply([$r->all('Cache-Control')], ['max-age=3600'],
        'one Cache-Control, that of "expires"');

    $r = $h->get("/auto?format=$format");

    is_deeply([$r->all('Cache-Control')], ['no-store'],
        'and by default it is not to be kept');
}

$t->done();
