package Check::Params;

# Copyright (C) mcds authors

# The tables of parameters, see ngx_http_mcds_param.h, and docs/reference/: each
# parameter stands in the syntax of its directive, and the reference states the
# bounds and the default of the table.

use warnings;
use strict;


my %units = (
    num => { '' => 1 },
    percent => { '' => 1, '%' => 1 },
    sec => { s => 1, m => 60, h => 3600, d => 86400 },
    msec => { ms => 1, s => 1000, m => 60000, h => 3600000, d => 86400000 },
    size => { '' => 1, k => 1024, m => 1048576, kb => 1024, mb => 1048576 },
);

$units{lock_sec} = $units{sec};


sub check {
    my ($source, $problem) = @_;

    my $code = parse($source);
    my %sections = sections($source);

    for my $table (sort keys %{$code->{tables}}) {
        my $path = $code->{path}{$table};
        my @directives = directives($code, $table);
        my $found = 0;

        for my $row (@{$code->{tables}{$table}}) {
            my @of = $row->{name} =~ /^mcds_/ ? $row->{name} : @directives;

            for my $directive (@of) {
                my $section = $sections{$directive} // next;

                $found = 1;
                $problem->($section->{path}, "$directive: $_")
                    for compare($code, $row, $directive, \%sections);
            }
        }

        $problem->($path, "$table is the table of no directive that "
            . 'docs/reference/ has') if !$found;
    }
}


# tables and their rows, words, and the functions that use them

sub parse {
    my ($source) = @_;
    my %code = (tables => {});

    for my $path ($source->files('src', qr/\.[ch]$/)) {
        my $text = $source->text($path);

        $code{defines}{$1} = $2
            while $text =~ /^#define (\w+)[ ]+([^\n\\]+?)$/mg;

        while ($text =~ /mcds_param_t\s+(\w+)\[\]\s*=\s*\{(.*?)\n\};/sg) {
            my ($table, $rows) = ($1, $2);

            $code{path}{$table} = $path;
            $code{tables}{$table} = [rows($rows)];
            push @{$code{more}{$1}}, $table
                if $rows =~ /ngx_http_mcds_params_of\((\w+)\)/;
        }

        push @{$code{more}{$2}}, $1
            while $text =~ /ngx_http_mcds_params_add\((\w+),\s*(\w+)\)/g;

        while ($text =~ /conf_enum_t\s+(\w+)\[\]\s*=\s*\{(.*?)\n\};/sg) {
            my ($name, $words) = ($1, $2);
            $code{words}{$name} = [$words =~ /ngx_string\("(.*?)"\)/g];
        }

        $code{setter}{$2}{$1} = 1
            while $text =~ /\{ ngx_string\("(mcds_\w+)"\),\s*[^,]*,\s*(\w+),/g;

        for my $part ($path =~ /\.c$/ ? $source->parts($path) : ()) {
            $code{body}{$part->{name}} = $part->{body}
                if defined $part->{body} && defined $part->{name};
        }
    }

    return \%code;
}


sub rows {
    my ($text) = @_;
    my @rows;

    while ($text =~ /\{\s*ngx_string\("([^"]*)"\),\s*(\w+),\s*
        ngx_http_mcds_field\([^)]*\),\s*([^{}]*?)\s\}/gsx)
    {
        my ($name, $type, @rest) = ($1, $2, split /,\s*/, $3);

        push @rows, { name => $name, low => $rest[0], high => $rest[1],
            init => $rest[2], words => $rest[3],
            type => $type =~ s/^ngx_http_mcds_param_//r };
    }

    return @rows;
}


# the directives whose setters use a table, also by way of other functions and
# of tables that go on with it

