package Check::States;

# Copyright (C) mcds authors

# The drawing of states in a header against the list of these states:
#
#     /*
#      *   NAME       the state in words
#      *
#      *   NAME ----> OTHER | OTHER
#      */
#     #define NGX_..._STATES(state)  state(NAME) ...
#
# Each state is explained, in the order of the list, is set by some function,
# and is reached by an arrow, but for the first one, which is zeroed memory.

use warnings;
use strict;


sub check {
    my ($source, $problem) = @_;
    my @sources = $source->files('src', qr/\.[ch]$/);
    my $code = join '', map { $source->code($_) } @sources;

    for my $path (grep { /\.h$/ } @sources) {
        next if $source->text($path)
            !~ /^\#define\ +(\w+)_STATES\((\w+)\)((?:.*\\\n)*.*)/m;

        my ($prefix, $macro, $list) = ($1, $2, $3);
        my @names = $list =~ /\b\Q$macro\E\((\w+)\)/g;

        check_drawing($path, \@names, drawing($source->text($path)), $problem);

        $code =~ /set_state\([^;]*\b${prefix}_(?:STATE_)?$_\b/
            or $problem->($path, "no function sets the state $_")
            for @names[1 .. $#names];
    }
}


# { states => [NAME, ...], from => [NAME, ...], to => [NAME, ...] }

sub drawing {
    my ($text) = @_;
    my ($in, %d);

    for (map { /^ \*(.*)/ ? $1 : () } split /\n/, $text) {
        my $arrow = s/^ {3}(\w+) -+> //;

        push @{ $d{from} }, $1 if $arrow;
        push @{ $d{states} }, $1 if /^ {3}([A-Z]\w*) {2,}\S/;

        $in = $arrow || ($in && /^ +\| /);
        push @{ $d{to} }, /(\w+)/g if $in;
    }

    return \%d;
}


sub check_drawing {
    my ($path, $names, $d, $problem) = @_;
    my %known = map { $_ => 1 } @$names;
    my %reached = map { $_ => 1 } @{ $d->{to} };

    "@{ $d->{states} // [] }" eq "@$names"
        or $problem->($path, "the drawing explains the states "
        . "@{ $d->{states} // [] }, the list has @$names");

    $known{$_} or $problem->($path, "the drawing has a state $_ of no list")
        for @{ $d->{from} }, @{ $d->{to} };

    $reached{$_} or $problem->($path, "no arrow leads to the state $_")
        for @$names[1 .. $#$names];
}


1;
