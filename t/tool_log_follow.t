#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds log follow, in a pool of three servers: one of them dies, and the new
# lines on the others are shown all the same, each once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Log qw/ crc32 /;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my @m = map { $t->memcached($_) } 0 .. 2;
my $servers = join ' ', map { 'server 127.0.0.1:' . $_->port() . ';' } @m;

my $conf = $t->write_file('nginx.conf', <<"EOC");
events { }
http {
    mcds_pool main { $servers distribution modula_crc; fail_timeout 300ms; }
    log_format f '\$uri';
    server { location / { mcds_log live f chunk=1s chunks=60; } }
}
EOC

my $mcds = Test::Mcds::Tool->new($t, '-c', $conf);

my $n = 0;
my $down = '';


# the command follows the log once it has shown a new line

line();

my $p = $mcds->start('log', 'follow', 'live');

ok(wait_for(sub { line(); return $p->lines() > 1 }, 20), 'it follows');


# each look asks for the chunks of the last ten seconds, which are on all of the
# servers

$m[$down = 2]->kill9();
ok(wait_for(sub { $p->errors() =~ /retrying/ }, 20), 'one server dies');

my $first = $n + 1;

line() for 1 .. 3;

ok(wait_for(sub { shown($first .. $n) }, 10),
    'the lines on the others are shown') or diag(join ' ', $p->lines());
is(() = $p->errors() =~ /retrying/g, 1, 'that it fails is told once');

$m[2]->restart();
$down = '';
line();

ok(wait_for(sub { shown($n) }, 20), 'it is back')
    or diag(join ' ', $p->lines());
is($p->stop(), 0, 'ends when it is told');

is(join(' ', sort { $a <=> $b } grep { $_ >= $first } $p->lines()),
    join(' ', $first .. $n), 'each line once');

$t->done();


# the numbers of all of these lines are shown

sub shown {
    my %shown = map { $_ => 1 } $p->lines();

    return !grep { !$shown{$_} } @_;
}


# writes a line at this time, or at the last one whose chunk is on a server that
# is up

sub line {
    my $time = time();

    $time-- while server($time) eq $down;
    is($mcds->run('log', 'write', 'live', ++$n, "--time=$time")->{code}, 0,
        "line $n");
}


sub server { return (crc32("live:$_[0]") >> 16 & 0x7fff) % 3 }
