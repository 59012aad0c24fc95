package Test::Mcds::Jepsen::Check::Pages;

# Copyright (C) mcds authors

# Checks the pages of a long chaos run: complete, for this request, not too old,
# and not from before a purge that was acknowledged.

use warnings;
use strict;

# %limit is the maximum age of a page, in seconds since the request to the
# origin: the page's lifetime, plus mcds_cache_grace of nginx.conf, plus the
# longest time that the origin takes.  The keys are letters, the kinds of pages:
# pages of kind "m" must not be served stale, those of kind "t" never from the
# cache.

my $grace = 2;
my $origin = 0.5;
my %lifetime = (s => 1, u => 1, k => 60, v => 60, l => 60, p => 60);
my %limit = (m => 1 + $origin, t => 0,
    map { $_ => $lifetime{$_} + $grace + $origin } keys %lifetime);

# Seconds: by how much a page may exceed its maximum age because the machine is
# busy, and for how long nginx uses a page in its own memory without asking
# memcached for a newer one ("timed=" of mcds_cache_local).
my $late = 2;
my $timed = 2;

# the timeout of the pools, minus the error of a millisecond clock, microseconds

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


# Returns the seconds by which a page may exceed its maximum age: $late, as the
# machine may be busy; if the clocks of the hosts differ, also 5 s plus their
# difference; and the time for which workers were stopped.  That time is left
# out for pages of kind "t", which must never come from the cache.

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


# Fills %$purges and %$alone.  %$purges has a list for each page.  It has an
# element [time, $deleted, $all] for each acknowledged purge of the page, by the
# time of the purge's answer.  $all is the purge request that was sent last of
# those answered up to this time.  $deleted is the same, but without purges that
# only invalidate the page (make it expire).  %$alone has the pages that a host
# has built for waiting requests while memcached was down; purges do not apply
# to these pages.

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


# Of the purges of a page in $list that were answered before the request $r for
# this page was sent, returns the purge that was sent last.  If the response to
# $r is stale, purges that only invalidate the page (make it expire) do not
# count, as they allow stale responses.

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


# returns 1 if a busy machine exceeded the timeout for memcached: the request
# took that long, and the host's error log says so for this page

sub given_up {
    my ($h, $r) = @_;

    return $r->{end} - $r->{begin} >= $timeout
        && $h->given_up($r->{host}, $r->{uri});
}


# the reason, by the manual, why a page may be older than the purge $p, or ''

sub excused {
    my ($h, $r, $p) = @_;

    my ($place) = $r->{uri} =~ m{^/(\w+)/};
    my $tag = $p->{op} =~ /tag/;
    my $stale = $r->{cache} =~ /^(?:STALE|UPDATING)$/;

    return 'timed' if $place eq 'pt' && $r->{host} == 2
        && $r->{begin} < $p->{end} + ($timed + 0.5) * 1e6;

    # local copies are served while memcached does not respond; if the page was
    # purged by tag, its copy is served only as a stale response

    return 'copy' if $r->{host} != 0 && (!$tag || $stale)
        && ($h->ill($r->{host}, $p->{begin}, $r->{end}) || given_up($h, $r));

    # if the records of its tags are unknown, a page counts as expired, but
    # requests that waited until the page was built get it

    return 'tags not known' if $tag && ($stale || $r->{reason} eq 'built')
        && $h->ill($r->{host}, $p->{begin}, $r->{end});

    return '' if $tag;

    # during a build of the page that began before the purge, memcached lost the
    # entry that marks the page as purged

    return 'mark lost' if $r->{version} > $p->{begin} - 1.5e6
        && $h->lost($p->{begin}, $r->{begin}) >= ($place =~ /^r/ ? 2 : 1);

    # a POST purges the page, but does not wait for a server that is down

    return 'post' if $p->{op} eq 'post'
        && $h->ill('*', $p->{begin}, $r->{end});

    # the memcached server that stood in for an unhealthy one still has the page

    return 'stand-in' if $place =~ /^e/
        && $h->ill('*', $r->{version}, $r->{version} + 1e6);

    # "invalidate" sets the page's expiry to a second ago, by the clock of the
    # purging host; to a host whose clock is behind, the page may still be fresh

    return 'clock' if $p->{op} =~ /^invalidate/
        && $h->apart($r->{version} - 2e6, $r->{end}) > 0.85;

    return '';
}


1;
