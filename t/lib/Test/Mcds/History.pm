package Test::Mcds::History;

# Copyright (C) mcds authors

# Checkers of concurrent histories: whether all operations could have been done
# one after the other, each at a moment between its start and its end
# (linearizability).  The checkers know nothing of mcds.
#
# An operation is { start, end, done }: done is 1, 0 if it was not done, undef
# if that is unknown.

use warnings;
use strict;

use Exporter qw/ import /;
use Storable qw/ store_fd fd_retrieve /;

our @EXPORT = qw/ list_problems register_problems lock_problems aside /;


# Checks a list to which unique values are appended, and which is read:
# operations have append => [values] or read => [values].  Returns texts of
# problems, none if the history is linearizable.

sub list_problems {
    my (@ops) = @_;

    my @reads = sort { $a->{start} <=> $b->{start} }
        grep { $_->{read} && $_->{done} } @ops;
    my ($longest) = sort { @{$b->{read}} <=> @{$a->{read}} } @reads;
    my @problems;

    return 'nothing was read' if !$longest;

    my (%place, %appended);

    for my $i (0 .. $#{$longest->{read}}) {
        push @problems, "$longest->{read}[$i] is there twice"
            if exists $place{$longest->{read}[$i]};
        $place{$longest->{read}[$i]} = $i;
    }

    for my $op (grep { $_->{append} } @ops) {
        $appended{$_} = $op for @{$op->{append}};
    }

    for (grep { !$appended{$_} } keys %place) {
        push @problems, "$_ was never appended";
    }

    # checks the values that the longest read of the list returned: no append of
    # these values failed, and they are in the order of their appends

    my ($latest, $before) = (0);

    for my $value (@{$longest->{read}}) {
        my $op = $appended{$value} or next;

        push @problems, "$value was not to be there"
            if defined $op->{done} && !$op->{done};
        push @problems, "$value stands behind $before"
            if $op->{done} && $op->{end} < $latest;

        ($latest, $before) = ($op->{start}, $value)
            if $op->{start} > $latest;
    }

    # checks that each read of the list returned a prefix of the longest read,
    # with all values that were read or appended before it began

    my $length = 0;
    my @ended = sort { $a->{end} <=> $b->{end} } @reads;
    my @acked = sort { $a->{end} <=> $b->{end} }
        grep { $_->{append} && $_->{done} } @ops;
    my ($e, $w, $most) = (0, 0, 0);

    for my $read (@reads) {
        my @got = @{$read->{read}};

        for my $i (0 .. $#got) {
            next if $got[$i] eq $longest->{read}[$i];
            push @problems, "one read has $got[$i], another"
                . " $longest->{read}[$i]";
            last;
        }

        while ($e < @ended && $ended[$e]{end} < $read->{start}) {
            my $n = @{$ended[$e++]{read}};
            $length = $n if $n > $length;
        }

        push @problems, 'a read is shorter than one before' if @got < $length;

        while ($w < @acked && $acked[$w]{end} < $read->{start}) {
            for my $value (@{$acked[$w++]{append}}) {
                if (!exists $place{$value}) {
                    push @problems, "$value is lost";
                    next;
                }

                $most = $place{$value} + 1 if $place{$value} >= $most;
            }
        }

        push @problems, 'a read does not have what was there' if @got < $most;

        for my $value (@got ? $got[-1] : ()) {
            push @problems, "$value was read before it was there"
                if $appended{$value} && $appended{$value}{start} > $read->{end};
        }
    }

    return @problems;
}


# Checks a register: operations have write => value or read => value, where
# undef is no value.  Written values are unique, but for undef.  Algorithm of
# Wing and Gong: try each of the operations that may be next, until all have
# ended.

sub register_problems {
    my ($first, @ops) = @_;

    my %read = map { ($_->{read} // '') => 1 } grep { exists $_->{read} } @ops;

    # a write of unknown result whose value was never read may be left out

    @ops = sort { $a->{start} <=> $b->{start} } grep {
        exists $_->{read} ? $_->{done}
            : $_->{done} || !defined $_->{done} && $read{$_->{write} // ''}
    } @ops;

    my %seen;
    my @stack = ([0, {}, $first]);

    # a state of the search: it has put in order all operations before the index
    # $from and those in $done; the register's value after them is $value

    while (my $state = pop @stack) {
        my ($from, $done, $value) = @$state;

        $from++ while $from < @ops && delete $done->{$from};

        return if !grep { !$done->{$_} && $ops[$_]{done} } $from .. $#ops;

        next if $seen{join ' ', $from, $value // '-', sort keys %$done}++;

        die "too many states\n" if keys %seen > 300000;

        # an operation that starts after another one has ended cannot precede it

        my $bound = 9**9**9;

        for my $i ($from .. $#ops) {
            last if $ops[$i]{start} > $bound;
            $bound = $ops[$i]{end} if !$done->{$i} && $ops[$i]{done}
                && $ops[$i]{end} < $bound;
        }

        for my $i ($from .. $#ops) {
            my $op = $ops[$i];

            last if $op->{start} > $bound;
            next if $done->{$i};

            if (exists $op->{read}) {
                next if ($op->{read} // '') ne ($value // '');
                push @stack, [$from, { %$done, $i => 1 }, $value];

            } else {
                push @stack, [$from, { %$done, $i => 1 }, $op->{write}];
            }
        }
    }

    return 'there is no order in which this could have been done';
}


# Checks the owners of a lock.  @holds has { start, end, token } of each owner:
# the time in which it was seen at work, and its number (fencing token).  No two
# owners may work at the same time, and each number must be larger than the
# numbers before.

sub lock_problems {
    my (@holds) = @_;

    my @problems;
    my ($end, $token, $last) = (0, 0, 'nobody');

    for my $hold (sort { $a->{start} <=> $b->{start} } @holds) {
        my $name = $hold->{token} // '';

        push @problems, "an owner has the number \"$name\""
            if $name !~ /^[1-9]\d*$/;
        push @problems, "$name begins before $last has ended"
            if $hold->{start} < $end;
        push @problems, "$name comes after $token"
            if $name =~ /^\d+$/ && $name <= $token;

        ($end, $last) = ($hold->{end}, $name) if $hold->{end} > $end;
        $token = $name if $name =~ /^\d+$/ && $name > $token;
    }

    return @problems;
}


# runs the code in another process; returns a sub that waits for its result

sub aside {
    my ($code) = @_;

    pipe my $in, my $out or die "pipe: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        close $in;
        store_fd([$code->()], $out);
        close $out;
        kill KILL => $$;
    }

    close $out;

    return sub {
        my $got = fd_retrieve($in);

        waitpid $pid, 0;
        return @$got;
    };
}


1;
