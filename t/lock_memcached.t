#!/usr/bin/perl

# Copyright (C) mcds authors

# Locks while memcached is restarted, flushed, away or stands still, and while
# nginx is reloaded or a worker killed.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { body => ($req->{headers}{'x-token'} // 'none') . "\n" };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; fail_timeout 300ms; }

    add_header X-Lock $mcds_lock_status always;
    proxy_set_header X-Token $mcds_lock_token;

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            mcds_lock $uri ttl=2s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /pass/ {
            mcds_lock $uri ttl=2s unavailable=pass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /wait/ {
            mcds_lock $uri ttl=2s wait=20s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /long/ {
            mcds_lock $uri ttl=4s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /ok { return 200; }
    }
}
EOC

my ($h, $two) = map { $t->nginx($_, $conf) } qw/ h two /;
my ($r, $p);


# memcached is restarted while it is held

$o->hold_path('/long/held');
$p = start_get($h->port(), '/long/held');
$o->wait_requests(1, '/long/held');

my ($before) = $m->get('/long/held') =~ /^(\d+)/;

$m->kill9();
$m->restart();
ok(wait_for(sub { ($m->get('/long/held') // '') =~ /^$before / }, 10),
    'restarted: taken again, with its number');
ok(wait_for(sub { ($r = $two->get('/long/held'))->status() != 503 }),
    'restarted: used again by another host');
is($r->status(), 423, 'restarted: held');
$o->release('/long/held');
finish($p);
ok(wait_for(sub { !defined $m->get('/long/held') }), 'restarted: released');

my ($after) = $two->get('/long/held')->body() =~ /(\d+)/;

# the lock is released behind the response

wait_for(sub { !defined $m->get('/long/held') });

cmp_ok($after, '>', $before, 'restarted: the numbers rise');

# somebody else is faster

$o->hold_path('/long/held');
$p = start_get($h->port(), '/long/held');
$o->wait_requests(3, '/long/held');
$h->freeze();
$m->flush();

my $q = start_get($two->port(), '/long/held');

ok($o->wait_requests(4, '/long/held'), 'flushed: another one has it');
my $value = $m->get('/long/held');
$h->cont();
ok($h->wait_log(qr/has lost "\/long\/held"/, 10),
    'flushed: the first one learns');
$o->release('/long/held');
finish($p);
is(finish($q)->header('X-Lock'), 'acquired', 'flushed: the other one has it');
like($value, qr/^\d{16} /, 'flushed: it was his');


# memcached is away

$m->stop();

for (1 .. 8) {
    $r = $h->get('/away');
    last if $r->status() ne '503';
}

is($r->status() . ' ' . $r->header('X-Lock'), '503 unavailable', 'away: 503');
$r = $h->get('/pass/away');
is($r->status() . $r->header('X-Lock') . $r->body(),
    "200unavailablenone\n", 'away: pass, without a number');
is($h->get('/wait/away')->status(), 503, 'away: nobody waits');
$m->restart();
ok(wait_for(sub { $h->get('/away')->status() == 200 }, 10), 'it is back');

# it stands still for longer than the time to live, and goes on

$o->hold_path('/wait/still');
$p = start_get($h->port(), '/wait/still');
$o->wait_requests(1, '/wait/still');
$m->freeze();
ok($h->wait_log(qr/lock "\/wait\/still" may be lost/, 20), 'still: said');
$q = start_get($two->port(), '/wait/still');
is($o->held('/wait/still'), 1, 'still: nobody else runs');
$o->release('/wait/still');
is(finish($p)->status(), 200, 'still: the request ends');
$m->cont();
finish($q);
ok(wait_for(sub { $two->get('/wait/still')->status() == 200 }, 20),
    'still: free in the end');


# a worker is killed, nginx is reloaded

$o->hold_path('/kill');
$p = start_get($h->port(), '/kill');
$o->wait_requests(1, '/kill');
$h->kill_worker(0);
ok(wait_for(sub { !defined $m->get('/kill') }, 10), 'killed: ends by itself');
$o->release('/kill');
is($two->get('/kill')->status(), 200, 'killed: free');

$t->not_in('single', 'nginx cannot reload then');

$o->hold_path('/wait/reload');
$p = start_get($h->port(), '/wait/reload');
$o->wait_requests(1, '/wait/reload');
$q = start_get($h->port(), '/wait/reload');
$h->get('/ok');
$h->reload();
$value = $m->get('/wait/reload');

for (1, 2) {
    my $cas = $m->mc('mg /wait/reload c');
    ok(wait_for(sub { $m->mc('mg /wait/reload c') ne $cas }, 10),
        'reloaded: the old worker goes on extending');
}

is($m->get('/wait/reload'), $value, 'reloaded: it is the same');
$o->release('/wait/reload');
is(finish($p)->status() . finish($q)->status(), 200200,
    'reloaded: the old worker serves both');
ok(wait_for(sub { !$h->leaving() }, 10), 'reloaded: the old worker ends');
ok(!defined $m->get('/wait/reload'), 'reloaded: released');

$t->done();
