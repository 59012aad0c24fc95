#!/usr/bin/perl

# Copyright (C) mcds authors

# A worker without memory for a value that memcached sends does not get this one
# value: that is no failure of the server, whose connection and breaker stay as
# they are, and whose other values arrive.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Http qw/ start_get finish /;
use Test::Mcds::Memory;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/malloc\(\d+\) failed/, qr/no memory for a value/);

my @m = map { $t->memcached("m$_", memory => 256, args => ['-I', '64m']) }
    0 .. 1;
my $size = 150_000;

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;

    return { headers => ['Cache-Control' => 'max-age=600'],
        body => $req->{path} =~ /huge/ ? 'small' : page($req->{path}) };
});

my $limits = 'timeout 5s; max_fails 1;';

my $h = $t->nginx('h', <<"EOT", memory => 1);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool meta { server 127.0.0.1:%%PORT_m0%%; $limits }
    mcds_pool classic { server 127.0.0.1:%%PORT_m0%%; $limits
                        protocol classic; prefix c:; }
    mcds_pool both { server 127.0.0.1:%%PORT_m0%%; $limits
                     server 127.0.0.1:%%PORT_m1%%;
                     distribution modula; replicas 2; }
    mcds_use            meta;
    mcds_cache_key      \$uri;
    mcds_cache_max_size 32m;
    mcds_purge_api      method=PURGE;
    add_header          X-Cache \$mcds_cache_status always;

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            mcds_cache meta;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /classic {
            mcds_cache classic;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /both {
            mcds_cache both;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /status { mcds_status; }
    }
}
EOT

my $memory = Test::Mcds::Memory->of($h, ($h->workers())[0]);
my @pages = map { "/$_" } 1 .. 8;

sub page {
    my ($path) = @_;
    return substr("page $path " x 30_000, 0, $size);
}

sub cached {
    my ($uri) = @_;
    return $h->get($uri)->header('X-Cache') eq 'HIT';
}

for my $uri (@pages, '/classic', '/both') {
    is($h->get($uri)->body(), page($uri), "$uri: built");
    ok(wait_for(sub { cached($uri) }), "$uri: stored");
}

ok(page_wait($_, '/both'), '/both: on both servers') for @m;


# one of several values that are on their way

for my $uri ('/1', '/classic') {
    my $pool = $uri eq '/1' ? 'meta' : 'classic';
    my $before = server($h, $pool);
    my $told = $h->log_count(qr/no memory for a value of \d{6} bytes/);

    $memory->fail_large($size);

    my $r = $h->get($uri);

    is($memory->now()->{failed}, 1, "$pool: the worker has no memory");
    is($r->status(), 200, "$pool: the page is served");
    is($r->body(), page($uri), "$pool: whole");
    isnt($r->header('X-Cache'), 'HIT', "$pool: not by memcached");
    ok(cached($uri), "$pool: the next time it is");

    my $now = server($h, $pool);

    is($now->{errors}{busy}, $before->{errors}{busy} + 1, "$pool: it counts");
    is($now->{errors}{protocol}, 0, "$pool: not as memcached's fault");
    is(sum_of($now->{connections}{lost}), 0, "$pool: no connection is lost");
    is($h->log_count(qr/no memory for a value of \d{6} bytes/), $told + 1,
        "$pool: the log tells of it");
}

$memory->fail_large($size);

my @r = map { finish($_) } map { start_get($h->port(), $_) } @pages;

is($memory->now()->{failed}, 1, 'pages at once: one has no memory');
is(scalar(grep { $_->status() == 200 } @r), @pages, 'all are served');
is(scalar(grep { $_->header('X-Cache') eq 'HIT' } @r), @pages - 1,
    'the others by memcached');


# a page that is not read is not purged, and nothing replaces it

$memory->fail_large($size);

is($h->get('/2', method => 'PURGE')->status(), 503, 'a purge fails');
is($memory->now()->{failed}, 1, 'as the worker has no memory');
ok(cached('/2'), 'the page is there');
is($h->get('/2', method => 'PURGE')->status(), 200, 'the next purge');
ok(!cached('/2'), 'does it');


# the other server has the page

$memory->fail_large($size);

my $r = $h->get('/both');

is($memory->now()->{failed}, 1, 'replicas: the worker has no memory');
is($r->body(), page('/both'), 'replicas: the page is served');
is($r->header('X-Cache'), 'HIT', 'replicas: by the other server');


# a value that is too long to be skipped takes its connection with it

my $before = server($h, 'meta');

$m[0]->set('<>/huge', 'x' x 17_000_000) or die "not stored\n";
$memory->fail_large(17_000_000);

is($h->get('/huge')->body(), 'small', 'huge: the page is served');
is($memory->now()->{failed}, 1, 'huge: the worker has no memory');
ok(wait_for(sub { cached('/1') }), 'huge: other pages go on');

my $now = server($h, 'meta');

is($now->{errors}{busy}, $before->{errors}{busy} + 1, 'huge: it counts');
is($now->{errors}{too_large}, $before->{errors}{too_large},
    'huge: not as too large');
is(sum_of($now->{connections}{lost}), 1, 'huge: a connection is closed');

ok($h->log_lacks(qr/is down after/), 'no breaker has opened');

$t->done();
