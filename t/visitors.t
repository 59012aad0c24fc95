#!/usr/bin/perl

# Copyright (C) mcds authors

# Visitors: each is counted once in a window, into the slot of its time, by
# whichever worker of whichever host; shown is the sum of the slots before the
# present one; and what is known already is not asked for again.  (Whether the
# sums are right is the matter of visitors_model.t.)

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

# 40 minutes into a slot of two hours

my $length = 7200;
my $start = 236_111 * $length + 2400;
my $slot = 236_111;

my $clock = Test::Mcds::Clock->new($t, $start);
my $m = $clock->memcached('m');
my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return "SERVER_ERROR busy\r\n" if $f->mode() && $line =~ /^ms /;
    return;
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; }
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /five {
            mcds_visitor_counter $n key=$arg_k visitor=$arg_v
                                 window=10h slots=5 interpolate=off;
            mcds_return "$n";
        }
        location = /one {
            mcds_visitor_counter $n key=$arg_k visitor=$arg_v
                                 window=2h slots=1 interpolate=off;
            mcds_return "$n";
        }
        location = /default {
            mcds_visitor_counter $n interpolate=off;
            mcds_return "$n";
        }
        location = /userid {
            userid on;
            mcds_visitor_counter $n key=uid visitor=$uid_got$uid_set
                                 window=2h slots=1 interpolate=off;
            mcds_return "$n";
        }
        location = /many {
            mcds_visitor_counter $n key=all visitor=$arg_v interpolate=off;
            mcds_visitor_counter $p key=page:$arg_p visitor=$arg_v window=1h
                                 interpolate=off;
            mcds_visitor_counter $q key=rare:$arg_p visitor=$arg_v
                                 if=$arg_rare interpolate=off;
            mcds_return "$n $p $q";
        }
        location /read {
            mcds_visitor_counter $n key=all read interpolate=off;
            mcds_visitor_counter $p key=page:$arg_p window=1h read
                                 interpolate=off;
            mcds_visitor_counter $q key=rare:$arg_p read interpolate=off;
            mcds_return "$n $p $q";

            location = /read/off {
                mcds_visitor_counter off;
                mcds_return "$n$p$q";
            }
        }
        location = /fake {
            mcds_use fake;
            mcds_visitor_counter $n key=$arg_k visitor=$arg_v
                                 window=10h slots=5 interpolate=off;
            mcds_return "$n";
        }
        location = /stays {
            mcds_visitor_counter $n key=stays visitor=zoe
                                 window=20s slots=5 interpolate=off;
            mcds_return "$n";
        }
        location = /behind {
            mcds_counter $n key=behind;
            mcds_return "$n";
        }
        location = /jitter {
            mcds_visitor_counter $n key=$arg_k visitor=$arg_v jitter=5%
                                 interpolate=off;
            mcds_visitor_counter $p key=$arg_k read interpolate=off;
            mcds_return "$n $p";
        }
    }
}
EOT

my ($one, $two) = map { $clock->nginx($_, $conf) } qw/ a b /;

sub body { return $_[0]->get($_[1])->body() }

