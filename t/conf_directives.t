#!/usr/bin/perl

# Copyright (C) mcds authors

# Every directive with every kind of mistake: nginx -t ends with 1 and one
# message, that names the directive, the value, the file and the line.  The
# mistakes follow from what the directives take, see Test/Mcds/Directives.pm.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Directives qw/ directives parameters wrong /;

my $t = Test::Mcds->new();
my $all = directives();
my $params = parameters();

mkdir $t->dir() . '/conf';
$t->write_file('secret', "0123456789abcdef0123456789abcdef\n");


# no directive is missing

my (%there, %params);

for my $path (glob "$FindBin::Bin/../src/{*,*/*}/*.c") {
    open my $fh, '<', $path or die "$path: $!\n";
    my $text = do { local $/; <$fh> };

    while ($text =~ /ngx_command_t\s+\w+\[\]\s*=\s*\{(.*?)\n\};/sg) {
        my $table = $1;
        $there{$_} = 1 for $table =~ /\{ ngx_string\("(\w+)"\)/g;
    }

    while ($text =~ /mcds_pool_param_t\s+\w+\[\]\s*=\s*\{(.*?)\n\};/sg) {
        my $table = $1;
        $params{$_} = 1 for $table =~ /\{ ngx_string\("(\w+)"\)/g;
    }
}

is_deeply([sort keys %$all], [sort keys %there], 'all directives are here');
is_deeply([sort keys %$params], [sort keys %params],
    'and all parameters of a pool');

delete $all->{$_} for grep { $t->lacks("$_ ") } keys %$all;


# where a directive stands, from the outside in; its line is that of "%s"

my %place = (
    main => "%s\nevents { }",
    events => "events {\n%s\n}",
    upstream => "events { }\nhttp {\nupstream u {\n%s\n} }",
    h => "events { }\nhttp {\n%%P\n%s\nserver { }\n}",
    s => "events { }\nhttp {\n%%P\nserver {\n%s\n} }",
    l => "events { }\nhttp {\n%%P\nserver { location / {\n%s\n} } }",
    I => "events { }\nhttp {\n%%P\nserver { if (\$uri) {\n%s\n} } }",
    i => "events { }\nhttp {\n%%P\nserver { location / { if (\$uri) {\n%s\n"
        . '} } } }',
    x => "events { }\nhttp {\n%%P\nserver { location / { limit_except GET {\n"
        . "%s\n} } } }",
);

# what nginx itself says of variables; of unknown ones when all is read

my $late = qr/unknown "nonsense" variable/;
my $core = qr/$late|closing bracket in "uri" var|invalid variable name/;

my $pool = '%%HTTP%% mcds_pool main { server 127.0.0.1:11211; }';
my (@cases, %count);

for my $name (sort keys %$all) {
    my $d = $all->{$name};
    my %at = map { $_ => 1 } split //, $d->{at};
    my @right = @{$d->{right}};
    my @words = @{$d->{words}};
    my $line = line($d, $name, @right);
    my $bare = line({ %$d, before => '' }, $name, @right);

    # right

    add($name, 'right', $_, $line) for sort keys %at;

    # not there

    add($name, 'place', $_, $bare, qr/directive is not allowed here/)
        for grep { !$at{$_} } sort keys %place;

    # too few words, too many, or twice

    my $where = $at{l} ? 'l' : 'h';
    my $least = $d->{least} // @words;

    add($name, 'less', $where, line($d, $name, @right[0 .. $least - 2]), qr/./)
        if $least;
    add($name, 'more', $where, line($d, $name, @right, ('surplus') x 2), qr/./)
        if !$d->{more};
    add($name, 'twice', $where, "$line $bare",
        qr/is duplicate|duplicate mcds_pool/) if !$d->{again};

    # wrong words

    for my $i (0 .. $#words) {
        for my $value (wrong($words[$i])) {
            my @with = @right;
            $with[$i] = $value;
            add($name, 'value', $where, line($d, $name, @with), qr/./, $value);
        }
    }

    if ($d->{more}) {
        add($name, 'value', $where, line($d, $name, @right, $_), qr/./, $_)
            for wrong($d->{more});
    }

    # wrong parameters

    for my $param (sort keys %{$d->{params}}) {
        my ($value, $kind) = @{$d->{params}{$param}};
        my $right = $param . ($value // '');

        add($name, 'right', $where, line($d, $name, @right, $right));
        add($name, 'twice', $where, line($d, $name, @right, $right, $right),
            qr/./, $right);
        next if !$kind;

        add($name, 'value', $where, line($d, $name, @right,
            $param . s/^""$//r), qr/./, s/^""$//r) for wrong($kind);
    }

    # long words: those of 64k nginx refuses by itself, and names nothing more

    for my $size (@words && ($d->{long} // 1) ? (3000, 65536) : ()) {
        my @with = (@right[0 .. $#right - 1], 'x' x $size . '$');
        add($name, 'long', $where, line($d, $name, @with), qr/./, 'x' x 10);
    }
}

# the same of a pool

for my $name (sort keys %$params) {
    my $d = $params->{$name};
    my @right = @{$d->{right}};
    my @words = @{$d->{words}};
    my $block = join ' ', $d->{alone} ? ()
        : 'server 127.0.0.1; distribution ketama;', $d->{block} // ();

    $place{$name} = "events { }\nhttp {\n%%HTTP%%\nmcds_pool p { $block\n"
        . "%s\n} }";

    my $line = join(' ', $name, @right) . ';';
    my $least = $d->{least} // @words;

    add($name, 'right', $name, $line) if !$d->{needs};
    add($name, 'less', $name, join(' ', $name, @right[0 .. $least - 2]) . ';',
        qr/invalid number of arguments/);
    add($name, 'more', $name, join(' ', $name, @right, ('surplus') x 4) . ';',
        qr/invalid number of arguments/);
    add($name, 'twice', $name, "$line $line", qr/is duplicate/)
        if !$d->{again};
    add($name, 'long', $name, "$name " . 'x' x 65536 . ';', qr/too long/,
        'x' x 10);

    for my $i (0 .. $#words) {
        for my $value (wrong($words[$i])) {
            my @with = @right;
            $with[$i] = $value;
            add($name, 'value', $name, join(' ', $name, @with) . ';', qr/./,
                $value);
        }
    }
}

my ($wrong, %wrong) = run_all(2);

cmp_ok($wrong, '>=', 400, "$wrong mistakes");

for my $name (sort keys %$all, keys %$params) {
    is(join("\n", @{$wrong{$name} // []}), '', $name);
}

$t->done();


sub line {
    my ($d, $name, @words) = @_;

    return join ' ', $d->{before} // (), $name, @words,
        $d->{block} ? "{ $d->{block} }" : ';';
}


sub add {
    my ($name, $kind, $where, $line, $re, $value) = @_;

    my $conf = $place{$where} =~ s/%%P/$pool/r;
    my ($before) = $conf =~ /^(.*?)%s/s;

    $value =~ s/^"(.*)"$|^\$\{?(?=uri$|nonsense)/$1 \/\/ ''/e if defined $value;

    push @cases, { name => $name, kind => $kind, where => $where,
        line => $line, re => $re, value => $value // '',
        at => 2 + ($before =~ tr/\n//), conf => "%%GLOBALS%%\n"
            . $conf =~ s/%s/$line/r . "\n" };
}


# two at a time, by shells, whose forks are cheap

sub run_all {
    my ($atonce) = @_;

    my $dir = $t->dir();
    my (@shells, %wrong);

    # where an nginx logs that is not Debian's

    mkdir "$dir/logs" or die "mkdir: $!\n";

    for my $n (0 .. $#cases) {
        $t->write_file("conf.$n", $t->expand($cases[$n]{conf}, 'conf'));
    }

    # nginx -t gives nothing back of what it has read

    local $ENV{ASAN_OPTIONS} = 'detect_leaks=0';

    for my $first (0 .. $atonce - 1) {
        open my $fh, '-|', 'sh', '-c', <<'EOT', $t->binary(), $dir, $first,
            nginx=$0 dir=$1 n=$2
            while [ $n -le $3 ]; do
                "$nginx" -t -p "$dir/" -c "conf.$n" -e stderr \
                    > "$dir/out.$n" 2>&1
                echo "$n $?"
                n=$((n + $4))
            done
EOT
            $#cases, $atonce or die "sh: $!\n";
        push @shells, $fh;
    }

    for my $fh (@shells) {
        while (my $line = <$fh>) {
            my ($n, $code) = split ' ', $line;
            my $case = $cases[$n];
            my $said = judge($case, $code, $t->read_file("out.$n")) // next;

            push @{$wrong{$case->{name}}},
                "$case->{kind} ($case->{where}): "
                . substr($case->{line}, 0, 100) . "\n$said";
        }

        close $fh;
    }

    return (scalar(@cases), %wrong);
}


sub judge {
    my ($case, $code, $output) = @_;

    if (!$case->{re}) {
        return $code == 0 ? undef : "ended with $code: $output";
    }

    my @emerg = $output =~ /^(.*\[emerg\].*)$/mg;
    my @missing;

    push @missing, "ended with $code" if $code != 1;
    push @missing, scalar(@emerg) . ' messages' if @emerg != 1;
    push @missing, 'a clean end' if $output =~ /Sanitizer|runtime error/;
    push @missing, 'what' if $output !~ $case->{re};
    push @missing, 'the directive' if $output !~ /\b$case->{name}\b/
        && $case->{kind} ne 'long' && $output !~ $core;
    push @missing, 'the value' if index($output, $case->{value}) < 0
        && $output !~ /invalid variable name/;
    push @missing, 'the line'
        if $output !~ m{/conf\.\d+:$case->{at}\b} && $output !~ $late;

    return @missing ? join(', ', @missing) . ": $output" : undef;
}
