#!/usr/bin/perl

# Copyright (C) mcds authors

# "modula_crc", with weights and without: Cache::Memcached,
# Cache::Memcached::Fast, python-memcached and nginx's own "hash" find what
# mcds stores, and the other way round.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Interop;

my ($python) = grep { `$_ -c 'import memcache' 2>&1`; $? == 0 }
    qw{ /usr/bin/python3 python3 };

plan(skip_all => 'no python-memcached') if !$python;

my $t = Test::Mcds->new()->needs('Cache::Memcached',
    'Cache::Memcached::Fast', 'String::CRC32');

my $i = Test::Mcds::Interop->new($t, {
    modula_crc => 'distribution modula_crc;',
});

my $script = $t->write_file('client.py', <<'EOT');
import json
import sys

import memcache

task = json.load(open(sys.argv[1]))

mc = memcache.Client([("%s:%d" % (s["host"], s["port"]), s["weight"])
                      for s in task["servers"]])

for key, value in task["set"].items():
    if not mc.set(key, str(value)):
        sys.exit("%s: not stored" % key)

values = [mc.get(key) for key in task["get"]]

print(json.dumps([str(v, "ascii") if isinstance(v, bytes) else v
                  for v in values]))
EOT

my %clients = (
    'Cache::Memcached' => sub { perl('Cache::Memcached', @_) },
    'Cache::Memcached::Fast' => sub { perl('Cache::Memcached::Fast', @_) },
    'python-memcached' => $i->program('', $python, $script),
    'nginx hash' => sub { nginx(@_) },
);

# python-memcached takes 1 for a hash of 0, as one key in 32768 has

my $zero = sub { ((String::CRC32::crc32($_[0]) >> 16) & 0x7fff) == 0 };

for my $name (sort keys %clients) {
    $i->agree('modula_crc', $clients{$name}, as => $name, weights => $_,
        without => $name eq 'python-memcached' ? $zero : undef) for 0, 1;
}

$t->done();


sub perl {
    my ($class, $set, $get, @servers) = @_;

    my $mc = $class->new({ servers => [
        map { $class =~ /Fast/
            ? { address => $_->{address}, weight => $_->{weight} }
            : [$_->{address}, $_->{weight}] } @servers] });

    $mc->set($_, $set->{$_}) || die "$_: not stored\n"
        for keys %{$set // {}};

    my @values = map { scalar $mc->get($_) } @$get;

    $mc->disconnect_all();

    return @values;
}


# it reads only; what it finds is stored by another that agrees

sub nginx {
    my ($set, $get, @servers) = @_;

    return perl('Cache::Memcached', $set, $get, @servers) if $set;

    return $i->nginx('hash $arg_k;', $get, @servers);
}
