package Check::Rooms;

# Copyright (C) mcds authors

# The folders of src/: a file includes, calls and uses files of its own folder
# and of those that come earlier in the order below, and files do not call each
# other in a circle.

use warnings;
use strict;

use Check::Calls;

# folders of one line do not know each other

my @order = (
    'base',
    'proto',
    'client',
    'structures',
    'cache/format',
    'cache/page',
    'http/kit',
    'http/counter http/cache http/lock http/log http/data',
    'http/top http/writeback',
    'status',
);

# these know only some of the folders that come earlier

my %only = (
    'cache/format' => qr{^(?:base|proto)$},
    'status' => qr{^(?:base|http/\w+)$},
);

# circles of that many files inside one folder need no entry in the list

my $allowed = 3;

my %order = map { my $i = $_; map { $_ => $i } split / /, $order[$i] }
    0 .. $#order;


# calls problem($where, $text)

sub check {
    my ($source, $list, $calls, $problem) = @_;
    my @files = $source->files('src', qr/\.[ch]$/);
    my %folder;

    for (@files) {
        my ($folder, $file) = m{^src/(?:(.+)/)?(.+)};

        $problem->($_, "src/$folder/ has such a file, too")
            if $folder{$file} && ($folder = $folder{$file});

        $folder{$file} = $folder // '';

        $problem->($_, 'no such room: ' . $folder{$file})
            if !defined $order{$folder{$file}};
    }

    check_includes($source, $list, $problem, \%folder, @files);
    check_calls($list, $calls, $problem);
    check_circles($list, $calls, $problem);
}


sub may_know {
    my ($own, $other) = @_;

    return 1 if $own eq $other || !defined $order{$own}
        || !defined $order{$other};
    return $order{$other} < $order{$own}
        && (!$only{$own} || $other =~ $only{$own});
}


sub check_includes {
    my ($source, $list, $problem, $folder, @files) = @_;
    my %forbidden;

    for my $path (@files) {
        my ($own) = $path =~ m{^src/(.+)/} or next;
        my $n = 0;

        for (split /\n/, $source->text($path)) {
            my $at = "$path:" . ++$n;
            my ($header) = /^\s*#\s*include\s+[<"](.*?)[>"]/ or next;

            if (my $other = $folder->{$header}) {
                push @{$forbidden{"$own->$header"}},
                    [$at, "$own/ may not know $other/ ($header)"]
                    if !may_know($own, $other);

            } elsif ($header =~ /^ngx_http/) {
                $problem->($at, "$header outside of http/")
                    if $own !~ m{^(?:http|status)(?:/|$)};

            } elsif ($header =~ /^ngx_event/) {
                $problem->($at, "$header in $own/")
                    if $own =~ /^(?:base|proto)$/;

            } elsif ($header =~ /mcds/) {
                $problem->($at, "no such file: $header");
            }
        }
    }

    forbidden($list, $problem, 'include', \%forbidden);
}


sub check_calls {
    my ($list, $calls, $problem) = @_;
    my $uses = $calls->uses();
    my %forbidden;

    for my $from (sort keys %$uses) {
        my $own = Check::Calls::folder($from);

        for my $to (sort keys %{$uses->{$from}}) {
            my $other = Check::Calls::folder($to);

            next if may_know($own, $other);

            push @{$forbidden{"$own->$_"}},
                [$from, "$own/ may not call $other/ ($_)"]
                for @{$uses->{$from}{$to}};
        }
    }

    forbidden($list, $problem, 'call', \%forbidden);
}


# an entry of the list has a folder, the symbol or header that it may not know,
# and the number of files that do

sub forbidden {
    my ($list, $problem, $check, $forbidden) = @_;

    for my $name (sort keys %$forbidden) {
        my @places = @{$forbidden->{$name}};
        my $wrong = $list->measure($check, $name, scalar @places) or next;

        $problem->($_->[0], "$_->[1], $wrong") for @places;
    }
}


sub check_circles {
    my ($list, $calls, $problem) = @_;

    for my $circle (Check::Calls::circles($calls->calls())) {
        my %folders = map { Check::Calls::folder($_) => 1 } @$circle;

        next if @$circle <= $allowed && keys %folders == 1;

        in_list($list, $problem, 'circle', 'files', map { base($_) } @$circle);
    }

    in_list($list, $problem, 'folders', 'folders', @$_)
        for Check::Calls::circles($calls->between_folders());
}


# the entry of a circle has the name of any one in it

sub in_list {
    my ($list, $problem, $check, $of, @circle) = @_;

    my ($name) = sort { $list->entry($check, $b)->{number}
        <=> $list->entry($check, $a)->{number} }
        grep { $list->entry($check, $_) } @circle;

    my $wrong = $list->measure($check, $name // $circle[0], scalar @circle);

    $problem->('src', 'a circle of ' . @circle . " $of, $wrong: @circle")
        if $wrong;
}


sub base { return $_[0] =~ s{.*/}{}r }


1;
