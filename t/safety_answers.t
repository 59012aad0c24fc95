#!/usr/bin/perl

# Copyright (C) mcds authors

# H05, H09, H11: headers up to what nginx takes, and answers of all kinds, are
# kept and given again as they came, or not kept; HEAD has the headers of GET in
# each state of a page, and fills nothing.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $fresh = "Cache-Control: max-age=60\r\n";
my $ok = "HTTP/1.1 200 OK\r\n$fresh";

# name, answer, whether it is stored (undef: either), the body, headers that
# must come back as they are

my @rows = (
    ['500 headers', $ok . join('', map { "X-$_: v$_\r\n" } 1 .. 500)
        . "Content-Length: 1\r\n\r\nx", 1, 'x', ['X-1' => 'v1'],
        ['X-250' => 'v250'], ['X-500' => 'v500']],
    ['1000 headers', $ok . join('', map { "Y-$_: v$_\r\n" } 1 .. 1000)
        . "Content-Length: 1\r\n\r\nx", 1, 'x', ['Y-1000' => 'v1000']],
    ['a header of 60 KB', "${ok}X-Long: " . 'l' x 60_000
        . "\r\nContent-Length: 1\r\n\r\nx", 1, 'x', ['X-Long' => 'l' x 60_000]],
    ['100 KB of headers', $ok . join('', map { "Z-$_: " . 'z' x 1000 . "\r\n" }
        1 .. 100) . "Content-Length: 1\r\n\r\nx", 1, 'x',
        ['Z-100' => 'z' x 1000]],
    ['an empty header', "${ok}X-Empty:\r\nContent-Length: 1\r\n\r\nx", 1, 'x',
        ['X-Empty' => '']],
    ['the same twice', "${ok}X-Two: a\r\nX-Two: b\r\nX-Two: a\r\n"
        . "Content-Length: 1\r\n\r\nx", 1, 'x', ['X-Two' => 'a, b, a']],
    ['8-bit', "${ok}X-Eight: \xe4\xff\x80\r\nContent-Length: 1\r\n\r\nx", 1,
        'x', ['X-Eight' => "\xe4\xff\x80"]],
    ['tabs and blanks', "${ok}X-Tab: a\tb  c\r\nContent-Length: 1\r\n\r\nx",
        1, 'x', ['X-Tab' => "a\tb  c"]],
    ['control characters', "${ok}X-Bell: a\x07b\r\nContent-Length: 1\r\n\r\nx",
        0, 'x'],
    ['bare LF', "HTTP/1.1 200 OK\nCache-Control: max-age=60\n"
        . "Content-Length: 1\n\nx", undef, 'x'],

    ['103 first', "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${ok}"
        . "Content-Length: 1\r\n\r\nx", undef],
    ['100 first', "HTTP/1.1 100 Continue\r\n\r\n${ok}"
        . "Content-Length: 1\r\n\r\nx", undef],
    ['204', "HTTP/1.1 204 No Content\r\n$fresh\r\n", 1, ''],
    ['304', "HTTP/1.1 304 Not Modified\r\n$fresh\r\n", 0, ''],
    ['206', "HTTP/1.1 206 Partial\r\n${fresh}Content-Range: bytes 0-0/9\r\n"
        . "Content-Length: 1\r\n\r\nx", 0, 'x'],
    ['no body', "${ok}Content-Length: 0\r\n\r\n", 1, ''],
    ['an empty chunk', "${ok}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1,
        ''],
    ['chunks', "${ok}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        . "0002;x=y\r\nde\r\n0\r\n\r\n", 1, 'abcde'],
    ['a trailer', "${ok}Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
        . "3\r\nabc\r\n0\r\nX-T: y\r\nSet-Cookie: a=b\r\n\r\n", 1, 'abc'],
    ['to the end', "$ok\r\nabc", 1, 'abc'],
    ['more than it says', "${ok}Content-Length: 3\r\n\r\nabcdef", undef],
    ['less', "${ok}Content-Length: 9\r\n\r\nabc", 0],
    ['no last chunk', "${ok}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        0],
    ['half a head', 'HTTP/1.1 200 OK' . "\r\nCache-Control: max-age=60", 0],
    ['not HTTP', "hello\r\n\r\n", undef],
    ['nothing', '', 0],
);

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($i) = $q->{path} =~ m{^/row/(\d+)};
    return { raw => $rows[$i][1] . '' } if defined $i;
    return { headers => ['Cache-Control' => 'max-age=60', ETag => '"e"'],
        body => 'twelve bytes' };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_error_backoff off;
    proxy_http_version 1.1;
    proxy_set_header Connection close;
    proxy_buffer_size 256k;
    proxy_buffers 8 256k;
    proxy_busy_buffers_size 512k;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /late/ {
            mcds_cache_background_update off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $h = $t->nginx('h', $conf);
my $two = $t->nginx('two', $conf);

for my $i (0 .. $#rows) {
    my ($name, undef, $stored, $body, @headers) = @{$rows[$i]};

    my $first = $h->get("/row/$i");
    my $r;

    for (1 .. 40) {
        $r = $two->get("/row/$i");
        last if !$stored || $r->header('X-Cache') eq 'HIT';
        select undef, undef, undef, 0.02;
    }

    my $hit = ($r->header('X-Cache') // '') eq 'HIT' ? 1 : 0;

    is($hit, $stored, "$name: " . ($stored ? 'stored' : 'not stored'))
        if defined $stored;
    is($_->body(), $body, "$name: the body") for defined $body ? ($first, $r)
        : ();
    is($r->body(), $first->body(), "$name: the same again") if $hit;
    ok(!defined $r->header('Set-Cookie'), "$name: no cookie") if $hit;

    for my $pair (@headers) {
        is($_->header($pair->[0]) // '', $pair->[1],
            "$name: " . substr $pair->[0], 0, 20) for $first, $r;
    }
}


# HEAD, in each state of a page

sub head {
    my ($r) = @_;
    return join "\n", $r->status(), grep { !/^(Date|Age|X-Cache|X-Answer)/ }
        split /\r\n/, $r->head();
}

my $key = '<>http://localhost';

for my $where ('', '/late') {
    for my $state ('missing', 'fresh', 'old') {
        my $uri = "$where/head/$state";

        if ($state ne 'missing') {
            $h->get($uri);
            page_expire($m, $key . $uri, $state eq 'old' ? 70_000 : -50_000);
        }

        my $before = $m->get($key . $uri) // '';
        my $head = http_head($h->port(), $uri);
        my $after = $m->get($key . $uri) // '';

        is($head->body(), '', "HEAD, $state $where: no body");
        ok($after eq $before || $state eq 'old' && page_decode($after)->{body}
            eq 'twelve bytes', "HEAD, $state $where: fills nothing with it");
        is(head($head), head($h->get($uri)), "HEAD, $state $where: as GET");
    }
}

my $uri = '/head/locked';
$o->hold_path($uri);
my $p = start_get($h->port(), $uri);
$o->wait_requests(1, $uri);
my $misses = $m->stats()->{get_misses};
my $w = start_get($two->port(), $uri, method => 'HEAD');
wait_for(sub { $m->stats()->{get_misses} > $misses });
$o->release($uri);
is(head(finish($w)), head(finish($p)), 'HEAD, locked: as GET');

$t->done();
