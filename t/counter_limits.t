#!/usr/bin/perl

# Copyright (C) mcds authors

# The ends of a counter: past 2^64 it begins again, whoever counts, alone or
# with others (N07); and the ends of a worker: a reload and a graceful exit
# lose nothing under load, a killed worker no more than it had not sent (N08).

use warnings;
use strict;

use Test::More;

use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    keepalive_requests 1000000;
    log_format status "$status";
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /by {
            mcds_counter $n key=end by=$arg_n;
            mcds_return "[$n]";
        }
        location = /one {
            mcds_counter $n key=end;
            mcds_return "[$n]";
        }
        location = /start {
            mcds_counter $n key=start;
            mcds_counter_init $n 18446744073709551615;
            mcds_return "[$n]";
        }
        location = /slow {
            mcds_counter $n key=slow by=$arg_n async=20ms;
            mcds_return "[$n]";
        }
        location = /hits {
            mcds_counter $s key=sync;
            mcds_counter $n key=async async=200ms;
            access_log %%DIR%%/hits status;
            mcds_return "[$s]";
        }
    }
}
EOT

my $h = $t->nginx('h', $conf);
my $one = $t->nginx('one', $conf =~ s/worker_processes 2/worker_processes 1/r);


# past the last number

my @last = map { "1844674407370955161$_" } 0 .. 5;

$m->set('end', $last[4]);
is(body('/by?n=3'), '[1]', '2^64 - 2 and 3');
is(there('end'), 1, 'memcached agrees');

$m->set('end', $last[4]);
is(join(' ', map { body('/one') } 1 .. 4), "[$last[5]] [0] [1] [2]",
    'one by one');

$m->set('end', $last[4]);
my @c = map { $one->conn() } 1 .. 12;
$_->get('/by?n=') for @c;
$one->freeze();
$_->request('/one') for @c;
$one->cont();
is(join(' ', sort map { $_->response()->body() } @c),
    join(' ', sort map { "[$_]" } $last[5], 0 .. 10), 'all in one sum');
is(there('end'), 10, 'which is added once');
$_->close() for @c;

is(body('/by?n=-11'), '[0]', 'never below 0');
is(body('/by?n=-1'), '[0]', 'nor from there');
is(there('end'), 0, 'memcached agrees');

is(body('/start'), '[0]', 'behind the largest number to begin with');
is(body('/start'), '[1]', 'and on');

$m->set('slow', $last[4]);
ok(wait_for(sub { $one->get('/slow?n=0')->body() eq "[$last[4]]" }),
    'nobody waits');

my @shown = map { $one->get('/slow?n=1')->body() } 1 .. 3;

SKIP: {
    skip 'each worker knows what it was told', 1 if $one->workers() > 1;

    is("@shown", "[$last[5]] [0] [1]", 'nobody waits: it begins again');
}

ok(wait_for(sub { there('slow') == 1 }), 'and so does memcached');

# too much to be added

$m->set('end', 5);
is(body("/by?n=$_"), '[5]', "by $_: not counted")
    for $last[5], '1000000000000000001', '-1000000000000000001', '1.5', '1%20';
is(there('end'), 5, 'left alone');
is(body('/by?n=1000000000000000000'), '[1000000000000000005]', 'by 10^18');


# reloads under load

$t->not_in('single', 'nginx cannot reload then');

my $load = $t->load(ports => [$h, $one], uri => '/hits', clients => 32,
    requests => $t->size(10000, 1000000), background => 1);
my $reloads = 0;

while (!$load->ended() || $reloads < 3) {
    $h->reload(wait_old => 1);
    $one->reload(wait_old => 1);
    $reloads += 2;
}

my $r = $load->wait();

is($r->{ok}, $r->{requests}, "reload: $reloads times, all are answered");
ok(settled('sync', $r->{ok}), 'reload: nobody is lost')
    or diag($m->get('sync'));
ok(settled('async', $r->{ok}), 'reload: nor if nobody waits')
    or diag($m->get('async'));


# graceful exits under load: what the log has is what was counted

for my $run (1 .. $t->size(3, 30)) {
    my $before = $m->get('sync');
    my $logged = logged();

    $load = $t->load(port => $one, uri => '/hits', clients => 32,
        requests => 4000, background => 1);

    ok(wait_for(sub { $m->get('sync') > $before + 200 }), "quit $run: load");
    ok($one->quit(), "quit $run");

    my $served = logged() - $logged;

    is($m->get('sync') - $before, $served, "quit $run: nobody is lost");
    is($m->get('async'), $m->get('sync'), "quit $run: nor if nobody waits");
    cmp_ok($load->wait()->{ok}, '<=', $served, "quit $run: $served answers");
    $one->up();
}


# killed workers: a number that was told is there, and what was not is lost for
# one interval at most

my $kills = $t->size(4, 100);
my ($sync, $async) = map { $m->get($_) } qw/ sync async /;

$load = $t->load(port => $one, uri => '/hits', clients => 20, rate => 50,
    requests => 500 * ($kills + 1), background => 1);

my $killed = 0;

for (1 .. $kills) {
    my $now = $m->get('sync');
    wait_for(sub { $load->ended() || $m->get('sync') >= $now + 300 });
    last if $load->ended();
    $one->kill_worker(0);
    $killed++;
}

$r = $load->wait();

# of each client one request was under way, which it made once more

my $told = $r->{ok};
my $unknown = 20 * $killed;

# the rate is at most that of the load, also just before a kill

my $lost = $killed * 0.2 * $t->slow() * 20 * 50 + $unknown;

ok(wait_for(sub { my $n = $m->get('async'); sleep 0.4;
    $n == $m->get('async') }), 'kill: all is sent');

($sync, $async) = ($m->get('sync') - $sync, $m->get('async') - $async);

cmp_ok($killed, '>=', $kills / 2, "kill: $killed times, under load");
cmp_ok($sync, '>=', $told, 'kill: who was told a number is counted');
cmp_ok($sync, '<=', $told + $unknown, 'kill: nobody twice');
cmp_ok($async, '>=', $told - $lost, 'kill: one interval is lost at most');
cmp_ok($async, '<=', $told + $unknown, 'kill: nobody twice then, either');
note("$told were told, $sync are counted; async $async, at least "
    . ($told - $lost));

$t->done();


sub body { return $h->get($_[0])->body() }


# memcached leaves spaces behind a number that has become shorter

sub there { return $m->get($_[0]) =~ s/ +\z//r }


sub settled {
    my ($key, $value) = @_;
    return wait_for(sub { $m->get($key) == $value }, 5 * $t->slow());
}


sub logged {
    return scalar split /\n/, $t->read_file('one/hits');
}
