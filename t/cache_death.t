#!/usr/bin/perl

# Copyright (C) mcds authors

# Who builds a page dies, leaves, or is stopped and comes back: the page is
# built by the next one, and what that one has is left alone.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', {
    headers => ['Cache-Control' => 'max-age=60'], body => '%k of %u',
}, paths => {
    '/body' => { parts => ['x' x 10_000, ['y' x 10_000, 60]] },
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            mcds_cache_lock_age 2s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /taken/ {
            mcds_cache on;
            mcds_cache_lock_age 60s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /pid { return 200 $pid; }
    }
}
EOT

my $one = $t->nginx('one', $conf);
my $two = $t->nginx('two', $conf);

# the lock lasts up to two seconds longer, see mcds_cache_lock_age, and waiters
# look every 0.1 s

my $age = 2;
my $late = ($age + 2 + 0.5) * $t->slow();

sub which { $_[0]->header('X-Cache') . ' ' . $_[0]->body() }
sub lock_of { $m->get(key(shift) . ':lock') }

my ($p, $w, $watch, $r);


# the worker that fills a page is killed

$o->hold_path('/fill');
$p = start_get($one->port(), '/fill');
$o->wait_requests(1, '/fill');
$w = start_get($two->port(), '/fill');
$two->get('/pid');

$watch = $t->stopwatch();
$one->kill_worker(0);
ok($o->wait_requests(2, '/fill', $late), 'killed: the next one asks');
cmp_ok($watch->(), '<', $late, 'killed: within the lock\'s age');
$o->release('/fill');
is(which(finish($w)), 'MISS 2 of /fill', 'killed: and has its page');
$p->close();
page_wait($m, key('/fill'));
is(which($one->get('/fill')), 'HIT 2 of /fill', 'killed: so has the host');


# the worker that refreshes a page is killed: meanwhile there is the old one

$one->get('/refresh');
page_expire($m, key('/refresh'), 1000);
$o->mark();
$o->hold_path('/refresh');
is(which($one->get('/refresh')), 'STALE 1 of /refresh', 'refresh: old page');
$o->wait_requests(1, '/refresh');

$watch = $t->stopwatch();
$one->kill_worker(0);

my %seen;
my $longest = 0;
ok(wait_for(sub {
    for ($two->get('/refresh')) {
        $seen{$_->body()}++;
        $longest = $_->calm() if $_->calm() > $longest;
    }
    return $o->count('/refresh') == 2;
}, $late), 'refresh, killed: the next one asks');
cmp_ok($watch->(), '<', $late, 'refresh, killed: within the lock\'s age');
is(join('', keys %seen), '1 of /refresh', 'refresh, killed: the old page');
cmp_ok($longest, '<', 0.5 * $t->slow(), 'refresh, killed: at once');
$o->release('/refresh');
ok(wait_for(sub { which($two->get('/refresh')) eq 'HIT 3 of /refresh' }),
    'refresh, killed: then the new one');


# the client whose request fills a page leaves

for my $case (['one', $one], ['two', $two]) {
    my ($name, $host) = @$case;

    for my $way ('close', 'reset') {
        my $uri = "/leave/$name/$way";

        $o->hold_path($uri);
        $p = start_get($one->port(), $uri);
        $o->wait_requests(1, $uri);
        my @w = map { start_get($host->port(), $uri) } 1 .. 3;
        $host->get('/pid');

        $watch = $t->stopwatch();
        $p->$way();
        ok($o->wait_requests(2, $uri), "$way, $name: the next one asks");
        cmp_ok($watch->(), '<', 1 * $t->slow(), "$way, $name: at once");
        $o->release($uri);
        is(join(', ', sort map { which(finish($_)) } @w),
            "HIT 2 of $uri, HIT 2 of $uri, MISS 2 of $uri",
            "$way, $name: all have its page");
        is($o->count($uri), 2, "$way, $name: one alone asked");
    }
}

$p = start_get($one->port(), '/body');
ok(wait_for(sub { $p->fill(0); $p->{in} =~ /xxx/ }), 'half of a body');
ok(lock_of('/body'), 'half of a body: locked');
$p->close();
ok(wait_for(sub { !defined lock_of('/body') }, 1),
    'half of a body: who leaves unlocks');
ok(!defined $m->get(key('/body')), 'half of a body: is not stored');


