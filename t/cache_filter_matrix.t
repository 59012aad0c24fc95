#!/usr/bin/perl

# Copyright (C) mcds authors

# H08: nginx's filters, and some of them together, make of a miss, a hit and an
# old page, stored as it is or compressed, the bytes that they make without the
# cache, for clients that accept gzip, zstd or neither.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Http2;

use Compress::Raw::Zlib qw/ crc32 /;
use Compress::Zlib qw/ compress /;
use IO::Compress::Gzip qw/ gzip /;
use IO::Uncompress::Gunzip qw/ gunzip /;

my $t = Test::Mcds->new()->needs('zstd', 'http_v2');
$t->needs('mcds vary');

my $m = $t->memcached('m');

my $text = '<!--# include virtual="/inner" -->' . join '', map {
    "line $_ needle \xfe\xc0 <!--# echo var=\"arg_x\" -->\n" } 1 .. 200;
gzip(\$text, \my $gzipped, -Time => 0);

sub chunk {
    my ($type, $data) = @_;
    return pack('N', length $data) . $type . $data
        . pack('N', crc32($type . $data));
}

my $image = "\x89PNG\r\n\x1a\n"
    . chunk('IHDR', pack('NNCCCCC', 40, 30, 8, 2, 0, 0, 0))
    . chunk('IDAT', compress(join '', map { my $y = $_; "\0" . join '',
        map { chr($_ * 6) . chr($y * 8) . chr(($_ ^ $y) * 4) } 0 .. 39 }
        0 .. 29))
    . chunk('IEND', '');

# named: "<filter>-<coding>"; what the origin says depends on the filter

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @headers = ('Cache-Control' => 'max-age=60', ETag => '"e"');
    my ($name) = $q->{path} =~ m{^/([\w.]+)-};

    return { headers => \@headers, body => "(inner)" } if !defined $name;

    push @headers, 'Content-Type' => $name =~ /image/ ? 'image/png'
        : 'text/html' . ($name =~ /charset/ ? '; charset=koi8-r' : '');

    if ($name =~ /slice/ && ($q->{headers}{range} // '') =~ /=(\d+)-(\d+)/) {
        my $last = $2 < length $text ? $2 : length($text) - 1;
        return { status => 206, body => substr($text, $1, $last - $1 + 1),
            headers => [@headers, 'Content-Range' => "bytes $1-$last/"
            . length $text] };
    }

    push @headers, Vary => 'Accept-Encoding', 'Content-Encoding' =>
        $name =~ /brotli/ ? 'br' : 'gzip' if $name =~ /brotli|gunzip/;

    return { headers => \@headers, chunked => $name =~ /unknown/ ? 1 : 0,
        body => $name =~ /image/ ? $image : $name =~ /gunzip/ ? $gzipped
        : $name =~ /brotli/ ? "opaque $text" : $text };
});

$t->write_file('static.html', $text);
$t->write_file('static.html.gz', $gzipped);

my $proxy = 'proxy_pass http://127.0.0.1:%%PORT_o%%;';
my $unasked = 'proxy_set_header Accept-Encoding "";';

my %filters = (
    'none' => '',
    'unknown' => '',
    'gzip' => 'gzip on;',
    'gzip.vary' => 'gzip on; gzip_vary on;',
    'gzip.static' => 'gzip_static on; alias %%TMP%%/static.html;',
    'gunzip' => 'gunzip on; proxy_set_header Accept-Encoding gzip;',
    'brotli' => '',
    'brotli.gunzip.gzip' => 'gunzip on; gzip on;',
    'sub' => 'sub_filter needle "a longer needle"; sub_filter_once off;',
    'sub.same' => 'sub_filter needle NEEDLE; sub_filter_once off;
        sub_filter_last_modified on;',
    'sub.type' => 'sub_filter needle ""; sub_filter_types text/x-other;',
    'addition' => 'add_before_body /inner; add_after_body /inner;',
    'length' => 'chunked_transfer_encoding off;',
    'charset' => 'charset utf-8; override_charset on;',
    'charset.map' => 'charset windows-1251; override_charset on;',
    'charset.name' => 'charset koi8-r;',
    'ssi' => 'ssi on;',
    'image' => 'image_filter resize 7 5;',
    'image.rotate' => 'image_filter rotate 90;',
    'image.test' => 'image_filter test;',
    'image.size' => 'image_filter size;',
    'range' => 'proxy_force_ranges on;',
    'range.one' => 'proxy_force_ranges on; max_ranges 1;',
    'range.off' => 'max_ranges 0;',
    'headers' => 'add_header X-Added yes; expires 1h; etag off;
        add_header X-Cache $mcds_cache_status;',
    'mirror' => 'mirror /inner;',
    'auth' => 'auth_request /inner; mcds_cache_shared on;',
    'limit' => 'limit_rate 1m; limit_rate_after 1k;',
    'output' => 'postpone_output 0; output_buffers 1 1k;
        proxy_buffering off;',
    'userid' => 'userid on;',
    'slice' => 'slice 1k; proxy_set_header Range $slice_range;',
    'slice.range' => 'slice 1k; proxy_set_header Range $slice_range;',
    'ssi.gzip' => 'ssi on; gzip on;',
    'ssi.sub' => 'ssi on; sub_filter line LINE; sub_filter_once off;',
    'ssi.range' => 'ssi on; proxy_force_ranges on;',
    'sub.gzip' => 'sub_filter needle ""; gzip on;',
    'sub.addition.gzip' => 'sub_filter needle ""; add_after_body /inner;
        gzip on;',
    'addition.ssi.range' => 'add_before_body /inner; ssi on;',
    'charset.ssi.gzip' => 'charset utf-8; override_charset on; ssi on;
        gzip on;',
    'charset.map.length' => 'charset windows-1251; override_charset on;
        chunked_transfer_encoding off;',
    'gzip.range' => 'gzip on; proxy_force_ranges on;',
    'gunzip.sub' => "gunzip on; sub_filter needle '';
        proxy_set_header Accept-Encoding gzip;",
    'gzip.limit' => 'gzip on; limit_rate 1m; postpone_output 0;',
    'mirror.auth.ssi' => 'mirror /inner; auth_request /inner; ssi on;
        mcds_cache_shared on;',
);

