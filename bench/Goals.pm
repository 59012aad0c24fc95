package Goals;

# What the groups have been asked to reach, and whether they have: each says so
# below its table, and all are one table at the end.

use warnings;
use strict;


my @all;


# "ok" or "over"; what is measured, in which unit, and the most it may be

sub judge {
    my ($group, $name, $unit, $got, $most) = @_;

    my $verdict = $got <= $most ? 'ok' : 'over';

    push @all, [$group, $name, $unit, $got, $most, $verdict];

    return $verdict;
}


sub summary {
    return if !@all;

    print "\n### summary\n\n";
    printf "| %-9s | %-29s | %-31s | %8s | %7s | %-4s |\n", 'group', 'what',
        '', 'measured', 'at most', '';
    print '|', '-' x 11, '|', '-' x 31, '|', '-' x 33, '|', '-' x 9, ':|',
        '-' x 8, ':|', '-' x 6, "|\n";

    printf "| %-9s | %-29s | %-31s | %8.2f | %7g | %-4s |\n", @$_ for @all;
}


1;
