#!/usr/bin/perl

# Copyright (C) mcds authors

# Bodies of all sizes and sources come back as they were: filled by one host,
# served by both.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();
$t->needs('mcds large');

# any bytes, lines that look like memcached's among them

$t->seed(42);
my $bytes = join '', map { pack 'L', rand 2 ** 32 } 1 .. 300000;
substr $bytes, $_, 15, "\r\nEN\r\nmn\r\n\0\r\nHD" for 1, 5000, 40000, 90000;

my @sizes = (0, 1, 2, 10_000, 32_767, 32_768, 100_000, 1_000_000);
my %body = map { $_ => substr $bytes, 0, $_ } @sizes, 200_000, 1_100_000;

my $answer = sub {
    my ($o, $q) = @_;
    my ($how, $size) = $q->{path} =~ m{^/([\w/]+)/(\d+)} or return 'no';
    my $body = $body{$size};
    my @parts = $body =~ /(.{1,30000})/gs;

    return {
        headers => ['Cache-Control' => 'max-age=60'], parts => \@parts,
        $how eq 'chunked' ? (chunked => 1) : (),
        $how eq 'closed' ? (length => undef) : (),
    };
};

my $m = $t->memcached('m');
my $o = $t->origin('o', $answer);
my $f = $t->origin('f', $answer, fastcgi => 1);

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_max_size 1000k;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /chunked/ {
            proxy_http_version 1.1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /direct/ {
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /small/ {
            mcds_cache_max_size 199999;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /chunked/small/ {
            mcds_cache_max_size 199999;
            proxy_http_version 1.1;
            proxy_pass http://127.0.0.1:%%PORT_o%%/chunked/;
        }
        location /just/ {
            mcds_cache_max_size 200000;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /huge/ {
            mcds_cache_max_size 2m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fast/ {
            fastcgi_pass 127.0.0.1:%%PORT_f%%;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
        }
        location /fast/direct/ {
            fastcgi_buffering off;
            fastcgi_pass 127.0.0.1:%%PORT_f%%;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
        }
        location /file/ {
            mcds_cache_valid 200 1m;
            proxy_pass http://127.0.0.1:%%PORT_files%%/;
        }
        location /bare/ {
            mcds_cache_valid 200 1m;
            alias %%TMP%%/;
        }
    }
}
EOT

$t->nginx('files', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        sendfile on;
        root %%TMP%%;
    }
}
EOT

my $one = $t->nginx('one', $conf);
my $two = $t->nginx('two', $conf);

$t->write_file("file.$_", $body{$_}) for @sizes;

for my $how ('plain', 'chunked', 'closed', 'direct', 'fast', 'fast/direct',
    'file')
{
    for my $size (@sizes) {
        my $uri = $how eq 'file' ? "/file/file.$size" : "/$how/$size";
        my $miss = $one->get($uri);

        page_wait($m, key($uri));

        my @hits = map { $_->get($uri) } $one, $two;
        my @r = ($miss, @hits);

        is(join(' ', map { $_->header('X-Cache') . ' '
            . ($_->body() eq $body{$size} ? 'right' : 'wrong') } @r),
            'MISS right HIT right HIT right', "$how, $size bytes");
    }
}

is($two->get('/file/file.10000')->header('ETag'),
    $one->get('/file/file.10000', headers => { 'Cache-Control' => 'x' })
    ->header('ETag'), 'a file: its ETag');
ok($two->get('/file/file.10000')->header('Last-Modified'),
    'a file: Last-Modified');

# nginx's own files are not stored

for (1, 2) {
    my $r = $one->get('/bare/file.10000');

    ok(!defined $r->header('X-Cache') && $r->body() eq $body{10_000},
        'a file of the host: passed');
}

ok(!grep({ m{/bare/} } $m->keys()), 'a file of the host: not stored');

my $r = $two->get('/plain/1000000',
    headers => { Range => 'bytes=500000-500099' });
ok($r->status() == 206 && $r->body() eq substr($bytes, 500000, 100),
    'a part of a large one');


# too large: passed whole, a mark is stored instead

for my $uri ('/small/200000', '/chunked/small/200000', '/plain/1100000',
    '/direct/1100000')
{
    my ($size) = $uri =~ /(\d+)$/;

    ok($one->get($uri)->body() eq $body{$size}, "$uri: passed");
    is(page_decode(page_wait($m, key($uri)))->{kind}, 1, "$uri: a mark");
    ok($two->get($uri)->body() eq $body{$size}, "$uri: passed again");

    $r = $two->get($uri, headers => { Range => 'bytes=0-9' });
    is(($o->requests())[-1]{headers}{range}, 'bytes=0-9',
        "$uri: the mark lets ranges pass");
}

$one->get('/just/200000');
page_wait($m, key('/just/200000'));
$r = $two->get('/just/200000');
is($r->header('X-Cache') . length $r->body(), 'HIT200000', 'just max_size');


# larger than an item of memcached: see also cache_large.t

ok($one->get('/huge/1100000')->body() eq $body{1_100_000}, 'huge: passed');
page_wait($m, key('/huge/1100000'));
$r = $two->get('/huge/1100000');
is($r->header('X-Cache'), 'HIT', 'huge: a hit');
ok($r->body() eq $body{1_100_000}, 'huge: right');

$t->done();