# K02: the owner is stopped for longer than its lock lasts.  When it goes on a
# successor's page is ready, or it is still being built; and that may be when
# the owner has its answer, or finds its client gone.

my $rounds = $t->size(1, 10);
my $pages = $t->size(12, 102);

for my $round (1 .. $rounds) {
    my @ready = map { "/ready/$round/$_" } 1 .. $pages / 3;
    my @busy = map { "/busy/$round/$_" } 1 .. $pages / 3;
    my @gone = map { "/gone/$round/$_" } 1 .. $pages / 3;
    my @all = (@ready, @busy, @gone);

    $o->hold_path($_) for @all;
    my @first = map { start_get($one->port(), $_) } @all;
    wait_for(sub { !grep { !$o->held($_) } @all });

    my ($pid) = $one->workers();
    kill 'STOP', $pid;
    ok(wait_for(sub { !grep { defined lock_of($_) } @all }, $late),
        "stopped $round: its locks end");

    my @second = map { start_get($two->port(), $_) } @all;
    ok(wait_for(sub { !grep { $o->held($_) < 2 } @all }),
        "stopped $round: successors build");

    # answers of both are let go; those for the owner are not read yet

    $o->release($_) for @ready;
    ok(page_wait($m, key($_)), "stopped $round: $_ is ready") for @ready;

    my %token = map { $_ => lock_of($_) } @busy, @gone;
    my %page = map { $_ => $m->get(key($_)) } @ready;

    $_->reset() for splice @first, -@gone;

    kill 'CONT', $pid;
    my @late = splice @first, 0, @ready;
    is(join("\n", map { finish($_)->body() } @late),
        join("\n", map { "1 of $_" } @ready),
        "stopped $round: the owner answers its clients");

    # one answer to each page, to the owner, who was first

    $o->let($_, 1) for @busy;
    is(join("\n", map { finish($_)->body() } @first),
        join("\n", map { "1 of $_" } @busy),
        "stopped $round: and those who are late");

    # what the owner has sent to memcached is there when it answers this

    $one->get('/other');
    page_wait($m, key('/other'));

    is(scalar(grep { ($m->get(key($_)) // '') eq $page{$_} } @ready),
        scalar(@ready), "stopped $round: the successors' pages survive");
    is(scalar(grep { (lock_of($_) // '') eq $token{$_} } @busy, @gone),
        scalar(@busy) + @gone, "stopped $round: so do their locks");

    $o->release($_) for @busy, @gone;
    my $n = 0;
    $n += finish($_)->status() == 200 for @second;
    is($n, scalar(@all), "stopped $round: the successors answer");
    ok(wait_for(sub { !grep { defined lock_of($_) } @all }),
        "stopped $round: and unlock");
    is($o->most(qr{/(ready|busy|gone)/$round/1$}), 6,
        "stopped $round: two each");
}

# who comes back like that looks after its lock first.  The same without that
# chance: the lock is another's, and maybe its page is there already, just
# when the owner has ended, well or not

my $other = 'another owner, with a token too ';
my @taken = map { "/taken/$_" } 1 .. $t->size(40, 1000);

for my $group (map { [splice @taken, 0, 40] } 1 .. @taken / 40) {
    my (%first, %left, %ended);

    for my $uri (@$group) {
        $o->hold_path($uri);
        $first{$uri} = start_get($one->port(), $uri);
    }

    ok(wait_for(sub { !grep { !$o->held($_) } @$group }), 'taken: all build');

    for my $uri (@$group) {
        $m->set(key($uri) . ':lock', $other, 60);
        $m->set(key($uri), 'page', 60) if $uri =~ /[02468]$/;
        $uri =~ /[123567]$/ ? $o->release($uri) : $first{$uri}->reset();
    }

    is(scalar(grep { finish($first{$_})->body() eq "1 of $_" }
        grep { /[123567]$/ } @$group), 24, 'taken: owners answer');

    $o->release('*');
    $one->get('/other/taken');
    page_wait($m, key('/other/taken'));

    is(scalar(grep { (lock_of($_) // '') eq $other } @$group), 40,
        'taken: no lock is released by who does not have it');
    is(scalar(grep { $m->get(key($_)) eq 'page' } grep { /[02468]$/ } @$group),
        20, 'taken: no page is replaced by an older one');
}

$t->done();
