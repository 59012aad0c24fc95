#!/usr/bin/perl

# Copyright (C) mcds authors

# Lines that a worker could not write until it ends are lost: mcds_status has
# them among those that were, and so has the log.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('single', 'nginx cannot reload then')
    ->allow(qr/is down after/);

my $f = $t->fake('f', sub { return });

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_zone 8m;
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; }
    log_format n '$arg_n';
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /n { mcds_log log n; return 204; }
        location = /status { mcds_status; }
    }
}
EOC

sub counted { return (grep { $_->{name} eq 'log' } @{status($h)->{logs}})[0] }

$h->get('/n?n=written') for 1 .. 3;
ok(wait_for(sub { counted()->{lines}{written} == 3 }), 'three are written');
is(counted()->{lines}{lost}, 0, 'none is lost');

$f->refuse(1);
$f->close_all();
$h->get('/n?n=lost') for 1 .. 7;
is(counted()->{lines}{lost}, 0, 'nor without memcached, as long as it tries');

$h->reload(wait_old => 1);
ok(wait_for(sub { counted()->{lines}{lost} == 7 }),
    'lines that the worker has not written when it ends are lost')
    or diag(explain(counted()));
is(counted()->{lines}{written}, 3, 'no more is written');
ok($h->log_has(qr/"mcds_log log" has lost 7 lines/), 'and it is said');

$t->done();
