#!/usr/bin/perl

# Copyright (C) mcds authors

# A stored page of 2 KB with one bit flipped, cut short, or with some bytes
# changed: it is a miss, never served, whatever was hit.  The unit test does
# this to the decoder alone; here the whole way through nginx is meant.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', memory => 256);
my $o = $t->origin('o', { body => 'origin' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 10s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            mcds_cache_key $uri;
            mcds_cache_valid 1h;
            add_header X-Cache $mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $total = 2048;
my $body = join '', map { chr(33 + $_ % 90) } 0 .. $total;
my $bits = $total * 8;
my $id = 0;

$t->seed(23);

# a page of its own for each, so that none is mended by another

sub page {
    my ($key, $text) = @_;

    my $head = "Content-Type: text/plain\r\nX-Stored: yes\r\n";
    my $len = $total - 112 - length($key) - length $head;

    return page_encode(key => $key, headers => $head,
        body => substr($text // $body, 0, $len));
}

# stores what code makes of each page; how many requests saw it, and how many
# did not get the origin's answer

sub run {
    my ($n, $code) = @_;
    my ($served, $wrong) = (0, 0);

    for (my $from = 0; $from < $n; $from += 200) {
        my $to = $from + 199 < $n ? $from + 199 : $n - 1;
        my @uris = map { sprintf '/%07d', $id++ } $from .. $to;

        $m->set("<>$uris[$_]", $code->(page("<>$uris[$_]"), $from + $_))
            for 0 .. $#uris;

        for my $res (many(scalar @uris, sub { [$h->port(), $uris[$_[0]]] },
            concurrency => 32))
        {
            $served++ if ($res->header('X-Cache') // '') ne 'MISS'
                || defined $res->header('X-Stored');
            $wrong++ if $res->status() != 200 || $res->body() ne 'origin';
        }
    }

    return ($served, $wrong);
}

sub is_refused {
    my ($name, $n, $code) = @_;
    my ($served, $wrong) = run($n, $code);

    is($served, 0, "$n $name: none is served");
    is($wrong, 0, "$n $name: all have the origin's page");
}

is(length page('<>/0000000'), $total, 'a page of 2 KB');
is((run(100, sub { $_[0] }))[0], 100, 'pages that are whole are served');

# all bits of the header, and of the rest every one or some

my @flip = $t->full() ? 0 .. $bits - 1
    : (0 .. 112 * 8 - 1, map { 112 * 8 + int rand $bits - 112 * 8 } 1 .. 300);

is_refused('bit flips', scalar @flip, sub {
    my ($page, $i) = @_;
    vec($page, $flip[$i], 1) ^= 1;
    return $page;
});

my @cut = $t->full() ? 0 .. $total - 1
    : (0, 1, 4, 111 .. 130, $total - 3 .. $total - 1,
        map { int rand $total } 1 .. 100);

is_refused('truncations', scalar @cut, sub { substr $_[0], 0, $cut[$_[1]] });

is_refused('continuations', 20, sub { $_[0] . "\0" x (1 + $_[1] * 7) });

is_refused('edits', $t->size(400, 100000), sub {
    my ($page) = @_;
    my $was = $page;

    while ($page eq $was) {
        my $len = 1 + int rand 64;
        substr($page, int rand($total - $len), $len,
            join '', map { chr int rand 256 } 1 .. $len);
    }

    return $page;
});

# parts of two pages, no byte of which is the same, and the page of another

my $other = $body ^ "\1" x length $body;

is_refused('mixtures', 100, sub {
    my ($page) = @_;
    my $at = 1 + int rand $total - 2;
    return substr($page, 0, $at) . substr(page('<>/another', $other), $at);
});

is_refused('pages of others', 20, sub { page('<>/another') });

$t->done();