sub directives {
    my ($code, $table) = @_;
    my (%seen, %directives);
    my @names = ($table, @{$code->{more}{$table} // []});

    while (@names) {
        my $name = shift @names;

        next if $seen{$name}++;

        $directives{$_} = 1 for keys %{$code->{setter}{$name} // {}};
        next if $code->{setter}{$name};

        push @names, grep { $code->{body}{$_} =~ /\b$name\b/ }
            keys %{$code->{body}};
    }

    return sort keys %directives;
}


sub sections {
    my ($source) = @_;
    my %sections;

    for my $path ($source->files('docs/reference', qr/\.md$/)) {
        my $text = $source->text($path);

        while ($text =~ /^## (mcds_\w+)\s*$(.*?)(?=^## |\z)/msg) {
            my ($name, $body) = ($1, $2);
            my ($syntax) = $body =~ /^Syntax:(.*?)^Default:/ms;
            my ($default) = $body =~ /^Default:\s+(.*)$/m;

            $sections{$name} = { path => $path, text => $body =~ s/\s+/ /gr,
                syntax => $syntax // '', default => $default // '',
                items => [map { s/\s+/ /gr } $body =~ /^- (.*?)(?=^\S|\z)/msg],
            };
        }
    }

    return %sections;
}


# what the reference lacks of a row

sub compare {
    my ($code, $row, $directive, $sections) = @_;
    my $section = $sections->{$directive};
    my ($name, $type) = @$row{qw/ name type /};
    my ($label) = $name =~ /^(\w+)=?$/;
    my @missing;

    # the first arguments have the text of the section, parameters their item

    my $text = $section->{text};

    if ($name =~ /=$/ || $type eq 'word') {
        return "\"$name\" is not in the syntax"
            if $section->{syntax} !~ /(?<![\w\$])\Q$label\E(?!\w)/;

        $text = item($label, $directive, $sections);
    }

    push @missing, map { "\"$_\" of \"$name\" is not in the reference" }
        grep { "$text$section->{syntax}" !~ /\b\Q$_\E\b/ }
        @{$code->{words}{$row->{words} // ''} // []};

    my $units = $units{$type} // return @missing;
    my ($low, $high, $init) = map { number($code, $_) }
        @$row{qw/ low high init /};

    return @missing, "\"$name\" has bounds that are no numbers"
        if grep { !defined } $low, $high, $init;

    push @missing, sprintf '"%s" is %s to %s, which the reference does not '
        . 'state', $name, shown($low, $units), $high ? shown($high, $units)
        : 'any' if !bounds($text, $low, $high, $units);

    my $default = $name =~ /^mcds_/ ? $section->{default} =~ s/^\w+ //r
        : $text;

    push @missing, "the default of \"$name\" is " . shown($init, $units)
        . ', which the reference does not state'
        if $init > 0 && !default($default, $init, $units,
            $name =~ /^mcds_/ || $name !~ /=$/ ? $section->{default} : '');

    return @missing;
}


# of a parameter; or of the directive that the item, or the section, links to

sub item {
    my ($label, $directive, $sections) = @_;
    my $section = $sections->{$directive};
    my $re = qr/^(?:`[^`]*`, )*`\Q$label\E(?:=|`)/;
    my ($item) = grep { /$re/ } @{$section->{items}};

    return $item if defined $item && $item !~ /\bAs with \[/;

    for my $other (($item // $section->{text}) =~ /\[(mcds_\w+)\]/g) {
        my ($found) = grep { /$re/ }
            @{($sections->{$other} // {})->{items} // []};

        return $found if defined $found;
    }

    return $item // $section->{text};
}


sub number {
    my ($code, $text) = @_;

    for (1 .. 9) {
        $text =~ s/\b([A-Z]\w+)\b/$code->{defines}{$1} \/\/ $1/ge or last;
    }

    $text =~ s{/\*.*?\*/|\(\w+_t\)|(?<=\d)[UL]+\b}{}g;

    return 0 if $text =~ /NGX_CONF_UNSET/;

    return $text =~ /^[\d\s*+()-]+$/ ? eval $text : undef;
}


my $quantity = qr/(\d[\d,]*(?:\.\d+)?)[ ]?
    (%|ms|[smhdk]b?|MB|KB|(?:day|hour|minute|second)s?)?(?![\w^])/xi;


sub value {
    my ($n, $unit, $units) = @_;

    $unit = lc($unit // '');
    $unit = substr $unit, 0, 1 if length $unit > 2;

    return $n eq '0' ? 0
        : $units->{$unit} ? $n =~ tr/,//dr * $units->{$unit} : -1;
}


sub bounds {
    my ($text, $low, $high, $units) = @_;

    return 1 if !$low && !$high || $low == 1 && !$high;

    while ($text =~ /(?:$quantity (?:to|and) )$quantity/g) {
        my ($n, $unit) = ($1, $2 // $4);
        return 1 if value($n, $unit, $units) == $low
            && value($3, $4, $units) == $high;
    }

    if (!$low) {
        while ($text =~ /(?:up to|at most|no more than) $quantity/g) {
            return 1 if value($1, $2, $units) == $high;
        }
    }

    if (!$high) {
        while ($text =~ /$quantity or more|at least $quantity/g) {
            return 1 if value($1 // $3, $2 // $4, $units) == $low;
        }
    }

    return 0;
}


sub default {
    my ($text, $init, $units, $line) = @_;

    while ($text =~ /default(?: is|:| of)? `?$quantity/gi) {
        return 1 if value($1, $2, $units) == $init;
    }

    while ($line =~ /$quantity/g) {
        return 1 if value($1, $2, $units) == $init;
    }

    return 0;
}


sub shown {
    my ($n, $units) = @_;
    my ($unit) = grep { $n % $units->{$_} == 0 }
        sort { $units->{$b} <=> $units->{$a} || $a cmp $b } keys %$units;

    return $n ? $n / $units->{$unit} . $unit : 0;
}


1;
