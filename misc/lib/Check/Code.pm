package Check::Code;

# Copyright (C) mcds authors

# All checks of C in a tree: style, rooms, sizes, drawings of states, tables of
# parameters, and the list of exceptions.

use warnings;
use strict;

use Check::Calls;
use Check::List;
use Check::Params;
use Check::Rooms;
use Check::Sizes;
use Check::States;
use Check::Style;


# returns problems and warnings, [[where, text], ...], and the text of a list
# that is as short as the tree allows; calls are read from objects => FOLDER,
# or from nm => FILE

sub check {
    my ($source, %from) = @_;
    my (@problems, @warnings);

    my $problem = sub { push @problems, [@_] };
    my $warning = sub { push @warnings, [@_] };

    my $list = Check::List->new($source->text('misc/check.list'));
    my $calls = Check::Calls->new($source, %from);

    for my $folder (qw/ src t demo bench tools /) {
        Check::Style::check($source, $_, $problem)
            for $source->files($folder, qr/\.[ch]$/);
    }

    Check::Rooms::check($source, $list, $calls, $problem);
    Check::Sizes::check($source, $list, $problem, $warning);
    Check::States::check($source, $problem);
    Check::Params::check($source, $problem);

    push @problems, $list->problems();

    return {
        problems => \@problems,
        warnings => \@warnings,
        shrunk => $list->shrunk(),
    };
}


1;
