#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_top: the most viewed keys of all workers and hosts, as JSON, as
# a variable and through SSI; people only.

use warnings;
use strict;

use JSON::PP;
use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; prefix p:; timeout 5s; }

    mcds_counter_top pages size=5 flush=100ms prefix=v:;
    mcds_counter_top errors flush=100ms;
    mcds_counter_top few size=2 keys=10 window=1h flush=100ms;
    mcds_counter_top turns window=3m slots=60 flush=60s;

    map $http_user_agent $person {
        default   1;
        ""        "";
        "~*bot|crawl|spider|slurp|preview|monitor|headless|curl|wget|python" "";
    }
    map "$http_sec_purpose$http_purpose$http_x_moz" $viewed {
        default   "";
        ""        $person;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            mcds_counter $n key=v:$uri top=pages;
            mcds_return "$n";
        }
        location = /by {
            mcds_counter $n key=v:$arg_k by=$arg_by top=pages;
            mcds_return "$n";
        }
        location /people/ {
            mcds_counter $n key=v:$uri if=$viewed top=pages;
            mcds_return "$n";
        }
        location /day/ {
            mcds_counter $n key=v:$uri period=1d top=pages;
            mcds_counter $e key=e:$uri statuses=5xx top=errors;
            mcds_counter $s key=few top=few async;
            mcds_return 503 "$n";
        }
        location /async/ {
            mcds_counter $n key=v:$uri top=pages async;
            mcds_return "$n";
        }
        location /few/ { mcds_counter $n key=$uri top=few; mcds_return $n; }

        location /turns/ { mcds_counter $n key=$uri top=turns;
            mcds_return $n; }

        location = /top.json { mcds_counter_api top=pages; }
        location = /errors.json { mcds_counter_api top=errors; }
        location = /few.json { mcds_counter_api top=few; }
        location = /turns.json { mcds_counter_api top=turns; }
        location = /top.html {
            ssi on;
            ssi_types *;
            mcds_return '<!--# echo var="mcds_top_pages" encoding="none" -->';
        }
    }
}
EOT

my ($a, $b) = map { $t->nginx($_, $conf) } qw/ a b /;

is($a->get('/top.json')->body(),
    qq({"window":86400,"total":0,"keys":[]}\r\n), 'nothing yet');


# all hosts and workers together

for my $i (1 .. 8) {
    ($i % 2 ? $a : $b)->get("/$i") for 1 .. $i;
}

is_deeply(top($a, 36), { window => 86400, total => 36, keys => [
    map { { key => "/$_", count => $_, error => 0 } } reverse 4 .. 8 ] },
    'the first five');
is_deeply(top($b, 36)->{keys}, top($a, 36)->{keys}, 'the same on both hosts');
is($a->get('/top.json')->header('Cache-Control'), 'no-store', 'not kept');
is($a->get('/top.json')->header('Content-Type'), 'application/json', 'type');
is(join(' ', map { s/\d+$/N/r } grep { /top/ } $m->keys()), 'p:pages:top:N',
    'one item, for all');


# how it is counted

$a->get('/by?k=/8&by=10');
$a->get('/by?k=/7&by=-5');
$a->get('/by?k=/6&by=0');
is_deeply([map { $_->{count} } @{top($a, 46)->{keys}}], [18, 7, 6, 5, 4],
    'by=: what is subtracted does not count');

$a->get('/day/x') for 1 .. 9;
is(top($a, 55)->{keys}[1]{key}, '/day/x', 'window=: the key alone');
my $errors = decode_json(wait_for(sub {
    my $body = $a->get('/errors.json')->body();
    $body =~ /"total":9,/ ? $body : '';
}, 10) || '{}');
is_deeply($errors->{keys}, [{ key => 'e:/day/x', count => 9, error => 0 }],
    'statuses=any');

$a->get('/async/x') for 1 .. 20;
is(top($a, 75)->{keys}[0]{key}, '/async/x', 'async');


