#!/usr/bin/perl

# Copyright (C) mcds authors

# Visitors: each is counted once in a window, into the slot of its time, by
# whichever worker of whichever host; shown is the sum of the slots before the
# present one; and what is known already is not asked for again.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return "SERVER_ERROR busy\r\n" if $f->mode() && $line =~ /^ms /;
    return;
});

# slots of two hours: the tests stay within one

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
                                 window=10h slots=5;
            mcds_return "$n";
        }
        location = /one {
            mcds_visitor_counter $n key=$arg_k visitor=$arg_v
                                 window=2h slots=1;
            mcds_return "$n";
        }
        location = /default {
            mcds_visitor_counter $n;
            mcds_return "$n";
        }
        location = /userid {
            userid on;
            mcds_visitor_counter $n key=uid visitor=$uid_got$uid_set
                                 window=2h slots=1;
            mcds_return "$n";
        }
        location = /fake {
            mcds_use fake;
            mcds_visitor_counter $n key=$arg_k visitor=$arg_v
                                 window=10h slots=5;
            mcds_return "$n";
        }
        location = /again {
            mcds_visitor_counter $n key=again visitor=zoe
                                 window=1s slots=1;
            mcds_return "$n";
        }
        location = /quick {
            mcds_visitor_counter $n key=quick visitor=$arg_v
                                 window=2s slots=2;
            mcds_return "$n";
        }
    }
}
EOT

my ($one, $two) = map { $t->nginx($_, $conf) } qw/ a b /;

my $length = 7200;
sleep 1 while time() % $length > $length - 20 || time() % $length < 3;
my $slot = int(time() / $length);

sub body { return $_[0]->get($_[1])->body() }

sub stored {
    my ($key, $value) = @_;
    return wait_for(sub { ($m->get($key) // '') eq $value });
}


# what is in memcached

my $start = time();
is(body($one, '/five?k=k&v=anna'), 0, 'the slot that fills is not shown');
ok(stored("k:$slot", 1), 'counted in the present slot');
is(body($one, '/five?k=k&v=anna'), 0, 'another visit');
is(body($two, '/five?k=k&v=anna'), 0, 'on another host');
is(body($two, '/five?k=k&v=bert'), 0, 'another visitor');
ok(stored("k:$slot", 2), 'each visitor counted once');

is(join(' ', sort grep { /^k:/ } $m->keys()), "k:$slot k:v:anna k:v:bert",
    'nothing but a slot and two marks');

my $end = time() + 1;
my $visit = $m->get('k:v:anna');
ok($visit >= int($start) && $visit <= $end, 'the mark holds the time');
within($m->ttl('k:v:anna'), 36001, 'the mark lives for the window');
within($m->ttl("k:$slot"), 6 * $length - $start % $length + 1,
    'five slots: lives until it was shown last');

body($one, '/one?k=one&v=anna');
ok(stored("one:$slot", 1), 'one slot: counted');
within($m->ttl("one:$slot"), 2 * $length - $start % $length + 1,
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

sleep 1 while time() % 60 > 55;
$one->get('/default', host => 'site', headers => { 'User-Agent' => 'me' });
$one->get('/default', host => 'site', headers => { 'User-Agent' => 'you' });
ok(wait_for(sub { 3 == grep { /^site:(v:127\.0\.0\.1:(me|you)|\d+)$/ }
    $m->keys() }), 'by default');
is(join(' ', sort grep { /^site:v/ } $m->keys()),
    'site:v:127.0.0.1:me site:v:127.0.0.1:you', 'address and user agent');
ok(stored('site:' . int(time() / 60), 2), 'with slots of a minute');

my $cookie = $one->get('/userid')->header('Set-Cookie') =~ s/;.*//r;
$two->get('/userid', headers => { Cookie => $cookie });
ok(stored("uid:$slot", 1), 'userid: the first visit is the same visitor');


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
ok(wait_for(sub { $f->count(qr/^mg f:v:anna t /) }),
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


# time goes on: slots of a second, shown when they are complete, then gone;
# who stays is counted again when the window is over

my (%again, $seen);

sub tick {
    $one->get('/again');
    $again{$_} = $m->get($_) // 1 for grep { /^again:\d/ } $m->keys();
}

$_->get('/quick?v=' . int(rand(1e9))) for ($one, $two) x 5;

ok(wait_for(sub { tick(); ($seen = body($one, '/quick')) == 10 },
    5 * $t->slow()), 'all are shown') or diag("seen: $seen");
ok(wait_for(sub { tick(); body($two, '/quick') == 0 }, 6 * $t->slow()),
    'and forgotten');
ok(wait_for(sub { tick(); keys %again > 1 }, 6 * $t->slow()),
    'who stays is counted again');
is(join(' ', grep { $_ ne 1 } values %again), '', 'once in a window');

$t->done();


# a time to live that may have lost some seconds since

sub within {
    my ($ttl, $want, $name) = @_;

    ok($ttl <= $want + 1 && $ttl >= $want - 3 * $t->slow() - 1, $name)
        or diag("$ttl instead of $want");
}


sub kinds {
    my %n;
    $n{substr $_, 0, 2}++ for $f->commands(qr/^m[gsa] /);
    return join ' ', map { "$_:$n{$_}" } sort keys %n;
}
