#!/usr/bin/perl

# Copyright (C) mcds authors

# What bash and zsh offer when tab is pressed behind mcds: its commands, and of
# each command the words and options that it takes, which are asked of the
# program itself.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();
my $mcds = Test::Mcds::Tool->new($t, '-s', '127.0.0.1:1');
my $files = "$FindBin::Bin/../tools/completion";

# where somebody types

open(my $terminal, '+<', '/dev/ptmx') or $t->leave('no /dev/ptmx');
close($terminal);

# what there is: names and texts of commands, their words, options

my $help = $mcds->run('--help')->{out};
my ($list, $options) = $help =~ /^commands:\n(.*)^options:\n(.*)^exit codes/ms;

my (%text, %words, %takes, %all, %no);

while ($list =~ /^  (\w+) ?(.*)\n        (.*)\n/mg) {
    my ($name, $args, $text) = ($1, $2, $3);

    $text{$name} = $text;
    $words{$name} = [map { split /\|/ }
        $args =~ /(?:^|\| )([a-z]+(?:\|[a-z]+)*) [A-Z]/g];
}

while ($options =~ /^  (-\w,|   ) --([a-z-]+)(?:=([A-Z]+))?/mg) {
    $all{$2} = { short => substr($1, 0, 2), value => !defined $3 ? ''
        : { TIME => '=1s', N => '=2', LINE => '=a:b',
            SECONDS => '=1' }->{$3} // '=x' };
}

my @common = grep { $all{$_}{short} ne '  ' } keys %all;

delete @all{@common};

for ($t->run('sh', '-c', 'for command in $1; do for option in $2; do
    "$0" $command $option 2>&1; done; done', $mcds->{program},
    "@{[keys %text]}", "@{[map { qq(--$_$all{$_}{value}) } keys %all]}")
    =~ /^(mcds \w+: does not accept --[a-z-]+)$/mg)
{
    $no{$_} = 1;
}

for my $command (grep { $_ ne 'version' } keys %text) {
    $takes{$command} = sorted(map { "--$_" } @common,
        grep { !$no{"mcds $command: does not accept --$_"} } keys %all);
}

my $common = sorted(map { "--$_" } @common);

cmp_ok(scalar keys %takes, '>', 10, 'commands');
cmp_ok(scalar keys %all, '>', 15, 'options');
isnt($takes{$_}, $common, "$_ has options of its own") for qw/ get purge log /;
is($takes{bench}, $common, 'bench has none');
is("@{$words{counter}}", 'get reset set add', 'words of counter');

# bash

my $bash = <<'EOT';
_asked() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _mcds
    echo "${COMPREPLY[@]}"
}
compopt() { :; }
EOT

sub sorted { join ' ', sort @_ }

sub in_bash {
    my @words = @_;

    return sorted(map { s/=$//r } split ' ', $t->run('bash', '-c',
        "source $files/mcds.bash; $bash _asked \"\$@\"", 'bash', @words));
}

is(in_bash('mcds', ''), sorted(keys %text, 'help', split ' ', $common),
    'bash: commands, and options of all');
is(in_bash('mcds', 'che'), 'check', 'bash: the beginning of one');

for my $command (sort keys %takes) {
    is(in_bash('mcds', $command, @{$words{$command}} ? 'x' : (), '--'),
        $takes{$command}, "bash: $command, options");

    is(in_bash('mcds', $command, ''), sorted(@{$words{$command}}),
        "bash: $command, words") if @{$words{$command}};
}

# an interactive zsh, in a terminal that it makes

my $zsh = $t->write_file('press.zsh', <<'EOT');
emulate -R zsh
zmodload zsh/zpty || exit 1
zpty -b shell 'TERM=dumb zsh -f -i'

line () { zpty -w shell "$1" }
answer () { zpty -r -m shell answer "*$1*" }

# all that is possible is listed at once, and nothing stands before it

line 'stty -echo cols 200 rows 500; PS1='
line 'unsetopt prompt_cr prompt_sp list_ambiguous list_types beep'
line 'LISTMAX=400'
line "fpath=(${(q)1} \$fpath); autoload -U compinit"
line "compinit -u -d ${(q)1}/dump"
line "mark () { print -r -- MA''RK }; zle -N mark; bindkey '^X' mark"
line "print READ''Y"
answer READY
shift

for text; do
    zpty -n -w shell "$text"$'\t\x18'
    answer MARK
    print -r -- "<<$text>>$answer"
    zpty -n -w shell $'\x15'
done

line exit
EOT

SKIP: {
    skip 'no zsh', 1 if !$t->has('zsh');

    mkdir $t->dir() . '/functions';
    symlink "$files/mcds.zsh", $t->dir() . '/functions/_mcds'
        or die "symlink: $!\n";

    my @lines = ('mcds ', 'mcds che', 'mcds -', map { @{$words{$_}}
        ? ("mcds $_ ", "mcds $_ $words{$_}[0] --") : "mcds $_ --" }
        sort keys %takes);
    my %shown = $t->run('timeout', 60 * $t->slow(), 'zsh', '-f', $zsh,
        $t->dir() . '/functions', @lines) =~ /^<<(.*?)>>(.*?)(?=^<<|\z)/msg;

    # without what zsh writes to the line itself

    my $line = $shown{'mcds che'};

    s/\A.*?\r\r\n//s, s/^mcds .*MARK\s*\z//m for values %shown;

    like($line, qr/mcds check MARK/, 'zsh: the beginning of a command');

    is_deeply({ $shown{'mcds '} =~ /^(\w+) +-- (.*?) *\r?$/mg },
        { %text, help => 'print help' }, 'zsh: commands and their texts');
    is(sorted($shown{'mcds -'} =~ /(?<!\S)(--?[A-Za-z]\S*)/g),
        sorted(split(' ', $common), $help =~ /^  (-\w), /mg),
        'zsh: options of all');

    for my $command (sort keys %takes) {
        my $after = @{$words{$command}} ? " $words{$command}[0]" : '';

        is(sorted($shown{"mcds $command$after --"} =~ /(?:^| )(--[a-z-]+)/mg),
            $takes{$command}, "zsh: $command, options");

        is(sorted(split ' ', $shown{"mcds $command "}),
            sorted(@{$words{$command}}), "zsh: $command, words") if $after;
    }
}

# where zsh looks for it after "make install-tool"

SKIP: {
    skip 'no zsh or make', 2 if !$t->has('zsh') || !$t->has('make');

    local @ENV{qw/ MAKEFLAGS MFLAGS MAKELEVEL /} = ('', '', '');

    my $to = $t->dir() . '/installed';
    my $said = $t->run('make', '-C', "$FindBin::Bin/..", '-o', 'tool',
        'install-tool', "DESTDIR=$to", 'PREFIX=/usr/local',
        "TOOL=$mcds->{program}");

    my ($installed) = $t->run('find', $to, '-name', '_mcds') =~ m{^(.*)/}m;

    ok($installed, 'installed') or diag($said);

    is(scalar(grep { "$to$_" eq $installed }
        split /\n/, $t->run('zsh', '-f', '-c', 'print -l $fpath')), 1,
        'zsh looks there') or diag($installed);
}

$t->done();
