package Check::List;

# Copyright (C) mcds authors

# misc/check.list: the exceptions from the limits of the checks, one a line:
#
#     <check> <name> <number> <reason>
#
# A number may only fall: a larger one in the tree is a problem, and so is a
# smaller one, since the list is to be lowered then.  A violation without an
# entry is new.

use warnings;
use strict;

# how far a number of the tree may be below that of the list

my %slack = (lines => 50, words => 0.5);


sub new {
    my ($class, $text) = @_;
    my $self = bless { entries => [], by => {}, problems => [] }, $class;
    my $n = 0;

    for (split /\n/, $text) {
        my %entry = (line => ++$n, text => $_);

        push @{$self->{entries}}, \%entry;
        next if /^\s*(?:#|$)/;

        @entry{qw/ check name number reason /}
            = /^(\w+) +(\S+) +([\d.]+) +(\S.*)/ or do {
                $self->problem($n, 'is not "check name number reason"');
                next;
            };

        $self->problem($n, "$entry{check} $entry{name} stands there twice")
            if $self->{by}{$entry{check}}{$entry{name}};

        $self->{by}{$entry{check}}{$entry{name}} = \%entry;
    }

    return $self;
}


sub problem {
    my ($self, $line, $text) = @_;
    push @{$self->{problems}}, ["misc/check.list:$line", $text];
}


# the entry of a check with that name, if there is one

sub entry {
    my ($self, $check, $name) = @_;
    return $self->{by}{$check}{$name};
}


# takes a number of the tree that is larger than the limit of a check; returns
# the problem with it, or an empty string

sub measure {
    my ($self, $check, $name, $number) = @_;

    my $entry = $self->{by}{$check}{$name}
        or return "no entry \"$check $name\" in misc/check.list";

    $entry->{measured} = $number;

    return "$entry->{number} in misc/check.list" if $number > $entry->{number};
    return '';
}


# once all is measured: problems of the list itself

sub problems {
    my ($self) = @_;

    for (grep { $_->{check} } @{$self->{entries}}) {
        if (!defined $_->{measured}) {
            $self->problem($_->{line},
                "$_->{check} $_->{name} is no longer needed");

        } elsif ($_->{number} - $_->{measured} > ($slack{$_->{check}} // 0)) {
            $self->problem($_->{line}, "$_->{check} $_->{name} is "
                . "$_->{measured} now: lower it");
        }
    }

    return @{$self->{problems}};
}


# the text of the list with lower numbers, without entries that are not needed

sub shrunk {
    my ($self) = @_;
    my $text = '';

    for (@{$self->{entries}}) {
        next if $_->{check} && !defined $_->{measured};

        my ($line, $new) = ($_->{text}, $_->{measured});

        if (defined $new && $new < $_->{number}) {
            $line =~ s/^\w+ +\S+ +\K[\d.]+/sprintf '%*s', length $&, $new/e;
        }

        $text .= "$line\n";
    }

    return $text;
}


1;
