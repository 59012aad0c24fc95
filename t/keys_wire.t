#!/usr/bin/perl

# Copyright (C) mcds authors

# Whatever a client puts into its path, arguments, Host, cookies and headers,
# the keys that leave are printable, 250 bytes at most, and different for
# different texts, and there are as many commands as were meant.

use warnings;
use strict;

use Test::More;

use Digest::SHA qw/ sha1_hex /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker')
    ->allow(qr/client sent invalid/);

my $f = $t->fake('m');

my $long = 'p' x 127 . ':';

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    large_client_header_buffers 4 128k;
    ignore_invalid_headers off;
    underscores_in_headers on;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_pool short { server 127.0.0.1:%%PORT_m%%; timeout 5s; prefix p:; }
    mcds_pool long { server 127.0.0.1:%%PORT_m%%; timeout 5s; prefix $long; }
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter \$u key=u\$arg_id:\$uri;
            mcds_counter \$q key=q\$arg_id:\$args;
            mcds_counter \$h key=h\$arg_id:\$http_host;
            mcds_counter \$c key=c\$arg_id:\$cookie_k;
            mcds_counter \$x key=x\$arg_id:\$http_x_key;
            mcds_cache on;
            mcds_cache_key
                p\$arg_id:\$uri:\$args:\$http_host:\$cookie_k:\$http_x_key;
            mcds_cache_valid 1h;
            mcds_return "<<u\$arg_id:\$uri|+|
q\$arg_id:\$args|+|
h\$arg_id:\$http_host|+|
c\$arg_id:\$cookie_k|+|
x\$arg_id:\$http_x_key|+|
p\$arg_id:\$uri:\$args:\$http_host:\$cookie_k:\$http_x_key>>";
        }
        location /main { mcds_counter \$n key=\$arg_k; mcds_return \$n; }
        location /short {
            mcds_use short;
            mcds_counter \$n key=\$arg_k;
            mcds_return \$n;
        }
        location /long {
            mcds_use long;
            mcds_counter \$n key=\$arg_k;
            mcds_return \$n;
        }
    }
}
EOT


# the rule that is documented

sub key {
    my ($text, $prefix, $suffix) = @_;

    $prefix //= '';
    $text .= $suffix // '';

    my $mark = $text =~ /\A</ ? '<' : '';

    return "$prefix$text" if $text =~ /\A[\x21-\x7e]+\z/
        && $text !~ /\A<?sha1:/ && length "$prefix$text" <= 250
        && ($mark || $text !~ /</);

    return "$prefix${mark}sha1:" . sha1_hex($text);
}


# I01: each byte in each place, as it is and as %XX

my $id = 0;
my (%want, %passed, $refused);

for my $place (qw/ path query host cookie header /) {
    for my $byte (0 .. 255) {
        ask($place, chr $byte);
        ask($place, sprintf '%%%02x', $byte) if $place =~ /path|query/;
    }
}

ask('path', $_) for "a\r\nflush_all", '%0d%0aflush_all%0d%0a', '%20N0%20J5',
    '%00', 'x' x 240, '%ff' x 100, 'sha1:' . 'a' x 40, '/../', '%2e%2e/';
ask('header', $_) for "a\tb", 'a b', "\xc3\xa4", 'x' x 300, "k v\x7f", 'sha1:x';

ok(wait_for(sub { $f->count(qr/^md /) >= keys(%passed) }, 10), 'all ended');

my (%got, @bad);

for my $c ($f->log()) {
    $got{"$c->{cmd} " . ($c->{key} // '')}++;
    push @bad, $c->{line} if !bare($c);
}

is_deeply(\@bad, [], 'only bare commands on the wire');
is($got{'version '}, 1, 'one connection, one greeting');
delete @got{'version ', 'mn '};

my @differ = grep { ($got{$_} // 0) != ($want{$_} // 0) }
    sort keys %{{ %got, %want }};

is_deeply([map { "$_: " . ($got{$_} // 0) } @differ], [],
    "$id requests: exactly the commands that were meant")
    or diag(scalar(keys %got) . ' of ' . scalar keys %want);

cmp_ok(scalar keys %passed, '>', 1000, 'most were taken');
cmp_ok($refused, '>', 50, 'nginx refuses some itself');


# I02: lengths

my %prefix = (main => '', short => 'p:', long => $long);
my @lengths = (1 .. 6, 45, 76 .. 80, 119 .. 125, 200, 240 .. 256, 500, 1000,
    4000, 16383, 16384, 32768, 65535, 65536, 70000);

my (%seen, $wrong);

for my $pool (sort keys %prefix) {
    $f->mark();

    my @texts = map { ('k' x ($_ - 1) . 'a', 'k' x ($_ - 1) . 'b') } @lengths;
    my $c = $h->conn();

    for (@texts) {
        my $res = $c->get("/$pool?k=$_");
        $wrong .= ' ' . length if $res->status != 200 || $res->body ne '1';
    }

    $c->close();

    my @keys = map { $_->{key} } grep { $_->{cmd} eq 'ma' } $f->log();
    my %keys = map { $_ => 1 } @keys;

    is_deeply(\@keys, [map { key($_, $prefix{$pool}) } @texts],
        "$pool: keys by the rule");
    is(scalar keys %keys, 2 * @lengths, "$pool: all different");
    is(scalar(grep { length > 250 } @keys), 0, "$pool: none too long");
    ok(scalar(grep { length == 250 } @keys), "$pool: some just not");
}

is($wrong, undef, 'each was counted once');

$t->done();


sub bare {
    my ($c) = @_;

    return 1 if $c->{line} =~ /\A(?:version|mn)\z/;

    return $c->{line} =~ /\A(?:mg|ma|ms|md)[ ][\x21-\x7e]{1,250}
        (?:[ ][0-9A-Za-z]\S*)*\z/x && $c->{line} =~ /\A[\x20-\x7e]+\z/
        && length $c->{line} < 400;
}


sub ask {
    my ($place, $text) = @_;

    my %at = (path => 'z', query => 'z', host => 'z', cookie => 'z',
        header => 'z');

    $id++;
    $at{$place} = "a${text}b";

    my $body = http_raw($h->port(), "GET /$at{path}?id=$id&q=$at{query} "
        . "HTTP/1.1\r\nHost: $at{host}\r\nCookie: k=$at{cookie}\r\n"
        . "X-Key: $at{header}\r\nConnection: close\r\n\r\n");

    # what nginx took it for; without a head it was for it HTTP/0.9

    my ($echo) = $body =~ /<<(.*)>>/s or return $refused++;
    my @texts = split /\|\+\|\n/, $echo, -1;
    my $page = pop @texts;

    $page = "<>$page";

    $want{'ma ' . key($_)}++ for @texts;
    $want{'mg ' . key($page)}++;

    # for a host in upper case nothing is stored

    return if $at{host} =~ /[A-Z]/;

    $passed{$id} = 1;
    $want{'mg ' . key($page)}++;    # again with the lock
    $want{'ms ' . key($page)}++;
    $want{$_ . ' ' . key($page, '', ':lock')}++ for 'ms', 'md';
}
