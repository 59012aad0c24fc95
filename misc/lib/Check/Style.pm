package Check::Style;

# Copyright (C) mcds authors

# C in nginx's style.

use warnings;
use strict;


# calls problem($where, $text)

sub check {
    my ($source, $path, $problem) = @_;

    my $text = $source->text($path);
    my $code = $source->code($path);
    my @lines = split /\n/, $code;
    my $ours = $path =~ m{^(?:src|tools)/};

    $problem->($path, 'no copyright line')
        if $text !~ /^ \* Copyright \(C\) mcds authors$/m;
    $problem->($path, 'does not begin with an empty line')
        if $text !~ m{\A\n/\*};

    if ($path =~ /\.h$/) {
        my $guard = '_' . uc($path =~ s{.*/}{}r =~ s/\W/_/gr) . '_INCLUDED_';
        $problem->($path, "no guard $guard") if $text !~ /^#ifndef $guard$/m;
    }

    for my $i (0 .. $#lines) {
        my $at = "$path:" . ($i + 1);
        local $_ = $lines[$i];

        $problem->($at, 'a comment of two slashes') if m{//};
        $problem->($at, "\"$1\" without a space")
            if /\b(if|for|while|switch)\(/ && !/^#/;
        $problem->($at, '")" and "{" without a space') if /\)\{/;
        $problem->($at, 'upper-case hexadecimal') if /\b0x\d*[A-F]/;
        $problem->($at, 'indented by ' . length($1))
            if /^( +)(?:if|for|while|return|switch|break|goto)\b/
            && length($1) % 4;
        $problem->($at, 'an else beside its brace') if /^\s*else\b/;
        $problem->($at, 'no blank line before else')
            if /^ *\} else/ && $i > 0 && $lines[$i - 1] =~ /\S/
            && $lines[$i - 1] !~ /^\s*[{#]|\{$/;
        $problem->($at, 'more than two blank lines')
            if $i > 2 && /^$/ && !length($lines[$i - 1])
            && !length($lines[$i - 2]);
    }

    check_functions($path, $problem, $ours, @lines);
}


sub check_functions {
    my ($path, $problem, $ours, @lines) = @_;

    my %declared;

    for my $i (0 .. $#lines) {
        my $at = "$path:" . ($i + 1);
        local $_ = $lines[$i];

        # a prototype of a static, or the only word on its line

        $declared{$1} //= $i if /^static .*?\b(\w+)\(/;

        if ($_ eq '{') {
            my $j = $i - 1;
            $j-- while $j > 0 && $lines[$j] =~ /^\s|^$/;

            if ($lines[$j] =~ /^(\w+)\(/) {
                my $name = $1;
                my $static = $j > 0
                    && $lines[$j - 1] =~ /^static\b(?! ngx_inline)/;
                my $prefix = $path =~ m{^src/(?:http|status)/}
                    ? 'ngx_http_mcds_' : $path =~ m{^tools/nginx/} ? 'ngx_'
                    : $path =~ m{^tools/} ? '(?:mcds_|main$|ngx_http_mcds_)'
                    : 'ngx_mcds_';

                $problem->("$path:" . ($j + 1),
                    "$name() has no prototype above")
                    if $static && $ours && !defined $declared{$name};
                $problem->("$path:" . ($j + 1),
                    "$name() is not named $prefix...")
                    if $ours && $name !~ /^$prefix/;

            } elsif ($lines[$j] =~ /^(?!struct|union|enum|typedef|static.*=)
                \w[\w\s*]*?[\s*](\w+)\(/x)
            {
                $problem->("$path:" . ($j + 1),
                    "the type of $1() is not on its own line");
            }
        }

        next if $_ ne '}';

        my $next = $i + 1;
        $next++ while $next <= $#lines && $lines[$next] eq '';
        next if $next > $#lines || $lines[$next] =~ /^#/;

        $problem->($at, 'not two blank lines behind it')
            if $next - $i != 3;
    }
}


1;
