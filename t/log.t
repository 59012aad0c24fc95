#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log: a line of each request of all hosts, as access_log would write it,
# exact and without delay; also when chunks are full.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Log qw/ events lines frames frame /;

my $t = Test::Mcds->new();

# room for all lines

my $m = $t->memcached('m', args => ['-m', 1024]);
my $small = $t->memcached('small', args => ['-I', '512k', '-m', 1024]);
my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if ($f->mode() // '') ne 'hold' || $line !~ /^ms .* MA/;
    return ($f->hold('held'), $f->default($line, $value));
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool small { server 127.0.0.1:%%PORT_small%%; }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; timeout 20s; }
    mcds_pool old { server 127.0.0.1:%%PORT_m%%; protocol classic; }
    mcds_use main;

    log_format short '$request_method $uri $status';
    log_format odd   '"$http_x_odd" ${arg_n}s $http_x_none $pipe';
    log_format json  escape=json '{"odd":"$http_x_odd"}' '$http_x_none';
    log_format none  escape=none '$http_x_odd';

    mcds_log all short chunk=1h;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /a { return 200 "a\n"; }
        location = /off {
            mcds_log off;
            return 200 "a\n";
        }
        location = /many {
            mcds_log one short;
            mcds_log two odd if=$arg_if;
            return 204;
        }
        location = /odd {
            mcds_log two odd;
            mcds_log json json chunk=1h;
            mcds_log none none chunk=1h;
            mcds_log combined combined chunk=1h;
            return 200 "odd\n";
        }
        location = /sub {
            ssi on;
            ssi_types *;
            mcds_return '<!--# include virtual="/a" -->';
        }
        location = /other {
            mcds_use small;
            return 204;
        }
        location = /count {
            mcds_log count none chunk=1h max_chunk=16k;
            mcds_log full  none chunk=1h max_chunk=1m pool=small;
            return 204;
        }
        location = /old {
            mcds_log old short chunk=1h max_chunk=4k pool=old;
            return 204;
        }
        location = /long {
            mcds_log long none chunk=1h max_chunk=4k;
            return 204;
        }
        location = /slow {
            mcds_log slow short chunk=1h pool=fake;
            return   204;
        }
        location /log/ {
            mcds_log off;
            location = /log/all { mcds_log_api all; }
            location = /log/one { mcds_log_api one; }
            location = /log/two { mcds_log_api two; }
            location = /log/json { mcds_log_api json; }
            location = /log/none { mcds_log_api none; }
            location = /log/combined { mcds_log_api combined; }
            location = /log/count { mcds_log_api count; }
            location = /log/full { mcds_log_api full pool=small; }
            location = /log/old { mcds_log_api old pool=old; }
            location = /log/long { mcds_log_api long; }
            location = /log/slow { mcds_log_api slow pool=fake; }
        }
    }
}
EOC

my $h = $t->nginx('h', $conf);
my $other = $t->nginx('other', $conf);


# what is written

$h->get('/a');
$other->get('/a', method => 'POST', body => 'x');
$h->get('/off');
$h->get('/none');
$h->get('/other');
$h->get('/sub');
ok(wait_for(sub { lines($h, '/log/all') == 5 }), 'a line of each request');
is(join(',', sort(lines($h, '/log/all'))), 'GET /a 200,GET /none 404,'
    . 'GET /other 204,GET /sub 200,POST /a 200', 'of both hosts, in one pool');
is(join("\n", lines($other, '/log/all')), join("\n", lines($h, '/log/all')),
    'both hosts see the same');

$h->get('/many?if=1&n=1');
$h->get('/many?if=0&n=2');
$h->get('/many?n=3');
$h->get('/many?if=yes&n=4');
ok(wait_for(sub { lines($h, '/log/one') == 4 && lines($h, '/log/two') == 2 }),
    'several of a location, if=');
is(join(',', sort(lines($h, '/log/two'))), '"-" 1s - .,"-" 4s - .',
    'the format of each');

my $odd = "q\"\\\t/<\xc3\xa9\xff";

$h->get('/odd?n=5', headers => { 'X-Odd' => $odd, 'User-Agent' => 'me' });
ok(wait_for(sub { lines($h, '/log/combined') == 1 }), 'odd bytes');
is((grep { /5s/ } lines($h, '/log/two'))[0],
    '"q\x22\x5C\x09/<\xC3\xA9\xFF" 5s - .', 'escaped');
