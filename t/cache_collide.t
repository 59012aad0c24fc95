#!/usr/bin/perl

# Copyright (C) mcds authors

# A worker finds what it knows of a page, also among many with the same CRC32.

use warnings;
use strict;

use Test::More;

use Compress::Zlib ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

# texts that can take each other's place: 32 names of 5 of them

my @pair = ('ngchzfzv', 'iriavosr');
my @uris = map {
    my $n = $_;
    '/' . join '', map { $pair[$n >> $_ & 1] } 0 .. 4
} 0 .. 31;

my %crc = map { Compress::Zlib::crc32("<>http://localhost$_") => 1 } @uris;
is(scalar keys %crc, 1, 'one CRC32');

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

# without memcached a worker has nothing else to go by

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_dead%%; }
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ping { mcds_return 200 pong; }
    }
}
EOT

$o->hold_path('*');

my @first = map { start_get($h->port(), $_) } @uris;
ok($o->wait_requests(32), 'each is built');

# the worker takes connections in turn: an answer to a later one means that
# all of these were read

my @more = map { start_get($h->port(), $_) } @uris;
$h->get('/ping') for 1 .. 3;

is(scalar(grep { $o->count($_) == 1 } @uris), 32, 'and none of them twice');

$o->release('*');

for my $c (['first', 'MISS', @first], ['more', 'HIT', @more]) {
    my ($name, $status, @p) = @$c;
    my @r = map { finish($_) } @p;

    is(scalar(grep { $r[$_]->body() =~ /^answer \d+ of \Q$uris[$_]\E\n$/ }
        0 .. 31), 32, "$name: each gets its own page");
    is(scalar(grep { $_->header('X-Cache') eq $status } @r), 32,
        "$name: $status");
}

is($o->count(), 32, 'no answer too many');

$t->done();
