#!/usr/bin/perl

# Copyright (C) mcds authors

# async: nobody waits, a worker sends what it has counted as one sum now
# and then; nothing is lost at a reload and a graceful exit, at most what was
# counted since the last flush with a worker that is killed, and what could
# not be sent is sent later, once.

use warnings;
use strict;

use Test::More;

use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $m = $t->memcached('m');
my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return ($f->hold('greeting'), $f->fin())
        if $f->mode() eq 'greet' && $line eq 'version';
    return if $line !~ /^m[ag] / || !$f->mode();
    return ($f->hold('answer'), $f->default($line, $value))
        if $f->mode() eq 'hold';

    if ($f->mode() eq 'lost') {
        $f->default($line, $value);
        return $f->fin();
    }

    return;
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes %%WORKERS%%;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        timeout 10s;
        connect_timeout 10s;
        fail_timeout 300ms;
    }
    mcds_pool fake {
        server 127.0.0.1:%%PORT_f%%;
        timeout 20s;
        connect_timeout 20s;
        fail_timeout 300ms;
    }
    keepalive_requests 1000000;
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /hot {
            mcds_counter $n key=hot async;
            mcds_return "n=$n.";
        }
        location = /long {
            mcds_counter $n key=long by=$arg_n async=60s;
            mcds_return "$n";
        }
        location = /read {
            mcds_counter $n key=$arg_k read async=20ms;
            mcds_return "$n";
        }
        location = /ends {
            mcds_counter $n key=ends ttl=1000s async=1s;
            mcds_return "$n";
        }
        location = /text {
            mcds_counter $n key=text async=20ms;
            mcds_return "$n";
        }
        location = /fake {
            mcds_use fake;
            mcds_counter $n key=fake async=30ms;
            mcds_return "$n";
        }
        location = /refused {
            mcds_use fake;
            mcds_counter $n key=refused async=30ms;
            mcds_counter_buffer $n off;
            mcds_return "$n";
        }
        location = /many {
            mcds_counter $n key=many:$request_id async;
            mcds_counter_buffer $n off;
            mcds_return "$n.";
        }
    }
}
EOT

my $h = $t->nginx('h', $conf =~ s/%%WORKERS%%/2/r);
my $one = $t->nginx('one', $conf =~ s/%%WORKERS%%/1/r);


# a directive that only reads does not take the time to live from what another
# one has counted and not yet sent; the first two counts are sent at once

