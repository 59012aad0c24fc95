#!/usr/bin/perl

# Copyright (C) mcds authors

# What is published: the version, and what it is built with, are the same
# everywhere; make dist packs what is in git, the same each time, and from an
# unpacked tarball without git, too; the manual page has all of the reference
# and no Markdown left.

use warnings;
use strict;

use FindBin;
use Test::More;

use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
my ($top, $dir) = ("$FindBin::Bin/..", $t->dir());


sub slurp {
    my ($path) = @_;

    open my $fh, '<:raw', $path or return '';
    local $/;

    return <$fh>;
}


# names are sorted, and without folders

sub packed { return sort grep { !m{/\n$} } `tar -tzf '$_[0]'` }


my ($version) = slurp("$top/src/base/ngx_mcds.h")
    =~ /NGX_MCDS_VERSION\s+"(.*?)"/;

like(slurp("$top/debian/changelog"), qr/\A\w+ \(\Q$version\E\) /,
    "Debian's changelog begins with $version");
is(slurp("$top/debian/source/format"), "3.0 (native)\n",
    'the version of the package is that of the source');

# what it is built with is the same everywhere

my ($depends) = slurp("$top/debian/control")
    =~ /^Build-Depends: (.*?)^\S/ms;
my $docker = slurp("$top/Dockerfile");

for my $package (slurp("$top/misc/packages") =~ /^build +(z?lib.*-dev)$/mg) {
    next if $package eq 'libc6-dev';
    like($depends, qr/^\s*\Q$package\E\b/m, "Build-Depends: $package");
    like($docker, qr/\s\Q$package\E\s/, "Dockerfile: $package");
}

# make dist

my $one = $t->run("$top/misc/dist", "$dir/one");
chomp $one;

is($one, "$dir/one/mcds-$version.tar.gz", 'dist: its name');
ok(length slurp($one) > 100000, 'dist: not empty');

my @packed = packed($one);

is(scalar(grep { !m{^mcds-\Q$version\E/} } @packed), 0,
    'dist: all is in one folder');
is(scalar(grep { m{^[^/]+/(?:build|\.git)/} } @packed), 0,
    'dist: nothing that was built');

for my $file (qw{ config LICENSE README.md src/base/ngx_mcds.h misc/dist
    docs/reference.md debian/control t/package_files.t })
{
    is(scalar(grep { $_ eq "mcds-$version/$file\n" } @packed), 1,
        "dist: has $file");
}

# from a tarball

system('tar', '-xzf', $one, '-C', $dir) == 0 or die "tar: $?\n";
mkdir "$dir/mcds-$version/build";
open my $fh, '>', "$dir/mcds-$version/build/x" or die "open: $!\n";
close $fh;

chomp(my $three = $t->run("$dir/mcds-$version/misc/dist", "$dir/three"));

is_deeply([packed($three)], \@packed, 'dist: the same files without git');

chomp(my $four = $t->run("$dir/mcds-$version/misc/dist", "$dir/four"));
ok(slurp($three) eq slurp($four), 'dist: the same bytes again');

# the manual page

my $man = $t->run("$top/misc/man");
my @reference = (slurp("$top/docs/reference.md") =~ /^\| \[(mcds_\w+)\]\(/mg,
    'Reasons');

like($man,
    qr/^\.TH \w+_MCDS_MODULE 7 "\d{4}-\d\d-\d\d" "mcds \Q$version\E"/,
    'man: the title');
ok(@reference > 40, 'the reference has directives');
is_deeply([$man =~ /^\.SS (\w+)/mg], \@reference, 'man: has them all');
unlike($man, qr/`|\]\(|^##|^\||^- |\*\*/m, 'man: no Markdown');
unlike($man, qr/^['.](?!(?:TH|SH|SS|PP|IP|TP|RS|RE|BR|nf|fi|br)\b)/m,
    'man: no request by chance');

SKIP: {
    skip 'no man', 1 if !grep { -x "$_/man" } split /:/, $ENV{PATH};

    open my $out, '>', "$dir/page.7" or die "open: $!\n";
    print $out $man;
    close $out;

    is(`man -l --warnings -E UTF-8 '$dir/page.7' 2>&1 >/dev/null`, '',
        'man: no warnings');
}

$t->done();
