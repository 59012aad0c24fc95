#!/usr/bin/perl

# Copyright (C) mcds authors

# Copies of large pages in files of memory, which sendfile() sends: the bytes
# are right through every filter and protocol, a slow client gets the page that
# it began to read although the page is replaced meanwhile, the number of files
# is bounded, and no file is left.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Http2;
use Test::Mcds::Slow;

my $t = Test::Mcds->new()
    ->needs('http_ssl', 'http_v2', 'IO::Socket::SSL')
    ->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m', args => ['-I', '2m']);

my $line = "a needle in line %05d of version %03d of %s\n";

sub body {
    my ($path, $version, $size) = @_;
    my $text = '';

    for (my $i = 0; length($text) < $size; $i++) {
        $text .= sprintf($line, $i, $version, $path);
    }

    return $text;
}

$t->origin('o', sub {
    my ($o, $request) = @_;
    my ($path, $size) = $request->{path} =~ m{(.*)/(\d+)$};

    return { body => body($path, $request->{k}, $size),
        headers => ['Content-Type' => 'text/html',
            'Cache-Control' => 'max-age=600'] };
});

my %filters = (
    'none' => '',
    'off' => 'sendfile off;',
    'nopush' => 'tcp_nopush on;',
    'chunk' => 'sendfile_max_chunk 8k;',
    'gzip' => 'gzip on; gzip_types *;',
    'ssi' => 'ssi on;',
    'sub' => 'sub_filter needle "longer needle"; sub_filter_once off;',
    'addition' => 'add_before_body /inner; add_after_body /inner;',
    'charset' => 'charset windows-1251; source_charset koi8-r;',
    'limit' => 'limit_rate 2m; limit_rate_after 16k;',
    'postpone' => 'postpone_output 0; output_buffers 1 1k;',
    'both' => 'ssi on; sub_filter line LINE; gzip on;',
);

$filters{threads} = 'aio threads;' if $t->has('threads');

delete @filters{grep { my $f = $_; grep { $f =~ /$_/ && !$t->has("http_$_") }
    qw/ sub addition / } keys %filters};
delete $filters{both} if !$t->has('http_sub');

my $proxy = 'proxy_pass http://127.0.0.1:%%PORT_o%%;';
my $locations = join "\n", "location = /inner { return 200 inner; }",
    map { "location /$_/ { $filters{$_} $proxy }" } sort keys %filters;

my ($cert, $key) = $t->cert('localhost');

sub conf {
    my ($main, $events, $listen) = @_;

    return <<"EOT";
%%GLOBALS%%
worker_processes 1;
$main
events { $events }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_zone 16m;
    add_header X-Cache \$mcds_cache_status always;
    charset_map koi8-r windows-1251 { C0 FE; }
    sendfile on;
    ssl_certificate $cert;
    ssl_certificate_key $key;
    server {
        listen 127.0.0.1:%%PORT%%;
        $listen
        mcds_cache on;
        mcds_cache_key \$uri;
        mcds_cache_local validated;
        mcds_cache_max_size 1m;
        $locations
    }
}
EOT
}

my $h = $t->nginx('h', conf('', '',
    'listen 127.0.0.1:%%PORT_tls%% ssl; listen 127.0.0.1:%%PORT_h2%% http2;'));


# the files that the worker has

sub files { my ($host) = @_; return $host->memfiles(($host->workers())[0]) }

