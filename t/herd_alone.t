#!/usr/bin/perl

# Copyright (C) mcds authors

# With proxy_ignore_client_abort a build goes on when its client has left,
# whatever the client's protocol and however long the page: it is stored, and
# who waits for it gets it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;
use Test::Mcds::Http2;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->needs('http_v2', 'mcds large');

my $small = 'x' x 900;
my $large = join '', map { "line $_ of a page\n" } 1 .. 50_000;
my $parts = $large x 3;

my $m = $t->memcached('m', memory => 256);
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $path = $q->{path};
    my $body = $path =~ /small/ ? $small : $path =~ /parts/ ? $parts : $large;

    return { headers => ['Content-Type' => 'text/html'],
        body => '<!--# include virtual="/ssi/large" -->' }
        if $path eq '/ssi/main';

    return { headers => ['Cache-Control' => 'max-age=600', 'Content-Type' =>
        'text/plain'], body => $body, chunked => $path =~ /chunked/ ? 1 : 0,
        truncate => $path =~ /cut/ ? length($body) - 100 : undef };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_error_backoff off;
    proxy_ignore_client_abort on;
    proxy_http_version 1.1;
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_h2%% http2;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /direct/ {
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /gzip/ {
            mcds_cache_compress gzip;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /rate/ {
            limit_rate 2m;
            mcds_cache_compress gzip;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi/ {
            ssi on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $a = $t->nginx('a', $conf);
my $b = $t->nginx('b', $conf =~ s/^.*PORT_h2.*\n//mr);


# a client whose request is being answered by the origin, and that leaves

sub left {
    my ($way, $uri, $asked) = @_;

    $asked //= $uri;
    $o->hold_path($asked);

    if ($way eq 'h2') {
        my $h = Test::Mcds::Http2->new($t->port('h2'));
        my $id = $h->request($uri);

        $o->wait_requests(1, $asked);
        $h->rst($id);
        $h->ping() or die "no pong\n";
        return $h;
    }

    my $c = start_get($a->port(), $uri);

    $o->wait_requests(1, $asked);
    $way eq 'fin' ? $c->close() : $c->reset();
    return;
}


for my $way (qw/ fin rst h2 /) {
    for my $path (qw{ small large parts chunked direct/large direct/chunked
                      direct/parts gzip/large gzip/chunked rate/large })
    {
        my $uri = "/$path/$way";
        my $h = left($way, $uri);
        my $misses = $m->stats()->{get_misses};
        my $waits = start_get($b->port(), $uri);

        wait_for(sub { $m->stats()->{get_misses} > $misses });
        $o->release($uri);

        my $r = finish($waits);

        ok($r->complete() && $r->body() eq ($path =~ /small/ ? $small
            : $path =~ /parts/ ? $parts : $large),
            "$way: $path: who waits gets it");
        is($o->count($uri), 1, "$way: $path: of one build");
        ok(page_wait($m, key($uri)), "$way: $path: stored");
        is($a->get($uri)->header('X-Cache'), 'HIT', "$way: $path: a hit");
        $h->close() if $h;
    }


    # a part of a page

    my $h = left($way, '/ssi/main', '/ssi/large');

    $o->release('/ssi/large');
    ok(page_wait($m, key('/ssi/large')), "$way: a part of a page: stored");
    is($o->count('/ssi/large'), 1, "$way: a part of a page: one build");
    $m->delete(key($_)) for '/ssi/main', '/ssi/large';
    $o->mark();
    $h->close() if $h;


    # half a page is not stored, and the next request builds

    for my $path (qw{ cut cut-chunked direct/cut direct/cut-chunked gzip/cut })
    {
        my $uri = "/$path/$way";

        $h = left($way, $uri);
        $o->release($uri);
        ok(wait_for(sub { !defined $m->get(key($uri) . ':lock') }),
            "$way: $path: no lock is left");
        ok(!defined $m->get(key($uri)), "$way: $path: not stored");
        $h->close() if $h;
    }
}

is(scalar(grep { m{/(?:small|large|parts|chunked)} && $_ !~ / 200 / }
    split /\n/, $a->access_log()), 0, 'each of them is logged with 200');

$t->done();
