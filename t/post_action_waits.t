#!/usr/bin/perl

# Copyright (C) mcds authors

# Clients that leave while their requests wait for memcached, where nginx has a
# "post_action": it is sent once, under its own lock, and to its end.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { headers => ['X-Origin' => 'whole'], body => "done\n" };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 50s; }
    mcds_use main;

    log_format origin '$request_uri $upstream_http_x_origin';
    access_log %%DIR%%/origin.log origin;

    proxy_set_header X-Token $mcds_lock_token;
    proxy_set_header X-Lock  $mcds_lock_status;

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            mcds_counter $n key=$uri;
            post_action  /done;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }
        location /lock/ {
            mcds_lock   first wait=10s;
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location /same/ {
            mcds_lock   done wait=10s;
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location = /done {
            internal;
            mcds_lock  done;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /numbers/ {
            mcds_counter_api prefix=n:;
            post_action /plain;
        }
        location /locks/ {
            mcds_lock_api    ttl=10m max_ttl=10m;
            mcds_api_methods POST;
            post_action      /plain;
        }
        location = /plain {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /full/counter {
            post_action /counts;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location /full/lock {
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location = /counts {
            internal;
            mcds_counter $n key=counts;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }

        location = /next  { return 200 next; }
        location = /count { mcds_counter $n key=count; mcds_return $n; }
    }
}
EOT

my $h = $t->nginx('h', $conf);

$h->get('/count');


# a client that leaves while its request waits for a counter

begin();
$m->freeze();
leave('/x');
$m->cont();

ok($o->wait_requests(1, '/done'), 'counter: post_action is sent');
under_lock('counter');
free('counter', 'done');
is($h->get('/count')->status(), 200, 'counter: the worker goes on');
is($o->count('/done'), 1, 'counter: post_action is sent once');
is($o->count('/x'), 0, 'counter: the request is not');


# ... or for a lock that another request has

begin();
$o->hold_path('/lock/1');

my $owner = start_get($h->port(), '/lock/1');
$o->wait_requests(1, '/lock/1');

leave('/lock/2');

ok($o->wait_requests(1, '/done'), 'lock: post_action is sent');
under_lock('lock');

my $waits = ask('/lock/3');

$o->release('/lock/1');

is(finish($_)->status(), 200, 'lock: the others') for $owner, $waits;
ok($o->wait_requests(3, '/done'), 'lock: post_action for all');
is($o->count('/lock/2'), 0, 'lock: the request that has left is not sent');
free('lock', qw/ first done /);


# ... or for memcached to grant the lock, which may be that of post_action

for my $way (qw/ lock same /) {
    begin();
    $m->freeze();
    leave("/$way/1");
    $m->cont();

    ok($o->wait_requests(1, '/done'), "$way, granted: post_action is sent");
    under_lock("$way, granted");
    free("$way, granted", qw/ first done /);
    is($o->count(), 1, "$way, granted: nothing else is sent");
}


# ... or, in an API, for numbers

begin();
$m->freeze();
$o->hold_path('/plain');
leave('/numbers/?key=x');
ok($o->wait_requests(1, '/plain'), 'numbers: post_action is sent');
$m->cont();
$h->get('/count');
$o->release('/plain');
ok(logged('/numbers/?key=x whole'), 'numbers: and is answered');
is($o->count('/plain'), 1, 'numbers: post_action is sent once');


# ... or for a lock, which nobody would own

begin();
$o->hold_path('/plain');
$m->freeze();
leave('/locks/x', method => 'POST', body => '{}',
    headers => { 'Content-Type' => 'application/json' });
ok($o->wait_requests(1, '/plain'), 'locks: post_action is sent');
$m->cont();
ok(wait_for(sub { defined $m->get('x:fence') }), 'locks: it is granted');
ok(wait_for(sub { !defined $m->get('x') }, 5), 'locks: and released');
$o->release('/plain');
ok(logged('/locks/x whole'), 'locks: post_action is answered');
is($o->count('/plain'), 1, 'locks: post_action is sent once');


# a client that leaves with its response, while post_action waits

for ([counter => '/counts'], [lock => '/done']) {
    my ($way, $path) = @$_;

    begin();
    $m->freeze();

    my $p = start_get($h->port(), "/full/$way");

    wait_for(sub { $p->fill(0); $p->{in} =~ /done/ });
    $h->get('/next') for 1 .. 3;
    $p->close();
    $h->get('/next') for 1 .. 3;
    $m->cont();

    ok($o->wait_requests(1, $path), "full, $way: post_action is sent");
    ok(logged("/full/$way whole"), "full, $way: and is answered");
}

$t->done();


sub begin { $o->mark() }


# a request that was read before another one is answered waits by now

sub ask {
    my ($uri, @o) = @_;

    my $p = start_get($h->port(), $uri, @o);

    $h->get('/next') for 1 .. 3;

    return $p;
}


sub leave {
    my ($uri, @o) = @_;

    my $p = ask($uri, @o);
    my $n = gone();

    $p->close();
    ok(wait_for(sub { gone() > $n }), "$uri: the client leaves");
    $h->get('/next') for 1 .. 3;
}


sub gone { $h->log_count(qr/client prematurely closed connection/) }


sub logged {
    my ($line) = @_;
    return wait_for(sub { $t->read_file('h/origin.log') =~ /^\Q$line\E$/m });
}


sub under_lock {
    my ($name) = @_;

    my ($done) = $o->requests('/done');

    is($done->{headers}{'x-lock'}, 'acquired', "$name: under a lock");
    is($done->{headers}{'x-token'}, $m->get('done:fence'),
        "$name: which is its own");
}


sub free {
    my ($name, @keys) = @_;

    ok(wait_for(sub { !grep { defined $m->get($_) } @keys }),
        "$name: nothing is locked");
}
