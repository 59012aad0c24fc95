#!/usr/bin/perl

# Copyright (C) mcds authors

# Large pages that are stored compressed, in one item or in parts: sent as they
# are, or decoded a few buffers at a time, whole or in ranges, to clients that
# are slow or go away.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

use IO::Uncompress::Gunzip qw/ gunzip /;

my $t = Test::Mcds->new();
$t->needs('mcds large');
$t->needs('zstd');

my $m = $t->memcached('m', memory => 256);

# one is small when it is compressed, the other is not

$t->seed(1);
my %text = (
    text => join('', map { "line $_ of a page\n" } 1 .. 50_000),
    noise => join('', map { chr 38 + rand 80 } 1 .. 1_500_000),
);

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($name) = $q->{path} =~ /(text|noise)/;
    return { headers => ['Cache-Control' => 'max-age=60', 'Content-Type' =>
        'text/html', ETag => '"e"'], $q->{path} =~ /chunked/ ? (chunked => 1)
        : (), body => $text{$name} };
});

$t->write_file('ssi.html', '(<!--# include virtual="/gzip/text" -->|'
    . '<!--# include virtual="/zstd/noise" -->)');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_error_backoff off;
    postpone_output 0;
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=64k;
        location /gzip/ {
            mcds_cache_compress gzip level=1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /zstd/ {
            mcds_cache_compress zstd;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /size/ {
            mcds_cache_compress gzip;
            mcds_cache_max_size 900k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /ssi.html {
            mcds_cache off;
            ssi on;
            root %%TMP%%;
        }
    }
}
EOT

sub get {
    my ($uri, $accept, %h) = @_;
    return $h->get($uri, headers => { %h, 'Accept-Encoding' => $accept });
}

sub shape {
    my ($r, $want) = @_;
    my $coding = $r->header('Content-Encoding') // 'none';
    my $body = $r->body;

    if ($coding eq 'gzip') {
        gunzip(\$r->body, \$body);

    } elsif ($coding eq 'zstd') {
        my $file = $t->write_file('zstd', $r->body);
        $body = `zstd -dcq $file`;
    }

    return join ' ', $r->status, $r->header('X-Cache'), $coding,
        $r->complete && $body eq $want ? 'right' : 'wrong';
}

# what is longer than 1 MB has no ranges: all before one would be decoded for it

for my $coding (qw/ gzip zstd /) {
    for my $name (sort keys %text) {
        my $uri = "/$coding/$name";
        my $want = $text{$name};
        my $length = length $want;

        is(shape(get($uri, 'none'), $want), '200 MISS none right',
            "$uri: a miss");
        my $e = page_decode(page_wait($m, $uri));
        is(join(' ', $e->{coding}, $e->{length}, $e->{parts} ? 'parts'
            : 'whole'), join(' ', $coding eq 'gzip' ? 1 : 2, $length,
            $name eq 'noise' ? 'parts' : 'whole'), "$uri: stored");

        is(shape(get($uri, $coding), $want), "200 HIT $coding right",
            "$uri: as it is");
        is(shape(get($uri, 'none'), $want), '200 HIT none right',
            "$uri: decoded");

        for (['0-0', 0, 1], ['100-99999', 100, 99900], ['900000-999999',
            900_000, 100_000], ['-10', $length - 10, 10])
        {
            my ($range, $at, $n) = @$_;
            my $r = get($uri, $coding, Range => "bytes=$range");

            if ($name eq 'noise') {
                is(shape($r, $want), '200 HIT none right', "$uri: no $range");
                is($r->header('Accept-Ranges'), undef, "$uri: and it says so");
                next;
            }

            is(shape($r, substr $want, $at, $n), '206 HIT none right',
                "$uri: $range");
            is($r->header('Content-Range'), sprintf('bytes %d-%d/%d', $at,
                $at + $n - 1, $length), "$uri: $range, which");
        }

        is(get($uri, 'none', Range => "bytes=$length-")->status,
            $name eq 'noise' ? 200 : 416, "$uri: past the end");
        is(get($uri, $coding, 'If-None-Match' => '"e"')->status, 304,
            "$uri: not modified");
        is($h->get($uri, method => 'HEAD')->header('Content-Length'), $length,
            "$uri: HEAD");

        # while the origin fails

        page_expire($m, $uri, 3000_000);
        $o->set($uri, { status => 500 });
        is(shape(get($uri, $_), $want), "200 STALE $_ right",
            "$uri: old, $_") for 'none', $coding;
        $o->set($uri, undef);
    }
}

is(shape(get('/zstd/chunked-text', 'none'), $text{text}),
    '200 MISS none right', 'chunked: a miss');
page_wait($m, '/zstd/chunked-text');
is(shape(get('/zstd/chunked-text', 'none'), $text{text}),
    '200 HIT none right', 'chunked: decoded');

is($h->get('/ssi.html')->body, "($text{text}|$text{noise})",
    'in another page');

# ... which is a variant, as the key has nothing that tells subrequests apart

for my $uri ('/gzip/text', '/zstd/noise') {
    ok(wait_for(sub { get($uri, 'none')->header('X-Cache') eq 'HIT' }),
        "$uri: by itself again");
}

get('/size/text', 'none');
is(page_decode(page_wait($m, '/size/text'))->{kind}, 1,
    'too large, though not when it is compressed');


# some are slow, some go away, nobody waits for them

my @slow = map { start_get($h->port, $_ % 2 ? '/gzip/text' : '/zstd/noise') }
    1 .. 6;
ok(wait_for(sub { ($m->stats)->{curr_connections} }), 'slow: asked');

is(shape(get('/gzip/text', 'none'), $text{text}), '200 HIT none right',
    'slow: others are served');
$slow[0]->reset;
$slow[1]->close;
is(shape(finish($slow[$_]), $text{$_ % 2 ? 'noise' : 'text'}),
    '200 HIT none right', "slow: $_") for 2 .. 5;

$t->done();
