package Test::Mcds::Jepsen::Check::Pages;

# Copyright (C) mcds authors

# Pages of a long chaos run: whole, of the request, not too old, and not from
# before a purge that was answered.

use warnings;
use strict;

# seconds that a page may be shown after its origin was asked for it: its
# lifetime, mcds_cache_grace of nginx.conf, and the longest that the origin
# takes; "m" must not be shown when it has expired, and "t" never

my $grace = 2;
my $origin = 0.5;
my %lifetime = (s => 1, u => 1, k => 60, v => 60, l => 60, p => 60);
my %limit = (m => 1 + $origin, t => 0,
    map { $_ => $lifetime{$_} + $grace + $origin } keys %lifetime);

# what a machine with other work adds to that, and mcds_cache_local timed=
my $late = 2;
my $timed = 2;

# of the pools, microseconds, less what a clock of milliseconds may err by

my $timeout = 245_000;


sub check {
    my ($h, $found) = @_;

    my (%purges, %alone);
    purges($h, \%purges, \%alone);
    my %n = (all => 0, behind => 0, HIT => 0);
    my %excused;
    my $exact = $h->{profile} ne 'corrupt';

    $h->each_page(sub {
        my ($r) = @_;

        $n{all}++;
        $n{$r->{status}}++;
        $n{HIT}++ if $r->{cache} eq 'HIT';
        return if $r->{status} != 200;

        $found->('body', $r->{verdict}, $r->{line}), return
            if $r->{verdict} ne 'ok';

        return if $r->{op} eq 'post';

        my $age = ($r->{begin} - $r->{version}) / 1e6;

        $found->('age', sprintf('%.3f s, limit %.1f', $age, $limit{$r->{op}}),
            $r->{line}) if $age > $limit{$r->{op}}
                && $age > $limit{$r->{op}} + slack($h, $r);

        return if !$exact;

        my $list = $purges{$r->{uri}} or return;
        my $p = last_purge($list, $r) or return;
        $n{behind}++;

        return if $r->{version} >= $p->{begin};

        my $why = excused($h, $r, $p);
        $why ||= 'alone' if $r->{reason} =~ /^(?:built|memcached)$/
            && $alone{shared($r)};

        $excused{$why}++, return if $why;

        $found->('purge', sprintf('%s, made %.3f s before it, asked for %.3f s '
            . 'after its answer', $p->{op}, ($p->{begin} - $r->{version}) / 1e6,
            ($r->{begin} - $p->{end}) / 1e6), $p->{line}, $r->{line});
    });

    my %status;
    $status{$_->{status}}++ for @{$h->{crowd}{X} // []};

    return "$n{all} pages, " . join(', ', map { "$_ $n{$_}" }
            sort grep { /^\d/ } keys %n) . ", $n{HIT} hits",
        scalar(@{$h->{crowd}{X} // []}) . ' purges, ' . join(', ',
            map { "$_ $status{$_}" } sort keys %status)
            . ", $n{behind} pages behind one",
        'older than the purge, as documented: ' . (join(', ',
            map { "$_ $excused{$_}" } sort keys %excused) || 'none');
}


# clocks that differ add to an age, up to 5 s; a page is stored, and looked at,
# when its worker runs

sub slack {
    my ($h, $r) = @_;

    my $apart = $h->apart($r->{version} - 5e6, $r->{end});

    return $late + ($apart > 0.1 ? 5 + $apart : 0)
        + ($r->{op} eq 't' ? 0 : stopped($h, $r));
}


sub stopped {
    my ($h, $r) = @_;

    my $long = 0;

    for ($h->faults(qr/^host$/, $r->{version}, $r->{end})) {
        $long += ($_->{end} - $_->{begin}) / 1e6
            if $_->{what} eq 'freeze_worker';
    }

    return $long;
}


# by page: the purges that were answered, in the order of their answers, each
# with the one that began last among those up to it, of deletions and of all;
# and the pages that a host has built without memcached, for requests that came
# meanwhile: it does not hear of purges

sub purges {
    my ($h, $purges, $alone) = @_;

    for (@{$h->{crowd}{X} // []}) {
        push @{$purges->{$_->{uri}}}, $_ if $_->{status} == 200
            || $_->{status} == 404 && $_->{op} !~ /tag/;
    }

    $h->each_page(sub {
        my ($r) = @_;
        push @{$purges->{$r->{uri}}}, $r
            if $r->{op} eq 'post' && $r->{status} == 200;
        $alone->{shared($r)} = 1
            if $r->{reason} eq 'memcached' && ill($h, $r);
    });

    for my $uri (keys %$purges) {
        my @list = sort { $a->{end} <=> $b->{end} } @{$purges->{$uri}};
        my ($deleted, $all);

        for (@list) {
            $all = $_ if !$all || $_->{begin} > $all->{begin};
            $deleted = $_ if $_->{op} !~ /^invalidate/
                && (!$deleted || $_->{begin} > $deleted->{begin});
            $_ = [$_->{end}, $deleted, $all];
        }

        $purges->{$uri} = \@list;
    }
}


sub shared { return join ' ', @{$_[0]}{qw/ host uri version /} }


sub ill {
    my ($h, $r) = @_;
    return $h->ill($r->{host}, $r->{begin}, $r->{end});
}


# the one that began last among those that were answered when the page was asked
# for, and that it has to heed

sub last_purge {
    my ($list, $r) = @_;

    my ($low, $high) = (0, scalar @$list);

    while ($low < $high) {
        my $i = int(($low + $high) / 2);

        if ($list->[$i][0] < $r->{begin}) {
            $low = $i + 1;
        } else {
            $high = $i;
        }
    }

    return if !$low;

    return $list->[$low - 1][$r->{cache} =~ /^(?:STALE|UPDATING)$/ ? 1 : 2];
}


# a machine with much else to do may be too slow for the timeout: the request
# took as long, and its host says so of this page

sub given_up {
    my ($h, $r) = @_;

    return $r->{end} - $r->{begin} >= $timeout
        && $h->given_up($r->{host}, $r->{uri});
}


# why, by the manual, a purge may not be seen, or nothing

sub excused {
    my ($h, $r, $p) = @_;

    my ($place) = $r->{uri} =~ m{^/(\w+)/};
    my $tag = $p->{op} =~ /tag/;
    my $stale = $r->{cache} =~ /^(?:STALE|UPDATING)$/;

    return 'timed' if $place eq 'pt' && $r->{host} == 2
        && $r->{begin} < $p->{end} + ($timed + 0.5) * 1e6;

    # copies, while memcached does not answer; of pages with tags only as ones
    # that have expired

    return 'copy' if $r->{host} != 0 && (!$tag || $stale)
        && ($h->ill($r->{host}, $p->{begin}, $r->{end}) || given_up($h, $r));

    # tags that are not known to be purged: the page has expired, and who has
    # waited for it is answered with it

    return 'tags not known' if $tag && ($stale || $r->{reason} eq 'built')
        && $h->ill($r->{host}, $p->{begin}, $r->{end});

    return '' if $tag;

    # the mark went with its memcached, before a build was done that had begun
    # when it was not there

    return 'mark lost' if $r->{version} > $p->{begin} - 1.5e6
        && $h->lost($p->{begin}, $r->{begin}) >= ($place =~ /^r/ ? 2 : 1);

    # an unsafe request does not wait for a server that is away

    return 'post' if $p->{op} eq 'post'
        && $h->ill('*', $p->{begin}, $r->{end});

    # what has stood in for a server has it still

    return 'stand-in' if $place =~ /^e/
        && $h->ill('*', $r->{version}, $r->{version} + 1e6);

    # "expired since a second" is written by one host and read by others

    return 'clock' if $p->{op} =~ /^invalidate/
        && $h->apart($r->{version} - 2e6, $r->{end}) > 0.85;

    return '';
}


1;
