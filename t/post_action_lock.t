#!/usr/bin/perl

# Copyright (C) mcds authors

# The location of "post_action" takes its own lock whatever has come of the
# request before; it neither waits for the lock that the client has waited for,
# also with a lookup in a table, nor keeps the lock of a page while it waits.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { status => 503 } if $req->{path} =~ /fails/;
    return { headers => ['Cache-Control' => 'max-age=60'], body => "page\n" };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 50s; }
    mcds_use main;

    recursive_error_pages  off;
    proxy_intercept_errors on;
    proxy_set_header X-Token $mcds_lock_token;
    proxy_set_header X-Lock  $mcds_lock_status;

    mcds_cache_key          $uri;
    mcds_cache_lock_timeout 60s;
    mcds_cache_lock_age     100s;
    mcds_cache_wait         60s;

    server {
        listen 127.0.0.1:%%PORT%%;
        error_page 503 = /sorry;

        location /one/ {
            mcds_lock   one;
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location /wait/ {
            mcds_lock   one wait=10s;
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location /same/ {
            mcds_lock   done;
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location /short/ {
            mcds_lock   done wait=1s;
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location = /sorry {
            mcds_lock   sorry;
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location = /done {
            internal;
            mcds_lock  done wait=60s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /page/ {
            mcds_cache  on;
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location = /owner {
            mcds_lock  done;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location = /lookup {
            mcds_table_lookup $value table key;
            return 200 "$value";
        }
        location = /next   { return 200 next; }
        location = /status { mcds_status; }
    }
}
EOT

for my $recursive (qw/ off on /) {
    my $h = $t->nginx($recursive,
        $conf =~ s/(recursive_error_pages) +off/$1 $recursive/r);
    my $name = "recursive_error_pages $recursive";

    my $done = sub {
        my ($way) = @_;

        ok($o->wait_requests(1, '/done', 10), "$name, $way: post_action");

        my ($r) = $o->requests('/done');

        is($r->{headers}{'x-lock'}, 'acquired', "$name, $way: under a lock");
        is($r->{headers}{'x-token'}, $m->get('done:fence'),
            "$name, $way: which is its own");
    };

    my $free = sub {
        my ($way) = @_;

        ok(wait_for(sub { !grep { defined $m->get($_) } qw/ one done sorry / }),
            "$name, $way: nothing is locked");
    };

    my $ask = sub {
        my $p = start_get($h->port(), @_);
        $h->get('/next') for 1 .. 3;
        return $p;
    };

    my $leave = sub {
        my ($p) = @_;

        my $gone = sub { $h->log_count(qr/client prematurely closed/) };
        my $n = $gone->();

        $p->close();
        ok(wait_for(sub { $gone->() > $n }), "$name: the client leaves");
    };

    # after a response, and an error page

    for my $uri ('/one/1', '/one/fails') {
        $o->mark();
        is($h->get($uri)->status(), 200, "$name, $uri: a response");
        $done->($uri);
        $free->($uri);
    }

    # after a request that did not get its lock

    $o->mark();
    $o->hold_path('/one/held');

    my $owner = start_get($h->port(), '/one/held');

    $o->wait_requests(1, '/one/held');
    is($h->get('/one/2')->status(), 423, "$name, refused");
    $done->('refused');

    # ... and waited for it until its client left

    $o->mark();
    $leave->($ask->('/wait/1'));
    $done->('left');

    $o->release('/one/held');
    is(finish($owner)->status(), 200, "$name: the owner");
    $free->('left');

    # after one that did not get the same lock

    $o->mark();
    $o->hold_path('/owner');

    $owner = start_get($h->port(), '/owner');
    $o->wait_requests(1, '/owner');
    is($h->get('/same/1')->status(), 423, "$name, the same");
    $o->release('/owner');
    finish($owner);
    $done->('the same');
    $free->('the same');

    # ... and waited for it, less long than the location of post_action does

    $o->mark();
    $o->hold_path('/owner');

    $owner = start_get($h->port(), '/owner');
    $o->wait_requests(1, '/owner');
    $leave->($ask->('/short/1'));
    ok(wait_for(sub { entry($h, 'locks', 'done')->{requests}{timeout} }),
        "$name, short: the time of the client's location is over");
    is($o->count('/done'), 0, "$name, short: post_action waits on");
    $o->release('/owner');
    finish($owner);
    $done->('short');
    $free->('short');

    # the lock of a page

    my $uri = "/page/$recursive";

    $o->mark();
    $o->hold_path($_) for $uri, '/owner';

    $owner = start_get($h->port(), '/owner');
    $o->wait_requests(1, '/owner');

    my $builds = start_get($h->port(), $uri);

    $o->wait_requests(1, $uri);

    my $waits = $ask->($uri);

    $leave->($builds);

    ok($o->wait_requests(2, $uri, 10), "$name: another request builds");
    is($o->count('/done'), 0, "$name: while post_action waits");

    $o->release($uri);
    is(finish($waits)->body(), "page\n", "$name: the page");
    $o->release('/owner');
    finish($owner);
    ok($o->wait_requests(2, '/done'), "$name: post_action for both");
    $free->('page');
}

$t->done();
