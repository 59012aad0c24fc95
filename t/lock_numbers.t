#!/usr/bin/perl

# Copyright (C) mcds authors

# The numbers of a lock's owners rise: under load on two hosts, after an owner
# has died and his time is over, after memcached has lost the lock, the count or
# all.  The witness is a log that all workers write to while they hold the lock.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', {});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }

    log_format token '$mcds_lock_token';

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        keepalive_requests 10000000;

        mcds_lock  key ttl=2s wait=10m;
        access_log %%TMP%%/tokens token if=$mcds_lock_token;

        location / { mcds_return $mcds_lock_token; }

        location = /held {
            access_log off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOC

my @h = map { $t->nginx($_, $conf) } qw/ a b /;

my $many = $t->size(2000, 1000000);
my $few = 200;
my $all = 0;


load($many, 'under load');

# an owner dies

$o->hold_path('/held');
my $p = start_get($h[0]->port(), '/held');
$o->wait_requests(1, '/held');

my ($number) = $m->get('key') =~ /^(\d+) /;

$h[0]->kill_worker($_) for $h[0]->workers();
$o->release('/held');
load($few, 'after an owner has died');
cmp_ok(first(-$few), '>', $number, 'larger than that of the dead one');

# what is in memcached is lost

$m->delete('key:fence');
load($few, 'after the count was lost');
$m->delete('key');
load($few, 'after the lock was lost');
$m->flush();
load($few, 'after all was lost');
$m->kill9();
$m->restart();
ok(wait_for(sub { $h[$_]->get('/')->status() == 200 }, 10), "$_: restarted")
    for 0, 1;
$all += 2;
load($few, 'after memcached was restarted');

# one of the hosts begins anew, without knowing a number

$_->reload(wait_old => 1) for @h;
$m->flush();
load($few, 'after nginx was reloaded and all was lost');

$t->done();


sub load {
    my ($n, $name) = @_;

    my $got = $t->load(ports => [map { $_->port() } @h], uri => '/',
        clients => 16, requests => $n);

    is($got->{ok}, $n, "$name: $n had it");
    diag(sprintf '%d a second', $got->{per_second}) if $t->full();

    $all += $n;

    wait_for(sub { numbers() >= $all }, 10);

    my @numbers = numbers();
    my ($last, $wrong) = (0, 0);

    for (@numbers) {
        $wrong++ if !/^[1-9]\d{15}$/ || $_ <= $last;
        $last = $_;
    }

    is(scalar(@numbers), $all, "$name: all were seen");
    is($wrong, 0, "$name: the numbers rise");
}


sub numbers { return split /\n/, $t->read_file('tokens') }


sub first { return (numbers())[$_[0]] }
