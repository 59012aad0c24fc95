package Check::Source;

# Copyright (C) mcds authors

# A tree of sources as the checks read it: its files, their text, and C cut
# into functions and declarations.  Nothing is compiled: the style of the
# project says where a function begins and ends.

use warnings;
use strict;

use File::Glob qw/ :bsd_glob /;


sub new {
    my ($class, $dir) = @_;
    return bless { dir => $dir }, $class;
}


# the files below a folder whose names match

sub files {
    my ($self, $folder, $re) = @_;
    my @found;

    for my $full (glob "$self->{dir}/$folder/*") {
        my $path = substr $full, 1 + length $self->{dir};

        push @found, -d $full ? $self->files($path, $re)
            : $path =~ $re ? $path : ();
    }

    return sort @found;
}


sub mtime {
    my ($self, $path) = @_;
    return (stat "$self->{dir}/$path")[9] // 0;
}


sub text {
    my ($self, $path) = @_;

    return $self->{text}{$path} //= do {
        local $/;
        open my $fh, '<:raw', "$self->{dir}/$path" or return '';
        <$fh> // '';
    };
}


# C without the text of comments and strings; lines keep their numbers

sub code {
    my ($self, $path) = @_;
    return $self->{code}{$path} //= blank_out($self->text($path));
}


sub blank_out {
    my ($text) = @_;

    $text =~ s{
        ( /\*.*?\*/ ) | ( "(?:\\.|[^"\\\n])*" ) | ( '(?:\\.|[^'\\\n])+' )
    }{
        defined $1 ? $1 =~ s{[^\n]+}{/**/}gr
            : defined $2 ? '"' . ' ' x (length($2) - 2) . '"' : "' '"
    }gsex;

    return $text;
}


# functions and declarations in their order: line, name, static, text, args, and
# body, prototype or variable

sub parts {
    my ($self, $path) = @_;

    return @{$self->{parts}{$path} //= [cut($self->code($path))]};
}


sub cut {
    my ($code) = @_;
    my @parts;
    my $line = 1;

    # directives of the preprocessor and comments are blanks here

    $code =~ s{^[ ]*\#(?:[^\n]*\\\n)*[^\n]*}{ $& =~ s/[^\n]+//gr }mgex;
    $code =~ s{/\*\*/}{    }g;

    while ($code =~ /\G(\s*)(
            ([^;{}]*?\))\s*\n\{((?:\n.*?)??)\n\}(?=\n|\z)
            | [^;{}]* (?: (\{(?:[^{}]++|(?5))*\}) [^;{}]* )* ;
        )/gcsx)
    {
        my ($blank, $text, $head, $body) = ($1, $2, $3, $4);

        $line += $blank =~ tr/\n//;

        my %part = (
            line => $line, text => $text,
            static => scalar($text =~ /\Astatic\b/),
        );

        if (defined $body) {
            my ($name, $args) = $head =~ /(\w+)\((.*)\)\z/s;
            @part{qw/ name args body head /} = ($name, $args, "$body\n", $head);

        } elsif ($text !~ /\A(?:typedef|struct\s+\w+\s*\{|union|enum)/) {
            my $first = $text =~ s/\s*=.*//sr;

            if ($first =~ /\A[^()]*\(\*(\w+)(?:\[[^\]]*\])?\)\(/) {
                @part{qw/ name variable /} = ($1, 1);

            } elsif ($first =~ /\A([^()]*?)\b(\w+)\((.*)\)[^()]*;\z/s
                && $1 =~ /\w/)
            {
                @part{qw/ name args prototype /} = ($2, $3, 1);

            } elsif ($first =~ /\b(\w+)\s*(?:\[[^\]]*\]\s*)*;?\z/) {
                @part{qw/ name variable /} = ($1, 1);
            }
        }

        push @parts, \%part;
        $line += $text =~ tr/\n//;
    }

    return @parts;
}


1;
