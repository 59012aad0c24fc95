#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_cache_valid origin: errors are stored as long as their origin says, but
# for those about the request, and not in the place of a page that may still be
# shown for them.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my @life = ('Cache-Control' => 'max-age=60');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => [@life], body => 'page %k' });

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_background_update off;
    mcds_cache_error_backoff off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /origin/ {
            mcds_cache_valid origin;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            location /origin/inherited/ {
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
            location /origin/replaced/ {
                mcds_cache_valid 200 1m;
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
        }
        location /beside/ {
            mcds_cache_valid 403 1m;
            mcds_cache_valid origin;
            mcds_cache_valid 200 30s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# the statuses of two requests, and the lifetime of what is stored

sub twice {
    my ($uri, $answer) = @_;

    $o->set($uri, { body => 'error', %$answer });

    my $first = $a->get($uri);
    wait_for(sub { !defined $m->get(key("$uri:lock")) });
    my $second = $a->get($uri);
    my $e = page_decode($m->get(key($uri)));
    my $life = $e ? $e->{expire} - $e->{created} : 0;

    # a lifetime of Cache-Control or Expires counts from the request, one of
    # X-Accel-Expires or of the configuration from the response

    $life += $e->{took} if $life && $uri !~ m{/accel$|/beside/[25]$};

    return join ' ', $first->status(), $second->header('X-Cache'),
        $second->status(), $e && $e->{kind} == 0 ? $life / 1000 : '-';
}

my @stored = (401, 403, 407, 409, 418, 422, 451, 499, 500, 501, 502, 503, 504,
    507, 599);
my @not = (400, 405, 406, 408, 411 .. 417, 421, 425, 426, 428, 429, 431, 511);

for my $status (@stored) {
    my $answer = { status => $status, headers => [@life] };

    is(twice("/origin/$status", $answer), "$status HIT $status 60",
        "$status: stored");
    like(twice("/$status", $answer), qr/^$status \w+ $status -$/,
        "$status: not without the word");
}

like(twice("/origin/$_", { status => $_, headers => [@life] }),
    qr/^$_ \w+ $_ -$/, "$_: not stored") for @not;

my %why = (
    'no lifetime' => [],
    'public' => ['Cache-Control' => 'public'],
    '0' => ['Cache-Control' => 'max-age=0'],
    'private' => ['Cache-Control' => 'private, max-age=60'],
    'Set-Cookie' => [@life, 'Set-Cookie' => 'a=b'],
    'must-understand' => ['Cache-Control' => 'must-understand, max-age=60'],
);

like(twice("/origin/why-$_" =~ s/ //r, { status => 403, headers => $why{$_} }),
    qr/^403 \w+ 403 -$/, "403, $_: not stored") for sort keys %why;

is(twice('/origin/accel', { status => 403, headers =>
    ['X-Accel-Expires' => 30] }), '403 HIT 403 30', 'X-Accel-Expires');
is(twice('/origin/cdn', { status => 403, headers =>
    ['CDN-Cache-Control' => 'max-age=30'] }), '403 HIT 403 30',
    'CDN-Cache-Control');

my $r = $a->get('/origin/503', method => 'HEAD');
is(join(' ', $r->status(), $r->header('X-Cache')), '503 HIT', 'HEAD');
$r = $a->get('/origin/503', headers => [Range => 'bytes=0-1',
    'If-None-Match' => '*']);
is(join(' ', $r->status(), $r->body()), '503 error',
    'no part of an error, and no condition');


# levels

my $error = { status => 403, headers => [@life] };
my $lifeless = { status => 403, headers => [] };

is(twice('/origin/inherited/1', $error), '403 HIT 403 60', 'inherited');
like(twice('/origin/replaced/1', $error), qr/ -$/, 'replaced');
is(twice('/beside/1', $error), '403 HIT 403 60', 'beside others: its lifetime');
is(twice('/beside/2', $lifeless), '403 HIT 403 60', 'beside others: named');
is(twice('/beside/3', { status => 410, headers => [@life] }),
    '410 HIT 410 60', 'beside others: another');
like(twice('/beside/4', { status => 451, headers => [] }), qr/ -$/,
    'beside others: without a lifetime');
is(twice('/beside/5', { headers => [] }), '200 HIT 200 30',
    'beside others: 200');


# a page that has expired

for my $row ([503, '200 STALE page'], [403, '403 EXPIRED error'],
    [505, '505 EXPIRED error'], [429, '429 EXPIRED error'])
{
    my ($status, $expected) = @$row;
    my $uri = "/origin/old-$status";

    $o->set($uri);
    $a->get($uri);
    page_wait($m, key($uri));
    page_expire($m, key($uri), 1000);
    $o->set($uri, { status => $status, headers => [@life], body => 'error' });

    my $r = $a->get($uri);
    is(join(' ', $r->status(), $r->header('X-Cache'),
        $r->body() =~ /^(\w+)/), $expected, "$status behind a page");

    wait_for(sub { !defined $m->get(key("$uri:lock")) });
    my $e = page_decode($m->get(key($uri)));
    is($e->{status}, $expected =~ /page/ || $status == 429 ? 200 : $status,
        "$status behind a page: what is stored");
}


my @conf = (http => 'mcds_pool m { server 127.0.0.1; }', location =>);

like($t->conf_error(@conf, "mcds_cache_valid $_;"), qr/"mcds_cache_valid"
    \ directive\ takes\ no\ codes\ and\ no\ time\ with\ "origin"\ in\ \S+:\d/x,
    $_) for '404 origin', 'origin 10s', 'origin origin';
like($t->conf_error(@conf, 'mcds_cache_valid orign;'),
    qr/invalid value "orign" in "mcds_cache_valid", it must be a /,
    'orign');

$t->done();