is(text('json'), qq({"odd":"q\\"\\\\\\t/<\xc3\xa9\xff"}\n), 'escape=json');
is(text('none'), "$odd\n", 'escape=none');
is((lines($h, '/log/none'))[0], "q\"\\\t/<\xc3\xa9\xef\xbf\xbd",
    'what is not UTF-8, in JSON');
like(text('combined'), qr{^127\.0\.0\.1\ -\ -\ \[\S+\ \+\d{4}\]
    \ "GET\ /odd\?n=5\ HTTP/1\.\d"\ 200\ 4\ "-"\ "me"\n$}x, 'combined');


# one item for many lines, and another one when it is full; not faster than
# memcached can take them on a busy machine

my $n = $t->size(3000, 100000);

for my $host ($h, $other) {
    my $load = $t->load(port => $host->port(), uri => '/count', clients => 16,
        requests => $n / 2, rate => 2000, header => 'X-Odd: ' . 'x' x 500);

    is($load->{status}{204}, $n / 2, 'many requests');
}

for my $name (qw/ count full /) {
    ok(wait_for(sub { count($name) == $n }, 20), "$name: all lines are there")
        or diag(count($name));

    my @frames = frames($name eq 'full' ? $small : $m, $name);

    my %items = map { ("$_->{chunk} $_->{part}" => 1) } @frames;

    cmp_ok(scalar(keys %items), '>=', 3, "$name: in several items");
    is(scalar(grep { /^x{500}$/ } map { @{ $_->{lines} } } @frames), $n,
        "$name: as they are stored");
    cmp_ok(@frames, '<', $n / 4, "$name: and not one by one");
}

my %next;
my $order = 0;

for my $event (events($h, '/log/count?first=-3600&limit=10000')) {
    my (undef, $writer, $seq) = split /-/, $event->{id};

    $order++ if defined $next{$writer} && $next{$writer} != $seq;
    $next{$writer} = $seq + 1;
}

is($order, 0, 'in the order of each writer');
cmp_ok(scalar(keys %{{ map { $_->{writer} => 1 } frames($m, 'count') }}),
    '>=', 2, 'there are several');


# by the classic protocol

$t->load(port => $h->port(), uri => '/old', clients => 4, requests => 1000);
ok(wait_for(sub { lines($h, '/log/old') == 1000 }, 10),
    'the classic protocol');
cmp_ok(scalar(grep { /^old:\d+:\d+$/ } $m->keys()), '>=', 2,
    'in several items');
ttl_between($m, $_, 31 * 3600 - 600, 31 * 3600 + 61, "$_ ends")
    for sort(grep { /^old:/ } $m->keys());


# a line that is longer than max_chunk; those of one millisecond, which workers
# have written, may stand in any order

for my $len (3900, 4000, 4060, 4096, 8000) {
    $h->get('/long', headers => { 'X-Odd' => "$len:" . 'x' x $len });
}

ok(wait_for(sub { lines($h, '/log/long') == 5 }), 'long: they are there');
is(join(' ', sort map { /^(\d+):(x+)\z/ && $1 == length $2 ? $1 : 'wrong' }
    lines($h, '/log/long')), '3900 4000 4060 4096 8000', 'long: and whole');



# nobody waits

$f->tell('hold');

is($h->get('/slow?n=1')->status(), 204, 'memcached is silent');
ok(wait_for(sub { $f->held('held') == 1 }), 'it was asked');
$h->get('/slow?n=2');
$f->tell('');
$f->release('held');
ok(wait_for(sub { lines($h, '/log/slow') == 2 }), 'lines come later');

# ... and a shutdown does

$t->not_in('single', 'nginx does not wait at QUIT then');

$f->tell('hold');
$h->get('/slow?n=3');
$h->signal('QUIT');
ok($h->wait_log(qr/gracefully shutting down/), 'shutdown');
ok(wait_for(sub { $f->held('held') == 1 }), 'what was gathered is sent');
$f->tell('');
$f->release('held');
ok($h->wait_exit(), 'it ends');
is(scalar(lines($other, '/log/slow')), 3, 'no line is lost');

$t->done();


sub text {
    my ($name) = @_;

    return $h->get("/log/$name?format=text&last=0")->body();
}


sub count {
    my ($name) = @_;

    my ($n, $after) = (0, 'first=-3600');

    while (1) {
        my $r = $h->get("/log/$name?$after&limit=10000&last=9999999999");
        my $lines = $r->body() =~ tr/\n//;

        return $n if $r->status() != 200 || $lines == 0;

        $n += $lines;
        $after = 'after=' . $r->header('X-Log-Cursor');
    }
}
