package Check::Calls;

# Copyright (C) mcds authors

# The symbols that a source file uses of others, from nm and the objects of a
# build if that is not older than the sources, otherwise from the sources.  A
# pointer to a function counts as a call: a function that is registered in a
# table is called from the file of that table.

use warnings;
use strict;
no warnings 'recursion';

use File::Glob qw/ :bsd_glob /;


# { objects => FOLDER } takes the objects there, { nm => FILE } the output of
# nm -A -P, a file of the tree

sub new {
    my ($class, $source, %from) = @_;

    # what stands in for a feature that is left out defines its names again

    my @files = grep { !/_none\.c$/ } $source->files('src', qr/\.c$/);
    my $self = bless { source => $source, files => \@files }, $class;

    my $nm = $from{nm} ? $source->text($from{nm})
        : $from{objects} ? $self->nm($from{objects}) : undef;

    $self->{from} = defined $nm ? 'objects' : 'sources';
    defined $nm ? $self->of_objects($nm) : $self->of_sources();

    return $self;
}


# {from}{to} = [symbols], files are paths below the root of the tree; and
# "objects" or "sources"

sub uses { return $_[0]{uses} }
sub from { return $_[0]{from} }


# the symbols of a build of nginx, objs/addon/<folder>/<file>.o, if each source
# has an object that is not older than it and the headers

sub nm {
    my ($self, $dir) = @_;

    my $source = $self->{source};
    my ($headers) = sort { $b <=> $a } map { $source->mtime($_) }
        $source->files('src', qr/\.h$/);
    my (%objects, @of);

    # an object of an earlier build may be left in another folder

    for (sort { (stat $a)[9] <=> (stat $b)[9] } glob "$dir/*/*.o") {
        $objects{$1} = $_ if m{([^/]+)\.o$};
    }

    for (@{$self->{files}}) {
        my $object = m{([^/]+)\.c$} && $objects{$1} or return;
        my $time = (stat $object)[9];

        return if $time < $source->mtime($_) || $time < ($headers // 0);
        push @of, $object;
    }

    open my $fh, '-|', 'nm', '-A', '-P', @of or return;
    local $/;

    my $nm = <$fh>;

    return close $fh ? $nm : undef;
}


# FILE.o: SYMBOL TYPE ...

sub of_objects {
    my ($self, $nm) = @_;

    my %file = map { m{([^/]+)\.c$} ? ($1 => $_) : () } @{$self->{files}};
    my (%defined, @undefined);

    for (split /\n/, $nm) {
        my ($object, $symbol, $type) = m{([^/]+)\.o: (\S+) (\w)} or next;
        my $file = $file{$object} or next;

        if ($type eq 'U') {
            push @undefined, [$file, $symbol];

        } elsif ($type =~ /[A-Z]/) {
            $defined{$symbol} = $file;
            $self->{variable}{$symbol} = 1 if $type =~ /[BCDRV]/;
        }
    }

    $self->use_of(\%defined, @undefined);
}


# in the sources, a macro or an inline function of a header stands for all
# symbols in it

sub of_sources {
    my ($self) = @_;

    my $source = $self->{source};
    my (%defined, %stands, @undefined);

    for my $file (@{$self->{files}}) {
        for ($source->parts($file)) {
            next if $_->{static} || $_->{text} =~ /\Aextern\b/;

            $defined{$_->{name}} = $file if $_->{body} || $_->{variable};
            $self->{variable}{$_->{name}} = 1 if $_->{variable};
        }
    }

    for my $header ($source->files('src', qr/\.h$/)) {
        my $code = $source->code($header);

        while ($code =~ /^[ ]*#[ ]*define[ ]+(\w+)((?:[^\n]*\\\n)*[^\n]*)/mg) {
            my ($name, $text) = ($1, $2);
            push @{$stands{$name}}, $text =~ /(\w*mcds\w*)/g;
        }

        push @{$stands{$_->{name}}}, $_->{body} =~ /(\w*mcds\w*)/g
            for grep { $_->{body} } $source->parts($header);
    }

    for my $file (@{$self->{files}}) {

        # a prototype uses nothing; a static one hides another file's name

        my @parts = $source->parts($file);
        my %seen = map { $_->{static} && $_->{name} ? ($_->{name} => 1) : () }
            @parts;
        my @names = map {
            $_->{prototype} ? () : $_->{text} =~ /(\w*mcds\w*)/gi
        } @parts;

        while (defined(my $name = pop @names)) {
            next if $seen{$name}++;

            push @names, @{$stands{$name} // []};
            push @undefined, [$file, $name];
        }
    }

    $self->use_of(\%defined, @undefined);
}


sub use_of {
    my ($self, $defined, @undefined) = @_;
    my %uses = map { $_ => {} } @{$self->{files}};

    for (@undefined) {
        my ($file, $symbol) = @$_;
        my $of = $defined->{$symbol};

        push @{$uses{$file}{$of}}, $symbol if defined $of && $of ne $file;
    }

    for my $to (map { values %$_ } values %uses) {
        @$to = sort @$to;
    }

    $self->{uses} = \%uses;
}


# uses() without variables

sub calls {
    my ($self) = @_;
    my %calls;

    for my $from (keys %{$self->{uses}}) {
        $calls{$from} = {};

        for my $to (keys %{$self->{uses}{$from}}) {
            my @called = grep { !$self->{variable}{$_} }
                @{$self->{uses}{$from}{$to}};

            $calls{$from}{$to} = \@called if @called;
        }
    }

    return \%calls;
}


# the folder of a file below src/

sub folder {
    my ($file) = @_;
    return $file =~ m{^src/(.*)/} ? $1 : '';
}


# uses() between folders: {from}{to} = [[symbol, from, to], ...]

sub between_folders {
    my ($self) = @_;
    my %uses;

    for my $from (sort keys %{$self->{uses}}) {
        $uses{folder($from)} //= {};

        for my $to (sort keys %{$self->{uses}{$from}}) {
            next if folder($from) eq folder($to);
            push @{$uses{folder($from)}{folder($to)}},
                map { [$_, $from, $to] } @{$self->{uses}{$from}{$to}};
        }
    }

    return \%uses;
}


# the circles of a graph, {from}{to}, largest first: names that reach each other
# (Tarjan's strongly connected components)

sub circles {
    my ($uses) = @_;
    my (%index, %low, %open, @stack, @circles);

    my $visit;

    $visit = sub {
        my ($name) = @_;

        $index{$name} = $low{$name} = keys %index;
        push @stack, $name;
        $open{$name} = 1;

        for my $to (sort keys %{$uses->{$name} // {}}) {
            if (!defined $index{$to}) {
                $visit->($to);
                $low{$name} = $low{$to} if $low{$to} < $low{$name};

            } elsif ($open{$to}) {
                $low{$name} = $index{$to} if $index{$to} < $low{$name};
            }
        }

        return if $low{$name} != $index{$name};

        my @circle;

        do {
            push @circle, pop @stack;
            $open{$circle[-1]} = 0;
        } while ($circle[-1] ne $name);

        push @circles, [sort @circle] if @circle > 1;
    };

    for (sort keys %$uses) {
        $visit->($_) if !defined $index{$_};
    }

    undef $visit;

    return sort { @$b <=> @$a || $a->[0] cmp $b->[0] } @circles;
}


1;
