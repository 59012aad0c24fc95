#!/usr/bin/perl

# Copyright (C) mcds authors

# conf-examples/lock.conf, as it is but for ports, on two hosts: what it says is
# what it does.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use JSON::PP ();

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', {});

my $path = "$FindBin::Bin/../conf-examples/lock.conf";

open my $fh, '<', $path or die "$path: $!\n";
my $conf = do { local $/; <$fh> };

$conf =~ s/^load_module .*;/%%GLOBALS%%/m or die;
$conf =~ s/^user .*;\n//m or die;
$conf =~ s/^http \{/http {\n%%HTTP%%/m or die;
$conf =~ s/127\.0\.0\.1:11211;/127.0.0.1:%%PORT_m%%;/ or die;
$conf =~ s/127\.0\.0\.1:8000;/127.0.0.1:%%PORT_o%%;/ or die;
$conf =~ s/listen 80;/listen 127.0.0.1:%%PORT%%;/ or die;
$conf =~ s{/var/log/nginx/payments}{%%DIR%%/payments} or die;
$conf =~ s/worker_processes auto;/worker_processes 2;/ or die;

my ($h, $other) = map { $t->nginx($_, $conf) } qw/ a b /;


# the cron URL: all call it, one runs, and goes on when curl has left

$o->hold_path('/cron/hourly');
my $p = start_get($h->port(), '/cron/hourly');
$o->wait_requests(1, '/cron/hourly');

is($_->get('/cron/hourly')->status(), 204, 'cron: it runs already')
    for $h, $other;

my $lock = JSON::PP::decode_json($other->get('/locks/cron:hourly')->body());

is($lock->{token}, ($o->requests('/cron/hourly'))[0]{headers}{'x-lock-token'},
    'cron: the application has the number');
$p->close();
is($h->get('/')->status(), 200, 'cron: who has called leaves');
is($other->get('/cron/hourly')->status(), 204, 'cron: it runs still');
$o->release('/cron/hourly');
ok(wait_for(sub { !defined $m->get('cron:hourly') }, 5), 'cron: it has ended');
is($other->get('/cron/hourly')->status(), 200, 'cron: the next time');
is($o->count('/cron/hourly'), 2, 'cron: twice');
is($h->get('/cron/hourly', local => '127.0.0.2')->status(), 403,
    'cron: not for all');


# the callback: those for one order one after the other

my $uri = '/payments/callback';

$o->hold_path($uri);
my @p = start_get($h->port(), "$uri?order=17");
$o->wait_requests(1, $uri);
push @p, start_get($other->port(), "$uri?order=17");
push @p, start_get($other->port(), "$uri?order=18");
ok($o->wait_requests(2, $uri), 'payments: another order');
is(join(' ', sort map { $_->{uri} =~ /(\d+)/ } $o->requests($uri)), '17 18',
    'payments: the same order waits');
$o->release($uri);
is(join(' ', map { finish($_)->status() } @p), '200 200 200',
    'payments: all have had their turn');

my @tokens = map { $_->{headers}{'x-lock-token'} }
    grep { $_->{uri} =~ /=17/ } $o->requests($uri);

cmp_ok($tokens[1], '>', $tokens[0], 'payments: a larger number');
ok(wait_for(sub { $t->read_file('b/payments.log')
    =~ m{order=17 HTTP/1.1" 200 lock=acquired waited=\d} }, 5),
    'payments: the log');


# the URL

$lock = JSON::PP::decode_json($h->get('/locks/import', method => 'POST',
    body => '{"ttl": "1m", "wait": 5}',
    headers => { 'Content-Type' => 'application/json' })->body());
is($lock->{ttl}, 60, 'locks: acquired');
is($other->get("/locks/import?owner=$lock->{owner}", method => 'DELETE')
    ->status(), 204, 'locks: released');
is($h->get('/locks/import', local => '127.0.0.2')->status(), 403,
    'locks: not for all');

$t->done();
