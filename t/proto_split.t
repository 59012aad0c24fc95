#!/usr/bin/perl

# Copyright (C) mcds authors

# Replies of every kind in two pieces, cut at every offset, and byte by byte:
# what a client of nginx gets is the same as when they come whole, and the
# connection goes on.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $o = $t->origin('o', sub { return { body => "origin $_[1]->{args}" } });

my $apart = $t->size(0.0002, 0.001);

# the number at the end of a key says where the answer to it is cut: 0 nowhere,
# 9999 everywhere

my %error = (
    text => "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    full => "SERVER_ERROR out of memory storing object\r\n",
    big  => "SERVER_ERROR object too large for cache\r\n",
);

my $f = $t->fake('m', sub {
    my ($f, $c, $line, $value) = @_;

    # the greeting is one answer to two commands

    if ($f->mode() eq 'greet' && $line =~ /^(?:version|mn)$/) {
        return '' if $line eq 'version';
        return cut($f, "VERSION 1.6.18\r\nMN\r\n", @{$f->{told}});
    }

    my ($cmd, $key) = split / /, $line;
    my ($kind, $cut, $suffix) = ($key // '') =~ /^(?:<>)?(\w+)-(\d+)(:lock)?/
        or return;

    # which command of its request the kind is about

    my %about = (lock => 'ms:lock', unlock => 'md:lock', store => 'ms',
        hit => 'mg', miss => 'mg', mark => 'ms', seen => 'ms', big => 'ms');
    my $here = ($about{$kind} // $cmd) eq $cmd . ($suffix // '');

    return if !$here;

    my $bytes = $error{$kind} // $f->default($line, $value);

    $bytes =~ s/^HD/NS/ if $kind eq 'seen';

    return cut($f, $bytes, $cut);
});

sub cut {
    my ($f, $bytes, $cut) = @_;

    return $bytes if !$cut || $cut == length $bytes;
    return $f->bytewise($bytes, $apart) if $cut == 9999;

    $cut = length($bytes) - 1 if $cut >= length $bytes;

    return (substr($bytes, 0, $cut), [substr($bytes, $cut), $apart]);
}

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server    127.0.0.1:%%PORT_m%%;
        timeout   20s;
        max_fails 0;
    }
    add_header X-Cache $mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /n {
            mcds_counter $n key=$arg_k;
            mcds_return "<$n>";
        }
        location /v {
            mcds_visitor_counter $v key=$arg_k visitor=me window=60s slots=1
                                 interpolate=off;
            mcds_return "<$v>";
        }
        location /p {
            mcds_cache on;
            mcds_cache_key $arg_k;
            mcds_cache_valid 1h;
            mcds_cache_lock_timeout 20s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# kind, uri, number of offsets, what must come

my $page = join '', map { "line $_ of a page\n" } 1 .. 90;

my @kinds = (
    ['count',  '/n', 34,  sub { 'none <1>' }],
    ['text',   '/n', 63,  sub { 'none <>' }],
    ['full',   '/n', 44,  sub { 'none <>' }],
    ['mark',   '/v', 34,  sub { 'none <0>' }],
    ['seen',   '/v', 34,  sub { 'none <0>' }],
    ['miss',   '/p', 24,  sub { "MISS origin k=$_[0]" }],
    ['lock',   '/p', 35,  sub { "MISS origin k=$_[0]" }],
    ['unlock', '/p', 30,  sub { "MISS origin k=$_[0]" }],
    ['store',  '/p', 26,  sub { "MISS origin k=$_[0]" }],
    ['big',    '/p', 43,  sub { "MISS origin k=$_[0]" }],
    ['hit',    '/p', 1894, sub { "HIT $page" }],
);

my $cases = 0;

for my $k (@kinds) {
    my ($kind, $uri, $last, $want) = @$k;
    my @cuts = (0 .. $last, 9999);

    my @keys = map { sprintf '%s-%04d', $kind, $_ } @cuts;

    if ($kind eq 'hit') {
        $f->set("<>$_", page_encode(key => "<>$_", body => $page,
            headers => "Content-Type: text/plain\r\n")) for @keys;
    }

    my @res = many(scalar @keys, sub {
        [$h->port(), "$uri?k=$keys[$_[0]]"]
    }, concurrency => 24, timeout => 240 * $t->slow());

    my @wrong;

    for my $i (0 .. $#keys) {
        my $got = ($res[$i]->header('X-Cache') || 'none') . ' '
            . ($res[$i]->body() // '');

        push @wrong, $keys[$i] . " $got"
            if $res[$i]->status() != 200 || $got ne $want->($keys[$i]);
    }

    $cases += @keys;

    is(scalar @wrong, 0, "$kind: $#keys cuts, all like the whole")
        or diag(map { substr($_, 0, 200) . "\n" } @wrong[0 .. 2]);

    # a new visitor is counted, which nobody waits for, one who was seen is not

    wait_for(sub { $f->count(qr/^ma $kind-\d+:/) >= @keys })
        if $kind eq 'mark';

    is($f->count(qr/^ma $kind-\d+:/), $kind eq 'mark' ? @keys : 0,
        "$kind: visitors are counted") if $kind =~ /mark|seen/;

    # what comes behind the answer of a fill

    next if $kind !~ /lock|store|miss/;

    ok(wait_for(sub { !grep { !defined $f->get("<>$_")
        || defined $f->get("<>$_:lock") } @keys[0, 1, $#keys / 2, $#keys] }),
        "$kind: pages are stored, locks are gone");
}

is($f->opened_count(), 3, 'one connection, one for what a refused store has'
    . ' removed, and that of the test');
is($h->log_count(qr/memcached (?:sent|closed|timed)/), 0, 'nothing to tell');

cmp_ok($cases, '>', 2000, "$cases cases");


# the greeting, each time on a new connection

my @wrong;

for my $cut (0 .. 20, 9999) {
    $f->tell('greet', $cut);
    $f->hang_up();
    $f->close_all();

    my $res = $h->get("/n?k=greet$cut");
    push @wrong, "$cut " . $res->body() if $res->body() ne '<1>';
}

is("@wrong", '', 'the greeting at every offset');

$f->tell('');

$t->done();
