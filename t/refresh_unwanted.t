#!/usr/bin/perl

# Copyright (C) mcds authors

# A page that is asked for behind a client, who wanted a part of it, and that
# turns out to be none that is stored, is not read to an end that it may not
# have; the client's own answer is all that there is of it.  Where
# X-Accel-Redirect leads to is not even asked.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Cache-Control' => 'no-cache'], body => 'short' }
        if $q->{path} =~ /short/;

    return { headers => ['X-Accel-Redirect' => "/inner/$1?n=$q->{k}"] }
        if $q->{path} =~ m{^/led/(.*)};

    return { headers => ['Cache-Control' => 'no-cache'], length => undef,
        parts => [map { ['x' x 1000, 0.05] } 1 .. 400] };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_cache on;
    mcds_cache_key $uri;
    upstream origin { server 127.0.0.1:%%PORT_o%%; keepalive 4; }
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        location / { proxy_pass http://origin; }
        location /unbuffered/ {
            proxy_buffering off;
            proxy_pass http://origin;
        }
        location /inner/ {
            internal;
            mcds_cache off;
            proxy_pass http://origin;
        }
        location /inner/file {
            internal;
            mcds_cache off;
            root %%TMP%%;
        }
    }
}
EOT

for my $uri (qw{ /radio /unbuffered/radio }) {
    my $c = $h->conn();

    $c->send("GET $uri HTTP/1.1\r\nHost: localhost\r\n"
        . "Range: bytes=0-\r\n\r\n");
    ok(wait_for(sub { $c->fill(0.05); $c->{in} =~ /x{1000}/ }),
        "$uri: an answer");

    # of the request behind this one nobody reads more

    ok(wait_for(sub { $o->count($uri) == 2 }), "$uri: the page is asked for");
    ok(wait_for(sub { grep { $_->{aborted} } $o->requests($uri) }),
        "$uri: and let go");
    $c->close();
    ok(wait_for(sub { 2 == grep { $_->{aborted} } $o->requests($uri) }),
        "$uri: as is the answer of a client who leaves");
}

# what is short is read, by the request that has asked for a part of it

$h->get("/short/$_", headers => { Range => 'bytes=0-1' }) for 1 .. 5;
ok(wait_for(sub { 5 == grep { defined $_->{end} } $o->requests(qr/short/) }),
    'short answers');
is(scalar(grep { $_->{aborted} } $o->requests(qr/short/)), 0, 'are read');

# where the application leads to

my $c = $h->conn();

$c->send("GET /led/radio HTTP/1.1\r\nHost: localhost\r\n"
    . "Range: bytes=0-\r\n\r\n");
ok(wait_for(sub { $c->fill(0.05); $c->{in} =~ /x{1000}/ }), 'led on');
is($o->count('/led/radio'), 2, 'led on: as the page has been asked for, too');
is(join(' ', map { $_->{uri} } $o->requests('/inner/radio')),
    '/inner/radio?n=2', 'led on: only the client gets there');
$c->close();
ok(wait_for(sub {
    !grep { !$_->{aborted} } $o->requests('/inner/radio')
}), 'led on: nobody reads on when the client has left');

# bytes that the workers have read so far

sub bytes_read {
    my $sum = 0;

    for my $pid ($h->workers()) {
        open my $f, '<', "/proc/$pid/io" or return;
        my ($n) = do { local $/; <$f> // '' } =~ /^rchar: (\d+)$/m or return;
        $sum += $n;
    }

    return $sum;
}

my $size = 256 * 1024 * 1024;

mkdir $t->dir() . '/inner';
truncate $t->write_file('inner/file', ''), $size or die "truncate: $!\n";

my $before = bytes_read();
my $r = $h->get('/led/file', headers => { Range => 'bytes=0-1' });

is($r->status() . ' ' . $r->body(), "206 \0\0", 'a file: a part of it');

SKIP: {
    skip 'no /proc/<pid>/io', 1 if !defined $before;
    cmp_ok(bytes_read() - $before, '<', $size / 16, 'a file: no more is read');
}

ok($h->quit(), 'the worker ends');
$t->done();
