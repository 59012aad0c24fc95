#!/usr/bin/perl

# Copyright (C) mcds authors

# Bodies that are larger than an item of memcached come back as they were,
# whatever its limit is: from both hosts, whole, in ranges, through filters.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Http2;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');
$t->needs('mcds large');

$t->seed(7);
my $bytes = join '', map { pack 'L', rand 2 ** 32 } 1 .. 1_310_720;
$bytes x= 13 if $t->full();

my $text = join "\n", map { "line $_ of a page, repeated" } 1 .. 80_000;
my $old = '<html>' . $text . '<!--# include virtual="/usual/1500000" --> end';

my @sizes = (700_000, 1_500_000, 5_000_000, $t->size(5_242_880, 67_108_864));
my %limits = (
    usual => [], half => ['-I', '512k'],
    small => ['-I', '128k', '-o', 'slab_chunk_max=65536'],
    least => ['-I', '64k', '-o', 'slab_chunk_max=65536'],
);

my %m = map { $_ => $t->memcached($_, memory => 256, args => $limits{$_}) }
    sort keys %limits;

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @h = ('Cache-Control' => 'max-age=60', ETag => '"etag"');

    return { headers => [@h, 'Content-Type' => 'text/html'], body => $old }
        if $q->{path} =~ /ssi/;
    return { headers => [@h, 'Content-Type' => 'text/plain'], body => $text }
        if $q->{path} =~ /text/;

    my ($size) = $q->{path} =~ m{(\d+)$};
    my $body = substr $bytes, 0, $size;

    return { headers => \@h, body => $body } if $q->{path} !~ /chunked/;
    return { headers => \@h, parts => [$body =~ /(.{1,60000})/gs],
        chunked => 1 };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool usual { server 127.0.0.1:%%PORT_usual%%; timeout 2s; }
    mcds_pool half { server 127.0.0.1:%%PORT_half%%; timeout 2s; }
    mcds_pool small { server 127.0.0.1:%%PORT_small%%; timeout 2s; }
    mcds_pool least { server 127.0.0.1:%%PORT_least%%; timeout 2s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache_key $uri;
    mcds_cache_max_size 64m;
    proxy_http_version 1.1;
    server {
        listen 127.0.0.1:%%PORT%%;
        H2
        mcds_cache usual;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /half/ {
            mcds_cache half;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /small/ {
            mcds_cache small;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /least/ {
            mcds_cache least;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi { ssi on; proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /text/gzip {
            gzip on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOC

my $h2 = $t->has('http_v2') ? 'listen 127.0.0.1:%%PORT_h2%% http2;' : '';

my $one = $t->nginx('one', $conf =~ s/H2//r);
my $two = $t->nginx('two', $conf =~ s/H2/$h2/r);

sub right { $_[0] eq $_[1] ? 'right' : 'wrong, ' . length $_[0] }

sub which {
    my ($r, $body) = @_;
    return ($r->header('X-Cache') // 'none') . ' ' . right($r->body(), $body);
}

for my $name (sort keys %m) {
    my $m = $m{$name};

    for my $uri (map { ("/$name/$_", "/$name/chunked/$_") } @sizes) {
        my ($size) = $uri =~ m{(\d+)$};
        my $body = substr $bytes, 0, $size;

        my @r = $one->get($uri);
        ok(page_wait($m, $uri), "$uri: stored");
        push @r, map { $_->get($uri) } $one, $two;

        is(join(', ', map { which($_, $body) } @r),
            'MISS right, HIT right, HIT right', $uri);
        is($o->count($uri), 1, "$uri: asked for once");
        $o->mark();
    }

    my $e = page_decode($m->get("<>/$name/5000000"));
    is($e->{total}, 5_000_000, "$name: the whole length");

    my $part = sprintf "<>/$name/5000000:part:%016x:", $e->{generation};
    my @parts = map { part_decode($m->get("$part$_")) }
        0 .. $e->{parts} - 1;

    is(join(' ', map { "$_->{valid} $_->{n}" } @parts),
        join(' ', map { "1 $_" } 0 .. $e->{parts} - 1), "$name: parts");
    is(right(join('', map { $_->{data} } @parts),
        substr $bytes, 0, 5_000_000), 'right', "$name: their data");

    is($one->log_count(qr/pool "$name" takes no items of \d+ bytes/),
        { usual => 0, half => 1, small => 2, least => 3 }->{$name},
        "$name: what was learnt is told once");
}

# what a request asks for

my $uri = '/usual/5000000';

for my $range ([0, 0], [0, 999], [251_967, 251_968], [251_968, 251_968],
    [1_000_000, 3_999_999], [4_999_999, 4_999_999], [0, 4_999_999],
    [4_000_000, 9_000_000])
{
    my ($from, $to) = @$range;
    $to = 4_999_999 if $to > 4_999_999;
    my $r = $two->get($uri, headers => { Range => "bytes=$from-$range->[1]" });

    is($r->status() . ' ' . right($r->body(), substr $bytes, $from,
        $to - $from + 1), '206 right', "range $from-$range->[1]");
    is($r->header('Content-Range'), "bytes $from-$to/5000000", 'says which');
}

my $r = $two->get($uri, headers => { Range => 'bytes=-1000' });
is(right($r->body(), substr $bytes, 4_999_000, 1000), 'right', 'range at end');
$r = $two->get($uri, headers => { Range => 'bytes=5000000-' });
is($r->status(), 416, 'range behind the end');
$r = $two->get($uri, headers => { Range => 'bytes=0-1,5-6' });
is($r->status() . ' ' . right($r->body(), substr $bytes, 0, 5_000_000),
    '200 right', 'two ranges: all of it');

my $before = $m{usual}->stats()->{bytes_written};
$two->get($uri, headers => { Range => 'bytes=4000000-4000009' });
cmp_ok($m{usual}->stats()->{bytes_written} - $before, '<', 600_000,
    'a range does not read the rest');

$before = $m{usual}->stats()->{bytes_written};
$r = http_head($two->port(), $uri);
is(join(' ', $r->status(), $r->header('X-Cache'),
    $r->header('Content-Length')), '200 HIT 5000000', 'HEAD');
is($two->get($uri, headers => { 'If-None-Match' => '"etag"' })->status(), 304,
    'conditional');
cmp_ok($m{usual}->stats()->{bytes_written} - $before, '<', 20_000,
    'neither reads the body');

my $c = $two->conn();
is(join(' ', map { right($c->get($uri)->body(), substr $bytes, 0, 5_000_000) }
    1 .. 3), 'right right right', 'keepalive');

# filters

$_->get('/text/gzip') for $one, $two;
page_wait($m{usual}, '/text/gzip');
SKIP: {
    skip 'no gunzip', 1 if !eval { require IO::Uncompress::Gunzip };
    my ($plain, $gz);
    $gz = $two->get('/text/gzip', headers => { 'Accept-Encoding' => 'gzip' });
    $gz = $gz->body();
    IO::Uncompress::Gunzip::gunzip(\$gz, \$plain);
    is(right($plain, $text), 'right', 'gzip');
}

my $page = '<html>' . $text . substr($bytes, 0, 1_500_000) . ' end';
is(join(' ', map { right($_->get('/ssi')->body(), $page) } $one, $two),
    'right right', 'SSI with a large part');
page_wait($m{usual}, '/ssi');
$r = $two->get('/ssi');
is(which($r, $page), 'HIT right', 'SSI, a hit');

SKIP: {
    skip 'no http2', 1 if !$t->has('http_v2');
    my $h = Test::Mcds::Http2->new($t->port('h2'));
    my @r = map { $h->response($_) } map { $h->request($uri) } 1 .. 3;
    is(join(' ', map { right($_->body(), substr $bytes, 0, 5_000_000) } @r),
        'right right right', 'HTTP/2');
    $h->close();
}

is($o->count($uri), 0, 'all from memcached');

$t->done();
