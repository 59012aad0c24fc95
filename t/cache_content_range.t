#!/usr/bin/perl

# Copyright (C) mcds authors

# RFC 9110, 14.4: Content-Range means something in a 206 and in a 416 only.  A
# 200 of the origin that has one is stored without it, and the 206 or 416 that
# nginx makes of the page has the one line that tells of its own range; so do
# pages that were stored with the line.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $wrong = 'bytes 5-9/100';
my %length = ('/page' => 8000, '/packed' => 80_000, '/parts' => 1_600_000);
my $text = join '', map { sprintf "%07d\n", $_ } 1 .. 200_000;

delete $length{'/parts'} if !$t->has('mcds large');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    my @h = (ETag => '"1"', 'Content-Range' => $wrong,
        'Cache-Control' => 'max-age=60', 'Content-Type' => 'text/plain');

    return { status => 304, headers => \@h }
        if $q->{headers}{'if-none-match'};
    return { headers => \@h, body => body($q->{path}) };
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
    mcds_cache_revalidate on;
    add_header X-Cache $mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /packed {
            mcds_cache_compress gzip;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub body { substr $text, 0, $length{$_[0]} }


sub of {
    my ($uri, $range) = @_;

    my $r = $h->get($uri, headers => { Range => "bytes=$range" });

    return join ' ', $r->status(), $r->header('X-Cache'),
        join ', ', map { "<$_>" } $r->all('Content-Range');
}

sub ranges {
    my ($uri, $name) = @_;

    my $n = $length{$uri};
    my ($from, $last) = ($n - 9, $n - 1);

    is($h->get($uri)->header('Content-Range'), undef, "$name: none");
    is(of($uri, '0-4'), "206 HIT <bytes 0-4/$n>", "$name: a part");
    is(of($uri, "$from-"), "206 HIT <bytes $from-$last/$n>", "$name: its end");
    is(of($uri, "$n-"), "416 HIT <bytes */$n>", "$name: beyond it");
    is($h->get($uri, headers => { Range => 'bytes=9-11' })->body(),
        substr($text, 9, 3), "$name: the bytes");
}


for my $uri (sort keys %length) {
    $h->get($uri);
    my $e = page_decode(page_wait($m, $uri));

    unlike($e->{headers}, qr/content-range/i, "$uri: stored without it");
    ranges($uri, $uri);
}

page_expire($m, '/page', 1000);
ok(wait_for(sub { $h->get('/page')->header('X-Cache') eq 'HIT' }),
    'a 304 renews the page');
is(($o->requests('/page'))[-1]{headers}{'if-none-match'} // '', '"1"',
    'it was one');
ranges('/page', 'renewed');


# of an older mcds, or of another program

for my $name ('Content-Range', 'content-range') {
    $m->set('<>/page', page_encode(key => '<>/page', body => body('/page'),
        headers => "$name: $wrong\r\nX-A: 1\r\n$name: bytes */7\r\n"));

    ranges('/page', "stored with $name");
    is($h->get('/page')->header('X-A'), 1, "$name: others are sent");
}

$t->done();
