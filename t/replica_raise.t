#!/usr/bin/perl

# Copyright (C) mcds authors

# Both servers of a durable counter are emptied.  While a worker raises the
# counter to the number that it knows, a count of another host has reached one
# of the servers, and is still under way to the other: it is not counted twice.
# What is known from before the loss reaches both servers, even if one of them
# needs a second attempt.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1);

my $one = $t->memcached('one');

# other: before the worker adds the missing part to the counter, another host
# counts, and the reply, that the counter has changed, comes when it is released
# late:  the reply to an increment by 3 comes when it is released

my $two = $t->fake('two', sub {
    my ($f, $c, $line, $value) = @_;

    if (($f->mode() // '') eq 'other' && $line =~ /^ma (\S+) D\d+ C/
        && !$f->{added}{$1}++)
    {
        $f->default("ma $1 D1 v");
        return ($f->hold("add$1"), $f->default($line, $value));
    }

    if (($f->mode() // '') eq 'late' && $line =~ /^ma \S+ .*\bD3\b/) {
        return ($f->hold('late'), $f->default($line, $value));
    }

    return;
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_one%%;
        server       127.0.0.1:%%PORT_two%%;
        distribution modula;
        replicas     2;
        timeout      10s;
    }
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location = /three {
            mcds_counter $three key=$arg_k by=3;
            mcds_return "$three";
        }
    }
}
EOT

my $key = '/n';

sub both { return join ' ', map { $_->get($key) // '-' } $one, $two }

$h->get($key) for 1 .. 7;
is(both(), '7 7', 'counted');

$_->mc("md $key") for $one, $two;
$two->mark();
$two->tell('other');

my $lost = start_get($h->port(), $key);

ok(wait_for(sub { $two->held("add$key") }), 'raised: another host is first');
ok(wait_for(sub { $one->get($key) == 8 }), 'one server has it');

# two counts of another host are on the first server, but only one of them is on
# the second; then this host counts on both, and knows the number of the first

$one->mc("ma $key D1") for 1 .. 2;

my $next = start_get($h->port(), $key);

ok(wait_for(sub { $one->get($key) == 11 }), 'this host counts again');

$two->release("add$key");

is($next->response()->body(), 11, 'the next count');
cmp_ok($lost->response()->body(), '>=', 8, 'the count after the loss');

# the other count of that host reaches the second server

$two->mc("ma $key D1");

cmp_ok($two->get($key), '<=', 11, 'nothing is counted twice');
cmp_ok($two->get($key), '>', 8, 'and the counter is raised');


# this host learns the number from before the loss only after it has sent the
# next count

$key = '/late';

$h->get($key) for 1 .. 7;
is(both(), '7 7', 'late: counted');

$two->tell('late');

my $before = start_get($h->port(), "/three?k=$key");

ok(wait_for(sub { $two->held('late') && $one->get($key) == 10 }),
    'late: the reply of one server is missing');

$_->mc("md $key") for $one, $two;
$two->tell('other');

$lost = start_get($h->port(), $key);

ok(wait_for(sub { both() eq '1 1' }), 'late: begins anew');

$two->release('late');

ok(wait_for(sub { $two->held("add$key") }), 'late: another host is first');

$two->release("add$key");

is($before->response()->body(), 10, 'late: the count before the loss');
is($lost->response()->body(), 10, 'late: the count after the loss');
is(both(), '10 10', 'late: both servers get the number that was known');

$t->done();
