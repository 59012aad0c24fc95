#!/usr/bin/perl

# Copyright (C) mcds authors

# An array is linearizable: many append and read on two hosts while memcached
# stands still, loses connections or is restarted; a checker looks whether all
# of it could have been done one after the other.

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
    { start => 1, end => 2, done => 1, append => ['a'] },
    { start => 3, end => 6, done => undef, append => ['b'] },
    { start => 4, end => 5, done => 1, read => ['a'] },
    { start => 7, end => 8, done => 1, read => ['a', 'b'] },
);

is(join('; ', list_problems(@good)), '', 'checker: a good history');

for my $row (
    [[@good, { start => 9, end => 10, done => 1, read => ['a'] }], 'shorter'],
    [[@good, { start => 9, end => 10, done => 1, read => ['b', 'a'] }],
        'another'],
    [[@good, { start => 0, end => 0.5, done => 1, read => ['a'] }], 'before'],
    [[@good, { start => 1, end => 6.5, done => 1, append => ['c'] }], 'lost'],
    [[@good[0 .. 2], { start => 7, end => 8, done => 1, read => [] }],
        'what was there'],
    [[@good, { start => 9, end => 10, done => 1, read => ['a', 'b', 'a'] }],
        'twice'],
    [[{ start => 5, end => 6, done => 1, append => ['a'] },
        { start => 1, end => 2, done => 1, append => ['b'] },
        { start => 7, end => 8, done => 1, read => ['a', 'b'] }], 'behind'],
    [[{ start => 1, end => 2, done => 0, append => ['a'] },
        { start => 7, end => 8, done => 1, read => ['a'] }], 'not to be'],
) {
    like(join('; ', list_problems(@{$row->[0]})), qr/$row->[1]/,
        "checker: $row->[1]");
}


my $t = Test::Mcds->new();

# of these there are to be so many, or nothing was tried

my $few = 20;

my $m = $t->memcached('m');

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 200ms;
                     fail_timeout 1s; }
    mcds_api_methods GET POST PUT;

    server {
        listen 127.0.0.1:%%PORT%%;
        location / { mcds_array_api $uri; }
    }
}
EOC

my @h = map { $t->nginx($_, $conf) } qw/ a b /;


# it stands still from time to time

my $wait = aside(sub { run('/freeze') });

for (1 .. $t->size(2, 8)) {
    sleep(0.15);
    $m->freeze();
    sleep(0.3);
    $m->cont();
}

my @ops = $wait->();

push @ops, final('/freeze', @ops);
is(join('; ', list_problems(@ops)), '', 'frozen: linearizable');
told('frozen', @ops);


# it is restarted: the list begins anew, and that is all

$wait = aside(sub { run('/restart') });

my @times = (time());

for (1 .. $t->size(2, 8)) {
    sleep(0.25);
    push @times, time();
    $m->kill9();
    $m->restart();
    push @times, time();
}

@ops = $wait->();
push @ops, final('/restart', @ops);
push @times, time();

# between two restarts, of what began there; what had ended when memcached was
# killed is lost

my $killed = 0;
my $judged = 0;

while (my ($from, $to) = splice @times, 0, 2) {
    my @then = grep { $_->{start} > $from && $_->{end} < $to } @ops;
    my %whole = map { $_ => 1 } map { @{$_->{append} // []} } @then;
    my %lost = map { $_ => 1 } map { @{$_->{append}} }
        grep { $_->{append} && $_->{end} < $killed } @ops;

    # what was under way at the restart may be in it, or not

    for my $op (grep { $_->{read} } @then) {
        fail("restarted: $_ is back") for grep { $lost{$_} } @{$op->{read}};
        $op->{read} = [grep { $whole{$_} } @{$op->{read}}];
    }

    $killed = $to;

    next if !grep { $_->{read} && $_->{done} } @then;
    $judged++;
    is(join('; ', list_problems(@then)), '', 'restarted: linearizable');
}

cmp_ok($judged, '>', 0, 'restarted: something was read');
told('restarted', @ops);


# read, add one, replace it if it is still the same

$wait = aside(sub { map { $_->status() } add() });
sleep(0.2);
$m->freeze();
sleep(0.3);
$m->cont();

my @statuses = $wait->();
my $done = grep { $_ == 204 } @statuses;
my $unknown = grep { $_ == 503 } @statuses;
my ($number) = known('/number')->body() =~ /\[(\d+)\]/;

cmp_ok($done, '>=', $few, "If-Match: $done have done it");
cmp_ok($number, '>=', $done, "If-Match: nothing is lost of $done");
cmp_ok($number, '<=', $done + $unknown, 'nothing is there twice');

$t->done();


# 32 clients of two hosts, until there is something to look at

sub run {
    my ($uri) = @_;

    my $begin = time();
    my $end = $begin + $t->size(1, 4);
    my @ops;

    while (time() < $end || (few(@ops) && time() < $begin + 30)) {
        my @r = many(64, sub {
            my $i = @ops + $_[0];

            return [$h[$i % 2]->port(), $uri] if $i % 3 == 0;
            return [$h[$i % 2]->port(), $uri, method => 'POST',
                body => $i % 5 ? $i : "[$i,$i.5]",
                headers => { 'Content-Type' => 'application/json' }];
        }, concurrency => 32);

        for my $r (@r) {
            my $i = @ops;

            push @ops, $i % 3 == 0
                ? { read => values_of($r), done => $r->status() == 200 || 0 }
                : { append => [$i % 5 ? $i : ($i, "$i.5")], done => done($r) };
            @{$ops[-1]}{qw/ start end /} = ($r->{start}, $r->{end});
        }
    }

    return @ops;
}


sub values_of {
    my ($r) = @_;

    return [$r->status() == 200 ? $r->body() =~ /[\d.]+/g : ()];
}


sub done {
    my ($r) = @_;

    return $r->status() == 204 ? 1
        : $r->body() =~ /nothing was done/ ? 0 : undef;
}


sub final {
    my ($uri) = @_;
    my $r = known($uri);

    return { read => values_of($r), done => 1, start => $r->{start},
        end => $r->{end} };
}


# the answer as soon as the host asks memcached again: for fail_timeout after a
# failure it does not

sub known {
    my ($uri) = @_;
    my $r;

    wait_for(sub { ($r = get($uri))->status() == 200 }, 10);

    return $r;
}


sub get { return http_get($h[0]->port(), $_[0]) }


sub few { return 100 >= grep { $_->{append} && $_->{done} } @_ }


sub told {
    my ($name, @ops) = @_;

    ok(!few(@ops), "$name: enough of " . @ops . ' appended');
    cmp_ok(scalar(grep { $_->{read} && $_->{done} } @ops), '>=', $few,
        "$name: enough read");
}


sub add {
    my ($least, $tries, $done, @r) = ($t->size(80, 800), 0, 0);

    # memcached is not asked for a while, so it may take more than that

    while ($tries++ < $least || $done < $few && $tries < 5000) {
        my $now = get('/number');

        if ($now->status() != 200) {
            sleep(0.01);
            next;
        }

        my ($n) = $now->body() =~ /\[(\d+)\]/;
        my $tag = $now->header('ETag');

        # four at once, of which one can succeed

        push @r, many(4, sub { [$h[$_[0] % 2]->port(), '/number',
            method => 'PUT', body => '[' . (($n // 0) + 1) . ']',
            headers => { 'Content-Type' => 'application/json',
                $tag ? ('If-Match' => $tag) : ('If-None-Match' => '*') }] });
        $done = grep { $_->status() == 204 } @r;
    }

    return @r;
}
