#!/usr/bin/perl

# Copyright (C) mcds authors

# A worker remembers the highest number of all locks that it has had.  When
# memcached loses a count that was ahead of the clock, as after a host whose
# clock was, the next number is higher than that, whatever the worker has locked
# since.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_lock $arg_k ttl=5s wait=10s;
            mcds_return $mcds_lock_token;
        }
    }
}
EOT

sub number { return $h->get("/?k=$_[0]")->body() }

my $now = number('now');
my $ahead = 8_000_000_000_000_000;

cmp_ok($now, '>', 1_000_000_000_000_000, 'microseconds, at first');
cmp_ok($now, '<', $ahead, 'of this year');

$m->set('ahead:fence', $ahead);
is(number('ahead'), $ahead + 1, 'one that is ahead');

$m->set('low:fence', 5);
is(number('low'), 6, 'a low one, of another lock');
cmp_ok(number('now'), '<', $ahead, 'and one that goes on');

$m->delete('ahead:fence');
is(number('ahead'), $ahead + 2, 'lost: higher than the highest');

$m->flush();
is(number('new'), $ahead + 3, 'all are lost: another lock');
is(number('new'), $ahead + 4, 'and the next');
is(number('ahead'), $ahead + 5, 'and the one that was ahead');

$t->done();
