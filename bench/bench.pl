#!/usr/bin/perl

# What mcds costs, beside its peers on the same machine in the same minute.
#
#   bench.pl [group ...]     counters latency log pages compress syscalls
#                            dogpile hung; all by default
#
# Rounds are interleaved: each runs every scenario once, and a plain
# "return 200" is the measure of each.  The cost is the CPU time of the server
# (nginx's worker, Varnish) and of memcached, as the kernel's scheduler counts
# it, over the requests answered.  Tables go to the standard output, each run as
# a line of JSON to build/bench.  At the end stands one table of what was to be
# reached.  docs/comparison.md shows the figures of an idle machine; all groups
# take a quarter of an hour there.
#
# Environment: ROUNDS (7), SECS (1), CONNS (64), DOG_SECS (30), DOG_ROUNDS (7),
# HUNG_SECS (4), HUNG_ROUNDS (9), NOISE (0.15: cores that others may use before
# a run is repeated, once), ONLY (a pattern of scenarios), NGINX, MCDS_MODULE,
# MODULES.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use FindBin;
use lib "$FindBin::Bin/../demo", $FindBin::Bin;

use Dogpile;
use Goals;
use Hung;
use Peers;
use Runs;
use Stage;


my $root = abs_path("$FindBin::Bin/..");

my %groups = (
    counters => \&counters,
    latency => \&latency,
    log => \&log_lines,
    pages => \&pages,
    compress => \&compress,
    syscalls => \&syscalls,
    dogpile => \&dogpile,
    hung => \&hung,
);

my @groups = @ARGV ? @ARGV
    : qw/ counters latency log pages compress syscalls dogpile hung /;

for my $group (@groups) {
    die "no group \"$group\", there are: counters latency log pages"
        . " compress syscalls dogpile hung\n"
        if !$groups{$group};
}

my ($stage, $peers, $runs);

$| = 1;
$SIG{$_} = sub { die "interrupted\n" } for qw/ INT TERM HUP /;

eval {
    need('make bench', qw/ nginx memcached wrk taskset /);

    $stage = Stage->new('bench');
    $groups{$_}->() for @groups;
    Goals::summary();
};

my $why = $@;

$SIG{$_} = 'IGNORE' for qw/ INT TERM HUP /;
$stage->end() if $stage;

if ($why) {
    print STDERR "bench: $why";
    exit 1;
}


# the peers' processes, started by the first group that needs them

sub raise {
    return if $runs;

    $peers = Peers->new($stage, $root);
    $runs = Runs->new($stage, $peers, $root);
    $peers->check();
}


sub counters {
    raise();
    $runs->measure('counters', $peers->scenarios('counters'));
    $runs->report('counters');
}


sub latency {
    raise();
    $runs->measure('latency', $peers->scenarios('latency'));
    $runs->report('latency');
}


sub log_lines {
    raise();
    $runs->measure('log', $peers->scenarios('log'));
    $runs->report('log');
}


sub pages {
    raise();
    $runs->measure('pages', $peers->scenarios('pages'));
    $runs->report('pages');
}


# a page of text by whether it is stored compressed, and who accepts that

sub compress {
    raise();

    my @names = $peers->scenarios('compress');

    $runs->measure('compress', @names);
    $runs->report('compress');

    print "\n";
    printf "%-25s %7d bytes in memcached\n", $_, $peers->stored($_)
        for grep { $_ ne 'return' && $_ ne 'return-100k' } @names;
}


sub syscalls {
    raise();
    $runs->syscalls($peers->scenarios('counters'),
        grep { /-1k$/ } $peers->scenarios('pages'));
}


sub dogpile {
    lower();
    Dogpile->new($stage, $root)->run();
}


sub hung {
    lower();
    Hung->new($stage, $root)->run();
}


# the peers idle, but they need not even be there

sub lower {
    return if !$peers;

    $peers->stop();
    undef $peers;
    undef $runs;
}
