#!/usr/bin/perl

# Copyright (C) mcds authors

# Both servers of a durable counter are emptied.  While a worker raises the
# counter to the number that it knows, a count of another host has reached one
# of the servers, and is still under way to the other: it is not counted twice.

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

my $two = $t->fake('two', sub {
    my ($f, $c, $line, $value) = @_;

    if (($f->mode() // '') eq 'other' && $line =~ /^ma (\S+) D\d+ C/
        && !$f->{added}++)
    {
        $f->default("ma $1 D1 v");
        return ($f->hold('add'), $f->default($line, $value));
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

ok(wait_for(sub { $two->held('add') }), 'raised: another host is first');
ok(wait_for(sub { $one->get($key) == 8 }), 'one server has it');

# two counts of another host are on the first server, but only one of them is on
# the second; then this host counts on both, and knows the number of the first

$one->mc("ma $key D1") for 1 .. 2;

my $next = start_get($h->port(), $key);

ok(wait_for(sub { $one->get($key) == 11 }), 'this host counts again');

$two->release('add');

is($next->response()->body(), 11, 'the next count');
cmp_ok($lost->response()->body(), '>=', 8, 'the count after the loss');

# the other count of that host reaches the second server

$two->mc("ma $key D1");

cmp_ok($two->get($key), '<=', 11, 'nothing is counted twice');
cmp_ok($two->get($key), '>', 8, 'and the counter is raised');

$t->done();
