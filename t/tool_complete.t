#!/usr/bin/perl

# Copyright (C) mcds authors

# The tool is linked with objects of all features.  Where the module was built
# without one of them, since its folder and its line in config are deleted, make
# says so in one sentence.

use warnings;
use strict;

use File::Basename qw/ basename dirname /;
use File::Path qw/ make_path /;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(module => 0);
my $addon = $t->dir() . '/addon';
my $top = "$FindBin::Bin/..";

# nginx's build makes an object of each source, in a folder with the last name

for my $source (glob "$top/src/{*,*/*}/*.c") {
    my $dir = 'addon/' . basename(dirname($source));

    make_path($t->dir() . "/$dir");
    $t->write_file("$dir/" . basename($source, '.c') . '.o', '');
}

is(complete(), '0 ', 'all features');

unlink glob "$addon/structures/ngx_mcds_log*.o";
is(complete(), '2 mcds: the tool needs all features, config leaves out that of '
    . "ngx_mcds_log.c\n", 'without logs');

$t->done();


# the exit code of make, and what it says itself

sub complete {
    my $said = $t->run('make', '--no-print-directory', '-C', $top, '-f',
        'tools/Makefile', "ADDON=$addon", 'NGINX=none', 'HEADERS=none',
        'OUT=' . $t->dir() . '/out', 'PROG=none', 'complete');

    return ($? >> 8) . ' ' . $said =~ s{^make(?:\[\d+\])?: .*\n}{}mgr;
}
