#!/usr/bin/perl

# Copyright (C) mcds authors

# What another version may have written: that which a reader may skip is
# skipped, and the page is used; that which it must understand makes a miss,
# after which the page is stored in a way that this version knows.  Neither
# kills a worker, nor is a part of one page put into another.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Log qw/ frame crc32 /;

my $t = Test::Mcds->new();
$t->needs('mcds large');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache on;
    mcds_cache_key $uri;
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /log { mcds_log_api log; }
    }
}
EOT

my $type = "Content-Type: text/plain\r\n";


# a later version with the same format may

for (
    ['make the header longer' => longer => {}, 1],
    ['have more flags' => flags => { flags => 0x80000000 }, 1],
    ['have more extensions' => ext =>
        { ext => pack('vV', 999, 5) . 'hello' . pack('vV', 1000, 0) }, 1],
    ['use what is reserved' => reserved => {}, 1],

    # and may not, without another format

    ['have another format' => format => { format => 4 }, 0],
    ['have a format of long ago' => old => { format => 0 }, 0],
    ['have another magic' => magic => { magic => 'MCDX' }, 0],
    ['have another kind' => kind => { kind => 9 }, 0],
    ['have another coding' => coding => { coding => 9, length => 99 }, 0],
    ['have a shorter header' => short => { size => 96 }, 0],
    ['end in an extension' => cut => { ext => pack('vV', 999, 50) }, 0],
) {
    my ($name, $uri, $fields, $used) = @$_;
    my $bytes = page_encode(key => "<>/$uri", headers => $type,
        body => "of another version\n", %$fields);

    $bytes = longer($bytes) if $uri eq 'longer';
    $bytes = reserved($bytes) if $uri eq 'reserved';

    $m->set("<>/$uri", $bytes);

    my $r = $h->get("/$uri");

    is(join(' ', $r->status(), $r->header('X-Cache'), $r->body()), $used
        ? "200 HIT of another version\n"
        : '200 MISS answer ' . $r->header('X-Answer') . " of /$uri\n",
        "it can $name");

    next if $used;

    ok(wait_for(sub {
        my $e = page_decode($m->get("<>/$uri"));
        return $e && $e->{magic} eq 'MCDS' && $e->{body} eq $r->body()
            && $e->{valid};
    }), 'and the page takes its place');
}


# a page whose parts are of another version, or of another page

for (['format' => { format => 9 }], ['magic' => { magic => 'MCDX' }],
    ['generation' => { generation => 6 }], ['number' => { n => 1 }],
    ['size' => { size => 16 }], ['none' => undef], ['right' => {}])
{
    my ($uri, $fields) = @$_;
    my $key = "/part-$uri";
    my %e = (key => "<>$key", headers => $type, generation => 5, parts => 1,
        part => 6, total => 11, body => 'first');

    $m->set("<>$key", page_encode(%e));

    $m->set("<>$key:part:0000000000000005:0", part_encode(generation => 5,
        data => 'second', %$fields)) if $fields;

    my $r = $h->get($key);

    if ($uri eq 'right') {
        is($r->body(), 'firstsecond', 'a part of a page is used');
        next;
    }

    like($r->body(), qr/^answer \d+ of $key\n$/,
        "a part with another $uri is not");
}


# lines of another version, between those of this one

my $now = int(time() * 1000);
my @frames = map { frame(writer => 7, seq => $_, host => 'a',
    lines => [[$now, "line $_"]]) } 1 .. 3;

substr($frames[1], 12, 1) = chr 9;
substr($frames[1], 8, 4) = pack 'V', crc32(substr $frames[1], 12);

$m->set('log:' . int($now / 10000), join('', @frames), 600);

is($h->get('/log?format=text&last=0&first=-200')->body(), "line 1\nline 3\n",
    'lines beside those of another version are read');

$t->done();


# 16 more bytes of header, that this version has no name for

sub longer {
    my ($bytes) = @_;

    substr($bytes, 112, 0) = 'sixteen bytes...';
    substr($bytes, 6, 2) = pack 'v', 128;

    return signed($bytes);
}


sub reserved {
    my ($bytes) = @_;

    substr($bytes, 86, 2) = "\1\1";
    substr($bytes, 92, 16) = 'sixteen bytes...';

    return signed($bytes);
}


sub signed {
    my ($bytes) = @_;

    substr($bytes, 12, 4) = pack 'V', crc32c(substr($bytes, 0, 12)
        . substr($bytes, 16));

    return $bytes;
}
