#!/usr/bin/perl

# Copyright (C) mcds authors

# Arrays that many change at once, and large ones: no update is lost, what is
# read was there at one time, what does not fit is refused as a whole, nothing
# is left behind.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', memory => 512);

my $timeout = 2 * $t->slow() . 's';

my $conf = <<'EOC' =~ s/%%WAIT%%/$timeout/r;
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout %%WAIT%%; }
    mcds_api_methods GET POST PUT PATCH DELETE;
    client_max_body_size 2m;

    server {
        listen 127.0.0.1:%%PORT%%;

        location / { mcds_array_api $uri; }
        location /max/ { mcds_array_api $uri max=2000; }
        location /unique/ { mcds_array_api $uri unique; }
    }
}
EOC

my @h = map { $t->nginx($_, $conf) } qw/ a b /;


# compare-and-swap: 64 at once, on both hosts

my $n = $t->size(600, 10000);
my @r = many($n, sub { request($_[0], 'PATCH', '/cas',
    '{"add": [' . $_[0] . '], "remove": ["none"]}') }, concurrency => 64);

is(statuses(@r), "204 x $n", 'patched');
is(sorted('/cas'), join(' ', 0 .. $n - 1), 'no update is lost');

@r = many($n, sub { request($_[0], 'PATCH', '/cas',
    '{"remove": [' . $_[0] . ']}') }, concurrency => 64);

is(statuses(@r), "204 x $n", 'removed');
is(sorted('/cas'), '', 'nothing is left');
is(join(' ', $m->keys()), '', 'not in memcached, either');

@r = many($n, sub { request($_[0], 'POST', '/unique/', $_[0] % 50) },
    concurrency => 64);

is(statuses(@r), "204 x $n", 'posted, unique');
is(sorted('/unique/'), join(' ', 0 .. 49), 'once each');


# appending, all of one request together

@r = many($n, sub { my $i = shift; request($i, 'POST', '/append',
    '[' . join(',', map { "\"$i-$_-" . 'x' x 50 . '"' } 1 .. 20) . ']') },
    concurrency => 64);

is(statuses(@r), "204 x $n", 'appended');

my @lines = split /\n/, $h[0]->get('/append?format=text')->body();

is(scalar @lines, 20 * $n, 'all are there');
is(scalar(grep { $lines[$_] !~ /^(\d+)-1-/ || grep { !/^$1-/ }
    @lines[$_ .. $_ + 19] } map { $_ * 20 } 0 .. $n - 1), 0, 'together');
like($m->get('/append'), qr/^@[0-9a-f]{16} /, 'in parts');

$h[0]->get('/append', method => 'DELETE');
ok(wait_for(sub { !grep { m{append} } $m->keys() }), 'no part is left');


# a large one is replaced while others read

my @body = map { my $g = $_;
    '[' . join(',', map { "\"$g-$_-" . 'y' x 20 . '"' } 1 .. 4000 + $g) . ']' }
    0 .. 3;

request_one(0, 'PUT', '/gen', $body[0]);

my ($torn, $reads) = (0, 0);

for my $k (1 .. $t->size(24, 1000)) {
    @r = many(10, sub { $_[0] == 3 ? request($k, 'PUT', '/gen', $body[$k % 4])
        : request($_[0], 'GET', '/gen') });

    is($r[3]->status(), 204, "replaced by $k") if $r[3]->status() != 204;

    for my $r (@r[0 .. 2, 4 .. 9]) {
        $reads++;
        $torn++ if !grep { $r->body() eq "$_\n" } @body;
    }
}

is($torn, 0, "each of $reads reads is of one time");
ok(wait_for(sub { keys_of('/gen') == refs_of('/gen') + 1 }),
    'no part is left');


# bounded, in parts

for my $i (1 .. 5) {
    request_one($i, 'POST', '/max/',
        '[' . join(',', map { "\"$i-$_-" . 'z' x 40 . '"' } 1 .. 1000) . ']');
}

@lines = split /\n/, $h[1]->get('/max/?format=text')->body();
is(scalar @lines, 2000, 'max');
like($lines[0], qr/^4-1-/, 'the newest');
like($lines[-1], qr/^5-1000-/, 'the last');
ok(wait_for(sub { keys_of('/max/') == refs_of('/max/') + 1 }),
    'old parts are gone');


# as large as it may be

my $large = '["' . join('","', map { 'w' x 40000 } 1 .. 25) . '"]';
my ($posted, $r) = (0);

for (1 .. 20) {
    $r = request_one($_, 'POST', '/large', $large);
    last if $r->status() != 204;
    $posted++;
}

is($posted, 16, 'up to 16 MB');
is($r->status(), 507, 'then it is refused');
like($r->body(), qr/"detail":"it is too large"/, 'which is said');
is(length($h[0]->get('/large')->body()), 16 * (25 * 40003) + 2,
    'as a whole');
is(keys_of('/large'), refs_of('/large') + 1, 'nothing is left of that');
is(request_one(0, 'POST', '/large', '"x"')->status(), 204,
    'a little fits in');


# a part that memcached has lost

my ($id) = $m->get('/large') =~ /^@(\w+)/;

$m->delete("/large:$id");

$r = $h[0]->get('/large');
is($r->status(), 200, 'a part is lost');
ok(length($r->body()) < 16 * (25 * 40003), 'its values are');
ok($h[0]->log_has(qr/memcached has lost \d+ entries of the list/),
    'which is said');

$t->done();


sub request {
    my ($i, $method, $uri, $body) = @_;

    return [$h[$i % 2]->port(), $uri, method => $method, body => $body,
        headers => { 'Content-Type' => 'application/json' }];
}


sub request_one {
    my ($where, $uri, %o) = @{request(@_)};

    return http_request($where, $uri, %o);
}


sub statuses {
    my %n;

    $n{$_->status()}++ for @_;
    return join ', ', map { "$_ x $n{$_}" } sort keys %n;
}


sub sorted {
    return join ' ', sort { $a <=> $b } split /\n/,
        $h[1]->get("$_[0]?format=text")->body();
}


sub keys_of { return scalar grep { m{^\Q$_[0]\E} } $m->keys() }


sub refs_of { return scalar(() = $m->get($_[0]) =~ /^@/mg) }
