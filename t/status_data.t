#!/usr/bin/perl

# Copyright (C) mcds authors

# What mcds_status tells of counters, locks, logs, arrays and tables: as many
# operations as there were requests, those of their own directives included, and
# the failures among them, of two workers; each by its name and pool.

use warnings;
use strict;

use Test::More;
use JSON::PP;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->allow(qr/has lost|temporarily disabled|breaker/,
    qr/refused/);

my $m = $t->memcached('m');
my $o = $t->origin('o');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool gone { server 127.0.0.1:%%PORT_no%%; }
    mcds_use main;
    mcds_counter_top popular flush=100ms;
    mcds_api_methods GET POST PUT DELETE PATCH;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        server_name example.com;
        location /n { mcds_counter $n key=n; mcds_return "$n"; }
        location /read { mcds_counter $n key=n read; mcds_return "$n"; }
        location /end { mcds_counter $e key=e statuses=200;
            mcds_return "$e"; }
        location /v { mcds_visitor_counter $v visitor=$arg_v;
            mcds_return "$v"; }
        location /gone { mcds_use gone; mcds_counter $n key=n;
            mcds_return "$n"; }
        location = /keys { mcds_counter_api prefix=k: count=on;
            if ($arg_x) { set $y 1; } }
        location /keys/gone { mcds_use gone; mcds_counter_api prefix=k:; }
        location /top { mcds_counter_api top=popular; }
        location /list { mcds_return "$mcds_top_popular"; }
        location /async { mcds_use gone; mcds_counter $a key=a async=100ms;
            mcds_return x; }
        location /lock { mcds_lock job:$arg_id status=423;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /wait { mcds_lock job:$arg_id wait=20s;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /locks/ { mcds_lock_api; }
        location /locks/gone/ { mcds_use gone; mcds_lock_api; }
        location /log { mcds_log events combined; return 204; }
        location /log/read { mcds_log_api events; }
        location /log/lost { mcds_use gone; mcds_log_api lost chunk=1s
            chunks=2; }
        location /lost { mcds_use gone; mcds_log lost combined chunk=1s
            chunks=2; return 204; }
        location /push { mcds_array_push list:$arg_l $arg_v unique;
            return 204; }
        location /array { mcds_array_api list:$arg_l; }
        location /get { mcds_table_lookup $x table $arg_k none; return 200 $x; }
        location /table { mcds_table_api table; }
        location /nothing { mcds_use gone; mcds_table_api table; }
        location = /status { mcds_status; }
    }
}
EOT

my $all = status($h);

is(join(' ', map { my $list = $_; map { "$list:$_->{name}:$_->{pool}" }
    @{$all->{$list}} } qw/ counters locks logs arrays tables /),
    'counters:$n:main counters:$e:main counters:$v:main counters:$n:gone '
    . 'counters:example.com = /keys:main counters:example.com /keys/gone:gone '
    . 'counters:$a:gone counters:popular:main '
    . 'locks:job:$arg_id:main locks:example.com /locks/:main '
    . 'locks:example.com /locks/gone/:gone '
    . 'logs:events:main logs:lost:gone arrays:list:$arg_l:main '
    . 'tables:table:main tables:table:gone', 'what there is');

# the entry, once a sum of it has this value

