#!/usr/bin/perl

# Copyright (C) mcds authors

# Memcached is killed, stopped and restarted under load: nobody sees an error
# or a wrong page, nobody waits for longer than one timeout, and nobody at all
# once the breaker is open; then it is used again.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=1'],
    body => 'page %n of %u' }, paths => { '/slow' => { delay => 0.3 } });

my $timeout = 200 * $t->slow();
my $period = 0.5 * $t->slow();

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        timeout %%TIMEOUT%%ms;
        fail_timeout %%PERIOD%%ms;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $views key=views;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache $mcds_cache_status;
            add_header X-Views $views;
        }
    }
}
EOT

$conf =~ s/%%TIMEOUT%%/$timeout/;
$conf =~ s/%%PERIOD%%/$period * 1000/e;

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';
my @ports = map { $_->port() } @hosts;

# how often workers have found memcached up again

sub ups {
    my $n = 0;

    $n += $_->log_count(qr/is up again/) for @hosts;

    return $n;
}

# cached and counted, by every worker: twenty times in a row on each host

sub works {
    for my $h ((@hosts) x 20) {
        my $r = $h->get('/a');
        return 0 if ($r->header('X-Views') // '') eq ''
            || $r->header('X-Cache') eq 'MISS';
    }
    return 1;
}

# until the breaker of each worker is open

sub all_down {
    my ($before) = @_;

    return wait_for(sub {
        many(8 * $t->workers(2), sub { [$ports[$_[0] % 2], '/a'] });
        return downs() >= $before + 2 * $t->workers(2);
    }, 10 * $t->slow());
}

sub downs {
    my $n = 0;
    $n += $_->log_count(qr/is down after/) for @hosts;
    return $n;
}

sub load {
    my ($seconds) = @_;
    return $t->load(ports => \@ports, uris => ['/a', '/b', '/c'],
        clients => 24, rate => 25, seconds => $seconds, expect => 'page ',
        background => 1), $t->lost();
}

sub check {
    my ($name, $limit, $load, $lost) = @_;
    my $r = $load->wait();

    # what the machine has taken, in ms

    $lost = 1000 * ($t->lost() - $lost);

    is($r->{ok}, $r->{requests}, "$name: all answered with 200");
    is($r->{wrong} + $r->{errors}, 0, "$name: with the right page");
    cmp_ok($r->{max} - $lost, '<', $limit, "$name: nobody waits for longer")
        if $limit;
}

ok(wait_for(sub { works() }), 'it works');


# killed, and away for a while; stopped, and away for a while

my %fault = (
    killed => [sub { $m->kill9() }, sub { $m->restart() }],
    stopped => [sub { $m->freeze() }, sub { $m->cont() }],
);

for my $name (sort keys %fault) {
    my ($break, $mend) = @{$fault{$name}};

    # the fault itself: one timeout at most, whatever a request was doing

    my $before = downs();
    my @load = load($t->size(1, 10));
    sleep 0.3;
    $break->();
    check("$name, at first", 2 * $timeout, @load);
    ok(all_down($before), "$name: all workers know");

    # later nobody waits

    check("$name, later", $timeout * 0.75, load($t->size(0.8, 30)));

    my $r = $hosts[0]->get('/a');
    ok(($r->header('X-Views') // '') eq '', "$name: not counted");
    is($r->header('X-Cache'), 'MISS', "$name: not cached");

    # each worker asks the origin once at a time, all the same

    $o->mark();
    my @r = many(40, sub { [$ports[$_[0] % 2], '/slow'] });
    is(scalar(grep { $_->status() == 200 } @r), 40, "$name: a herd");
    cmp_ok($o->most('/slow'), '<=', 4,
        "$name: a herd in each worker asks once");

    # and back

    @load = load($period + 0.7);

    my $ups = ups();

    $mend->();
    ok(wait_for(sub { ups() >= $ups + 2 * $t->workers(2) },
        ($period + 1) * $t->slow()), "$name: back in the breaker's time");
    ok(wait_for(sub { works() }), "$name: counted and cached again");
    check("$name, back", 0, @load);
}


# restarted, so that all connections end at once

my @load = load($t->size(2, 10));

for (1 .. $t->size(3, 20)) {
    sleep 0.4;
    $m->restart();
}

check('restarted', 2 * $timeout, @load);
ok(wait_for(sub { works() }), 'restarted: works');

$t->done();