sub status {
    my ($r) = @_;
    return ($r->header('X-Cache') // 'none') . ' ' . $r->status();
}


# a small page has none, a large one has one after a few hits

for my $size (30_000, 100_000) {
    my $uri = "/none/$size";
    my $want = body('/none', 1, $size);

    $h->get($uri);
    page_wait($m, $uri);

    my $wrong = grep { my $r = $h->get($uri);
        status($r) ne 'HIT 200' || $r->body() ne $want } 1 .. 8;

    is($wrong, 0, "$size bytes: all hits are right");
    is(files($h), $size > 32768 ? 1 : 0, "$size bytes: files");
}

my $uri = '/none/100000';
my $want = body('/none', 1, 100_000);

is($h->get($uri, method => 'HEAD')->header('Content-Length'), length $want,
    'HEAD');

for my $range ([0, 99], [50_000, 69_999], [99_990, length($want) - 1]) {
    my ($from, $to) = @$range;
    my $r = $h->get($uri, headers => { Range => "bytes=$from-$to" });

    is($r->status(), 206, "range $from-$to");
    ok($r->body() eq substr($want, $from, $to - $from + 1),
        "range $from-$to: its bytes");
}

my $r = $h->get($uri, headers => { Range => 'bytes=10-40009,90000-90009' });

ok(index($r->body(), "\r\n\r\n" . substr($want, 10, 40_000) . "\r\n") > 0
    && index($r->body(), "\r\n\r\n" . substr($want, 90_000, 10) . "\r\n") > 0,
    'two ranges');


# through filters: what is sent from a file is what was sent when it was built

my $h2 = Test::Mcds::Http2->new($t->port('h2'));

for my $name (sort keys %filters) {
    my $uri = "/$name/150000";
    my $miss = $h->get($uri)->body();

    page_wait($m, $uri);

    my $before = files($h);
    my $wrong = grep { my $r = $h->get($uri);
        status($r) ne 'HIT 200' || $r->body() ne $miss } 1 .. 6;

    is($wrong, 0, "$name: hits");
    is(files($h), $before + ($name =~ /^(?:off|threads)$/ ? 0 : 1),
        "$name: from a file, if sendfile() is used");

    $wrong = grep { http_get($t->port('tls'), $uri, ssl => 1)->body() ne $miss }
        1 .. 2;
    is($wrong, 0, "$name: TLS");

    ok($h2->response($h2->request($uri))->body() eq $miss, "$name: HTTP/2");
}


# slow clients, while the page is replaced

my $slow = '/none/900000';

for my $round (1 .. 12) {
    $h->get($slow);
    page_wait($m, $slow);
    $h->get($slow) for 1 .. 4;

    my @clients = map { slow($h->port(), $slow) } 1 .. 2;

    for (1 .. 2) {
        $m->delete("<>$slow");
        $h->get($slow);
        page_wait($m, $slow);
        $h->get($slow) for 1 .. 4;
    }

    my $version = 3 * $round - 2;
    my $wrong = grep { rest($_) ne body('/none', $version, 900_000) }
        @clients;

    is($wrong, 0, "slow clients of version $version");
    $m->delete("<>$slow");
}


# no file is left

is(files($h), keys %filters, 'a file for each page');


# none for a page that no client gets by sendfile()

for my $way ('TLS', 'HTTP/2') {
    my $uri = '/none/' . lc $way =~ s{/}{}r . '/100000';
    my $miss = $h->get($uri)->body();

    page_wait($m, $uri);

    my $wrong = grep { ($way eq 'TLS'
        ? http_get($t->port('tls'), $uri, ssl => 1)->body()
        : $h2->response($h2->request($uri))->body()) ne $miss } 1 .. 6;

    is($wrong, 0, "$way alone: hits");
    is(files($h), keys %filters, "$way alone: no file");
}


# no more files than the limit leaves

my $few = $t->nginx('few', conf('worker_rlimit_nofile 140;',
    'worker_connections 128;', ''));

for my $n (1 .. 10) {
    my $uri = "/none/few/$n/40000";
    my $want = body("/none/few/$n", 1, 40_000);

    $few->get($uri);
    page_wait($m, $uri);

    my $wrong = grep { my $r = $few->get($uri);
        status($r) ne 'HIT 200' || $r->body() ne $want } 1 .. 6;

    is($wrong, 0, "few files: page $n");
}

is(files($few), 6, 'few files: half of what connections leave');

$t->done();