sub stored {
    my ($key, $value) = @_;
    return wait_for(sub { ($m->get($key) // '') eq $value });
}


# what is in memcached

is(body($one, '/five?k=k&v=anna'), 0, 'the slot that fills is not shown');
ok(stored("k:$slot", 1), 'counted in the present slot');
is(body($one, '/five?k=k&v=anna'), 0, 'another visit');
is(body($two, '/five?k=k&v=anna'), 0, 'on another host');
is(body($two, '/five?k=k&v=bert'), 0, 'another visitor');
ok(stored("k:$slot", 2), 'each visitor counted once');

is(join(' ', sort grep { /^k:/ } $m->keys()), "k:$slot k:v:anna k:v:bert",
    'nothing but a slot and two marks');

is($m->get('k:v:anna'), $start, 'the mark holds the time');
is($m->ttl('k:v:anna'), 36001, 'the mark lives for the window');
is($m->ttl("k:$slot"), 7 * $length - 2400 + 1,
    'five slots: lives until it was shown last, interpolated');

body($one, '/one?k=one&v=anna');
ok(stored("one:$slot", 1), 'one slot: counted');
is($m->ttl("one:$slot"), 3 * $length - 2400 + 1,
    'one slot: lives until it was shown last');


# the sum

$m->set('s:' . ($slot - $_), 10 ** $_, 60) for 0 .. 6;
is(body($one, '/five?k=s'), 111110, 'five: the five slots before this');
is(body($one, '/one?k=s'), 10, 'one: the slot before this');
is(body($two, '/five?k=s'), 111110, 'the other host agrees');

$m->set('s:' . ($slot - 1), 70, 60);
is(body($one, '/five?k=s'), 111110, 'constant within a slot');

$m->set('bad:' . ($slot - 2), 'text', 60);
is(body($one, '/five?k=bad'), '', 'no number without sense');


# who is nobody, and who everybody is when nothing is said

is($one->log_count(qr/empty "visitor" is not counted/), 1,
    'an empty visitor is told once');
is(scalar(grep { /^s:v:/ } $m->keys()), 0, 'and not counted');

$one->get('/default', host => 'site', headers => { 'User-Agent' => 'me' });
$one->get('/default', host => 'site', headers => { 'User-Agent' => 'you' });
ok(stored('site:' . $start / 60, 2), 'by default: slots of a minute');
is(join(' ', sort grep { /^site:v/ } $m->keys()),
    'site:v:127.0.0.1:me site:v:127.0.0.1:you', 'address and user agent');

my $cookie = $one->get('/userid')->header('Set-Cookie') =~ s/;.*//r;
$two->get('/userid', headers => { Cookie => $cookie });
ok(stored("uid:$slot", 1), 'userid: the first visit is the same visitor');


# several counters in one location; who only looks is nobody

is(body($one, "/many?p=$_->[0]&v=$_->[1]"), '0 0 0', 'several counters')
    for ['x', 'anna'], ['y', 'anna'], ['x', 'bert'];
is(body($two, '/many?p=x&v=carl&rare=1'), '0 0 0', 'on condition');
is(body($two, '/many?p=x&v=dora&rare=0'), '0 0 0', 'which is not met');
is(body($one, '/read?p=x&v=emil'), '0 0 0', 'read');
is(body($one, '/read/off?p=x'), '', 'off');

ok(stored('all:' . $start / 60, 4), 'counted for the first');
ok(stored('page:x:' . int($start / 720), 4)
    && stored('page:y:' . int($start / 720), 1),
    'counted for the second');
ok(stored('rare:x:' . $start / 60, 1), 'counted on condition');

$clock->add(60);
is(body($one, '/read?p=x'), '4 0 1', 'read: what was counted');
is(body($two, '/many?p=x'), '4 0 1', 'the condition is for counting alone');

$clock->add(720);
is(body($_, '/read?p=x'), '0 4 0', 'each after its own slot') for $one, $two;


# what is known is not asked for

$f->mark();
$one->get('/fake?k=f&v=anna') for 1 .. 3;
ok(wait_for(sub { $f->count(qr/^ma /) }), 'known: counted');
is(kinds(), 'ma:1 mg:5 ms:1', 'known: no operation');

$f->mark();
$one->get('/fake?k=f&v=bert');
ok(wait_for(sub { $f->count(qr/^ma /) }), 'another visitor: counted');
is(kinds(), 'ma:1 ms:1', 'the sum is known');

$f->mark();
$two->get('/fake?k=f&v=anna');
ok(wait_for(sub { $f->count(qr/^mg f:v:anna v t /) }),
    'counted elsewhere: until when?');
$two->get('/fake?k=f&v=anna') for 1 .. 3;
is(kinds(), 'mg:6 ms:1', 'and then known');
is($f->get("f:$slot"), 2, 'not counted again');

$f->mark();
$f->tell('busy');
$one->get('/fake?k=f&v=carl');
ok(wait_for(sub { $f->count(qr/^ms /) }), 'a mark fails');
$f->tell('');
ok(wait_for(sub { $one->get('/fake?k=f&v=carl'); $f->count(qr/^ma /) }),
    'he is counted when he comes again');

# and in memcached's own words

my @crowd = map { "/five?k=crowd&v=v$_" } 1 .. 100;

body($_->[0], $_->[1]) for map { [$one, $_], [$two, $_] } @crowd;
ok(stored("crowd:$slot", 100), 'a crowd is counted');

# each host has asked once until when those are marked whom the other counted

my $before = -1;
wait_for(sub {
    (my $was, $before) = ($before, operations());
    return $was == $before || !sleep 0.1;
});

# a worker may still ask for the marks that it has not read by then

for my $try (1 .. 3) {
    $before = operations();
    is(scalar(grep { $_->status() == 200 } many(400, sub {
        [($one, $two)[$_[0] % 2]->port(), $crowd[$_[0] / 2 % 100]]
    })), 400, 'the crowd comes again');
    last if operations() == $before;
}

is(operations() - $before, 0, 'and costs no operation');

$clock->add($length);
is(body($one, $crowd[0]), 100, 'shown in the next slot');
is(operations() - $before, 2, 'which asks for what may have changed');


# who stays is forgotten for a second after each window, and so missing in one
# slot when that second is the first of one: once in as many windows as a slot
# has seconds

my ($missing, $counts, $last) = (0, 0, 0);

for my $second (1 .. 21 * 12) {
    $clock->add(1);

    my $n = body($one, '/stays');
    $missing++ if !$n && $second > 24;

    ok($n <= 1, 'counted twice') if $n > 1;

    # No request waits for a mark.  memcached answers the first of these
    # requests after the mark, and the second one after the count, or after the
    # question until when the mark lives: the clock moves on only then.

    body($one, '/behind') for 1, 2;

    # counted in this second?

    my $mark = $m->get('stays:v:zoe') // 0;
    next if $mark == $last;

    $last = $mark;
    $counts++;
}

is($counts, 12, 'who stays is counted once in window + 1 s');
is($missing, 12, 'and missing in three slots of 4 s in twelve windows');


# jitter

my ($sum, $square, $n, %shown) = (0, 0, 400);

$slot = $clock->time_now() / 60;
$m->set('j:' . int($slot + $_), 200, 3600) for -5 .. 10;
$m->set('small:' . int($slot - 1), 3, 3600);

for (1 .. $n) {
    $clock->add(1);

    my ($noisy, $plain) = split / /, body($one, '/jitter?k=j');
    my $other = body($two, '/jitter?k=j');

    $shown{"$plain " . ($other eq "$noisy $plain" ? 'agreed' : 'differs')}++;
    $sum += ($noisy - 1000) / 50;
    $square += (($noisy - 1000) / 50) ** 2;
}

is_deeply(\%shown, { '1000 agreed' => $n }, 'jitter: the same on all hosts');
cmp_ok(abs($sum / $n), '<', 0.15, 'jitter: around the number');
cmp_ok(abs($square / $n - 1), '<', 0.2, 'jitter: of five percent');

is(body($one, '/jitter?k=j'), body($one, '/jitter?k=j'),
    'jitter: steady within a second');
is(body($one, '/jitter?k=none'), '0 0', 'jitter: nothing of nothing');

$t->done();


# all that memcached was asked for, by others than the test itself

sub operations {
    my $stats = $m->stats();
    my $n = 0;

    $n += $stats->{$_} for qw/ cmd_get cmd_set cmd_touch cmd_meta cmd_flush
        incr_misses incr_hits decr_misses decr_hits delete_misses
        delete_hits cas_misses cas_hits cas_badval /;

    return $n;
}


sub kinds {
    my %n;
    $n{substr $_, 0, 2}++ for $f->commands(qr/^m[gsa] /);
    return join ' ', map { "$_:$n{$_}" } sort keys %n;
}
