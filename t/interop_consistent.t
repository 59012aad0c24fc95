#!/usr/bin/perl

# Copyright (C) mcds authors

# "nginx_consistent": nginx's own "hash ... consistent" and
# Cache::Memcached::Fast with ketama_points=160 find what mcds stores, and the
# other way round; with weights, and on unix sockets.

use warnings;
use strict;

use Config;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Interop;

my $t = Test::Mcds->new()->needs('Cache::Memcached::Fast');

my $i = Test::Mcds::Interop->new($t, {
    nginx_consistent => 'distribution nginx_consistent;',
    prefix => 'prefix site:; distribution nginx_consistent;',
});

my $sockets = Test::Mcds::Interop->new($t, {
    nginx_consistent => 'distribution nginx_consistent;',
}, unix => 1);

$i->agree('prefix', sub { fast(@_, 'site:') }, as => 'a prefix');

# on i386 weights are rounded in another way there than on other processors

my $rounds = ($Config{archname} !~ /^i\d86/);

for my $weights (0, 1) {
    $i->agree('nginx_consistent', \&fast, weights => $weights,
        as => 'Cache::Memcached::Fast') if !$weights || $rounds;
    $i->agree('nginx_consistent', \&nginx, weights => $weights,
        as => 'nginx hash consistent') if !$weights || $rounds;
    $sockets->agree('nginx_consistent', \&fast, weights => $weights,
        as => 'Cache::Memcached::Fast, sockets') if !$weights || $rounds;
    $sockets->agree('nginx_consistent', \&nginx, weights => $weights,
        as => 'nginx hash consistent, sockets');
}

$t->done();


sub fast {
    my ($set, $get, @servers) = @_;

    my $namespace = ref $servers[-1] ? '' : pop @servers;

    my $mc = Cache::Memcached::Fast->new({ ketama_points => 160,
        io_timeout => 20, connect_timeout => 20, servers => [
        map { { address => $_->{port} ? $_->{address} : $_->{host},
            weight => $_->{weight} } } @servers], namespace => $namespace });

    $mc->set($_, $set->{$_}) || die "$_: not stored\n"
        for keys %{$set // {}};

    return map { scalar $mc->get($_) } @$get;
}


# it reads only; what it finds is stored by another that agrees

sub nginx {
    my ($set, $get, @servers) = @_;

    return fast($set, $get, @servers) if $set;

    return $i->nginx('hash $arg_k consistent;', $get, @servers);
}
