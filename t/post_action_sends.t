#!/usr/bin/perl

# Copyright (C) mcds authors

# Clients that leave while they are being sent a page in parts, a response that
# is stored in parts, or the lines of a log, where nginx has a "post_action": it
# is sent once, and to its end, whatever memcached replies meanwhile.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ post /;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');
$t->needs('mcds large', 'mcds lock', 'mcds log');

my $m = $t->memcached('m', memory => 256);

my $from;
my $body = 'x' x 3_000_000;
my $more = 'x' x 12_000_000;

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { headers => ['X-Origin' => 'whole'], body => "done\n" }
        if $req->{path} !~ /page/;
    return { headers => ['Cache-Control' => 'max-age=60'],
        body => $req->{path} =~ /late/ ? $more : $body };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 50s; }
    mcds_use main;

    log_format origin '$request_uri $upstream_http_x_origin';
    access_log %%DIR%%/origin.log origin;

    mcds_cache_key      $uri;
    mcds_cache_max_size 64m;
    mcds_api_methods    GET POST;

    server {
        listen 127.0.0.1:%%PORT%% sndbuf=64k;

        location /page/ {
            mcds_cache  on;
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location /page/late/ {
            mcds_cache  on;
            post_action /late;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location = /done {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /late {
            internal;
            mcds_lock  late wait=10s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /owner {
            mcds_lock  late;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location = /follow {
            mcds_log_api log;
            post_action  /done;
        }
        location = /log {
            mcds_log_api log;
        }

        location = /next  { return 200 next; }
        location = /count { mcds_counter $n key=count; mcds_return $n; }
    }
}
EOT


# a page in parts, of which memcached does not send the next ones

my $uri = '/page/parts';

$h->get($uri);
page_wait($m, $uri) or die "$uri is not stored\n";
begin('/done');

my $p = start_get($h->port(), $uri);

wait_for(sub { $p->fill(0); length $p->{in} > 10_000 });
$m->freeze();
got($p);

my $n = gone();

$p->close();
ok(wait_for(sub { gone() > $n }), 'page: the client leaves');
ok($o->wait_requests(1, '/done', 5), 'page: post_action is sent');
$m->cont();
$h->get('/count') for 1 .. 3;
whole('page', $uri, '/done');


# a response that is stored in parts, while post_action waits for its lock

$uri = '/page/late/store';

begin('/late');
$o->hold_path($_) for $uri, '/owner';

my $owner = start_get($h->port(), '/owner');

$o->wait_requests(1, '/owner');

$p = start_get($h->port(), $uri);
$o->wait_requests(1, $uri);
$m->freeze();
$o->release($uri);
wait_for(sub { $p->fill(0); length $p->{in} > 10_000 });
got($p);

$n = gone();

$p->close();
ok(wait_for(sub { gone() > $n }), 'store: the client leaves');
$m->cont();
$h->get('/count') for 1 .. 10;
$o->release('/owner');
is(finish($owner)->status(), 200, 'store: the lock is released');
ok($o->wait_requests(1, '/late', 5), 'store: post_action is sent');
whole('store', $uri, '/late');


# new lines of a log

my $other = Test::Mcds::Follow->new($h, '/log?follow=1');

is(post($h, '/log', 'first')->status(), 204, 'log: a line');
ok($other->seen(1), 'log: is seen');

for my $args ('', '&first=-60') {
    my $name = "log$args";
    my $seen = $other->count();

    begin('/done');
    $m->freeze() if $args;

    $p = Test::Mcds::Follow->new($h, "/follow?follow=1$args");
    is($p->status(), 200, "$name: a client follows");
    $h->get('/next') for 1 .. 3;

    $n = gone();

    $p->close();
    ok(wait_for(sub { gone() > $n }), "$name: the client leaves");
    ok($o->wait_requests(1, '/done', 5), "$name: post_action is sent");
    $m->cont();
    is(post($h, '/log', 'next')->status(), 204, "$name: a new line");
    ok($other->seen($seen + 1), "$name: another client sees it");
    whole($name, "/follow?follow=1$args", '/done');
}

$other->close();
$t->done();


sub begin {
    my ($path) = @_;

    $o->mark();
    $o->hold_path($path);
    $from = length $t->read_file('h/origin.log');
}


# reads what comes, until nothing has come while the worker served others

sub got {
    my ($c) = @_;

    my $last;

    do {
        $last = length $c->{in};
        $h->get('/next') for 1 .. 3;
        $c->fill(0.3);
    } while (length $c->{in} > $last);

    note("$last bytes");
}


sub gone {
    return $h->log_count(qr/client (?:prematurely )?closed connection/);
}


sub whole {
    my ($name, $line, $path) = @_;

    $h->get('/next') for 1 .. 3;
    $o->release($path);
    ok(wait_for(sub {
        substr($t->read_file('h/origin.log'), $from)
            =~ /^\Q$line\E whole$/m;
    }, 5), "$name: and is answered");
    is($o->count($path), 1, "$name: post_action is sent once");
    is($h->get('/next')->status(), 200, "$name: the worker goes on");
}
