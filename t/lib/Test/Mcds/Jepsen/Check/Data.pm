package Test::Mcds::Jepsen::Check::Data;

# Copyright (C) mcds authors

# Checks the counters, the log and the table of a long chaos run.

use warnings;
use strict;

# the maximum time until all workers use a memcached server again after it came
# back, microseconds

my $found_well = 2.5e6;

# Each count is on two memcached servers.  After one of them came back empty, a
# host waits 5 s plus the pool's timeout, and then copies to this server the
# counts that the other server had before the wait.  $level is longer than this
# wait, in microseconds: if no request counts and no nginx is reloaded for that
# long, the checks assume that both servers have all counts again.

my $level = 6e6;


sub check {
    my ($h, $found) = @_;

    return if $h->{profile} eq 'corrupt';

    return (numbers($h, $found), lines($h, $found), table($h, $found));
}


# checks counters: a number must exceed all numbers answered before its request,
# and must not exceed the number of requests sent before its answer

sub numbers {
    my ($h, $found) = @_;

    my %by;
    push @{$by{$_->{uri}}}, $_ for @{$h->{crowd}{N} // []};

    my $n = 0;

    for my $uri (sort keys %by) {
        my @all = @{$by{$uri}};
        my ($way) = $uri =~ m{/count/(\w+)/};
        my @sent = sort { $a <=> $b } map { $_->{begin} } @all;
        my @shown = sort { $a->{end} <=> $b->{end} }
            grep { $_->{number} ne '-' } @all;
        my ($sent, $told) = (0, 0);

        $n += @shown;

        for (@shown) {
            $sent++ while $sent < @sent && $sent[$sent] < $_->{end};

            $found->($way eq 'twice' ? 'doubled' : 'number',
                "$uri: $_->{number}, sent $sent", $_->{line})
                if $_->{number} > $sent && $told++ < 3;
        }

        if ($way eq 'plain' || $way eq 'twice' && $h->{profile} eq 'death') {
            acknowledged($h, $found, $way, @shown);
        }

        if ($way eq 'plain' && !$h->lost(0, 9e18)) {
            my %seen;

            for (@shown) {
                my $other = $seen{$_->{number}};
                $found->('number', "$uri: $_->{number} twice", $other->{line},
                    $_->{line}) if $other;
                $seen{$_->{number}} = $_;
            }
        }
    }

    return "$n numbers";
}


# Checks the numbers in the answers to requests to a counter.  Until memcached
# loses data, each number must exceed all numbers answered before its request
# was sent, and the count of these answers.  If the counter is on two servers, a
# number may also equal the largest of these numbers, or the count.  If one of
# the servers dies while the other one lacks some counts, later numbers may also
# be too small by these counts.  A host recreates a lost counter from the last
# value that this host knows, without later increments by other hosts.  After a
# loss, a number must therefore exceed the numbers answered to requests sent
# after the loss, and, as soon as each host has shown a value since it was last
# killed, the least of the last values that the hosts have shown.

sub acknowledged {
    my ($h, $found, $way, @shown) = @_;

    my @asked = sort { $a->{begin} <=> $b->{begin} } @shown;
    my @ended = @shown;
    my @deaths = $h->faults(qr/^death$/, 0, 9e18);
    @deaths = unprepared($h, \@shown, @deaths) if $way eq 'twice';

    my @killed = grep { $_->{what} eq 'kill_host' }
        $h->faults(qr/^host$/, 0, 9e18);
    my ($count, $since, $lost, $largest, %of_host) = (0, 0, 0);
    my $less = $way eq 'plain' ? 0 : 1;
    my $told = 0;

    # one lost count may make all later numbers wrong: only three are reported

    my $wrong = sub {
        my ($r, $what, $other) = @_;
        $found->($way eq 'twice' ? 'twice' : 'number',
            "$r->{uri}: $r->{number} $what", $other->{line}, $r->{line})
            if $told++ < 3;
    };

    for my $r (@asked) {
        while (@ended && $ended[0]{end} < $r->{begin}) {
            my $one = shift @ended;

            $count++;
            $of_host{$one->{host}} = $one;
            $largest = $one if $one->{begin} > $since
                && (!$largest || $one->{number} > $largest->{number});
        }

        while (@deaths && $deaths[0]{begin} < $r->{end}) {
            my $d = shift @deaths;

            if (defined $d->{lacks}) {
                $less += $d->{lacks};
                next;
            }

            # If both memcached servers came back empty, the time in which
            # counts may be lost ends later: when all hosts use both servers
            # again.  Until then, some hosts increment the counter on one server
            # only, and others on the other server.

            my $end = $d->{end} + ($way eq 'twice' ? $found_well : 0);

            $since = $end if $end > $since;
            ($lost, $largest) = (1, undef);
        }

        while (@killed && $killed[0]{begin} < $r->{end}) {
            delete $of_host{(shift @killed)->{host}};
        }

        $wrong->($r, "after $largest->{number}", $largest)
            if $largest && $r->{number} + $less <= $largest->{number};
        $wrong->($r, "$count acknowledged", $largest)
            if !$lost && $largest && $r->{number} + $less <= $count;

        next if !$lost || keys %of_host < 3;

        my ($least) = sort { $a->{number} <=> $b->{number} } values %of_host;

        $wrong->($r, "all hosts have shown $least->{number}", $least)
            if $r->{number} <= $least->{number};
    }
}


# Returns the deaths of memcached servers that may lose counts.  Each count is
# on two servers.  After one of them restarts empty, the hosts copy the counts
# to it from the other server.  If that server dies too soon, the counts not
# copied yet are lost: "lacks" is their maximum number, undef if it has no
# limit.  After a pause in counting of $level microseconds, all are copied.
# Without a pause, at most the counts of the last 2 * $level are not copied yet.
# Reloading nginx on a host ends the host's copying: then there is no limit.

sub unprepared {
    my ($h, $shown, @deaths) = @_;

    my (%empty, @those);

    for my $d (@deaths) {
        my $lacks = 0;

        for my $m (keys %empty) {
            my $from = $empty{$m} + $found_well;
            my @since = grep {
                $_->{end} > $from && $_->{end} < $d->{begin}
            } @$shown;

            if (grep { paused($h, $_, $d->{begin}, \@since) } @since) {
                delete $empty{$m};
                next;
            }

            next if $m eq $d->{memcached};

            my $waits = $d->{begin} - 2 * $level;

            if (!@since || $from > $waits || reloads($h, $waits, $d->{begin})) {
                $lacks = undef;
                last;
            }

            my $n = grep { $_->{end} > $waits } @since;
            $lacks = $n if $n > $lacks;
        }

        push @those, { %$d, lacks => $lacks } if !defined $lacks || $lacks;
        $empty{$d->{memcached}} = $d->{end};
    }

    return @those;
}


sub reloads {
    my ($h, $from, $to) = @_;
    return grep { $_->{what} eq 'reload' } $h->faults(qr/^host$/, $from, $to);
}


# true if the hosts could copy all counts, before the time $before, to a
# memcached server that had restarted empty: during the counting request $r and
# for $level microseconds after it, no other request of the list $since counted,
# and nginx was not reloaded in these microseconds

sub paused {
    my ($h, $r, $before, $since) = @_;

    my $end = $r->{end} + $level;

    return 0 if $end >= $before || reloads($h, $r->{end}, $end);

    return !grep { $_ != $r && $_->{end} > $r->{begin} && $_->{begin} < $end }
        @$since;
}


sub lines {
    my ($h, $found) = @_;

    my %sent = map { $_->{id} => $_ } @{$h->{crowd}{G} // []};
    my %read = once($found, \%sent, 'there', @{$h->{log}});
    my %heard = once($found, \%sent, 'told', @{$h->{reader}});

    my $lossy = $h->{profile} ne 'net';

    for (sort { $a->{end} <=> $b->{end} } @{$h->{crowd}{G} // []}) {
        next if $_->{status} != 200 || $read{$_->{id}} || $lossy;

        # a worker that shuts down tries to write its log lines for only three
        # seconds

        next if grep { $_->{what} eq 'reload' }
            $h->faults(qr/^host$/, $_->{begin}, $_->{end} + 5e6)
            and $h->ill($_->{host}, $_->{begin}, $_->{end} + 5e6);

        $found->('log', 'missing', $_->{line});
    }

    return scalar(keys %read) . ' lines of ' . scalar(keys %sent) . ', '
        . scalar(keys %heard) . ' of them when they were written';
}


# checks that each line of a log was written by a client, appears once, and is
# in the order of the ids that mcds_log gives to lines

sub once {
    my ($found, $sent, $how, @lines) = @_;

    my (%read, $before);

    for (@lines) {
        my ($id, $host, $text) = @$_;

        $found->('log', "it cannot be read: $host"), next if $id eq 'failed';

        my $line = $sent->{$text} ? $sent->{$text}{line} : "line $text";

        $found->('log', "$how, and nobody has written it", $line)
            if !$sent->{$text};
        $found->('log', "$how twice", $line) if $read{$text}++;

        my ($ms, $writer, $n) = split /-/, $id;
        $found->('log', "$how too late, behind $before->[0]", $line)
            if $before && ($ms < $before->[1] || $ms == $before->[1]
                && $writer eq $before->[2] && $n < $before->[3]);
        $before = [$id, $ms, $writer, $n];
    }

    return %read;
}


# checks a table, of which each element has one writer: a read returns the value
# of the last write before it, of a write during it, or of a write that was not
# answered, which may take effect at any time

sub table {
    my ($h, $found) = @_;

    my (%writes, %reads);

    for (@{$h->{crowd}{T} // []}) {
        my $by = $_->{op} eq 'get' ? \%reads : \%writes;
        push @{$by->{$_->{uri}}}, $_;
    }

    my $n = 0;

    for my $uri (sort keys %reads) {
        my @writes = sort { $a->{begin} <=> $b->{begin} }
            @{$writes{$uri} // []};
        my ($next, $acked) = (0, undef);
        my %open;

        for my $r (sort { $a->{begin} <=> $b->{begin} } @{$reads{$uri} // []}) {
            next if $r->{status} != 200 && $r->{status} != 404;
            $n++;

            # finds the last write of the element that was answered before $r

            while ($next < @writes && $writes[$next]{end} < $r->{begin}) {
                my $w = $writes[$next++];

                if (done($w)) {
                    $acked = $w;

                } else {
                    $open{shown($w)}++;
                }
            }

            my %may = (%open, shown($acked) => 1);

            for (my $i = $next; $i < @writes
                 && $writes[$i]{begin} < $r->{end}; $i++)
            {
                $may{shown($writes[$i])} = 1;
            }

            next if $may{$r->{value}};

            next if $r->{value} eq '-'
                && $h->lost($acked ? $acked->{begin} : 0, $r->{end});

            $found->('table', "$r->{value} is read, may be "
                . join(' ', sort keys %may), $acked ? $acked->{line} : (),
                $r->{line});
        }
    }

    return "$n elements read";
}


sub done {
    my ($w) = @_;

    return $w->{status} =~ /^2/ || $w->{op} eq 'delete' && $w->{status} == 404;
}


sub shown {
    my ($w) = @_;

    return !$w || $w->{op} eq 'delete' ? '-' : $w->{value};
}


1;
