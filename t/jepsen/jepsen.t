#!/usr/bin/perl

# Copyright (C) mcds authors

# One seed of the long chaos run, which chooses the faults and their times.
# Three hosts share four memcached, each over proxies that delay, reset, stall
# and cut connections and, with some profiles, drop, duplicate and corrupt data.
# memcached and workers are killed and stopped, hosts are reloaded, and clocks
# are set.  A crowd of clients requests pages, purges, counts, locks, writes a
# log and a table, and keeps a history of all responses, which is judged after
# all faults have been healed.  See t/jepsen/README.
#
# MCDS_CHAOS=seconds, MCDS_SEED=number, MCDS_PROFILE=name, MCDS_RATE=factor.

use warnings;
use strict;

use POSIX ();
use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Mcds;
use Test::Mcds::Jepsen;
use Test::Mcds::Jepsen::Check;
use Test::Mcds::Jepsen::Nemesis;

my $seconds = $ENV{MCDS_CHAOS} || 60;
my $seed = $ENV{MCDS_SEED} // 1;
my $rate = $ENV{MCDS_RATE} || 1;
my @profiles = nemesis_profiles();
my $profile = $ENV{MCDS_PROFILE} || $profiles[$seed % @profiles];

$ENV{TEST_TIMEOUT} //= $seconds + 600;
srand $seed;

my $t = Test::Mcds->new()->not_in('single', 'nginx cannot reload then');

$t->write_file('hmac', "a key of the long chaos run\n");

open my $in, '<', "$FindBin::Bin/nginx.conf" or die "nginx.conf: $!\n";
my $conf = do { local $/; <$in> };

my $site = Test::Mcds::Jepsen->new($t, seed => $seed, seconds => $seconds,
    rate => $rate);

$site->start(sub {
    my ($local, $timed) = @{(['off', 'off'], ['validated', 'validated'],
        ['validated', 'timed=2s'])[$_[0]]};

    return $conf =~ s/%%LOCAL%%/$local/r =~ s/%%TIMED%%/$timed/r;
});

my $begin = now();
my $nemesis = Test::Mcds::Jepsen::Nemesis->new($site, profile => $profile);

note("seed $seed, profile $profile, $seconds s, in ", $t->dir());

$site->crowd();
$site->reader();
$nemesis->run($seconds - ($seconds > 40 ? 8 : $seconds / 5));
$nemesis->heal();

my $said;

ok(wait_for(sub { $said = $site->crowd_ended() }, $seconds),
    'the crowd has ended') and note($said);
cmp_ok($site->most_connections(), '<=', 8, 'workers keep no connection');

# the data in memcached at the end

my $last = $site->finish();
$nemesis->save();

my $check = Test::Mcds::Jepsen::Check->new($t->dir());
my @found = $check->run();

note($_) for $check->summary();

for my $what ($check->kinds()) {
    my @those = grep { $_->{what} eq $what } @found;

    is(scalar @those, 0, $check->says($what))
        or diag(join "\n", map { $_->{text} }
            @those > 5 ? @those[0 .. 4] : @those);
}

diag("seed $seed, profile $profile: MCDS_SEED=$seed MCDS_PROFILE=$profile "
    . "MCDS_CHAOS=$seconds; histories are kept, see t/jepsen/README")
    if @found;

$t->allow($nemesis->allowed());
$t->done(keep => [$site->ports(), 'o']);
