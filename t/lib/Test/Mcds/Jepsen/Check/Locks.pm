package Test::Mcds::Jepsen::Check::Locks;

# Copyright (C) mcds authors

# Checks the locks of a long chaos run.  A lock of mcds_lock_api is held from
# the answer to the request that acquires it until a request to release it, or
# until its time to live has passed since the last request that acquired or
# extended it; a lock of mcds_lock is held for as long as the origin sees the
# request.

use warnings;
use strict;


sub check {
    my ($h, $found) = @_;

    return if $h->{profile} eq 'corrupt';

    my %held = held($h);
    my $n = 0;

    for my $name (sort keys %held) {
        overlaps($h, $found, $name, @{$held{$name}});
        tokens($h, $found, @{$held{$name}});
        $n += @{$held{$name}};
    }

    my %locked;
    push @{$locked{$_->{uri}}}, $_ for @{$h->{origin}};

    for my $uri (sort keys %locked) {
        my @those = map { { from => $_->{begin}, to => $_->{end},
            asked => $_->{begin}, token => $_->{token}, line => $_->{line} } }
            @{$locked{$uri}};

        # when a client or a worker disconnects, nginx closes the connection to
        # the origin; the origin may notice this after the lock was released

        my @whole = grep { $_->{line} =~ /whole$/ } @those;

        overlaps($h, $found, $uri, @whole);
        tokens($h, $found, @whole);
    }

    my %status;
    $status{$_->{status}}++ for @{$h->{crowd}{L} // []};

    return "$n locks, " . join(', ', map { "$_ $status{$_}" }
            sort keys %status) . '; ' . scalar(@{$h->{origin}})
            . ' requests with one';
}


# returns, by lock name, the intervals in which an owner could be sure to hold
# the lock

sub held {
    my ($h) = @_;

    my (%held, %by);

    for (sort { $a->{end} <=> $b->{end} } @{$h->{crowd}{L} // []}) {
        my $id = "$_->{uri} $_->{owner}";

        if ($_->{op} eq 'acquire' && $_->{token}) {
            $by{$id} = { from => $_->{end}, to => $_->{begin} + $_->{ttl} * 1e6,
                asked => $_->{begin}, token => $_->{token},
                line => $_->{line} };
            push @{$held{$_->{uri}}}, $by{$id};

        } elsif (my $held = $by{$id}) {

            # a request to release or extend the lock may have been executed
            # without an answer

            my $until = $_->{op} eq 'extend' && $_->{token}
                ? $_->{begin} + $_->{ttl} * 1e6 : $_->{begin};

            if ($_->{op} eq 'extend' && $_->{token}) {
                $held->{to} = $until;

            } elsif ($until < $held->{to}) {
                $held->{to} = $until;
            }
        }
    }

    return %held;
}


sub overlaps {
    my ($h, $found, $name, @held) = @_;

    @held = sort { $a->{from} <=> $b->{from} }
        grep { $_->{from} < $_->{to} } @held;

    my $last;

    for (@held) {
        $found->('lock', sprintf('%s, for %.3f s', $name,
            ($last->{to} - $_->{from}) / 1e6), $last->{line}, $_->{line})
            if $last && $_->{from} < $last->{to}
                && $_->{line} ne $last->{line}
                && !$h->lost($last->{asked} - 3e6, $_->{from});

        $last = $_ if !$last || $_->{to} > $last->{to};
    }
}


# Checks that an owner of a lock has a larger fencing token than all owners that
# had the lock before this owner requested it.  If memcached loses the counter
# of the tokens, mcds starts it again from the current time.  Only then may a
# token be too small, and only if the clocks of the hosts differ.

sub tokens {
    my ($h, $found, @held) = @_;

    my @asked = sort { $a->{asked} <=> $b->{asked} } @held;
    my @had = sort { $a->{from} <=> $b->{from} } @held;
    my $largest;

    for (@asked) {
        while (@had && $had[0]{from} < $_->{asked}) {
            my $one = shift @had;
            $largest = $one if !$largest || $one->{token} > $largest->{token};
        }

        next if !$largest || $_->{token} > $largest->{token};
        next if $_->{token} eq 'none' || $_ == $largest;
        next if $h->lost($largest->{asked}, $_->{from})
            && $h->apart(0, $_->{from}) > 0.1;

        $found->('token', "$_->{token} after $largest->{token}",
            $largest->{line}, $_->{line});
    }
}


1;
