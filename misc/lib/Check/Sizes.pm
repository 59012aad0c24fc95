package Check::Sizes;

# Copyright (C) mcds authors

# The size of files, functions and headers, names with two meanings, and words
# of comments that stand in place of a subject.

use warnings;
use strict;

my $lines = 1000;                      # of a file
my $function = 100;                    # lines of a function
my $prototypes = 15;                   # of a header
my $arguments = 6;                     # of a function


# calls problem($where, $text) and warning($where, $text)

sub check {
    my ($source, $list, $problem, $warning) = @_;
    my @sources = $source->files('src', qr/\.[ch]$/);

    for my $path (@sources, $source->files('tools', qr/\.[ch]$/)) {
        check_lines($source, $list, $problem, $path);
        check_parts($source, $list, $problem, $warning, $path);
    }

    check_names($source, $list, $problem, @sources);
    check_words($source, $list, $problem);
}


sub check_lines {
    my ($source, $list, $problem, $path) = @_;

    my $n = $source->text($path) =~ tr/\n//;
    return if $n <= $lines;

    my $wrong = $list->measure('lines', base($path), $n);
    $problem->($path, "$n lines, $wrong") if $wrong;
}


sub check_parts {
    my ($source, $list, $problem, $warning, $path) = @_;
    my $n = 0;

    for ($source->parts($path)) {
        my $at = "$path:$_->{line}";

        $n++ if $_->{prototype} && $path =~ /\.h$/;
        next if !defined $_->{body};

        my $length = ($_->{body} =~ tr/\n//) - 1;
        my $args = 1 + ($_->{args} =~ s/\([^()]*\)//gr =~ tr/,//);

        if ($length > $function) {
            my $wrong = $list->measure('function', $_->{name}, $length);
            $problem->($at, "$_->{name}() has $length lines, $wrong")
                if $wrong;
        }

        warning($list, $problem, $warning, $at, 'arguments', $_->{name}, $args,
            "$_->{name}() has $args arguments") if $args > $arguments;
    }

    warning($list, $problem, $warning, $path, 'prototypes', base($path), $n,
        "$n prototypes") if $n > $prototypes;
}


# a warning with the reason from the list, or a problem if there is none

sub warning {
    my ($list, $problem, $warning, $at, $check, $name, $n, $text) = @_;

    my $wrong = $list->measure($check, $name, $n);

    $wrong ? $problem->($at, "$text, $wrong")
        : $warning->($at, "$text: " . $list->entry($check, $name)->{reason});
}


# a type has one definition, and so has a static function or variable

sub check_names {
    my ($source, $list, $problem, @files) = @_;
    my (%names, %static);

    for my $path (@files) {
        for my $part ($source->parts($path)) {
            my $text = $part->{text};
            my @names;

            if ($text =~ /\A(?:typedef|(?:struct|union|enum)\s+\w+\s*\{)/) {
                @names = types($text);
                $static{$_} = 1 for @names;

            } elsif (($part->{variable} || defined $part->{body})
                     && $text !~ /\Aextern\b/)
            {
                @names = $part->{name};
                $static{$names[0]} = 1 if $part->{static};
            }

            # the text of strings is blank here, they may differ

            $text = $text =~ /"/ ? $path : $text =~ s/\s+/ /gr;
            $names{$_}{$path} .= $text for @names;
        }
    }

    for my $name (sort keys %static) {
        my @paths = sort keys %{$names{$name}};
        my %different = map { $_ => 1 } values %{$names{$name}};

        next if keys %different < 2;

        my $wrong = $list->measure('name', $name, scalar @paths);
        $problem->($paths[-1], "$name has another definition in "
            . join(' ', @paths[0 .. $#paths - 1]) . ", $wrong") if $wrong;
    }
}


# the names of "struct x_s {", "typedef ... x_t;", "typedef int (*x_pt)(...);"

sub types {
    my ($text) = @_;

    return $text =~ /\A(?:typedef\s+)?(?:struct|union|enum)\s+(\w+)\s*\{/,
        $text =~ /\Atypedef\b[^{]*?\(\*(\w+)\)/,
        $text =~ /\Atypedef\b.*[}\s*](\w+)\s*(?:\[[^\]]*\])?;\z/s;
}


# words of comments, for each 1000 of them

sub check_words {
    my ($source, $list, $problem) = @_;
    my ($words, %found) = (0, what => 0, who => 0, nobody => 0);

    for my $path ((map { $source->files($_, qr/\.[ch]$/) }
        qw{ src tools t/lib }), $source->files('t/lib', qr/\.pm$/))
    {
        my $text = $source->text($path);
        my $comments = join "\n", $path =~ /\.pm$/
            ? $text =~ /^\s*#(.*)/mg : $text =~ m{/\*(.*?)\*/}sg;

        $words++ while $comments =~ /[[:alpha:]]+/g;
        $found{lc $1}++ while $comments =~ /\b(what|who|nobody)\b/gi;
    }

    for (sort keys %found) {
        my $per = sprintf '%.1f', 1000 * $found{$_} / ($words || 1);
        next if $per == 0;

        my $wrong = $list->measure('words', $_, $per);
        $problem->('src', "\"$_\" $per times in 1000 words of comments, $wrong")
            if $wrong;
    }
}


sub base { return $_[0] =~ s{.*/}{}r }


1;
