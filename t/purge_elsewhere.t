#!/usr/bin/perl

# Copyright (C) mcds authors

# A purge that has ended, or whose client has left, and that nginx leads to the
# location of "post_action" or of an error page: this location answers as
# usual, and nothing is purged or rebuilt once more.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many single', 'it looks at one worker')
    ->allow(qr/client sent invalid chunked body/);

# the first command of a purge is held

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if $f->mode() ne 'hold' || $line !~ /^m[gs] /;

    $f->{mode} = '';
    return ($f->hold('purge'), $f->default($line, $value));
});

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => '%u %k' });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 20s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache_key $uri;
    %%HTTP_PURGE%%
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            %%PURGE%%
            post_action /done;
            error_page 400 /error;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /done {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /error {
            mcds_return "the error";
        }
        location = /plain {
            mcds_cache off;
            return 200 plain;
        }
    }
}
EOT

my $purge = 'mcds_cache on; mcds_purge_api method=PURGE';

my %conf = (
    location => ['', "$purge;"],
    http => ["$purge;", ''],
    'location refresh' => ['', "$purge mode=refresh;"],
    'http refresh' => ["$purge mode=refresh;", ''],
);

for my $way (sort keys %conf) {
    my ($outer, $inner) = @{$conf{$way}};
    my $refresh = $way =~ /refresh/;
    my $id = $way =~ s/ /-/r;

    my $h = $t->nginx($id, $conf =~ s/%%HTTP_PURGE%%/$outer/r
        =~ s/%%PURGE%%/$inner/r);
    my ($worker) = $h->workers();

    my $done = 0;

    # the origin has had one request more of post_action

    my $is_done = sub {
        my ($name) = @_;
        my $n = ++$done;

        ok($o->wait_requests($n, '/done', 5),
            "$way: $name: post_action is sent");
    };

    my $fill = sub {
        my ($uri) = @_;

        $h->get($uri);
        page_wait($f, $uri) or die "$uri is not stored\n";
        $is_done->("GET $uri");
    };

    my $is_purged = sub {
        my ($uri) = @_;

        return ok(wait_for(sub {
            page_decode(page_wait($f, $uri))->{body} eq "$uri 2"
        }), "$way: $uri is rebuilt") if $refresh;

        unlike($h->get($uri)->header('X-Cache'), qr/HIT/, "$way: $uri: purged");
        $is_done->("GET $uri again");
    };

    $o->mark();

    # a purge that has ended

    $fill->("/$id/a");

    my $r = $h->get("/$id/a", method => 'PURGE');
    is($r->status(), 200, "$way: purged");
    is(decode_json($r->body())->{refresh}, $refresh ? JSON::PP::true
        : JSON::PP::false, "$way: and rebuilt, or not");

    $is_done->('PURGE');
    $is_purged->("/$id/a");

    # one whose body is malformed, which shows after the purge

    $fill->("/$id/b");

    $r = http_raw($h->port(), "PURGE /$id/b HTTP/1.1\r\nHost: localhost\r\n"
        . "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nxyz\r\n\r\n");
    like($r, qr/^HTTP\S+ 400 .*\r\n\r\nthe error$/s, "$way: the error page");
    is(scalar(() = $r =~ m{^HTTP/}mg), 1, "$way: is the only answer");
    $is_purged->("/$id/b");

    # a client that leaves

    {
        my $uri = "/$id/left";

        $fill->($uri);
        $f->tell('hold');

        my $p = start_get($h->port(), $uri, method => 'PURGE');

        ok(wait_for(sub { $f->held('purge') }), "$way: $uri: the purge waits");
        $p->close();

        # the worker has seen it when it has answered requests that came later

        $h->get('/plain') for 1 .. 3;

        $o->hold_path('/done');
        $f->release('purge');
        $is_done->("PURGE $uri, left");

        # the page does not wait for the end of that request

        my $r = $h->get($uri);
        unlike($r->header('X-Cache'), qr/HIT/, "$way: $uri: purged");
        ok(wait_for(sub {
            page_decode(page_wait($f, $uri))->{body} eq "$uri 2"
        }), "$way: $uri: the next visitor has it rebuilt");

        $o->release('/done');
        $is_done->("GET $uri");
    }

    is(($h->workers())[0], $worker, "$way: the worker lives");
}

$t->done();