# people only

my @agents = ('Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Firefox/115.0',
    'Mozilla/5.0 (iPhone) AppleWebKit/605.1.15 Safari/604.1');

$a->get('/people/x', headers => { 'User-Agent' => $_ })
    for (@agents) x 11, 'Googlebot/2.1', 'curl/7.88', 'python-requests/2';
$a->get('/people/x') for 1 .. 3;
$a->get('/people/x', headers => { 'User-Agent' => $agents[0], @$_ })
    for ['Sec-Purpose' => 'prefetch;prerender'], ['Purpose' => 'prefetch'],
    ['X-Moz' => 'prefetch'];

is_deeply(top($a, 97)->{keys}[0], { key => '/people/x', count => 22,
    error => 0 }, 'people alone');
is($m->get('p:v:/people/x'), 22, 'as the counter itself');


# any key, safe in a page

$a->get("/%3C/script%3E%22%27%26%ff") for 1 .. 50;
$a->get('/' . 'x' x 252) for 1 .. 49;      # 255 bytes
$a->get('/' . 'y' x 253) for 1 .. 48;

my $top = top($a, 97 + 99);
is_deeply([map { $_->{key} } @{$top->{keys}}[0, 1]],
    ["/</script>\"'&\x{fffd}", '/' . 'x' x 252],
    'any bytes, up to 255');

# each worker knows it a little later

my $html;
my $json = JSON::PP->new()->canonical();
ok(wait_for(sub {
    $html = $a->get('/top.html')->body();
    $html && $json->encode($json->decode($html))
        eq $json->encode($top->{keys});
}, 10), 'SSI: JSON');
unlike($html, qr/[<>&']/, 'SSI: safe in HTML');


# more keys than are watched

my $n = $t->size(400, 20000);
my @res = many($n, sub {
    my $i = shift;
    [($i % 2 ? $a : $b)->port(), $i % 5 ? "/few/$i" : '/few/hot']
}, concurrency => 40);

my $few = wait_for(sub {
    my $body = $b->get('/few.json')->body();
    $body =~ /"total":@{[$n + 9]},/ ? decode_json($body) : undef;
}, 20);

ok($few, 'bounded: the total is exact');
is($few->{keys}[0]{key}, '/few/hot', 'bounded: who comes often is found');

my $hot = $few->{keys}[0];
my $true = $n / 5;
cmp_ok($hot->{count}, '>=', $true, 'bounded: not too low');
cmp_ok($hot->{count} - $true, '<=', ($n + 9) / 10, 'bounded: nor too high');
cmp_ok($hot->{count} - $hot->{error}, '<=', $true, 'bounded: as it says');
is(scalar @{$few->{keys}}, 2, 'bounded: two are shown');

# more than a slot can have: the other keys remain

my $before = top($a, 1);
$a->get('/by?k=/9&by=100000000000000000') for 1 .. 3;

my $after = top($a, 1 << 56);
cmp_ok($after->{total}, '>=', 1 << 56, 'most: the total');
is(join(' ', map { $_->{key} } @{$after->{keys}}[0, 1]),
    "/9 $before->{keys}[0]{key}", 'most: the keys');


# slots that are shorter than the flush interval

my $turns = 0;
my $end = time() + 7;

while (time() < $end) {
    $a->get("/turns/$_") for 1 .. 10;
    $turns += 10;
    sleep 0.05;
}

ok(wait_for(sub {
    $a->get('/turns.json')->body() =~ /"total":$turns,/;
}, 20), 'turns: each slot is counted')
    or diag("$turns: ", $a->get('/turns.json')->body());

$t->done();


# the list, when its total is so high

sub top {
    my ($host, $total) = @_;
    my $json = {};

    wait_for(sub {
        $json = decode_json($host->get('/top.json')->body());
        ($json->{total} // 0) >= $total;
    }, 10);

    return $json;
}
