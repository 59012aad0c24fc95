#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_array_push: a value for each main request, when it has ended; exact,
# without delay, and not for subrequests.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if ($f->mode() // '') ne 'hold' || $line !~ /^ms/;
    return ($f->hold('held'), $f->default($line, $value));
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; timeout 20s; }
    mcds_use main;

    server {
        listen 127.0.0.1:%%PORT%%;

        mcds_array_push all "$request_method $uri $status";

        location = /a { return 200 "a\n"; }
        location = /off {
            mcds_array_push off;
            return 200 "a\n";
        }
        location = /many {
            mcds_array_push one $arg_n;
            mcds_array_push two:$arg_to $arg_n if=$arg_if;
            return 200 "a\n";
        }
        location = /last {
            mcds_array_push last $arg_n max=10;
            return 204;
        }
        location = /unique {
            mcds_array_push unique $arg_n unique;
            return 204;
        }
        location = /bytes {
            mcds_array_push bytes $http_x_bytes;
            return 204;
        }
        location = /count {
            mcds_array_push count "$request_id and something behind it";
            return 204;
        }
        location = /ssi {
            ssi on;
            ssi_types *;
            mcds_return '<!--# include virtual="/many?n=sub" -->';
        }
        location = /slow {
            mcds_use        fake;
            mcds_array_push slow $arg_n;
            return          204;
        }
        location /list/ { mcds_array_api $arg_name; mcds_array_push off; }
        location = /list/last {
            mcds_array_api last max=10;
            mcds_array_push off;
        }
    }
}
EOC

my $h = $t->nginx('h', $conf);


# what is pushed

$h->get('/a');
$h->get('/a', method => 'POST', body => 'x');
$h->get('/off');
$h->get('/none');
ok(wait_for(sub { split(/\n/, $m->get('all') // '') == 3 }), 'three pushed');
is(sorted('all'), '"GET /a 200" "GET /none 404" "POST /a 200"', 'what');

$h->get('/many?n=1&if=1&to=a');
$h->get('/many?n=2&if=0&to=a');
$h->get('/many?n=3&to=a');
$h->get('/many?if=1&to=b');
$h->get('/many?n=4&if=yes&to=b');
ok(wait_for(sub { ($m->get('one') // '') =~ /4/ && $m->get('two:b') }),
    'several of a location');
ok(wait_for(sub { sorted('one') eq '"1" "2" "3" "4"' }), 'no empty one');
is($m->get('two:a') . $m->get('two:b'), qq{"1"\n"4"\n}, 'if=');

$h->get('/ssi');
ok(wait_for(sub { $m->get('all') =~ m{/ssi} }), 'a page with an include');
unlike($m->get('one'), qr/sub/, 'subrequests do not push');

$h->get('/bytes', headers => { 'X-Bytes' => $_ })
    for "q\"\\\t/<", "\xc3\xa9", "\xe9\xff";
ok(wait_for(sub { split(/\n/, $m->get('bytes') // '') == 3 }), 'odd bytes');
is(sorted('bytes'), qq{"q\\"\\\\\\t/<" "\xc3\xa9" }
    . qq{"\xef\xbf\xbd\xef\xbf\xbd"}, 'as JSON');


# many at once, from two workers

my $n = $t->size(3000, 100000);
my $load = $t->load(port => $h->port(), uri => '/count', clients => 32,
    requests => $n);

is($load->{status}{204}, $n, 'many requests');
ok(wait_for(sub { $h->get('/list/?name=count&format=text')->body()
    =~ tr/\n// == $n }, 20), 'all are there');

my @lines = split /\n/, $h->get('/list/?name=count&format=text')->body();

is(scalar(keys %{{ map { $_ => 1 } @lines }}), $n, 'once each');
is(scalar(grep { !/^[0-9a-f]{32} and something behind it$/ } @lines), 0,
    'none is torn');

# a look at the head comes by chance, the sooner the longer it is

my $parts = qr/^@[0-9a-f]{16} \d+ \d+\n/;

ok(wait_for(sub {
    return 1 if $m->get('count') =~ $parts;
    $t->load(port => $h->port(), uri => '/count', clients => 4,
        requests => 200);
    return 0;
}), 'there are parts');
cmp_ok(length($m->get('count')), '<', 300000, 'the head is kept short');

$load = $t->load(port => $h->port(), clients => 16, requests => 2000,
    uris => [map { "/last?n=$_" } 1 .. 50]);
ok(wait_for(sub { split(/\n/, $m->get('last') // '') >= 10 }), 'max');
is($h->get('/list/last?format=text')->body() =~ tr/\n//, 10, 'shows ten');
cmp_ok($m->get('last') =~ tr/\n//, '<', 200, 'and keeps few');

$load = $t->load(port => $h->port(), clients => 16, requests => 1000,
    uris => [map { "/unique?n=$_" } 1 .. 20]);
ok(wait_for(sub { split(/\n/, $m->get('unique') // '') == 20 }), 'unique');
is(join(' ', sort { $a <=> $b } map { /(\d+)/ } $m->get('unique') =~ /\d+/g),
    join(' ', 1 .. 20), 'once each');


# nobody waits

$f->tell('hold');

my $r = $h->get('/slow?n=1');

is($r->status(), 204, 'memcached is silent');
ok(wait_for(sub { $f->held('held') == 1 }), 'it was asked');
$f->tell('');
$f->release('held');
ok(wait_for(sub { ($f->get('slow') // '') eq qq{"1"\n} }), 'and pushed then');

# ... and a shutdown does

$f->tell('hold');
$h->get('/slow?n=2');
ok(wait_for(sub { $f->held('held') == 1 }), 'asked before the end');
$h->signal('QUIT');

SKIP: {
    skip 'nginx does not wait at QUIT then', 3 if $t->mode() eq 'single';

    ok($h->wait_log(qr/gracefully shutting down/), 'shutdown');
    $f->tell('');
    $f->release('held');
    ok($h->wait_exit(), 'it ends');
    is($f->get('slow'), qq{"1"\n"2"\n}, 'both were pushed');
}

$h->wait_exit();


# without memcached

$h->up();
$f->refuse(1);
is($h->get('/slow?n=3')->status(), 204, 'memcached is away');
ok($h->wait_log(qr/"mcds_array_push" has lost \d+ values/), 'that is said');
$h->get('/slow?n=3') for 1 .. 10;
is($h->log_count(qr/"mcds_array_push" has lost/) <= $t->workers(2), 1,
    'not each time');
$h->signal('QUIT');
$h->wait_exit();

my $lost = 0;

$lost += $_ for $h->log() =~ /"mcds_array_push" has lost (\d+) values/g;
is($lost, 11, 'the last ones are said when nginx ends');

$f->refuse(0);

$t->done();


# two workers push in any order

sub sorted {
    return join ' ', sort split /\n/, $m->get($_[0]);
}
