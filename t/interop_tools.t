#!/usr/bin/perl

# Copyright (C) mcds authors

# The programs of libmemcached-tools, memccp and memccat, and mcds find each
# other's keys.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Interop;

my $t = Test::Mcds->new()->needs('memccp', 'memccat');

my $i = Test::Mcds::Interop->new($t, {
    modula => 'distribution modula;',
    modula_crc => 'distribution modula_crc;',
    md5 => '--HASH=MD5',
});

my %option = (modula => [], modula_crc => ['--hash=crc'], md5 => ['-H', 'md5']);

mkdir $t->dir() . '/files';

for my $setting (qw/ modula modula_crc md5 /) {
    for my $weights (0, 'theirs') {
        $i->agree($setting, sub { tools($setting, @_) }, weights => $weights);
    }
}

$t->done();


# a file's name is the key

sub tools {
    my ($setting, $set, $get, @servers) = @_;

    my @option = (@{$option{$setting}}, '--servers='
        . join ',', map { "$_->{address}:$_->{weight}" } @servers);

    if ($set) {
        my @files = map { $t->write_file("files/$_", $set->{$_}) }
            sort keys %$set;

        is($t->run('memccp', @option, @files), '', "$setting: memccp");

        return;
    }

    return split /\n/, $t->run('memccat', @option, @$get);
}