my $images = $t->has('ngx_http_image_filter_module.so');

delete @filters{grep { /image/ && !$images } keys %filters};
delete @filters{grep { my $f = $_; grep { $f =~ /$_/ && !$t->has("http_$_") }
    qw/ gunzip sub addition slice / } keys %filters};
delete $filters{'gzip.static'} if !$t->has('http_gzip_static');
delete @filters{qw/ auth mirror.auth.ssi /}
    if !$t->has('http_auth_request');

sub locations {
    my $text = "location = /inner { $proxy }\n";

    for my $name (sort keys %filters) {
        for my $coding (qw/ off gzip zstd /) {
            my $how = $coding eq 'off' ? 'off' : "$coding min_length=1 types=*";
            my $handler = $name =~ /static/ ? '' : $name =~ /gunzip/ ? $proxy
                : "$unasked $proxy";

            $text .= "location /$name-$coding { mcds_cache_compress $how;\n"
                . "$filters{$name} $handler }\n";
        }
    }

    return $text;
}

my $load = $images ? "load_module $images;" : '';
my $locations = locations();

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
$load
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache \$mcds_cache_status always;
    default_type text/html;
    mcds_cache_valid 1m;
    mcds_cache_key \$uri\$slice_range;
    charset_map koi8-r utf-8 { FE D0AE; C0 D18E; }
    charset_map koi8-r windows-1251 { FE DE; C0 FE; }
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_h2%% http2;
        mcds_cache on;
        $locations
    }
    server {
        listen 127.0.0.1:%%PORT_bare%%;
        listen 127.0.0.1:%%PORT_bare2%% http2;
        $locations
    }
}
EOT


# all that a client makes of an answer

sub seen {
    my ($r) = @_;
    my $body = $r->body;
    my $coding = $r->header('Content-Encoding') // 'none';

    if ($coding eq 'gzip') {
        gunzip(\$r->body, \$body) or $body = 'no gzip';

    } elsif ($coding eq 'zstd') {
        my $file = $t->write_file('zstd', $r->body);
        $body = `zstd -dcq $file`;

    } elsif ($coding ne 'none') {
        $body = "$coding: $body";
    }

    return join ' | ', $r->status, $r->complete ? 'whole' : 'cut',
        (map { $r->header($_) // '' } qw/ Content-Type Content-Range X-Added
        Cache-Control /), length $body, unpack('%32C*', $body), $body;
}

sub short { return $_[0] =~ s/^(.{100}).*/$1/sr }

sub same {
    my ($got, $want, $name) = @_;
    return ok(1, $name) if $got eq $want;
    return is(short($got), short($want), $name);
}

my $c = $h->conn();
my $bare = conn($t->port('bare'));

for my $name (sort keys %filters) {
    for my $coding (qw/ off gzip zstd /) {
        my $uri = "/$name-$coding";
        my @ranges = $name =~ /range/ ? qw/ bytes=10-99 bytes=-5 / : ();
        my %want;

        my $ask = sub {
            my ($c, $accept, $range) = @_;
            return seen($c->get("$uri?x=1", headers => { 'Accept-Encoding'
                => $accept, $range ? (Range => $range) : () }));
        };

        $want{$_} = $ask->($bare, $_) for qw/ none gzip zstd /;
        same($ask->($c, 'gzip'), $want{gzip}, "$uri: a miss");

        if ($name !~ /slice|static/) {
            page_wait($m, $uri) // fail("$uri: not stored");

            like($c->get($uri)->header('X-Cache') // '', qr/^HIT/, "$uri: HIT")
                if $name !~ /brotli|gunzip|size/;
        }

        same($ask->($c, $_), $want{$_}, "$uri: a hit, $_")
            for qw/ none gzip zstd /;
        same($ask->($c, $_->[0], $_->[1]), $ask->($bare, $_->[0], $_->[1]),
            "$uri: a hit, @$_") for map { ['none', $_], [gzip => $_],
            [zstd => $_] } @ranges;

        next if $name =~ /slice|static|brotli|gunzip/;

        page_expire($m, $uri, 1000);
        my $old = $c->get("$uri?x=1", headers => { 'Accept-Encoding' =>
            'gzip' });
        is($old->header('X-Cache'), 'STALE', "$uri: STALE")
            if $name !~ /size/;
        same(seen($old), $want{gzip}, "$uri: an old page");
    }
}

# the same by HTTP/2, some at once

my ($h2, $bare2) = map { Test::Mcds::Http2->new($t->port($_)) } qw/ h2 bare2 /;
my @uris = map { my $name = $_; map { "/$name-$_?x=1" } qw/ off gzip zstd / }
    grep { !/slice|gunzip/ } sort keys %filters;

while (my @some = splice @uris, 0, 10) {
    my ($got, $want) = map {
        my $h = $_;
        [map { $h->response($_)->body } map { $h->request($_,
            headers => ['accept-encoding' => 'gzip']) } @some];
    } $h2, $bare2;

    for my $i (0 .. $#some) {
        my ($a, $b) = map { my $body = $_; my $plain;
            $body =~ /^\x1f\x8b/ && gunzip(\$body, \$plain) ? $plain : $body
        } $got->[$i], $want->[$i];
        same($a, $b, "HTTP/2: $some[$i]");
    }
}

$t->done();
