#!/usr/bin/perl

# Copyright (C) mcds authors

# One hung server of three: who asks the others has his answer while those who
# ask the hung one still wait; these wait for one timeout, all of them, and only
# until the breaker opens.  bench/bench.pl hung tells what the others pay.

use warnings;
use strict;

use List::Util qw/ max /;
use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at one worker');

# all that comes to a server that hangs stays without an answer

my @m = map { $t->fake("m$_", sub {
    my ($f, $c, $line) = @_;
    return $f->mode() eq 'hung' ? $f->stall() : undef;
}) } 0 .. 2;

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => 'page of %u' });

my %limit = (short => 1 * $t->slow(), long => 6 * $t->slow());

my %host = map { my $ms = $limit{$_} * 1000; $_ => $t->nginx($_, <<"EOT")
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        server       127.0.0.1:%%PORT_m2%%;
        distribution modula;
        timeout      ${ms}ms;
        max_fails    3;
        fail_timeout 60s;
    }
    add_header X-Cache \$mcds_cache_status;
    add_header X-Time  \$request_time;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /n {
            mcds_counter \$n key=\$arg_k;
            mcds_counter_buffer \$n off;
            mcds_return "<\$n>";
        }
        location /p {
            mcds_cache on;
            mcds_cache_key page:\$arg_k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT
    } sort keys %limit;

my ($long, $short) = map { $host{$_}->port() } qw/ long short /;

# which server has which counter and page

my (@uris, @on);

for my $k (1 .. 60) {
    $host{long}->get("/n?k=$k");
    $host{long}->get("/p?k=$k");
}

ok(wait_for(sub { 60 == map { $_->commands(qr/^ms <>page:\d+ \d/) } @m }),
    'pages are stored');

for my $i (0 .. 2) {
    my %seen;

    push @{$on[$i]}, grep { !$seen{$_}++ } map { /^ma (\d+) / ? "n?k=$1" : () }
        $m[$i]->commands();
    push @{$on[$i]}, map { /^ms <>page:(\d+) \d/ ? "p?k=$1" : () }
        $m[$i]->commands();

    cmp_ok(scalar @{$on[$i]}, '>', 20, "server $i has some");
}

my $hung = 1;
my @well = (@{$on[0]}, @{$on[2]});
my @bad = grep { /^n/ } @{$on[$hung]};

sub wrong {
    return scalar grep { $_->status() != 200
        || $_->body() !~ /^<\d+>$/ && $_->header('X-Cache') ne 'HIT' } @_;
}


# those who wait for the hung one hold nobody up

$m[$hung]->tell('hung');
$_->mark() for @m;

my @waiting = map { start_get($long, "/$_") } @bad;

ok(wait_for(sub { $m[$hung]->count(qr/^ma/) }), 'some wait');

my $watch = $t->stopwatch();
my @res = many(scalar @well, sub { [$long, "/$well[$_[0]]"] },
    concurrency => 20);

is(wrong(@res), 0, 'those who ask the others have their answers');
is(scalar(grep { $_->fill(0); length $_->{in} } @waiting), 0,
    'while they still wait');
cmp_ok($watch->(), '<', $limit{long}, 'which is not for long');

is(scalar(grep { finish($_, 10 + $limit{long})->body() ne '<>' } @waiting), 0,
    'then they have none');

for my $i (0, 2) {
    is($m[$i]->opened_count(), 0, "no new connection to server $i");
}


# at most one timeout, all at once; three of them open the breaker.  No count is
# kept: the worker would send it before a round begins, and its timeout would
# end the wait of the requests behind it

for my $round (1 .. 3) {
    my $downs = downs();

    @res = many(30, sub { [$short, "/$bad[$_[0] % @bad]"] },
        concurrency => 30);

    is(scalar(grep { $_->body() ne '<>' } @res), 0, "round $round: no number");

    # the clock of nginx, which stands still during a turn of its loop; it is
    # in milliseconds, and so are its differences

    cmp_ok(max(map { $_->header('X-Time') } @res), '>=', $limit{short} - 0.002,
        "round $round: they wait");
    cmp_ok(max(map { $_->calm() } @res), '<', 2 * $limit{short},
        "round $round: for one timeout");
    is(downs() - $downs, $round == 3 ? 1 : 0, "round $round: the breaker");
}


# from now on nobody waits, and nothing is sent but probes

$_->mark() for @m;

for my $try (1 .. 3) {
    @res = many(300, sub { my $i = shift; [$short, '/'
        . ($i % 3 ? $well[$i % @well] : $bad[$i % @bad])] },
        concurrency => 20);

    last if max(map { $_->calm() } @res) < $limit{short} / 2;
}

cmp_ok(max(map { $_->calm() } @res), '<', $limit{short} / 2,
    'then nobody waits');
is(wrong(@res[grep { $_ % 3 } 0 .. $#res]), 0, 'the others answer as before');
is(scalar(grep { $res[$_]->body() ne '<>' } grep { $_ % 3 == 0 } 0 .. $#res),
    0, 'the hung one is not asked');
is($m[$hung]->count(qr/^(?!version$|mn$|mg mcds:probe )/), 0,
    'but by probes');

$t->done();


sub downs {
    return $host{short}->log_count(qr/pool "main" is down after 3 failures/);
}
