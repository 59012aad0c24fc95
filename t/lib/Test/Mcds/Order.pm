package Test::Mcds::Order;

# Copyright (C) mcds authors

# order($t, $host) returns the order in which nginx runs the handlers and
# filters of its modules: lists of names by phase and for "header" and "body",
# where the top filter is first; and the order of "variables", "indexes" (the
# variables with an index) and "modules".  The host has loaded the module that
# dump_module($t, 'order') has built.
#
# For mcds the names are those of functions, for other modules those of the
# modules.

use warnings;
use strict;
use feature qw/ state /;

use Exporter qw/ import /;

our @EXPORT_OK = qw/ order /;

my @phases = ('post read', 'server rewrite', 'find config', 'rewrite',
    'post rewrite', 'preaccess', 'access', 'post access', 'precontent',
    'content', 'log');


sub order {
    my ($t, $host) = @_;

    my $self = bless { test => $t, host => $host }, __PACKAGE__;
    my $text = $host->get('/')->body();

    push @{$self->{$1}}, [split / /, $2] while $text =~ /^(\w+) (.*)$/mg;

    $self->{module} or die "nothing is told: $text\n";

    my %order = (
        header => $self->filters('header'),
        body => $self->filters('body'),
        variables => [map { $_->[0] } @{$self->{variable}}],
        indexes => [map { $_->[0] } @{$self->{index}}],
        modules => [map { $_->[0] } @{$self->{module}}],
    );

    for (@{$self->{phase}}) {
        my ($phase, @where) = @$_;
        push @{$order{$phases[$phase]}}, $self->name(@where);
    }

    return \%order;
}


# the names of header or body filters from the top on.  order.c records the top
# filter whenever a module has added filters; mcds may add several at once: the
# pointer of each filter to the next one leads to all of them

sub filters {
    my ($self, $kind) = @_;

    my @names;
    my @tops = reverse @{$self->{$kind}};

    while (my $top = shift @tops) {
        my ($module, $in, $code, $base) = @$top;
        my $below = @tops ? $tops[0][2] : '';

        while ($code ne $below) {
            push @names, $self->name($module, $in, $code, $base);
            last if $module !~ /mcds/;
            $code = $self->following($kind, $in, $code, $base);
        }
    }

    return \@names;
}


# the address of the filter that runs after a filter of mcds

sub following {
    my ($self, $kind, $in, $code, $base) = @_;

    my $symbols = $self->symbols($in);
    my $source = $symbols->{source}{$self->offset($in, $code, $base)}
        // die "a $kind filter that is not static\n";
    my $next = $symbols->{next}{$source}{$kind}
        // die "$source has no ngx_http_next_${kind}_filter\n";

    my $from = sprintf '%x', $next + number($base) - $symbols->{base};

    return $1 if $self->{host}->get("/?$from")->body() =~ /^read (\w+)$/m;
    die "$from cannot be read\n";
}


# the name of a handler: for mcds its function, for nginx its module

sub name {
    my ($self, $module, $in, $code, $base) = @_;

    return $module if $module !~ /mcds/;

    my $offset = $self->offset($in, $code, $base);

    return $self->symbols($in)->{name}{$offset} // "$module $code";
}


sub offset {
    my ($self, $in, $code, $base) = @_;
    return number($code) - number($base) + $self->symbols($in)->{base};
}


sub number {
    no warnings 'portable';
    return hex $_[0];
}


# reads the symbols of an ELF file: the names and the source files of functions,
# by their address; by source file, the addresses of the variables that hold the
# next header and body filter; and the load address

sub symbols {
    my ($self, $in) = @_;

    state %symbols;

    return $symbols{$in} //= do {
        my $file = $in eq 'nginx' ? $self->{test}->binary() : $in;
        my $text = $self->{test}->run('readelf', '-hlsW', $file);

        $text =~ /^Symbol table '\.symtab'/m
            or $self->{test}->leave("$file has no symbols");

        my ($table, $source, %name, %source, %next) = ('', '');

        # symbols of a program with fixed addresses contain its load address

        my ($base) = $text =~ /^ +Type: +EXEC/m
            ? $text =~ /^ +LOAD +0x0+ +0x(\w+)/m : 0;

        for (split /\n/, $text) {
            $table = $1 if /^Symbol table '(.*?)'/;
            next if $table ne '.symtab';

            my ($place, $type, $bind, $name)
                = /^ *\d+: (\w+) +\w+ (\w+) +(\w+) +\w+ +\w+ (\S+)/ or next;

            $place = number($place);

            $source = $name if $type eq 'FILE';
            $name{$place} = $name if $type eq 'FUNC';
            $source{$place} = $source if $type eq 'FUNC' && $bind eq 'LOCAL';

            $next{$source}{$1} = $place
                if $bind eq 'LOCAL'
                && $name =~ /^ngx_http_next_(header|body)_filter$/;
        }

        {
            base => number($base), name => \%name, source => \%source,
            next => \%next,
        };
    };
}


1;
