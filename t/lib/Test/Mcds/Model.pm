package Test::Mcds::Model;

# Copyright (C) mcds authors

# Tests whether two hosts with one memcached answer as RFC 9111 permits a shared
# cache to: sends random sequences of requests, and checks the answers by a
# model of the RFC.  The model knows only the configuration of mcds.
#
#     $model = Test::Mcds::Model->new($t, { cut => 1, .. })   ignores known
#                             faults, whose names are in Judge.pm
#     $model->try($seed)      the violations, shrunk: a list of { seed, case,
#                             wrong, history }
#     $model->shown($found)   one of them as text
#     $model->sums()          statistics of the sequences so far, as text
#     $model->{sum}           { sequences, requests, reused, .. }
#
# The model says which responses are permitted; "reused" shows whether the cache
# is used at all.

use warnings;
use strict;

use Storable qw/ dclone /;

use Test::Mcds::Model::Grammar;
use Test::Mcds::Model::Judge;
use Test::Mcds::Model::Run;

my @sums = ('sequences', 'requests', 'reused', 'stale', 'origin requests');


sub new {
    my ($class, $t, $known) = @_;

    return bless { t => $t, known => $known // {}, places => places(),
        sum => { map { $_ => 0 } @sums }, shrink => 300, seen => {},
        run => Test::Mcds::Model::Run->new($t) }, $class;
}


sub try {
    my ($self, $seed) = @_;

    my $case = case($seed);
    my ($judge, $history) = $self->play($case);
    my $sum = $self->{sum};

    $sum->{sequences}++;
    $sum->{requests} += $judge->{asked};
    $sum->{reused} += $judge->{reused};
    $sum->{stale} += $judge->{stale};
    $sum->{'origin requests'} += @{$judge->{answers}};

    my (@found, %seen);

    for my $wrong (grep { !$seen{$_->{what}}++ } @{$judge->{wrong}}) {
        my $known = $self->{seen}{$wrong->{what}}++;

        push @found, { seed => $seed, $known ? (case => $case, wrong => $wrong,
            history => $history) : $self->shrink($case, $wrong, $history) };
    }

    return @found;
}


sub play {
    my ($self, $case) = @_;

    my $history = $self->{run}->play($case);

    return (judge($self->{places}{$case->{place}}, $history, $self->{known}),
        $history);
}


# shrinks a case that shows a violation of RFC 9111: returns the smallest case
# with the same violation

sub shrink {
    my ($self, $case, $wrong, $history) = @_;

    my %best = (case => $case, wrong => $wrong, history => $history);
    my $left = $self->{shrink};

    my $try = sub {
        my ($change) = @_;

        my $new = dclone($best{case});

        return if $left <= 0 || !$change->($new);

        $left--;

        my ($judge, $history) = $self->play($new);
        my ($now) = grep { $_->{what} eq $wrong->{what} } @{$judge->{wrong}}
            or return;

        %best = (case => $new, wrong => $now, history => $history);

        return 1;
    };

    1 while fewer(\%best, $try, sub { $_[0]{steps} })
        + simpler(\%best, $try);

    return %best;
}


sub fewer {
    my ($best, $try, $list) = @_;

    my $done = 0;

    for (my $size = @{$list->($best->{case})}; $size; $size >>= 1) {
        my $from = 0;

        while ($from < @{$list->($best->{case})}) {
            if ($try->(sub { splice @{$list->($_[0])}, $from, $size })) {
                $done++;

            } else {
                $from += $size;
            }
        }
    }

    return $done;
}


sub simpler {
    my ($best, $try) = @_;

    my $done = 0;

    for my $i (0 .. $#{$best->{case}{steps}}) {
        my $step = $best->{case}{steps}[$i];

        $done += fewer($best, $try, sub { $_[0]{steps}[$i]{ask} })
            if $step->{ask} && @{$step->{ask}} > 1;
        $done += fewer($best, $try, sub { $_[0]{steps}[$i]{within} })
            if $step->{within} && @{$step->{within}};

        if ($step->{hold} && !@{$best->{case}{steps}[$i]{within} // []}) {
            $done++ if $try->(sub { delete $_[0]{steps}[$i]{hold} });
        }

        for my $j (0 .. $#{$best->{case}{steps}[$i]{ask} // []}) {
            for my $name (keys %{$best->{case}{steps}[$i]{ask}[$j]}) {
                next if $name =~ /^(?:uri|host)$/;
                $done++ if $try->(sub {
                    defined delete $_[0]{steps}[$i]{ask}[$j]{$name} });
            }
        }

        next if !defined $step->{set};

        for my $name (grep { !/^(?:set|status)$/ } keys %$step) {
            $done++ if $try->(sub { defined delete $_[0]{steps}[$i]{$name} });
        }
    }

    return $done;
}


sub sums {
    my ($self) = @_;
    return join ', ', map { "$self->{sum}{$_} $_" } @sums;
}


sub shown {
    my ($self, $found) = @_;

    my $place = $self->{places}{$found->{case}{place}};
    my $text = "seed $found->{seed}: $found->{wrong}{text}\n"
        . "    $place->{conf}\n";
    my $start = $found->{history}[0]{time};

    for my $e (@{$found->{history}}) {
        my $at = $e->{time} - $start;
        my $settled = defined $e->{settled} ? " settled $e->{settled}" : '';

        if ($e->{what} eq 'answer') {
            my $s = $e->{state};

            $text .= "    $e->{at}-" . ($e->{end} // '?')
                . "$settled +" . (($e->{until} // $e->{time}) - $start)
                . " origin for $e->{for}: $e->{status}"
                . ($e->{etag} ? " $e->{etag}" : '') . ', '
                . join(' ', map { "$_ [$s->{$_}]" } grep { defined $s->{$_}
                    && !/^(?:set|status|etag|before|version|same)$/ }
                    sort keys %$s) . "\n";

        } elsif ($e->{what} eq 'purge') {
            $text .= "    $e->{at}-$e->{end} +$at host $e->{host} purge "
                . "$e->{uri} $e->{mode}: $e->{status}\n";

        } else {
            my $a = $e->{answer};

            $text .= ($e == $found->{wrong}{event} ? '  > ' : '    ')
                . "$e->{at}-" . ($e->{end} // '?')
                . " +$at host $e->{host} $e->{method} $e->{uri} "
                . join(' ', map { "$_: $e->{header}{$_}" }
                    grep { $_ ne 'x-req' } sort keys %{$e->{header}})
                . " -> $a->{status} " . join(' ', $a->{head} =~
                    /^((?:X-Answer|Age|X-Cache|X-Reason): [^\r\n]*)/mgi)
                . " | " . substr($a->{body}, 0, 60) =~ s/\s+\z//r . "\n";
        }
    }

    return $text;
}


1;
