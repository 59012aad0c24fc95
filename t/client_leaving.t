#!/usr/bin/perl

# Copyright (C) mcds authors

# A worker that nginx has told to leave, and that a request keeps: it uses a
# server again that was down, extends the lock of that request, and looks the
# names of servers up again.  A probe that has no reply does not keep it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Dns;

my $t = Test::Mcds->new()->not_in('single', 'there is one process')
    ->not_in('two many', 'it looks at one worker');

my $d = $t->forked('Test::Mcds::Dns', 'd');

$d->names('localhost', '127.0.0.1');

my $m = $t->memcached('m');
my $o = $t->origin('o', 'answer');

# one that accepts connections, and then is silent

my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return $f->mode() ? $f->hold('greeting') : undef;
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    resolver 127.0.0.1:%%PORT_d%%;
    mcds_pool main {
        server    127.0.0.1:%%PORT_m%%;
        max_fails 1;
    }
    mcds_pool silent {
        server    127.0.0.1:%%PORT_f%%;
        max_fails 1;
        timeout   10m;
    }
    mcds_pool named {
        server    localhost:%%PORT_named%%;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /job {
            mcds_use   main;
            mcds_lock  $uri ttl=3s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /silent {
            mcds_use     silent;
            mcds_counter $n key=n;
            mcds_return  "<$n>";
        }
    }
}
EOT

# a reload during a job, and a restart of memcached after the reload

$o->hold_path('/job');

my $job = start_get($h->port(), '/job');

ok($o->wait_requests(1, '/job'), 'a job runs');
ok(defined $m->get('/job'), 'and has its lock');
ok($h->reload(), 'reload');
ok(wait_for(sub { $h->leaving() }), 'the old worker leaves');

$m->kill9();
ok($h->wait_log(qr/:$m->{port}" of pool "main" is down/),
    'memcached is down for it');
$m->restart();
ok($h->wait_log(qr/:$m->{port}" of pool "main" is up again/), 'and up again');
ok(wait_for(sub { defined $m->get('/job') }), 'it has its lock again');
is($h->get('/job')->status(), 423, 'no other request gets the lock');

my $sets = $m->stats()->{cmd_set};

ok(wait_for(sub { $m->stats()->{cmd_set} >= $sets + 2 }),
    'it extends the lock again and again');

# the new worker and the old one

$d->names('localhost', '127.0.0.2');
ok(wait_for(sub {
    2 == $h->log_count(qr/address of .*"named" has changed.* to 127.0.0.2/)
}), 'both workers see the new address of a name');

$o->release('/job');
is(finish($job)->status(), 200, 'the job ends');
ok(wait_for(sub { !$h->leaving() }), 'and then the old worker');
ok(wait_for(sub { !defined $m->get('/job') }), 'it has released the lock');

# a probe is under way

is($h->get('/silent')->body(), '<1>', 'a server is up');
$f->refuse(1);
$f->close_all();
ok(wait_for(sub {
    $h->get('/silent');
    $h->log_has(qr/:$f->{port}" of pool "silent" is down/)
}), 'it is down');
$f->tell('silent');
$f->refuse(0);
ok(wait_for(sub { $f->held('greeting') }), 'a probe waits for its reply');
ok($h->quit(), 'the worker does not wait for it');

$t->allow(qr/is down|was lost to eviction or restart/);
$t->done();
