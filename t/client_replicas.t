#!/usr/bin/perl

# Copyright (C) mcds authors

# replicas 2: counters and pages lie on two servers.  One may die, hang, lose
# all it had and come back: no count is lost that the other has, pages are
# served from where they are, and one rebuild runs at a time.

use warnings;
use strict;

use List::Util qw/ none /;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at one worker');

my @m = map { $t->memcached("m$_") } 0 .. 2;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $large = join '', map { "line $_\n" } 1 .. 70_000;

$o->set("/page/large$_", { body => $large,
    headers => ['Cache-Control' => 'max-age=600'] }) for 1 .. 6;

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        server       127.0.0.1:%%PORT_m2%%;
        distribution ketama;
        replicas     2;
        timeout      2s;
        fail_timeout 300ms;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=n:$uri;
            mcds_return "$n";
        }
        location /online {
            mcds_visitor_counter $v key=v visitor=$arg_u window=1h slots=1
                                 interpolate=off;
            mcds_return "$v";
        }
        location /page {
            mcds_cache on;
            mcds_cache_key page:$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache $mcds_cache_status;
        }
    }
}
EOT

my @h = map { $t->nginx("h$_", $conf) } 0 .. 1;

my $keys = $t->size(40, 1000);
my @keys = map { "/k$_" } 1 .. $keys;

# which servers have a key, the first one and the next in the list

sub places {
    my ($key) = @_;

    return grep { defined $m[$_]->get($key) } 0 .. 2;
}

# each key is counted once by each host; the numbers that were told

sub count {
    my @told;

    for my $h (@h) {
        my @r = many($keys, sub { [$h->port(), $keys[$_[0]]] },
            concurrency => 16);
        @told = map { $_->body() } @r;
    }

    return @told;
}


# all slots together

sub visitors {
    my %slots;

    for my $m (grep { $_->pid() } @m) {
        for my $key (grep { /^v:\d+$/ } $m->keys()) {
            my $n = $m->get($key) // 0;
            $slots{$key} = $n if $n > ($slots{$key} // 0);
        }
    }

    my $sum = 0;
    $sum += $_ for values %slots;

    return $sum;
}


is(scalar(grep { $_ ne 2 } count()), 0, 'two hosts count');

ok(wait_for(sub { !grep { 2 != places("n:$_") } @keys }),
    'each counter lies on two servers');
is(scalar(grep {
        my $key = "n:$_";
        2 != grep { ($m[$_]->get($key) // '') eq 2 } places($key)
    } @keys), 0, 'with the same number');

$h[0]->get("/page/$_") for 1 .. 30;

ok(wait_for(sub { !grep { 2 != places("<>page:/page/$_") } 1 .. 30 }),
    'each page as well');
is($o->count(), 30, 'and was made once');


$h[0]->get("/page/large$_") for 1 .. 6;

ok(wait_for(sub { !grep { 2 != places("<>page:/page/large$_") } 1 .. 6 }),
    'so do large pages');

# a visitor counts once, on both servers

$h[$_ % 2]->get("/online?u=$_") for 1 .. 10;


# one dies

$m[0]->kill9();

is(scalar(grep { $_ ne 4 } count()), 0, 'one is dead: nothing is missing');
is(scalar(grep { $h[$_ % 2]->get("/page/$_")->header('X-Cache') ne 'HIT' }
    1 .. 30), 0, 'pages are there');
is(scalar(grep {
    my $r = $h[$_ % 2]->get("/page/large$_");
    $r->header('X-Cache') ne 'HIT' || $r->body() ne $large
} 1 .. 6), 0, 'and large ones, whole');

$h[$_ % 2]->get("/online?u=$_") for 1 .. 12;
wait_for(sub { visitors() >= 12 });
is(visitors(), 12, 'visitors are not counted again');

is($h[1]->get("/page/new")->header('X-Cache'), 'MISS', 'a new page');
ok(wait_for(sub { $h[0]->get("/page/new")->header('X-Cache') eq 'HIT' }),
    'is stored');


# and comes back with nothing

$m[0]->restart();

ok(wait_for(sub { 2 == grep { $_->log() =~ /is up again/ } @h }, 20),
    'it is back');

is(scalar(grep { $_ ne 6 } count()), 0, 'it is empty: nothing is missing');
ok(wait_for(sub {
    none {
        my $key = "n:$_";
        2 != grep { ($m[$_]->get($key) // '') eq 6 } places($key)
    } @keys
}, 40), 'it was told what the others had');

is(scalar(grep { $h[$_ % 2]->get("/page/$_")->header('X-Cache') ne 'HIT' }
    1 .. 30), 0, 'pages are there');


# one hangs: its pages come from the other server, and soon nobody asks it

# (a page that was lost there lies on two servers again when it is made anew)

$h[0]->get("/page/b$_") for 1 .. 30;

ok(wait_for(sub { !grep { 2 != places("<>page:/page/b$_") } 1 .. 30 }),
    'pages on two servers');

$m[1]->freeze();

my @r = map { $h[0]->get("/page/b$_") } 1 .. 30;

is(scalar(grep { $_->header('X-Cache') ne 'HIT' } @r), 0,
    'a server hangs: pages are there');
is(scalar(grep { $_->calm() > 1.8 * $t->slow() } @r), 0,
    'none waits for the whole timeout');

my @numbers = count();

is(scalar(grep { $_ ne 8 } @numbers), 0, 'and no count is missing');

# by how many commands that was found out depends on what left together

ok(wait_for(sub {
    return 1 if 2 == grep { $_->log() =~ /down after.*timed out/ } @h;

    $h[$_ % 2]->get("/page/b$_") for 1 .. 30;
    return 0;
}), 'nobody asks it any more');

$o->hold_path('/page/hot');

my @waiting = map { start_get($h[$_ % 2]->port(), '/page/hot') } 1 .. 10;

ok($o->wait_requests(1, '/page/hot'), 'a new page meanwhile');
$o->release('/page/hot');

my @made = map { finish($_)->body() } @waiting;

is(scalar(grep { $_ ne $made[0] } @made), 0, 'all get the same');
is($o->count('/page/hot'), 1, 'which was made once');

$m[1]->cont();

ok(wait_for(sub {
    2 == grep { 2 == (() = $_->log() =~ /is up again/g) } @h
}, 20), 'it goes on');


# now the other two may die

my @have = grep { defined $m[0]->get("n:$_") } @keys;
my %number = map { $_ => $m[0]->get("n:$_") } @have;

$m[$_]->kill9() for 1, 2;

my @wrong;

for my $key (@have) {
    my $n = $h[0]->get($key)->body();
    push @wrong, "$key: $n, not $number{$key} + 1" if $n ne $number{$key} + 1;
}

cmp_ok(scalar @have, '>', $keys / 3, 'keys that only the first has now');
is("@wrong", '', 'have not lost anything');

$t->done();
