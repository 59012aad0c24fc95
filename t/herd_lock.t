#!/usr/bin/perl

# Copyright (C) mcds authors

# The lock of a page: lost by a flush, left behind by an add that nobody has
# seen the answer of, held by a worker that is killed, and not extended for
# ever.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

# an add of a lock is done, and its answer withheld, when told so; or the page
# and the deletion of its lock are taken, and not done

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return $f->stall() if ($f->mode() // '') eq 'cut'
        && $line =~ m{^ms \S*/cut \d|^md \S*/cut:lock};

    return if ($f->mode() // '') ne 'late' || $line !~ /^ms \S*late:lock/
        || $line !~ / ME/;

    $f->default($line, $value);
    return $f->stall();
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes %%WORKERS%%;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_mc%%; timeout %%TIMEOUT%%;
                     fail_timeout 300ms; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_lock_age 30s;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /few/ {
            mcds_cache_lock_age 2s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# a host that hears nothing of a lock builds the page itself

sub host {
    my ($name, $mc, $workers, $timeout) = @_;
    return $t->nginx($name, $conf =~ s/%%PORT_mc%%/$mc->port()/er
                                  =~ s/%%WORKERS%%/$workers/r
                                  =~ s/%%TIMEOUT%%/$timeout/r);
}


# an add that was done, but not answered: the lock is nobody's

my $h = host('one', $f, 1, '200ms');
my $other = host('other', $f, 1, '200ms');

$_->get('/warm') for $h, $other;
$f->tell('late');
my $r = $h->get('/late');
is($r->status(), 200, 'late: answered all the same');
$f->tell('');
ok(wait_for(sub { !defined $f->get(key('/late') . ':lock') }, 8 * $t->slow()),
    'late: the lock is not left behind for its 30 seconds');

# the same, while the worker asks for it again itself

$f->delete(key('/late'));
$f->tell('late');
$h->get('/late');
$f->tell('');
$f->delete(key('/late'));
my $watch = $t->stopwatch();
is($h->get('/late')->status(), 200, 'late: the same worker has it again');
cmp_ok($watch->(), '<', 3 * $t->slow(), 'late: at once');
ok(wait_for(sub { defined $f->get(key('/late')) }, 3 * $t->slow()),
    'late: stored') or diag join "\n", $f->commands(qr/late/);
$watch = $t->stopwatch();
is($other->get('/late')->status(), 200, 'late: another host');
cmp_ok($watch->(), '<', 3 * $t->slow(), 'late: does not wait');


# a page that is not stored, and whose lock memcached does not delete: the lock
# is nobody's either

$f->tell('cut');
is($h->get('/cut')->status(), 200, 'cut: answered');
ok(wait_for(sub { $f->count(qr{^md \S*/cut:lock}) }),
    'cut: the lock is released');
ok(defined $f->get(key('/cut') . ':lock'), 'cut: and still there');
$f->tell('');
$watch = $t->stopwatch();
is($other->get('/cut')->status(), 200, 'cut: another host');
cmp_ok($watch->(), '<', 3 * $t->slow(), 'cut: does not wait for 30 seconds');


# a lock that is really another's is not touched

$f->set(key('/foreign') . ':lock', 'f' x 32, 30);
my $patient = host('patient', $f, 1, '2s');
my $p = start_get($patient->port(), '/foreign');
sleep 0.5;
is($o->count('/foreign'), 0, 'foreign: waited for');
$f->delete(key('/foreign') . ':lock');
is(finish($p)->status(), 200, 'foreign: built when it is free');


# flushed while a page is being built: one more on each other host, no more

my @hosts = map { host($_, $m, 2, '2s') } 'two', 'three';

for my $round (1 .. $t->size(3, 20)) {
    my $uri = "/flush/$round";

    $o->hold_path($uri);
    my @p = (start_get($hosts[0]->port(), $uri));
    $o->wait_requests(1, $uri);
    $m->flush();
    push @p, map { start_get($hosts[$_ % 2]->port(), $uri) } 1 .. 40;
    $_->get('/other') for (@hosts) x 8;
    sleep 0.3;
    cmp_ok($o->held($uri), '<=', 2, "flush $round: one on each host");
    $o->release($uri);
    is(scalar(grep { $_->status() == 200 } map { finish($_) } @p), 41,
        "flush $round: all are answered");
    cmp_ok($o->count($uri), '<=', 2, "flush $round: no further one");
}


# the worker that builds is killed: the lock ends, and one other builds

my $one = host('four', $m, 1, '2s');

$o->hold_path('/few/a');
my $first = start_get($one->port(), '/few/a');
$o->wait_requests(1, '/few/a');
my @p = map { start_get($hosts[$_ % 2]->port(), '/few/a') } 1 .. 20;
$_->get('/other') for (@hosts) x 8;
is($o->held('/few/a'), 1, 'killed: one builds');
$one->kill_worker($_) for $one->workers();
ok($o->wait_requests(2, '/few/a'), 'killed: another builds');
sleep 0.3;
is($o->count('/few/a'), 2, 'killed: one');
$o->release('/few/a');
is(scalar(grep { $_->status() == 200 } map { finish($_) } @p), 20,
    'killed: all are answered');

$t->done();