$one->get('/ends') for 1, 2;
ok(wait_for(sub { ($m->get('ends') // 0) == 2 }), 'read: two counts are sent');
$m->delete('ends');
$one->get("/$_") for 'ends', 'read?k=ends';
ok(wait_for(sub { defined $m->get('ends') }), 'read: the count is sent');
ttl_between($m, 'ends', 900, 1000, 'read: the counter ends');


# exact in the end, for a few operations

my $requests = $t->size(10000, 400000);
my $before = ops();
my $start = time();
my $load = $t->load(ports => [$h, $one], uri => '/hot', clients => 32,
    requests => $requests, expect => 'n=');

is($load->{ok}, $requests, 'all answered');
is($load->{wrong} + $load->{errors}, 0, 'no error');
ok(settled('hot', $requests), 'the count is exact') or diag($m->get('hot'));

my $ops = ops() - $before;
my $flushes = 3 * (1 + (time() - $start) / 0.1) + 3;

cmp_ok($ops, '<=', $flushes, 'one operation for each worker and flush');
note("$ops operations for $requests requests in $load->{seconds} s");


# what is shown

is($one->get('/long?n=1')->body(), '', 'not known at first');
ok(wait_for(sub { ($m->get('long') // '') eq 1 }), 'sent at once');
ok(wait_for(sub { $one->get('/long')->body() eq 1 }), 'known then');
is(join(' ', map { $one->get('/long?n=1')->body() } 1 .. 3), '2 3 4',
    'with what was added since');
is($one->get('/long?n=-10')->body(), 0, 'not below 0');
is($one->get('/long?n=8')->body(), 2, 'the sum is what counts');
is($m->get('long'), 1, 'not sent again within flush');

$m->set('r', 5);
ok(wait_for(sub { $one->get('/read?k=r')->body() eq 5 }), 'read');
$m->set('r', 6);
ok(wait_for(sub { $one->get('/read?k=r')->body() eq 6 }), 'read again');
ok(wait_for(sub { $one->get('/read?k=absent')->body() eq 0 }), 'absent');
is($m->get('absent') // 'none', 'none', 'and not made');

$m->set('text', 'text');
is($one->get('/text')->body(), '', 'no number');
ok($one->wait_log(qr/counts are lost, 1: not a number/),
    'is said');
$m->set('text', 40);
$one->get('/text');
ok(wait_for(sub { $m->get('text') > 40 }), 'a number again');


# nobody waits

$one->get('/fake');
ok(wait_for(sub { $one->get('/fake')->body() }), 'fake: known');
$f->tell('hold');

my $n = $one->get('/fake')->body();

ok(wait_for(sub { $f->held('answer') }), 'the answer is held');
is(join(' ', map { $one->get('/fake')->body() } 1 .. 5),
    join(' ', map { $n + $_ } 1 .. 5), 'nobody waits for it');
$f->tell('');
$f->release('answer');
ok(wait_for(sub { $f->get('fake') == $n + 5 }), 'all are counted');

# lost answers: counted once, at most

$f->tell('lost');
$f->mark();
$one->get('/fake');
ok($one->wait_log(qr/counts are lost, 1: connection/), 'an answer is lost');
$f->tell('');
is($f->count(qr/^ma fake /), 1, 'it was sent once');
is($f->get('fake'), $n + 6, 'it may have counted');

# no server: kept, and sent when it is back

$f->refuse(1);
$f->close_all();
$one->get('/fake') for 1 .. 10;
ok(wait_for(sub { $one->get('/fake'); $one->log_has(qr/is down after/) }),
    'the server is down');

my $kept = 50;

$one->get('/fake') for 1 .. $kept;
$f->refuse(0);
ok(wait_for(sub { $f->get('fake') >= $n + 6 + $kept }), 'sent when it is back')
    or diag($f->get('fake'));
ok(wait_for(sub { my $v = $one->get('/fake')->body();
    wait_for(sub { $f->get('fake') == $v }, 1) }), 'and the number is right');


# the connection ends before a sum has left: that and what was counted
# meanwhile go together, later

$f->tell('greet');
$f->close_all();
ok(wait_for(sub { $f->connections() == 0 }), 'refused: no connection');
$one->get('/refused');
ok(wait_for(sub { $f->held('greeting') }), 'refused: a sum is on its way');
$one->get('/refused') for 1 .. 5;
$f->tell('');
$f->release('greeting');
ok(wait_for(sub { ($f->get('refused') // 0) == 6 }), 'refused: all are counted')
    or diag($f->get('refused'));


# graceful: nothing is lost, and nobody waits for the flush

$t->not_in('single', 'nginx does not wait at QUIT then');

$one->get('/long?n=1') for 1 .. 10;
ok($one->quit(), 'quit');
is($m->get('long'), 12, 'quit: all are counted');

my $sent = 500;
my $hot = $m->get('hot');

for (1 .. 5) {
    $h->get('/hot') for 1 .. $sent / 5;
    $h->reload(wait_old => 1);
}

ok(settled('hot', $hot + $sent), 'reload: all are counted')
    or diag($m->get('hot') . " of $hot + $sent");


# killed: one interval is lost, at most

$hot = $m->get('hot');
$h->get('/hot') for 1 .. 200;
ok(settled('hot', $hot + 200), 'kill: sent after an interval');
$h->get('/hot') for 1 .. 20;
$h->kill_worker($_) for $h->workers();
$h->get('/hot') for 1 .. 20;
ok(wait_for(sub { $m->get('hot') >= $hot + 220 }), 'kill: the rest is there');
cmp_ok($m->get('hot'), '<=', $hot + 240, 'kill: none counts twice');


# exit without a server does not wait, and says what is lost

$one->up();
$one->get('/fake');
ok(wait_for(sub { $one->get('/fake')->body() }), 'up again');
$f->refuse(1);
$f->close_all();
ok(wait_for(sub { $one->get('/fake'); $one->log_count(qr/is down after/) > 1 }),
    'no server');
$one->get('/fake') for 1 .. 3;
my $lost = lost($one);
ok($one->quit(), 'quit without a server');
cmp_ok(lost($one), '>=', $lost + 3, 'says what is lost');


# the table is bounded: more keys than it has room for, while none is sent

$one->up();
$m->kill9();

my $port = $t->port('m');

ok(wait_for(sub { $one->get('/many');
    $one->log_has(qr/:$port" of pool "main" is down/) }), 'bound: no server');
$load = $t->load(port => $one->port(), uri => '/many', clients => 8,
    requests => 20000, expect => '.');
is($load->{ok}, 20000, 'bound: all answered');
ok($one->wait_log(qr/counts are lost, \d+: no room is left/), 'bound: said');
$m->restart();
ok(wait_for(sub { $m->stats()->{curr_items} >= 16384 }, 20 * $t->slow()),
    'bound: the others are sent') or diag($m->stats()->{curr_items});
$one->quit();
is($m->stats()->{curr_items}, 16384, 'bound: no others');

$t->allow(qr/memcached server .* is down/);
$t->done();


sub ops {
    my $s = $m->stats();
    return $s->{incr_hits} + $s->{incr_misses};
}


sub settled {
    my ($key, $value, $seconds) = @_;
    return wait_for(sub { ($m->get($key) // '') eq $value }, $seconds // 5);
}


sub lost {
    my ($host) = @_;
    my $sum = 0;
    $sum += $_ for map { /counts are lost, (\d+)/ ? $1 : () }
        $host->log_lines(qr/counts are lost/);
    return $sum;
}
