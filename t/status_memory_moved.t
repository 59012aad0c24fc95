#!/usr/bin/perl

# Copyright (C) mcds authors

# A memcached that does not know "stats" is not asked again how full it is, but
# the one at another address, to which its name leads later, is.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Dns;
use Test::Mcds::Status;

my $t = Test::Mcds->new();

my $d = $t->forked('Test::Mcds::Dns', 'd');

$d->names('localhost', '127.0.0.1');

# both on one port

my $m1 = $t->fake('m1', sub { $_[2] eq 'stats' ? "ERROR\r\n" : () });

$t->{ports}{m2} = $t->port('m1');

my $m2 = $t->fake('m2', sub {
    my ($f, $c, $line) = @_;
    return $line eq 'stats' ? "STAT bytes 5\r\nEND\r\n" : ();
}, addr => '127.0.0.2');

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    resolver 127.0.0.1:%%PORT_d%%;
    mcds_pool main { server localhost:%%PORT_m1%%; timeout 20s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /n { mcds_counter \$n key=n; mcds_return \$n; }
        location = /status { mcds_status; }
    }
}
EOT

sub ask { return status($h, '/status?memory=1') }
sub memory { return server($h, 'main')->{memory} }

ok(wait_for(sub { ask(); $m1->count(qr/^stats/) }), 'asked');
ok(!wait_for(sub { ask(); $m1->count(qr/^stats/) > 1 }, 2), 'not again');

$d->names('localhost', '127.0.0.2');

ok(wait_for(sub { ask(); $m2->count(qr/^stats/) }, 5), 'the next one is asked');
ok(wait_for(sub { (memory() // {})->{bytes} }, 5), 'and has answered');
is($m1->count(qr/^stats/), 1, 'the first one is left alone');

$t->done();
