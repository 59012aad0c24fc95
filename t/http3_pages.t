#!/usr/bin/perl

# Copyright (C) mcds authors

# Pages over HTTP/3: HEAD, ranges, Vary, pages in parts and clients that take
# them slowly, five streams for one page, a refresh behind a stale one; and
# counters.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Http3;

my $t = Test::Mcds->new();
$t->needs('mcds large', 'mcds vary');

Test::Mcds::Http3::needed($t);

my ($crt, $key) = $t->cert('localhost');
my $large = join '', map { sprintf "%07d\n", $_ } 1 .. 150_000;
my $wait = 10 * $t->slow();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => {
        '/large' => { body => $large },
        '/vary' => { headers => ['Cache-Control' => 'max-age=60',
            Vary => 'X-Kind'] },
        '/stale' => { headers => ['Cache-Control' => 'max-age=1'] },
    });

my $host = $t->nginx('a', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%% quic reuseport;
        ssl_certificate     $crt;
        ssl_certificate_key $key;

        mcds_counter \$hits key=hits:\$uri;
        location = /status { mcds_status format=json; }
        location = /count { mcds_return 200 "\$hits\\n"; }

        location / {
            mcds_cache on;
            add_header X-Cache \$mcds_cache_status always;
            add_header X-Hits  \$hits;
            proxy_set_header X-Proto "\$server_protocol \$http3 \$scheme";
            proxy_set_header X-Client "\$remote_addr \$remote_port";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $h = Test::Mcds::Http3->new($t, $host->port());


# no body, and a part of one

is(told($h->get('/a')), "200 MISS answer 1 of /a\n", 'a page is built');

my $r = $h->get('/a', method => 'HEAD');
is(told($r), '200 HIT ', 'HEAD has none of it');
is($r->header('content-length'), 15, 'and says how long it is');

$r = $h->get('/a', headers => [Range => 'bytes=0-5']);
is(told($r), '206 HIT answer', 'a range');
is($r->header('content-range'), 'bytes 0-5/15', 'is said to be one');

$r = $h->get('/a', headers => [Range => 'bytes=99-']);
is($r->status() . ' ' . $r->header('content-range'), '416 bytes */15',
    'there is nothing there');

$r = $h->get('/r', headers => [Range => 'bytes=7-']);
like(told($r), qr/^206 \w+ \d of \/r\n$/, 'a range of a page that is missing');
is($h->get('/r')->header('x-cache'), 'HIT', 'builds the whole page');


# variants

my %kind = map { $_ => $h->get('/vary', headers => ['X-Kind' => $_])->body() }
    qw/ a b /;

isnt($kind{a}, $kind{b}, 'two variants');
is(told($h->get('/vary', headers => ['X-Kind' => $_])), "200 HIT $kind{$_}",
    "the variant $_") for qw/ a b /;


# a page in parts, taken slowly and in ranges

$r = $h->get('/large');
is($r->status() . ' ' . ($r->body() eq $large), '200 1', 'a large page');
is($h->get('/large')->body() eq $large, 1, 'once more, whole');
is($o->count('/large'), 1, 'from the cache');

$r = $h->get('/large', headers => [Range => 'bytes=1100000-1100015']);
is($r->status() . ' ' . ($r->body() eq substr($large, 1100000, 16)), '206 1',
    'a range in one of its parts');

my $slow = Test::Mcds::Http3->new($t, $host->port(), window => 20000);
my $id = $slow->request('/large', paused => 1);
$slow->begun($id, $wait);
is(told($slow->get('/a')), "200 HIT answer 1 of /a\n",
    'a stream beside one that is not read');
cmp_ok(length $slow->{streams}{$id}{body}, '<=', 20000, 'which has stopped');
$slow->resume($id);
is($slow->response($id, $wait)->body() eq $large, 1, 'and goes on, whole');
$slow->close();


# five streams, one build

$o->hold_path('/cold');
my @ids = map { $h->request('/cold') } 1 .. 5;
$o->wait_requests(1, '/cold');
ok(wait_for(sub { ($m->get('hits:/cold') // 0) == 5 }, $wait), 'five streams');
$o->release('/cold');
my @r = map { $h->response($_, $wait) } @ids;
is(scalar(grep { $_->body() =~ /^answer \d+ of \/cold\n$/ } @r), 5,
    'have the page');
is($o->count('/cold'), 1, 'of one build');


# a refresh behind a stale page

$h->get('/stale');
ok(wait_for(sub { $m->get('<>https://localhost/stale') }),
    'a page that expires');
sleep 1.1;
$o->hold_path('/stale');
is($h->get('/stale')->header('x-cache'), 'STALE', 'it is shown at once');
ok($o->wait_requests(2, '/stale'), 'with a refresh behind');

my @h = map { $_->{headers} } $o->requests('/stale');
is($h[1]{'x-proto'}, 'HTTP/3.0 h3 https', 'which knows of HTTP/3');
is($h[1]{'x-client'}, $h[0]{'x-client'}, 'and of the client');
$o->release('/stale');
ok(wait_for(sub { told($h->get('/stale')) =~ /(?:HIT|STALE) answer (\d+)/
    && $1 == ($o->requests('/stale'))[1]{n} }, $wait), 'and is stored');


# each stream counts

@r = map { $h->response($_, $wait) } map { $h->request('/count') } 1 .. 40;
is(join(' ', sort { $a <=> $b } map { $_->body() + 0 } @r), join(' ', 1 .. 40),
    'forty streams have a number each');

like($h->get('/status')->body(), qr/^\{.*"requests".*\}$/s, 'a status page');

$h->close();

$t->done();


sub told {
    my ($r) = @_;
    return join ' ', $r->status(), $r->header('x-cache') // '-', $r->body();
}
