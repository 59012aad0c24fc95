#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_status with many servers: all have their numbers; with a zone that is
# too small for them some have none, which is said, and work all the same;
# their places are given to others when they are gone.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('many',
    'workers need room in mcds_zone')->not_in('connections nofile',
    '200 servers have a connection each')
    ->allow(qr/"mcds_zone" is too small for statistics/);

my $m = $t->memcached('m', unix => 1);
my $path = $m->{unix};

# one memcached by many names

mkdir $t->dir() . '/s';

my $h;
my @names = map { sprintf 'n%03d', $_ } 0 .. 99;

symlink $path, $t->dir() . "/s/$_" for @names;

my $small = qr/"mcds_zone" is too small for statistics of all servers: (\d+) /;

sub conf {
    my ($zone, @pools) = @_;

    my ($pools, $places) = ('', '');

    for my $pool (@pools) {
        $pools .= "mcds_pool $pool {\nkeepalive 50ms; distribution modula;\n"
            . join('', map { "server unix:%%TMP%%/s/$_;\n" } @names) . "}\n";
        $places .= "location /$pool { mcds_use $pool; mcds_counter \$n"
            . " key=$pool:\$arg_k; mcds_return \"\$n\"; }\n";
    }

    return <<"EOT";
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_zone $zone;
    $pools
    server {
        listen 127.0.0.1:%%PORT%%;
        $places
        location = /status { mcds_status; }
    }
}
EOT
}

# requests to servers that answered, over all servers of a pool

my $round = 0;

sub work {
    my ($pool) = @_;

    $round++;

    my @res = many(300, sub { [$h->port(), "/$pool?k=$round-$_[0]"] },
        concurrency => 8);

    return scalar grep { $_->body() eq '1' } @res;
}

sub totals {
    my ($pool, $expected) = @_;

    my (@with, $sum);

    # another worker may not have told yet

    wait_for(sub {
        my ($found) = grep { $_->{name} eq $pool } @{status($h)->{pools}};
        @with = grep { $_->{statistics} } @{$found->{servers}};

        $sum = 0;
        $sum += $_->{operations}{incr} for @with;

        return $sum == ($expected // $sum);
    });

    return (scalar @with, $sum);
}


# room for all

$h = $t->nginx('h', conf('1056k', 'a', 'b'));

ok($h->log_lacks($small), 'a zone of 1056k: no word about it');

is(work('a'), 300, 'all are counted');
is(join(' ', totals('a', 300)), '100 300', 'each server has its numbers');
is(join(' ', totals('b')), '100 0', 'each pool its own');
is(work('b'), 300, 'the other one');
is(join(' ', totals('b', 300)), '100 300', 'has its own numbers');

my ($pool) = grep { $_->{name} eq 'a' } @{status($h)->{pools}};

is(join(' ', map { $_->{name} =~ s/.*\///r } @{$pool->{servers}}), "@names",
    'in the order of the configuration');
cmp_ok(length $h->get('/status')->body(), '>', 100000, 'it is long');

# a pool that is gone for some reloads makes room for another; how many there
# may be is not said, so use up what there is

$t->not_in('single', 'nginx cannot reload then');

my (@with, @sums);

for my $i (1 .. 12) {
    $h->conf(conf('1056k', "x$i", "y$i"))->reload(wait_old => 1);

    my @x = totals("x$i");
    my @y = totals("y$i");

    push @with, $x[0] + $y[0];
    push @sums, $x[1] + $y[1];
}

is("@with", join(' ', (200) x 12), 'new pools find room');
ok($h->log_lacks($small), 'all of them');
is("@sums", join(' ', (0) x 12), 'without the numbers of others');
is(work('y12'), 300, 'the last one works');
is(join(' ', totals('y12', 300)), '100 300', 'and its numbers are its own');
is(join(' ', totals('x12')), '100 0', 'and nobody else\'s');

# too small

$h->conf(conf('64k', 'a'))->reload(wait_old => 1);

my ($missing) = $h->log() =~ $small;

cmp_ok($missing, '>', 0, "64k: $missing servers go without");
cmp_ok($missing, '<', 60, '64k: others do not');
is($h->log_count($small), 1, '64k: one line');
is(work('a'), 300, '64k: all work');
is((totals('a'))[0], 100 - $missing, '64k: as many as it said');
cmp_ok((totals('a'))[1], '>', 30, '64k: these have their numbers');

ok(wait_for(sub { $m->connections() == 0 }), 'connections at rest are closed');
ok(wait_for(sub { server($h, 'a')->{connections}{open} == 0 }),
    'which is seen');

$t->done();
