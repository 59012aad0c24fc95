package Test::Mcds::Dump;

# Copyright (C) mcds authors

# dump_module($t) builds t/lib/dump.c with the headers of the nginx that the
# module was built for, and returns the directive that loads it after the
# module; dump_module($t, 'order') builds t/lib/order.c.

use warnings;
use strict;

use Exporter qw/ import /;
use File::Basename qw/ dirname /;
use FindBin;
use Test::More;

our @EXPORT_OK = qw/ dump_module /;


sub dump_module {
    my ($t, $name) = @_;

    $name //= 'dump';

    $t->leave('the module that tells it is not sanitized')
        if $t->watched();

    my $root = dirname($FindBin::Bin);
    my $so = $t->dir() . "/$name.so";
    my @headers = $t->nginx_headers()
        or $t->leave('there are no headers of this nginx');

    my $out = $t->run($ENV{CC} // 'cc', '-shared', '-fPIC', '-O', '-Wall',
        '-Wextra', '-Werror', '-Wno-unused-parameter',
        '-Wno-cast-function-type', '-o', $so, @headers,
        "$root/t/lib/$name.c");

    die "$name.c: $out" if $? != 0;

    return $so;
}


1;
