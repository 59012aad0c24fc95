#!/usr/bin/perl

# Copyright (C) mcds authors

# Each element of a table is linearizable, and the list of names agrees with
# the elements in the end, while many set, delete and read the same ones on two
# hosts and memcached stands still or loses connections.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::History;
use Time::HiRes qw/ sleep time /;

# the checker can fail

my @good = (
    { start => 1, end => 4, done => 1, write => 'a' },
    { start => 2, end => 3, done => 1, read => 'a' },
    { start => 5, end => 6, done => undef, write => 'b' },
    { start => 7, end => 8, done => 1, read => 'a' },
    { start => 9, end => 10, done => 1, read => 'b' },
    { start => 11, end => 12, done => 1, write => undef },
    { start => 13, end => 14, done => 1, read => undef },
);

is(register_problems(undef, @good), undef, 'checker: a good history');

isnt(register_problems(undef, @good, $_), undef, 'checker: a bad history')
    for { start => 15, end => 16, done => 1, read => 'a' },
        { start => 4.5, end => 4.6, done => 1, read => 'b' },
        { start => 0, end => 0.5, done => 1, read => 'a' },
        { start => 4.5, end => 4.6, done => 1, read => undef },
        { start => 6.5, end => 6.6, done => 1, read => 'b' };


my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 200ms;
                     fail_timeout 1s; }
    mcds_api_methods GET PUT POST DELETE;

    server {
        listen 127.0.0.1:%%PORT%%;
        location /t/ { mcds_table_api table; }
    }
}
EOC

my @h = map { $t->nginx($_, $conf) } qw/ a b /;
my @names = map { "n$_" } 0 .. 11;

my $wait = aside(sub { run() });

for (1 .. $t->size(2, 8)) {
    sleep(0.4);
    $m->freeze();
    sleep(0.3);
    $m->cont();
}

my @ops = $wait->();
my $done = grep { exists $_->{write} && $_->{done} } @ops;

cmp_ok($done, '>', 200, "$done of " . @ops . ' done');

for my $name (@names) {
    is(register_problems(undef, grep { $_->{name} eq $name } @ops), undef,
        "$name: linearizable");
}


# when all is quiet: once more for those of which nothing is known

my ($r, %there);

wait_for(sub { http_get($h[$_ % 2]->port(), '/t/x')->status() == 404 or return
    for 1 .. 8; 1 }, 10);

my %unknown = map { $_->{name} => 1 } grep { !defined $_->{done} } @ops;

ok(wait_for(sub { names() eq elements() }, 3) || %unknown,
    'the names are those that are there');

for my $name (sort keys %unknown) {
    $r = request($name, 'PUT', 'last')->();
    is($r->status(), 204, "$name: set at last");
}

is(names(), elements(), 'the names are those that are there, at last');


# setting and deleting one by all at once

for (1 .. $t->size(40, 400)) {
    many(8, sub { [$h[$_[0] % 2]->port(), '/t/one', method =>
        $_[0] % 3 ? 'PUT' : 'DELETE', body => 'x'] });

    last if names() ne elements();
}

is(names(), elements(), 'names and elements agree');


# what memcached has dropped goes from the list when values are asked for

request('gone', 'PUT', 'x')->();
$m->delete('table:gone');
like(names(), qr/\bgone\b/, 'a name without an element');
unlike(http_get($h[0]->port(), '/t/?values=1')->body(), qr/gone/,
    'is not shown with values');
ok(wait_for(sub { names() !~ /\bgone\b/ }), 'and is forgotten then');

$t->done();


sub run {
    my $end = time() + $t->size(2.2, 7);
    my (@ops, @plan);

    # on a slow machine as long as it takes to do some

    while (time() < $end
           || (time() < $end + 20
               && 300 > grep { exists $_->{write} && $_->{done} } @ops))
    {
        @plan = map { { name => $names[rand @names],
            $_ % 2 ? () : (write => $_ % 8 ? @ops + $_ : undef) } } 0 .. 63;

        my @r = many(64, sub {
            my $op = $plan[$_[0]];

            return [$h[$_[0] / 2 % 2]->port(), "/t/$op->{name}",
                exists $op->{write} ? (method =>
                    defined $op->{write} ? 'PUT' : 'DELETE',
                    body => $op->{write} // '') : ()];
        }, concurrency => 32);

        for my $i (0 .. $#r) {
            my ($op, $r) = ($plan[$i], $r[$i]);

            $op->{start} = $r->{start};
            $op->{end} = $r->{end};

            if (exists $op->{write}) {
                $op->{done} = $r->status() =~ /204|404/ ? 1
                    : $r->body() =~ /nothing was done/ ? 0 : undef;

            } else {
                $op->{done} = $r->status() =~ /200|404/ || 0;
                $op->{read} = $r->status() == 200
                    ? $r->body() =~ /"(.*)"/ && $1 : undef;
            }
        }

        push @ops, @plan;
    }

    return @ops;
}


sub request {
    my ($name, $method, $body) = @_;

    return sub { http_request($h[0]->port(), "/t/$name", method => $method,
        body => $body) };
}


sub names {
    my $list = http_get($h[1]->port(), '/t/')->body();

    return join ' ', sort { $a cmp $b } $list =~ /"(.*?)"/g;
}


sub elements {
    return join ' ', sort map { /^table:(n\d+|one|gone)$/ ? $1 : () }
        $m->keys();
}
