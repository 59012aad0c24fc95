#!/usr/bin/perl

# Copyright (C) mcds authors

# The arithmetic of visitors: a model of the scheme, in a few lines, is driven
# side by side with two hosts and a memcached whose clocks the test moves, by
# visitors who stay, come and go, or come again when they are just forgotten;
# each number that is shown, on each host and at each half second, is compared
# with the model's, with 1, 5 and 10 slots, interpolated or not.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;

my $window = 40;
my @slots = (1, 5, 10);

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    keepalive_requests 1000000;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /visit {
            mcds_visitor_counter $a key=1  window=40s slots=1  visitor=$arg_v
                                 interpolate=off;
            mcds_visitor_counter $b key=5  window=40s slots=5  visitor=$arg_v
                                 interpolate=off;
            mcds_visitor_counter $c key=10 window=40s slots=10 visitor=$arg_v
                                 interpolate=off;

            # nobody waits for a mark: this one is answered behind them, so
            # that the clock does not move on before they are there

            mcds_counter $n key=visits;
            mcds_return "$a $b $c";
        }
        location = /show {
            mcds_visitor_counter $a key=1  window=40s slots=1  read
                                 interpolate=off;
            mcds_visitor_counter $b key=5  window=40s slots=5  read
                                 interpolate=off;
            mcds_visitor_counter $c key=10 window=40s slots=10 read
                                 interpolate=off;
            mcds_visitor_counter $d key=1  window=40s slots=1  read;
            mcds_visitor_counter $e key=5  window=40s slots=5  read;
            mcds_visitor_counter $f key=10 window=40s slots=10 read;
            mcds_return "$a $b $c $d $e $f";
        }
    }
}
EOT

my $t = Test::Mcds->new();

my ($clock, $m, %host, %model);

# how far the second host's clock is ahead; half seconds of it all

run('one clock', 0, $t->size(300, 4000));
run('half a second apart', 0.5, 1000) if $t->full();
run('a second apart', 1, $t->size(240, 4000));

$t->done();


sub run {
    my ($name, $ahead, $steps) = @_;

    # memcached ticks at the full or at the half second

    my $id = join '', 'x', $ahead * 2;
    my $start = 1_700_000_000 + int(rand(10000)) + 0.5 * int(rand(2));

    if (!$clock) {
        $clock = Test::Mcds::Clock->new($t, $start);
        $m = $clock->memcached('m');

    } else {
        $clock->set($start + 100_000);
    }

    %host = map {
        my $h = $clock->nginx("$_->[0]$id", $conf, offset => $_->[1]);
        $_->[0] => { name => $_->[0], ahead => $_->[1], idle => 0,
            conns => [map { $h->conn() } 1 .. 4] };
    } ['a', 0], ['b', $ahead];

    %model = (ahead => $ahead, compared => 0, wrong => [], twice => [],
        interval => [], counts => 0, again => 0, missed => [], unsettled => 0,
        apart => 0, agreed => 0);

    my @people = people();
    my $settled = 1;

    for my $step (1 .. $steps) {
        $clock->add(0.5);
        compare($step);

        # now and then a host has nothing to do for a while, better when it
        # has just seen the end of a slot

        my @hosts = grep { $_->{idle} <= $step } values %host;

        if (@hosts == 2 && rand() < 0.2) {
            my $host = $hosts[rand 2];

            $host->{idle} = $step + int rand 40
                if rand() < 0.2
                || int($clock->time_now() + $host->{ahead}) % 4 == 0;

            @hosts = grep { $_->{idle} <= $step } @hosts;
        }

        my %changed;

        for my $who (@people) {
            $who->{comes}->($step) or next;
            visit($who->{name}, $hosts[rand @hosts], \%changed);
        }

        $settled &&= settle(\%changed) or last;
        compare($step);
    }

    ok($settled, "$name: counted as often as the model says");
    is(join("\n", splice @{$model{wrong}}, 0, 5), '',
        "$name: $model{compared} numbers are right");

    my ($least, $most) = (sort { $a <=> $b } @{$model{interval}})[0, -1];

    ok($model{again} > 100 && $least >= $window,
        "$name: $model{counts} visits counted, nobody again before T");
    is(join("\n", splice @{$model{missed}}, 0, 5), '',
        "$name: all counted again after T + 1 s");
    is(join("\n", splice @{$model{twice}}, 0, 5), '',
        "$name: nobody twice in a number" . ($ahead ? ', but who came again '
        . 'from T to T + 1 s' : ''));
    ok($model{agreed} > $steps / 2 && $model{apart} == 0, "$name: hosts agree");

    diag("$name: $model{counts} counts, again after $least to $most s, "
        . "$model{compared} numbers, $model{unsettled} of them unsettled")
        if $t->full();
}


# who they are: { name, comes => sub { half seconds } }

sub people {
    my @people;

    push @people, { comes => sub { 1 } } for 1 .. 4;

    for my $every (1.5, 3, 7.5, 13, 20, 39.5, 40, 40.5, 41, 41.5, 42, 60) {
        my $first = int rand $every * 2;
        push @people, {
            comes => sub { $_[0] % ($every * 2) == $first },
        };
    }

    for my $i (1 .. 20) {
        my ($there, $until) = (0, 0);

        push @people, {
            comes => sub {
                my ($step) = @_;

                if ($step >= $until) {
                    $there = !$there;
                    $until = $step + 1 + int rand $there ? 60 : 160;
                }

                return $there && rand() < 0.3;
            },
        };
    }

    # a crowd that comes once

    my $peak = 100 + int rand 60;

    push @people, map { { comes => sub { $_[0] == $peak } } } 1 .. 30;

    $people[$_]{name} = "v$_" for 0 .. $#people;

    return @people;
}


