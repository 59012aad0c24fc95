#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds log read and follow with --since and --after, of a log with more lines
# than are read at once: read shows the last lines since a time, and the first
# ones after a line; follow shows all of them and then goes on, each line once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $mcds = Test::Mcds::Tool->new($t, '-s', '127.0.0.1:' . $m->port());

my $old = time() - 60;
my $n = 20050;

is($mcds->run('log', 'write', 'live', 'old', '--time=' . ($old - 100))->{code},
    0, 'an older line');
is($mcds->from($t->write_file('lines', join '', map { "$_\n" } 1 .. $n))
    ->run('log', 'write', 'live', "--time=$old")->{code}, 0, 'many lines');


# read

is(said('--since=90s'), join(' ', $n - 99 .. $n), 'the last lines by default');
is(said('--since=90s', '-n', 3), join(' ', $n - 2 .. $n), 'the last three');
is(said('--since=1s'), '', 'none of them');

my ($first) = map { JSON::PP::decode_json($_) } split /\n/,
    $mcds->run('--json', 'log', 'read', 'live', '-n', 1,
    '--after', ($old - 50) . '000-0-0')->{out};

is($first->{line}, 1, 'a line with its id');
is(said('--after', $first->{id}), join(' ', 2 .. 101), 'the lines after it');
is(said('--after', $first->{id}, '-n', 2), '2 3', 'two of them');
is(said('--after', $first->{id}, '--since=90s', '-n', 2), '2 3',
    'also since a time');


# follow, at once; then each shows the same new line

my %p = map { $_->[0] => { from => $_->[1],
    p => $mcds->start('log', 'follow', 'live', @$_[2 .. $#$_]) } }
    ['since', 1, '--since=90s'],
    ['after', 2, '--after', $first->{id}],
    ['both', 2, '--after', $first->{id}, '--since=90s'],
    ['none', $n - 9],
    ['limit', $n - 2, '-n', 3],
    ['since and limit', $n - 2, '--since=90s', '-n', 3],
    ['after and limit', $n - 2, '--after', $first->{id}, '-n', 3];

for my $name (sort keys %p) {
    ok(wait_for(sub { grep { $_ eq $n } $p{$name}{p}->lines() }, 20),
        "$name: the last old line");
}

$mcds->run('log', 'write', 'live', $n + 1);

for my $name (sort keys %p) {
    my ($p, $from) = @{$p{$name}}{qw/ p from /};

    ok(wait_for(sub { grep { $_ eq $n + 1 } $p->lines() }, 20),
        "$name: a new line");
    is($p->stop(), 0, 'it ends');

    my @lines = $p->lines();

    ok("@lines" eq join(' ', $from .. $n + 1), 'all lines, each once')
        or diag(scalar(@lines), " from $lines[0]");
}

$t->done();


# the lines that "log read" shows

sub said {
    return join ' ', split /\n/, $mcds->run('log', 'read', 'live', @_)->{out};
}
