#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log_api reads only as many chunks of a busy log as are needed for the
# lines that are asked for, and more at a time the more are needed.

use warnings;
use strict;

use Test::More;
use Time::HiRes ();

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Log qw/ frame /;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

my $m = $t->memcached('m');

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 10s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /log { mcds_log_api log chunk=60s chunks=60; }
        location = /few { mcds_log_api few chunk=60s chunks=60; }
    }
}
EOC

# 40 chunks of two items with 60 lines each, and of one item with one line

my $last = int(Time::HiRes::time() / 60) - 1;

for my $i (0 .. 39) {
    my $chunk = $last - $i;

    $m->set("log:$chunk" . ($_ ? ":$_" : ''), frame(writer => 7 + $_, seq => 1,
        host => 'a', lines => [map { [$chunk * 60_000 + $_, 'x'] } 1 .. 60]),
        7200) for 0, 1;
    $m->set("few:$chunk", frame(writer => 7, seq => 1, host => 'a',
        lines => [[$chunk * 60_000, "$i"]]), 7200);
}

# the newest chunk, one after it or two, and what is asked for beside them

is(lines('/log?limit=10'), 10, 'the newest lines');
cmp_ok(gets(), '<=', 2 * (2 + 4) + 2, 'few items are read');

my $first = $last - 39;

is(lines("/log?limit=10&first=" . 60 * $first), 10, 'the oldest lines');
cmp_ok(gets(), '<=', 2 * 2 + 2, 'few items are read');
is(lines("/log?limit=300&first=" . 60 * $first), 300, 'lines of three chunks');
cmp_ok(gets(), '<=', 2 * (2 + 4) + 2 * 6, 'few items are read');
is(lines('/log?limit=10000'), 4800, 'all');
cmp_ok(gets(), '>=', 2 * 2 * 40, 'all items are read');

is(lines('/few?limit=1'), 1, 'one of few lines');
cmp_ok(gets(), '<=', 2 * (2 + 4), 'few items are read');
is(lines('/few?limit=40'), 40, 'all of few lines');
is(lines('/few'), 40, 'more than there are');

$t->done();


sub lines {
    my ($uri) = @_;

    my $r = $h->get($uri);

    is($r->status(), 200, "$uri: status");

    return $r->body() =~ tr/\n//;
}


# the number of items that were asked for since the last call

sub gets {
    our $before;

    my $now = $m->stats()->{cmd_get};
    my $n = $now - ($before // 0);

    $before = $now;

    return $n;
}
