#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log_api follow=1: lines of all hosts as they come, each once, from
# where the client has seen the last one; one look for all followers; an end
# when nginx ends.

use warnings;
use strict;

use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ frame /;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

my $f = $t->fake('f', sub { return });

my $conf = <<'EOC';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 1s; }

    log_format n '$arg_n';

    server {
        listen 127.0.0.1:%%PORT%%;
        location = /n { mcds_log log n; return 204; }
        location = /log { mcds_log_api log; }
    }
}
EOC

my $h = $t->nginx('h', $conf);
my $other = $t->nginx('other', $conf);


# new lines of both hosts

my $one = follow($h, '/log?follow=1');

is($one->status(), 200, 'a stream');
is($one->header('content-type'), 'text/event-stream', 'of events');
is($one->header('x-accel-buffering'), 'no', 'not to be held back');
is($one->header('cache-control'), 'no-store', 'not to be kept');
ok(ready(), 'it looks');

# milliseconds apart

say_n($_ == 2 ? $other : $h, $_) for 1 .. 3;
ok($one->seen(3), 'lines of two hosts');
is(join(' ', map { $_->{line} } $one->events()), '1 2 3', 'in order');
is($one->wrong(), 0, 'ids rise');

my ($event) = $one->events();

is($event->{id}, ($one->ids())[0], 'the id of the line is that of the event');
cmp_ok(abs($event->{time} - Time::HiRes::time()), '<', 30, 'the time');


# one that joins gets what it asks for, and one that comes back what it missed

my $two = follow($h, '/log?follow=1&limit=2');

ok($two->seen(2), 'a second one, with two lines of before');
is($two->lines(), '2 3', 'the last ones');

my $id = ($one->ids())[0];

say_n($h, $_) for 4 .. 6;
ok($one->seen(6) && $two->seen(5), 'both get the next ones');
is($one->lines(), '1 2 3 4 5 6', 'the first one, each once');
is($two->lines(), '2 3 4 5 6', 'the second one, each once');

my $back = follow($h, '/log?follow=1&after=1-0-0',
    headers => { 'Last-Event-ID' => $id });

ok($back->seen(5), 'one that comes back');
is($back->lines(), '2 3 4 5 6', 'behind the last line it has seen');

my $after = follow($h, "/log?follow=1&after=$id&limit=3");

ok($after->seen(5), 'behind a line, no line is left out');
is($after->lines(), '2 3 4 5 6', 'whatever limit= is');

for my $args ('after=x', 'limit=0', 'first=x') {
    is($h->get("/log?follow=1&$args")->status(), 400, "$args: refused");
}

is($h->get('/log?follow=1', method => 'HEAD')->header('Content-Type'),
    'text/event-stream', 'HEAD ends');


# in the midst of many lines one joins at any time: none is missed or repeated

my $n = $t->size(2000, 20000);
my $load = $t->load(background => 1, ports => [$h->port(), $other->port()],
    uris => [map { "/n?n=m$_" } 1 .. 60], requests => $n, clients => 4,
    rate => $n / 8);
my @joined;

for (1 .. 4) {
    my $before = $one->count();

    wait_for(sub { $one->count() > $before || $load->ended() }, 10);
    push @joined, follow($h, '/log?follow=1&first=-3600&limit=10000');
}

$load->wait();

for my $c ($one, @joined) {
    ok($c->seen($n + 6, 20), 'all lines') or diag($c->count());
    is($c->wrong(), 0, 'each once, in order');
    $c->close() if $c != $one;
}

$two->close();
$back->close();
$after->close();


# what comes late comes, and what is there twice comes once

my $now = int(Time::HiRes::time() * 1000);
my $chunk = int($now / 10_000);
my $key = "log:$chunk:1";
my $frame = frame(writer => 77, seq => 10, host => 'late', lines => [
    [$now - 5000, 'late 10'], [$now - 4990, 'late 11']]);
my $earlier = frame(writer => 77, seq => 8, host => 'late', lines => [
    [$now - 5020, 'late 8'], [$now - 5010, 'late 9']]);
my $count = $one->count();

$f->set("log:$chunk", '') if !defined $f->get("log:$chunk");
$f->set($key, $frame);
ok($one->seen($count + 2), 'lines that are late');
$f->set($key, "$frame$frame$earlier$earlier$frame");
ok($one->seen($count + 4), 'and those before them, later');
$h->get('/n?n=end');
ok(wait_for(sub { $one->lines() =~ /end$/ }, 10), 'then the next one');
is($one->lines() =~ /(late.*)$/ ? $1 : '', 'late_10 late_11 late_8 late_9 end',
    'each once');
is($one->wrong(), 0, 'under ids that do not fall');


# one look for all

my @many = map { follow($h, '/log?follow=1') } 1 .. 20;

$f->mark();
Time::HiRes::sleep(1.2);

my $looks = grep { $_->{key} eq "log:$chunk" && $_->{line} !~ / v/ }
    grep { $_->{cmd} eq 'mg' } $f->log();

cmp_ok($looks, '<=', 5, '21 followers share one look');
cmp_ok(scalar(grep { $_->{cmd} eq 'mg' && $_->{line} =~ / v/ } $f->log()),
    '<=', 2, 'values are not read when they have not changed');
$_->close() for @many;


# a reload ends it

$t->not_in('single', 'nginx cannot reload then');

ok($h->reload(), 'reload');
ok(wait_for(sub { $one->ended() }, 5), 'the stream ends');
ok($one->whole(), 'as it should');
ok(wait_for(sub { !$h->leaving() }, 10), 'so does the worker');
$two = follow($h, '/log?follow=1');
ok(ready(), 'another one');
$h->signal('QUIT');
ok($h->wait_exit(), 'nginx ends');
ok($two->ended() && $two->whole(), 'with its followers');

$t->done();


sub say_n {
    my ($host, $n) = @_;

    $host->get("/n?n=$n");
    Time::HiRes::sleep(0.01);
}


sub follow { return Test::Mcds::Follow->new(@_) }


# the feed knows what was there before

sub ready {
    $f->mark();

    return wait_for(sub { $f->count(qr/^mg log:\d+ /) > 6 }, 10);
}
