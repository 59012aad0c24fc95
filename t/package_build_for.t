#!/usr/bin/perl

# Copyright (C) mcds authors

# misc/build-for says plainly why it builds nothing: another release, a source
# that is none, one that cannot be fetched, an nginx that cannot be matched.
# misc/nginx-modules finds the folder of the modules.

use warnings;
use strict;

use FindBin;
use Test::More;

use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
my ($misc, $dir) = ("$FindBin::Bin/../misc", $t->dir());


# something that has the answer of nginx -V

sub nginx {
    my ($name, @lines) = @_;

    $t->write_file($name, join "\n", '#!/bin/sh', "cat >&2 << 'END'", @lines,
        'END', '');
    chmod 0755, "$dir/$name";

    return "$dir/$name";
}


sub refused {
    my ($re, $name, @args) = @_;

    like($t->run("$misc/build-for", '--out', "$dir/out", @args), $re, $name);
    isnt($?, 0, "$name: exit code");
}


my $flags = "configure arguments: --prefix=/p --with-cc-opt='-O2 -g'";
my $old = nginx('old', 'nginx version: nginx/1.22.1', $flags);
my $static = nginx('static', 'nginx version: nginx/1.22.1',
    "$flags --add-module=/src/other");
my $none = nginx('none', 'nothing');

mkdir "$dir/$_" or die "mkdir: $!\n"
    for 'tree', 'tree/src', 'tree/src/core', 'new', 'new/src', 'new/src/core';
$t->write_file('tree/src/core/nginx.h', qq(#define NGINX_VERSION "1.22.1"\n));
$t->write_file('new/src/core/nginx.h', qq(#define NGINX_VERSION "1.26.3"\n));
$t->write_file('text', "no tarball\n");

refused(qr/^mcds: there is no "\/none\/nginx"$/m, 'no nginx', '/none/nginx');
refused(qr/names no version of nginx/, 'not nginx', $none);
refused(qr/is nginx 1\.22\.1, but "\S+new" is nginx 1\.26\.3/,
    'another release', '--source', "$dir/new", $old);
refused(qr/is openresty\/1\.31\.3\.1: give its own source/, 'OpenResty',
    nginx('openresty', 'nginx version: openresty/1.31.3.1', $flags));
refused(qr/is Angie\/1\.13\.0: give its own source/, 'Angie',
    nginx('angie', 'Angie version: Angie/1.13.0', 'nginx version: nginx/1.31.2',
        $flags));
refused(qr/is nginx 1\.31\.3, but "\S+new" is nginx 1\.26\.3/,
    'OpenResty, another release', '--source', "$dir/new", "$dir/openresty");
refused(qr/there is no source of nginx/, 'no source', '--source', $dir, $old);
refused(qr/is no tarball/, 'no tarball', '--source', "$dir/text", $old);
refused(qr/has "--add-module=\S+", and no --with-compat/,
    'what is built in cannot be matched', '--source', "$dir/tree", $static);
refused(qr/^usage: build-for/m, 'usage', '--sauce', $old);

{
    local $ENV{NGINX_MIRROR} = 'http://127.0.0.1:1';
    refused(qr/get the source of nginx 1\.22\.1 and\n.*--source/,
        'nothing to be fetched', $old);
}

is($t->run("$misc/nginx-modules", $old), "/p/modules\n",
    'modules below the prefix');
is($t->run("$misc/nginx-modules", nginx('path', 'nginx version: nginx/1.22.1',
    'configure arguments: --prefix=/p --modules-path=/m --with-compat')),
    "/m\n", 'modules where nginx was told');

$t->done();