sub has {
    my ($list, $name, $pool, $group, %sums) = @_;

    my ($e, @wrong);

    wait_for(sub {
        $e = of_list($list, $name, $pool);
        @wrong = grep { ($e->{$group}{$_} // -1) != $sums{$_} } keys %sums;
        return !@wrong;
    });

    is_deeply([@{$e->{$group}}{sort keys %sums}],
        [@sums{sort keys %sums}], "$list $name $pool: $group");

    return $e;
}

# a failure is counted when it is known, which may be after the operation

sub failed {
    my ($list, $name, $more) = @_;

    my $sum;

    wait_for(sub { $sum = sum_of(of_list($list, $name, 'gone')->{failures});
        $sum > $more });

    return $sum;
}

sub of_list {
    my ($list, $name, $pool) = @_;

    my ($e) = grep { $_->{name} eq $name && $_->{pool} eq $pool }
        @{status($h)->{$list}};

    return $e;
}

sub ask {
    my ($n, $uri, %o) = @_;
    return many($n, sub { [$h->port(), $uri =~ s/%n/$_[0]/r, %o] },
        concurrency => 8);
}

# counters

ask(40, '/n');
ask(20, '/read');
ask(30, '/end');
ask(25, '/v?v=%n');
ask(10, '/gone');

my $e = has('counters', '$n', 'main', 'operations', count => 40, read => 20);
is(sum_of($e->{failures}), 0, 'no failures');
is($e->{type}, 'counter', 'a counter');
has('counters', '$e', 'main', 'operations', count => 30, read => 0);
$e = has('counters', '$v', 'main', 'operations', count => 25, read => 0);
is($e->{type}, 'visitors', 'of visitors');

ask(30, '/v?v=%n');
ok(wait_for(sub { (grep { $_->{name} eq '$v' } @{status($h)->{counters}})[0]
    ->{visitors} == 30 }), 'each counted once');
$e = has('counters', '$n', 'gone', 'operations', count => 10);
ok(wait_for(sub { sum_of((grep { $_->{pool} eq 'gone' }
    @{status($h)->{counters}})[0]{failures}) == 10 }), 'all of them failed');

# lists of numbers

$m->set('k:odd', 'x');
is_deeply(decode_json($h->get("/keys?key=a&key=b&key=odd&x=$_")->body()),
    { a => 0, b => 0, odd => undef }, 'three keys') for '', 1;
$h->get('/keys?key=a', method => 'POST');
$h->get('/keys/gone?key=a&key=b');

my $e1 = has('counters', 'example.com = /keys', 'main', 'operations',
    read => 6, count => 1);
$e1 = has('counters', 'example.com = /keys', 'main', 'failures',
    not_numeric => 2);
is($e1->{type}, 'keys', 'of mcds_counter_api');
$e1 = has('counters', 'example.com /keys/gone', 'gone', 'operations',
    read => 2);
is(sum_of($e1->{failures}), 2, 'none was read');

$h->get('/top') for 1 .. 3;
$h->get('/list');
$e1 = has('counters', 'popular', 'main', 'operations', read => 4, count => 0);
is(sum_of($e1->{failures}), 0, 'no failures');
is($e1->{type}, 'top', 'of mcds_counter_top');

# nobody waits for these

ask(10, '/async');
$e1 = has('counters', '$a', 'gone', 'operations', count => 10);
ok(wait_for(sub { sum_of((grep { $_->{name} eq '$a' }
    @{status($h)->{counters}})[0]{failures}) > 0 }), 'what fails is known');

# locks

$o->hold_path('/lock');
my $p = start_get($h->port(), '/lock?id=1');
$o->wait_requests(1, '/lock');
is($_->status(), 423, 'locked') for ask(3, '/lock?id=1');
$o->hold_path('/wait');
my $wait = start_get($h->port(), '/wait?id=1');
$o->release('/lock');
finish($p);
$o->wait_requests(1, '/wait');
$o->release('/wait');
finish($wait);

$e = has('locks', 'job:$arg_id', 'main', 'requests', acquired => 2, busy => 3);
is($e->{wait_time}{count}, 5, 'each with its time');
is($h->get('/locks/a', method => 'POST', headers =>
    { 'Content-Type' => 'application/json' })->status(), 200, 'by HTTP');
$e = has('locks', 'example.com /locks/', 'main', 'requests', acquired => 1);

my %json = (headers => { 'Content-Type' => 'application/json' });
my $owner = decode_json($h->get('/locks/a')->body())->{owner};

is($h->get("/locks/a?owner=other", method => 'PUT', %json)->status(), 409,
    'of another owner');
is($h->get("/locks/a?owner=$owner", method => 'PUT', %json)->status(), 200,
    'renewed');
is($h->get("/locks/a?owner=$owner", method => 'DELETE', %json)->status(), 204,
    'released');
$e = has('locks', 'example.com /locks/', 'main', 'operations', read => 1,
    renew => 2, release => 1);
is(sum_of($e->{failures}), 0, 'no failures');
is($h->get('/locks/gone/a')->status(), 503, 'unknown');
$e = has('locks', 'example.com /locks/gone/', 'gone', 'operations', read => 1);
is(failed('locks', 'example.com /locks/gone/', 0), 1, 'and has failed');

# logs

ask(20, '/log');
ask(5, '/lost');
has('logs', 'events', 'main', 'lines', written => 20, lost => 0);
$e = has('logs', 'lost', 'gone', 'lines', written => 0, lost => 5);
my $failed = sum_of($e->{failures});
cmp_ok($failed, '>', 0, 'attempts that failed');

is($h->get('/log/read')->status(), 200, 'read') for 1 .. 3;
my $follow = start_get($h->port(), '/log/read?follow=1');
is($h->get('/log/read', method => 'POST', body => '["a", "b"]', headers =>
    { 'Content-Type' => 'application/json' })->status(), 204, 'write');
has('logs', 'events', 'main', 'operations', read => 3, follow => 1, write => 1);
has('logs', 'events', 'main', 'lines', written => 22, lost => 0);
$follow->close();
is($h->get('/log/lost')->status(), 503, 'not to be read');
$e = has('logs', 'lost', 'gone', 'operations', read => 1);
cmp_ok(failed('logs', 'lost', $failed), '>', $failed, 'and has failed');

# arrays

ask(6, '/push?l=a&v=%n');
ask(6, '/push?l=b&v=%n');
$h->get('/array?l=a', method => 'DELETE');
$h->get('/array?l=b');
$e = has('arrays', 'list:$arg_l', 'main', 'operations', push => 12, read => 1,
    change => 1);
is($e->{failures}{timeout}, 0, 'no failures');

# tables

$h->get('/table?name=x', method => 'PUT', body => '"y"', headers =>
    { 'Content-Type' => 'application/json' });
is($h->get('/get?k=x')->body(), 'y', 'an element');
ask(9, '/get?k=%n');
$h->get('/get?k=none') for 1 .. 3;
$h->get('/table');
is($h->get('/nothing')->status(), 503, 'no table');
$e = has('tables', 'table', 'main', 'operations', get => 13, change => 1,
    read => 1);
is($e->{found}, 1, 'one was there');
is(sum_of($e->{failures}), 0, 'to remember that none is there is no failure');
$e = has('tables', 'table', 'gone', 'operations', read => 1);
is(failed('tables', 'table', 0), 1, 'and has failed');

$t->done();
