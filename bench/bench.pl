#!/usr/bin/perl

# What mcds costs, beside its peers on the same machine in the same minute.
#
#   bench.pl [group ...]     counters latency log pages different zipf compress
#                            syscalls scale dogpile hung chart; all by default
#
# Rounds are interleaved: each runs every scenario once, and a plain
# "return 200" is the measure of each.  The cost is the CPU time of the server
# (nginx's worker, Varnish) and of memcached, as the kernel's scheduler counts
# it, over the requests answered.  Tables go to the standard output, each run as
# a line of JSON to build/bench, of which "chart" draws build/bench/pages.svg.
# At the end stands one table of what was to be reached.  docs/comparison.md
# shows the figures of an idle machine; all groups take less than half an hour
# there.
#
# Environment: ROUNDS (7), SECS (1), CONNS (64), DOG_SECS (30), DOG_ROUNDS (7),
# HUNG_SECS (4), HUNG_ROUNDS (9), ZIPF_PAGES (50000), SCALE_PAGES (200000),
# SCALE_CLIENTS (9500), SCALE_BUILD (5: seconds), SCALE_LOCATIONS (5000), NOISE
# (0.15: cores that others may use before a run is repeated, once), ONLY (a
# pattern of scenarios, and of the parts of scale: workers clients pages hosts
# features locations), NGINX, MCDS_MODULE, MODULES, TMPDIR (proxy_cache has its
# files there).

use warnings;
use strict;

use Cwd qw/ abs_path /;
use FindBin;
use lib "$FindBin::Bin/../demo", $FindBin::Bin;

use Chart;
use Dogpile;
use Goals;
use Hung;
use Peers;
use Runs;
use Scale;
use Stage;


my $root = abs_path("$FindBin::Bin/..");

my @order = qw/ counters latency log pages different compress syscalls zipf
    scale dogpile hung chart /;

my %groups = (
    counters => \&counters,
    latency => \&latency,
    log => \&log_lines,
    pages => \&pages,
    different => \&different,
    zipf => \&zipf,
    scale => \&scale,
    compress => \&compress,
    syscalls => \&syscalls,
    dogpile => \&dogpile,
    hung => \&hung,
    chart => \&chart,
);

my @groups = @ARGV ? @ARGV : @order;

for my $group (@groups) {
    die "no group \"$group\", there are: @order\n" if !$groups{$group};
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


# a set of processes, started by the first group that needs it

sub raise {
    my ($set) = @_;

    return if $peers && $peers->set() eq $set;

    lower();
    $peers = Peers->new($stage, $root, $set);
    $runs = Runs->new($stage, $peers, $root);
}


sub counters {
    raise('peers');
    $runs->measure('counters', $peers->scenarios('counters'));
    $runs->report('counters');
}


sub latency {
    raise('peers');
    $runs->measure('latency', $peers->scenarios('latency'));
    $runs->report('latency');
}


sub log_lines {
    raise('peers');
    $runs->measure('log', $peers->scenarios('log'));
    $runs->report('log');
}


sub pages {
    raise('peers');
    $runs->measure('pages', $peers->scenarios('pages'));
    $runs->report('pages');
}


# pages that are different, which is what a site is made of

sub different {
    raise('peers');
    $runs->measure('different', $peers->scenarios('different'));
    $runs->report('different');
}


# more pages than a host keeps copies of, all of them stored; the hosts of mcds
# have one memcached

sub zipf {
    raise('zipf');

    my @names = $peers->scenarios('zipf');
    my ($uris) = map { $peers->scenario($_)->{uris} // () } @names;

    $runs->once($_, 1, $uris) for grep { /^mcds-zipf|^proxy/ } @names;
    $runs->measure('zipf', @names);
    $runs->report('zipf');
}


# a page of text by whether it is stored compressed, and who accepts that

sub compress {
    raise('peers');

    my @names = $peers->scenarios('compress');

    $runs->measure('compress', @names);
    $runs->report('compress');

    print "\n";
    printf "%-25s %7d bytes in memcached\n", $_, $peers->stored($_)
        for grep { $_ ne 'return' && $_ ne 'return-100k' } @names;
}


sub syscalls {
    raise('peers');
    $runs->syscalls($peers->scenarios('counters'),
        grep { /-1k$/ } $peers->scenarios('pages'));
}


# what becomes dearer with more workers, clients, pages, hosts, features and
# locations

sub scale {
    raise('scale');

    my $scale = Scale->new($stage, $root, $peers, $runs);

    $scale->run();
    lower();
    $scale->run_alone();
}


sub dogpile {
    lower();
    Dogpile->new($stage, $root)->run();
}


sub hung {
    lower();
    Hung->new($stage, $root)->run();
}


# from the lines of JSON of this or of earlier runs

sub chart {
    print Chart::draw("$root/build/bench")
        ? "\n### chart: build/bench/pages.svg\n"
        : "\n### chart: left out, it needs the groups pages and different\n";
}


# the peers idle, but they need not even be there

sub lower {
    return if !$peers;

    $peers->stop();
    undef $peers;
    undef $runs;
}
