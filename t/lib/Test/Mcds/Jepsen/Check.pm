package Test::Mcds::Jepsen::Check;

# Copyright (C) mcds authors

# Judges the histories of a long chaos run by the guarantees in docs/.
#
#     $c = Test::Mcds::Jepsen::Check->new(folder)
#     @found = $c->run()              violations: { what, text }, the text with
#                                     the lines that show the violation
#     $c->kinds(), $c->says(kind)     the guarantees checked, and their text
#     $c->summary()                   lines about the run
#
# Each kind has a module below, Check::Pages and so on: a sub check($history,
# $found), which calls $found->(what, text, lines) for each violation, and
# returns a line for the summary.

use warnings;
use strict;

use Test::Mcds::Jepsen::Check::Data;
use Test::Mcds::Jepsen::Check::Locks;
use Test::Mcds::Jepsen::Check::Pages;
use Test::Mcds::Jepsen::History;

my @kinds = (
    body => 'pages are whole, and those of the request',
    age => 'no page is older than it may be',
    purge => 'no page is older than its purge',
    number => 'counters: acknowledged <= shown <= sent',
    doubled => 'counters on two servers: nothing is counted twice',
    twice => 'counters on two servers: nothing is lost when one dies',
    lock => 'no lock is held twice',
    token => 'tokens grow',
    log => 'lines of the log are there, once, and in order',
    table => 'the table has what was written last',
);
my %says = @kinds;


sub new {
    my ($class, $dir) = @_;

    return bless { dir => $dir, found => [], notes => [] }, $class;
}


sub kinds { return @kinds[grep { $_ % 2 == 0 } 0 .. $#kinds] }
sub says { return $says{$_[1]} }
sub summary { return @{$_[0]{notes}} }


sub run {
    my ($self) = @_;

    my $h = $self->{history}
        = Test::Mcds::Jepsen::History->new($self->{dir});
    my $found = sub {
        my ($what, $text, @lines) = @_;

        push @{$self->{found}}, { what => $what, text => join "\n",
            "$what: $text", map { "    $_" } @lines,
            $self->around(@lines) };
    };

    my %faults;
    $faults{$_->{what}}++ for @{$h->{faults}};

    push @{$self->{notes}},
        scalar(@{$h->{faults}}) . ' faults: ' . join(', ',
            map { "$_ $faults{$_}" } sort keys %faults),
        Test::Mcds::Jepsen::Check::Pages::check($h, $found),
        Test::Mcds::Jepsen::Check::Data::check($h, $found),
        Test::Mcds::Jepsen::Check::Locks::check($h, $found);

    return @{$self->{found}};
}


# the injected faults between the times of the first and the last of these lines
# of a history, and shortly before

sub around {
    my ($self, @lines) = @_;

    my @times = map { /^\S (\d+) (\d+) / ? ($1, $2) : () } @lines or return;
    my ($from, $to) = (sort { $a <=> $b } @times)[0, -1];

    my @faults = map { "      fault $_->{line}" }
        $self->{history}->faults(qr/./, $from - 4e6, $to);

    return @faults > 24 ? (@faults[0 .. 11], '      ...', @faults[-12 .. -1])
        : @faults;
}


1;
