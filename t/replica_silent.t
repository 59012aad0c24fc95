#!/usr/bin/perl

# Copyright (C) mcds authors

# The first of two servers executes or loses a conditional change, and does not
# reply.  It alone decides about the condition: the other server is not changed
# as if the condition were true, neither the element of a table nor the mark of
# a purged page.  A new page is stored on the other server, if that has none.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my @f = map { $t->fake("f$_", sub {
    my ($f, $c, $line, $value) = @_;
    my ($what, $re) = split ' ', $f->mode() // '', 2;

    return if !defined $re || $line !~ /$re/;
    $f->default($line, $value) if $what eq 'late';
    return $f->stall();
}) } 0 .. 1;

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => 'version %k' });

my @h = map { $t->nginx("h$_", <<'EOT') } 0 .. 1;
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_f0%%;
        server       127.0.0.1:%%PORT_f1%%;
        distribution modula;
        replicas     2;
        max_fails    0;
    }
    mcds_api_methods GET PUT DELETE;
    mcds_cache_key $uri;
    mcds_purge_api method=PURGE mode=delete;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /t/ { mcds_table_api t; }
    }
}
EOT

my $n = 0;


# elements of a table: the key of some has each server first

SKIP: {
    skip 'tables are left out', 1 if !$t->has('mcds data');

    for my $what (('late', 'stall') x 2) {
        my $name = 'n' . $n++;
        my $both = sub { join ', ', map { $_->get("t:$name") // 'none' } @f };

        # a command with the mode of an add, or with a CAS value

        tell_all("$what ^ms t:$name .*(?:ME|C[1-9])");
        $_->mark() for @f;

        my $r = put($h[0], "/t/$name", 'new', 'If-None-Match' => '*');

        is($r->status(), 503, "$name, $what: no reply to an add");
        is(sent($name), 1, "$name: which went to one server");

        tell_all('');
        is(put($h[0], "/t/$name", 'old')->status(), 204, "$name: set");
        is($both->(), 'old, old', "$name: on both servers");

        my $tag = $h[0]->get("/t/$name")->header('ETag');

        tell_all("$what ^ms t:$name .*(?:ME|C[1-9])");
        $_->mark() for @f;
        $r = put($h[0], "/t/$name", 'new', 'If-Match' => $tag);
        is($r->status(), 503, "$name, $what: no reply to a change");
        is(sent($name), 1, "$name: which went to one server");
        like($both->(), qr/\bold\b/, "$name: and did not change the other");
        tell_all('');

        # the other server does not reply to the deletion, which has no CAS

        is(put($h[0], "/t/$name", 'old')->status(), 204, "$name: set again");
        $tag = $h[0]->get("/t/$name")->header('ETag');
        tell_all("$what ^md t:$name (?!.*C[1-9])");
        $r = $h[0]->get("/t/$name", method => 'DELETE',
            headers => { 'If-Match' => $tag });
        is($r->status(), 503, "$name, $what: one server has not deleted it");
        tell_all('');
        is($h[0]->get("/t/$name", method => 'DELETE')->status(),
            $what eq 'late' ? 404 : 204, "$name: deleted again");
        is($both->(), 'none, none', "$name: on both servers");
    }
}


# a page is built when it is purged

for my $base (0, 1) {
    for my $what ('late', 'stall') {
        my $uri = '/p' . $n++;
        my $key = "<>$uri";
        my $kinds = sub {
            join ', ', map { (page_decode($_->get($key)) // {})->{kind}
                // 'none' } @f;
        };

        if ($base) {
            $h[0]->get($uri);
            ok(wait_for(sub { $kinds->() eq '0, 0' }), "$uri: stored");
            is(purge($uri)->status(), 200, "$uri: purged");
            is($kinds->(), '3, 3', "$uri: marked");
        }

        my $builds = $o->count($uri);

        $o->hold_path($uri);

        my $p = start_get($h[0]->port(), $uri);

        ok($o->wait_requests($builds + 1, $uri), "$uri: is being built");
        is(purge($uri)->status(), 404, "$uri: purged");
        is($kinds->(), '3, 3', "$uri: the purge has its mark");

        my $late = $h[0]->log_count(qr/memcached timed out/);

        tell_all("$what ^ms $key .*(?:ME|C[1-9])");
        $o->release($uri);
        is(finish($p)->status(), 200, "$uri: the build ends");
        ok(wait_for(sub {
            $h[0]->log_count(qr/memcached timed out/) > $late
        }), "$uri: one server does not reply to the store");
        tell_all('');

        # commands to a server stay in order

        $h[0]->get("$uri/next");
        unlike($kinds->(), qr/0/, "$uri: the page replaces no mark");
    }
}


# a new page

{
    my $uri = '/p' . $n++;
    my $key = "<>$uri";
    my $there = sub { scalar grep { defined $_->get($key) } @f };

    $o->hold_path($uri);

    my $p = start_get($h[0]->port(), $uri);

    ok($o->wait_requests(1, $uri), "$uri: is being built");

    # the first server is the one that was asked for the page itself

    my ($first) = grep { $_->count(qr/^mg \Q$key\E .*\bv\b/) } @f;

    $first->tell("stall ^ms $key .*ME");
    $o->release($uri);
    is(finish($p)->status(), 200, "$uri: built");
    ok(wait_for(sub { $there->() == 1 }), "$uri: the other server has it");
    tell_all('');
}

$t->allow(qr/timed out|purge failed/);
$t->done();


sub tell_all { $_->tell(@_) for @f }


sub put {
    my ($h, $uri, $body, %headers) = @_;

    return $h->get($uri, method => 'PUT', body => $body, headers => \%headers);
}


# the number of commands that store an element

sub sent {
    my ($name) = @_;
    my $sent = 0;

    $sent += $_->count(qr/^ms t:$name /) for @f;

    return $sent;
}


sub purge { return http_request($h[1]->port(), $_[0], method => 'PURGE') }
