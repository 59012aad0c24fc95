#!/usr/bin/perl

# Copyright (C) mcds authors

# The number that a counter begins with comes late: requests go on without it,
# and the counts of all of them are added when it is there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', { body => '1000' });

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /n {
            mcds_counter $n key=n by=$arg_by;
            mcds_counter_init $n /number timeout=500ms;
            mcds_return "<$n>";
        }
        location = /number {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOC

$o->hold_path('/number');

# some together, then one after the other; each counts something else

my @by = map { 10 ** $_ } 0 .. 2, 0 .. 2;
my @r = many(3, sub { [$h->port(), "/n?by=$by[$_[0]]"] });

push @r, map { $h->get("/n?by=$_") } @by[3 .. 5];

is(join(' ', map { $_->body() } @r), join(' ', ('<>') x @by),
    'none of them has a number');
is($o->count('/number'), 1, 'it is asked for once');
ok(!defined $m->get('n'), 'and nothing is counted yet');

$o->release('/number');
ok(wait_for(sub { defined $m->get('n') }), 'the number is there');
ok(wait_for(sub { $m->get('n') == 1222 }), 'with all that was counted')
    or diag($m->get('n'));
is($h->get('/n?by=1')->body(), '<1223>', 'and goes on');

$t->done();
