#!/usr/bin/perl

# Copyright (C) mcds authors

# Perl's clients on libmemcached, Memcached::libmemcached and
# Cache::Memcached::libmemcached, and mcds find each other's keys.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Interop;

my $t = Test::Mcds->new()->needs('Memcached::libmemcached',
    'Cache::Memcached::libmemcached');

my $i = Test::Mcds::Interop->new($t, {
    modula => 'distribution modula;',
    modula_crc => 'distribution modula_crc;',
    consistent => 'distribution consistent;',
    ketama => 'distribution ketama;',
});

# constants of libmemcached

my %is = map { $_ => Memcached::libmemcached->can("MEMCACHED_$_")->() }
    qw/ BEHAVIOR_HASH BEHAVIOR_DISTRIBUTION BEHAVIOR_KETAMA_WEIGHTED HASH_CRC
        DISTRIBUTION_CONSISTENT /;

my %behavior = (
    modula => [],
    modula_crc => [$is{BEHAVIOR_HASH}, $is{HASH_CRC}],
    consistent => [$is{BEHAVIOR_DISTRIBUTION}, $is{DISTRIBUTION_CONSISTENT}],
    ketama => [$is{BEHAVIOR_KETAMA_WEIGHTED}, 1],
);

my %option = (
    modula => [],
    modula_crc => [hashing_algorithm => $is{HASH_CRC}],
    consistent => [distribution_method => $is{DISTRIBUTION_CONSISTENT}],
    ketama => [behavior_ketama_weighted => 1],
);

for my $setting (qw/ modula modula_crc consistent ketama /) {
    my $client = sub { plain($setting, @_) };

    $i->agree($setting, $client, as => "$setting, plain");
    $i->agree($setting, $client, as => "$setting, plain",
        weights => $setting =~ /modula/ ? 'theirs' : 1);

    $client = sub { cache($setting, @_) };

    # its options come behind its servers: weights are for ketama only

    $i->agree($setting, $client, as => "$setting, cache");
    $i->agree($setting, $client, as => "$setting, cache",
        weights => $setting ne 'ketama' ? 'theirs' : 1);
}

$t->done();


sub plain {
    my ($setting, $set, $get, @servers) = @_;

    my $mc = Memcached::libmemcached->new();

    $mc->memcached_behavior_set(@{$behavior{$setting}})
        if @{$behavior{$setting}};
    $mc->memcached_server_add_with_weight($_->{host}, $_->{port},
        $_->{weight}) for @servers;

    $mc->memcached_set($_, $set->{$_}) || die $mc->errstr() . "\n"
        for keys %{$set // {}};

    return map { scalar $mc->memcached_get($_) } @$get;
}


sub cache {
    my ($setting, $set, $get, @servers) = @_;

    my $mc = Cache::Memcached::libmemcached->new({
        servers => [map { [$_->{address}, $_->{weight}] } @servers],
        @{$option{$setting}},
    });

    $mc->set($_, $set->{$_}) || die "$_: not stored\n"
        for keys %{$set // {}};

    return map { scalar $mc->get($_) } @$get;
}
