#!/usr/bin/perl

# Copyright (C) mcds authors

# Two requests have one key if nginx takes their URIs for the same, and only
# then; default keys keep sites, schemes and prefixes apart; no text of a
# client becomes a number or a word of a command; variables that change while
# they are looked at are looked at once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->allow(qr/client sent|invalid/);

$t->needs('http_ssl', 'IO::Socket::SSL');

my ($crt, $key) = $t->cert('a.example');

my $f = $t->fake('m');
my $o = $t->origin('o', { body => 'answer %n' });

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    ignore_invalid_headers off;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_pool a { server 127.0.0.1:%%PORT_m%%; timeout 5s; prefix a; }
    mcds_pool ab { server 127.0.0.1:%%PORT_m%%; timeout 5s; prefix ab; }
    mcds_use main;
    mcds_cache_valid 1h;
    add_header X-Cache \$mcds_cache_status;
    map \$arg_a \$twice { volatile; ~^(?<x>.*)\$ "\$x-\$x"; }
    map \$arg_a \$first { volatile; ~^(.)(.*)\$ \$1; }
    map \$request_uri \$long { default "\$request_uri\$request_uri"; }
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_ssl%% ssl;
        server_name a.example;
        ssl_certificate $crt;
        ssl_certificate_key $key;
        location /uri/ {
            mcds_counter \$n key=u:\$uri;
            mcds_counter_durable \$n off;
            mcds_return "\$uri";
        }
        location ~ ^/map/(.)(.*) {
            mcds_counter \$n1 key=1:\$twice;
            mcds_counter \$n2 key=2:\$first:\$1:\$2;
            mcds_counter \$n3 key=3:\$request_id:\$msec:\$request_id;
            mcds_counter \$n4 key=4:\$long;
            mcds_counter \$n5 key=5:\$n1:\$n5;
            mcds_cache on;
            mcds_cache_key p:\$twice:\$first:\$1:\$request_id;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /page {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /prefix/a {
            mcds_cache a;
            mcds_cache_key bc\$arg_k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /prefix/ab {
            mcds_cache ab;
            mcds_cache_key c\$arg_k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /join {
            mcds_cache on;
            mcds_cache_key \$arg_a\$arg_b;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /number {
            mcds_visitor_counter \$v key=\$http_x_key visitor=\$http_x_visitor
                                 window=60s slots=1 interpolate=off;
            mcds_counter \$n key=c:\$http_x_key;
            mcds_return "<\$n>";
        }
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name b.example;
        location /page {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT


# I04: 200 ways to write some paths

my @path = ('a', 'a/b', 'A', 'a.b', 'a..b', '.a', '...', 'a/', 'a//b', '%61',
    'a%2fb', 'a%2Fb', 'a/./b', 'a/x/../b', 'x/%2e%2e/a', '..%2furi%2fa',
    'a%20b', 'a+b', 'a%2bb', 'a;b', 'a%3bb', 'a%3fb', 'a%23b', 'a%25b',
    'a%2561', "\xc3\xa9", '%c3%a9', '%C3%A9', '%c0%af', "\xc0\xaf", "\xe9",
    '%e9', 'a%00b', 'a%09b', 'a%0ab', 'a%0d%0ab', 'a%7fb', 'a%01b', 'a:b',
    'a@b', 'a&b', 'a=b', 'a~b', 'a%7eb', 'a!b', 'a,b', "a'b", 'a"b', 'a\\b',
    'a%5cb', 'a|b', 'sha1:a', 'a' x 240, 'a' x 246, 'a' x 250, 'a' x 300,
    'a' x 300 . 'b', 'a%2e', 'a/.', 'a/..', 'a/../', './a', '//a', 'a///b',
    'a/b/', '*', '%2a');

my @uris = map { ("/uri/$_", "/uri/$_?q", "/uri/./$_", "/uri//$_") } @path;

my (%wire, %uri, @wrong, $asked);

$h->get('/uri/warm', host => 'a.example');

for my $uri (@uris) {
    $f->mark();

    my ($got) = http_raw($h->port(), "GET $uri HTTP/1.1\r\nHost: a.example\r\n"
        . "Connection: close\r\n\r\n") =~ /\r\n\r\n(.*)\z/s;
    my @commands = grep { !/^(?:version|mn)$/ } $f->commands();

    # refused by nginx itself, or of another location

    next if !@commands;

    my (undef, $wire) = split / /, $commands[0];

    $asked++;
    push @wrong, "$uri: @commands" if @commands != 1 || $wire =~ /[^!-~]/
        || length $wire > 250
        || $commands[0] !~ /^ma \S+ N\d+ J1 D1 v( t)? k O\w+$/;

    push @wrong, "$uri: one key of $wire{$wire} and $got"
        if ($wire{$wire} //= $got) ne $got;
    push @wrong, "$uri: two keys of $got" if ($uri{$got} //= $wire) ne $wire;
}

is("@wrong", '', "$asked URIs: a key of each, and of each its own");
cmp_ok($asked, '>', 200, 'most were let through by nginx');
cmp_ok(scalar keys %wire, '<', $asked * 0.6, 'many were the same');
cmp_ok(scalar keys %wire, '>', 40, 'many were not');


# I08: what shares no page, and what does

sub page {
    my ($uri, %o) = @_;

    my $res = http_request($o{port} // $h->port(), $uri,
        host => 'a.example', %o);

    return ($res->header('X-Cache') // '') . ' ' . ($res->body() // '');
}

sub first {
    my ($name, @args) = @_;

    $f->mark();
    like(page(@args), qr/^MISS answer \d+$/, "$name: a page of its own");
    ok(wait_for(sub { $f->count(qr/^md \S+:lock /) }), "$name: stored");
}

sub again {
    my ($name, @args) = @_;
    like(page(@args), qr/^HIT answer \d+$/, "$name: the same page");
}

my %ssl = (port => $t->port('ssl'), ssl => 1);

first('one', '/page');
again('the same', '/page');
again('another case of the host', '/page', host => 'A.Example');
first('a port in the host', '/page', host => 'a.example:' . $h->port());
first('another host', '/page', host => 'b.example');
first('https', '/page', %ssl);
again('https', '/page', %ssl);
first('arguments', '/page?a');
first('other arguments', '/page?A');
first('no arguments', '/page?');
first('another path', '/page/');
first('another writing', '/pag%65');
like(page('/page', method => 'POST', body => 'x'), qr/^(?:BYPASS)? ?answer/,
    'POST: not from the cache');
first('after POST', '/page');

first('prefix a, key bc', '/prefix/a');
first('prefix ab, key c', '/prefix/ab');
first('a=x, b=yz', '/join?a=x&b=yz');
again('a=xy, b=z: as it was written', '/join?a=xy&b=z');


# I05: numbers and words of commands

for my $text ('1 noreply', '1 T0', 'x N1 J5', '-1', '1' . 0 x 20, ' ', "\t",
    'q', 'x q', "x\tq", 'T0', ' k O1', 'sha1:', "\x80\xff", 'x' x 4000)
{
    my $name = substr $text =~ s/[^!-~]/~/gr, 0, 20;

    $f->mark();

    my $res = $h->get('/number', host => 'a.example',
        headers => { 'X-Key' => "k$text", 'X-Visitor' => "v$text" });

    is($res->status(), 200, "\"$name\": answered");
    ok(wait_for(sub { $f->count(qr/^m/) >= 4 }), "\"$name\": asked");

    my @bad = grep { !/^(?:
        mg\ [!-~]{1,250}\ v\ k\ O[0-9a-f]+
        | ma\ [!-~]{1,250}\ N\d{1,10}\ J1\ D1\ v(?:\ t)?\ k\ O[0-9a-f]+
        | ms\ [!-~]{1,250}\ \d{1,2}\ ME\ T61\ k\ O[0-9a-f]+)$/x }
        $f->commands();

    is("@bad", '', "\"$name\": only commands of ours");
}

like($t->conf_error(http => 'mcds_pool x { server 127.0.0.1:1; }',
    location => "mcds_visitor_counter \$v $_;"), qr/\[emerg\]/,
    "refused: $_") for 'window=$arg_w', 'slots=$arg_s', '"window=60 noreply"',
    'window=-1s', 'slots=1x', 'window=99999999999999999999';


# I06: keys that would change between two looks

for my $n (1 .. 40) {
    my $a = 'x' x ($n * 7) . $n;
    my $path = '/map/' . 'y' x ($n * 5);

    $f->mark();

    my $res = $h->get("$path?a=$a", host => 'a.example');

    # the response does not wait for the counters

    wait_for(sub { $f->count(qr/^ma/) >= 5 });
    my @keys = map { (split / /)[1] } $f->commands(qr/^ma/);
    my @bad;

    push @bad, $res->status() if $res->status() != 200;
    push @bad, "keys @keys" if @keys != 5;
    push @bad, 'map' if length "1:$a-$a" <= 250
        && !grep { $_ eq "1:$a-$a" } @keys;
    push @bad, 'length' if grep { length > 250 || /[^!-~]/ } @keys;
    push @bad, 'id' if !grep { /^3:(\w{32}):[\d.]+:\1$/ } @keys;
    push @bad, 'empty' if !grep { $_ eq '5::' } @keys;

    is("@bad", '', "maps and captures, $n");
}

$t->done();