sub visit {
    my ($name, $host, $changed) = @_;

    my $now = $clock->time_now();
    my $tick = $clock->ticks($m);
    my $second = int($now + $host->{ahead});

    my $body = ask($host, "/visit?v=$name");

    for my $slots (@slots) {
        my $slot = int($second * $slots / $window);

        $model{seen}{$slots}{$slot}{$name} = 1;

        my $last = $model{last}{$slots}{$name};

        if ($last && $tick < $last->{tick} + $window + 1) {
            push @{$model{missed}}, "$name: counted at $last->{now}, not at "
                . $now if $now > $last->{now} + $window + 1;
            next;
        }

        if ($last) {
            push @{$model{interval}}, $now - $last->{now};
            $model{again}++;

            # counted on the host that is ahead, then on the other

            $model{both}{$slots}{$slot}{$last->{slot}}++
                if $model{ahead} && $now - $last->{now} <= $window + 1;
        }

        $model{last}{$slots}{$name} = {
            now => $now, tick => $tick, slot => $slot,
        };
        $model{counts}++;

        my $n = ++$model{count}{$slots}{$slot};
        $changed->{"$slots:$slot"} = $n;

        # that slot is over for the host which is ahead

        $model{late}{$slots}{$slot}++
            if int(($now + $model{ahead}) * $slots / $window) > $slot;
    }
}


# until all counts are there

sub settle {
    my ($changed) = @_;

    for my $key (sort keys %$changed) {
        wait_for(sub { ($m->get($key) // 0) == $changed->{$key} }, 5) and next;
        diag("$key: " . ($m->get($key) // 'none') . ", not $changed->{$key}");
        return 0;
    }

    return 1;
}


sub ask {
    my ($host, $uri) = @_;

    my $r = $host->{conns}[rand @{$host->{conns}}]->get($uri);
    die "$uri: $r->{error}\n" if $r->status() != 200;

    return $r->body();
}


# what each host shows

sub compare {
    my ($step) = @_;
    my (%shown, %slot);

    for my $host (grep { $_->{idle} <= $step } values %host) {
        my $second = int($clock->time_now() + $host->{ahead});
        my @shown = split / /, ask($host, '/show'), -1;

        for my $i (0 .. 2) {
            my $slot = int($second * $slots[$i] / $window);

            next if unsettled($slots[$i], $second, $host->{ahead});

            $shown{$i}{$slot}{$shown[$i]} = 1;
            $slot{$i}{$slot}++;
        }

        for my $i (0 .. 5) {
            my $slots = $slots[$i % 3];
            my ($low, $high) = expected($slots, $i > 2, $second,
                $host->{ahead});

            $model{compared}++;
            $model{unsettled}++ if $low != $high;

            next if $shown[$i] =~ /^\d+$/
                && $shown[$i] >= $low && $shown[$i] <= $high;

            push @{$model{wrong}}, "$host->{name}, $slots slots"
                . ($i > 2 ? ', interpolated' : '') . ", second $second: "
                . "$shown[$i], not $low to $high";
        }
    }

    # hosts that are in the same slot

    for my $i (0 .. 2) {
        for my $slot (keys %{$slot{$i}}) {
            next if $slot{$i}{$slot} < 2;
            keys %{$shown{$i}{$slot}} == 1 ? $model{agreed}++
                : $model{apart}++;
        }
    }
}


# in the first second of a slot, a host that is ahead may not have seen what
# others count into the last one meanwhile

sub unsettled {
    my ($slots, $second, $ahead) = @_;

    return $ahead && $second % ($window / $slots) == 0;
}


sub expected {
    my ($slots, $interpolate, $second, $ahead) = @_;

    my $length = $window / $slots;
    my $slot = int($second / $length);

    my $high = sum($slots, $slot);
    my $low = $high;

    $low -= $model{late}{$slots}{$slot - 1} // 0
        if unsettled($slots, $second, $ahead);

    nobody_twice($slots, $slot, $high);

    return ($low, $high) if !$interpolate;

    my $part = ($second - $slot * $length + 1) / $length;
    my $before = sum($slots, $slot - 1);

    return map { int($before * (1 - $part) + $_ * $part + 0.5 + 1e-9) }
        $low, $high;
}


sub sum {
    my ($slots, $slot) = @_;

    my $sum = 0;
    $sum += $model{count}{$slots}{$slot - $_} // 0 for 1 .. $slots;

    return $sum;
}


# all visitors of the time that is shown, each once, are at least as many

sub nobody_twice {
    my ($slots, $slot, $sum) = @_;

    my ($again, %seen) = (0);

    for my $n ($slot - $slots .. $slot - 1) {
        $seen{$_} = 1 for keys %{$model{seen}{$slots}{$n} // {}};

        my $both = $model{both}{$slots}{$n} // {};
        $again += $both->{$_} for grep { $_ >= $slot - $slots } keys %$both;
    }

    push @{$model{twice}}, "$slots slots, slot $slot: $sum of " . keys(%seen)
        . " and $again" if $sum > keys(%seen) + $again;
}
