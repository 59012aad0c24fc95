package Test::Mcds::Status;

# Copyright (C) mcds authors

# Reads the JSON of mcds_status, and elements of it.

use warnings;
use strict;

use Exporter qw/ import /;
use JSON::PP;

use Test::Mcds;

our @EXPORT = qw/ status server settled entry entry_of sum_of worker_conn
    worker_pid /;


# returns the decoded JSON of mcds_status

sub status {
    my ($h, $uri) = @_;

    my $res = $h->get($uri // '/status');
    my $all = eval { JSON::PP->new->utf8->decode($res->body()) };

    die 'no JSON: ' . $res->status() . ' ' . $res->body() if !$all;

    return $all;
}


# the statistics of the n-th server of a pool, by default of the first one

sub server {
    my ($h, $pool, $n) = @_;

    my ($found) = grep { $_->{name} eq $pool } @{status($h)->{pools}};

    return $found->{servers}[$n // 0];
}


# the statistics of a server, once the sub returns true for them, or after 5
# seconds: other workers add their counts to shared memory with a delay

sub settled {
    my ($h, $pool, $n, $sub) = @_;

    my $s;

    wait_for(sub { $s = server($h, $pool, $n); $sub->($s) }, 5);

    return $s;
}


# a keepalive connection to the worker with the number $n

sub worker_conn {
    my ($h, $n) = @_;

    my @others;

    for (1 .. 300 + 20 * $h->workers()) {
        my $c = $h->conn();
        my $res = $c->get('/status');

        if (JSON::PP->new->decode($res->body())->{worker} == $n) {
            $_->close() for @others;
            return $c;
        }

        # the connections to other workers stay open, so that these workers have
        # more connections than worker $n

        push @others, $c;
    }

    die "no connection to worker $n\n";
}


sub worker_pid {
    my ($h, $n) = @_;

    my $c = worker_conn($h, $n);
    my $res = $c->get('/status');

    $c->close();

    return JSON::PP->new->decode($res->body())->{pid};
}


# requests the JSON of mcds_status; returns the element with a name from one of
# its lists: "caches", "counters" and so on

sub entry {
    my ($h, $list, $name) = @_;

    my ($found) = grep { $_->{name} eq $name } @{status($h)->{$list}};

    return $found;
}


# like entry(), but requests the JSON of mcds_status again and again until the
# sub returns true for the element, or 5 seconds are over

sub entry_of {
    my ($h, $list, $name, $sub) = @_;

    my $e;

    wait_for(sub { $e = entry($h, $list, $name); $sub->($e) }, 5);

    return $e;
}


sub sum_of {
    my ($hash, @names) = @_;

    my $sum = 0;
    $sum += $_ for @names ? @$hash{@names} : values %$hash;

    return $sum;
}


1;
