#!/usr/bin/perl

# Copyright (C) mcds authors

# A view counter is exact: two hosts with two workers each, many clients, no
# view lost, none counted twice, each number handed out once; what comes in
# one turn of the event loop travels as one sum.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $m = $t->memcached('m');
my $f = $t->fake('f');

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $views key=views$arg_run;
            add_header X-Views $views;
            mcds_return "number $views\n";
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } qw/ a b /;


# a part of the requests tells its numbers, while the others are made

my $clients = 64;
my $requests = $t->size(20000, 640000);
my $watched = $t->size(2000, 20000);

for my $run (1 .. $t->size(1, 10)) {

    my $before = $m->stats();

    my $load = $t->load(ports => \@hosts, uri => "/?run=$run",
        clients => $clients, requests => $requests - $watched,
        expect => 'number ', background => 1);

    my @seen = map { $_->header('X-Views') // 'none' }
        watch(16, $watched / 16, "/?run=$run");
    my $result = $load->wait();

    is($result->{ok}, $requests - $watched, "run $run: all answered");
    is($result->{errors} + $result->{wrong}, 0, "run $run: no error");
    is($m->get("views$run"), $requests, "run $run: the counter is exact");

    my %seen;
    $seen{$_}++ for @seen;

    is(scalar(@seen), $watched, "run $run: numbers were seen");
    is(scalar(keys %seen), $watched, "run $run: all of them distinct");
    ok(!grep({ !/^[1-9]\d*$/ || $_ > $requests } keys %seen),
        "run $run: all of them in the range");

    my $after = $m->stats();
    my $commands = sum($after) - sum($before);

    cmp_ok($commands, '<', $requests, "run $run: batches were merged");
    note("$commands commands for $requests views");
}


# what comes in one turn is one command, and each still has its own number

my $one = $t->nginx('one', <<'EOT');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $views key=v$arg_k;
            add_header X-Views $views;
            mcds_return "number $views\n";
        }
    }
}
EOT

my @c = map { $one->conn() } 1 .. 40;
$_->get('/?k=0') for @c;
$f->mark();

$one->freeze();
$c[$_]->request('/?k=' . ($_ < 30 ? 'a' : 'b')) for 0 .. 39;
$one->cont();

my @views = map { $_->response()->header('X-Views') // 'none' } @c;
my @commands = $f->commands(qr/^ma /);

is_deeply([sort { $a <=> $b } @views[0 .. 29]], [1 .. 30], 'own numbers');
is_deeply([sort { $a <=> $b } @views[30 .. 39]], [1 .. 10], 'of each key');

is(scalar(@commands), 2, 'one command for each key');
is(join(' ', sort map { m/^ma (\S+) .*\b(J\d+) .*?\b(D\d+)/ ? "$1 $2 $3" : $_ }
    @commands), 'va J30 D30 vb J10 D10', 'that adds the sum');

my %reads = map { $_->{read} => 1 } $f->log();
is(scalar(keys %reads), 1, 'in one write');


# the sum is added to what was there

$_->request('/?k=a') for @c[0 .. 2];
is_deeply([sort { $a <=> $b } map { $_->response()->header('X-Views') }
    @c[0 .. 2]], [31 .. 33], 'numbers go on');

$_->close() for @c;
$t->done();


# n requests over as many connections as there are clients; of each host half

sub watch {
    my ($n, $each, $uri) = @_;

    my @c = map { $hosts[$_ % 2]->conn() } 1 .. $n;
    my @answers;

    for (1 .. $each) {
        $_->request($uri) for @c;
        push @answers, map { $_->response() } @c;
    }

    $_->close() for @c;

    return @answers;
}


sub sum {
    my ($stats) = @_;
    return $stats->{incr_hits} + $stats->{incr_misses};
}
