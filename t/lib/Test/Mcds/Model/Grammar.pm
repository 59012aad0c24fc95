package Test::Mcds::Model::Grammar;

# Copyright (C) mcds authors

# Sequences for the differential test of RFC 9111, made from a seed.
#
#     $case = case($seed)     { seed, place, steps }
#
# place is the name of one of places(), the locations of nginx.  A step is one
# of
#
#     { set => uri, ... }     sets the origin's answer from now on
#     { clock => seconds }
#     { purge => uri, host, mode, tag => 1 }
#     { ask => [requests], hold => 1, within => [steps] }
#
# The requests of one step are concurrent; with hold the origin answers when all
# of them are waiting and the steps in "within" were made.

use warnings;
use strict;

use Exporter qw/ import /;

our @EXPORT = qw/ case places /;


# Each place, a location of nginx, is a hash in %places: "conf" has its
# directives, and the other keys say how the directives make the cache behave;
# a missing key stands for the default, which %default has.
#
#     valid               { status => seconds } of mcds_cache_valid
#     background          seconds of mcds_cache_background_update
#     grace               seconds of mcds_cache_grace
#     origin              seconds of its parameter "origin"
#     stale               the conditions of mcds_cache_use_stale
#     control             Cache-Control of requests is honored
#     wait                mcds_cache_wait
#     timed               mcds_cache_local timed
#     session             mcds_cache_session_cookies, mcds_cache_bypass and
#                         mcds_no_cache
#     tags                mcds_cache_tag

my $always = 1e12;

my %default = (valid => {}, background => 60, grace => 86400, origin => 3600,
    wait => 2,
    stale => { map { $_ => 1 } qw/ error 500 502 503 504 / });

my %places = (
    plain => { conf => '' },
    valid => { conf => 'mcds_cache_valid 10s; mcds_cache_revalidate on;',
        valid => { map { $_ => 10 } 200, 301, 302 } },
    any => { conf => 'mcds_cache_valid 20s; mcds_cache_valid any 5s;',
        valid => { any => 5, map { $_ => 20 } 200, 301, 302 } },
    wait => { conf => 'mcds_cache_background_update off;'
        . ' mcds_cache_revalidate on;', background => 0 },
    off => { conf => 'mcds_cache_grace off; mcds_cache_valid 10s;',
        valid => { map { $_ => 10 } 200, 301, 302 }, grace => 0, origin => 0 },
    never => { conf => 'mcds_cache_use_stale off; mcds_cache_revalidate on;'
        . ' mcds_cache_background_update off;', background => 0, stale => {} },
    grace => { conf => 'mcds_cache_grace 30s origin=7s; mcds_cache_wait 0;'
        . ' mcds_cache_valid 10s; mcds_cache_background_update on;'
        . ' mcds_cache_use_stale error http_503 http_404;',
        valid => { map { $_ => 10 } 200, 301, 302 }, grace => 30, origin => 7,
        background => $always, wait => 0,
        stale => { error => 1, 503 => 1, 404 => 1 } },
    control => { conf => 'mcds_cache_request_control on;'
        . ' mcds_cache_revalidate on; mcds_cache_valid 10s;',
        valid => { map { $_ => 10 } 200, 301, 302 }, control => 1 },
    rules => { conf => 'mcds_cache_session_cookies SID;'
        . ' mcds_cache_bypass $http_x_bypass; mcds_no_cache $http_x_no;'
        . ' mcds_cache_revalidate on;', session => 1 },
    local => { conf => 'mcds_cache_local validated; mcds_cache_revalidate on;'
        },
    tags => { conf => 'mcds_cache_tag $upstream_http_cache_tag;'
        . ' mcds_cache_revalidate on; mcds_cache_local validated;', tags => 1 },
    timed => { conf => 'mcds_cache_local timed=1m; mcds_cache_valid 10s;'
        . ' mcds_cache_grace off;', grace => 0, origin => 0,
        valid => { map { $_ => 10 } 200, 301, 302 }, timed => 1 },
);

sub places {
    return { map { $_ => { %default, %{$places{$_}} } } keys %places };
}


sub chance { return rand() < $_[0] }
sub any { return $_[rand @_] }

sub life { return any(1, 2, 3, 5, 5, 10, 10, 30, 60, 0) }
sub late { return any(0, 1, 3, 5, 10, 30, 100) }


my @states;


sub case {
    my ($seed) = @_;

    srand $seed;

    my $place = any(sort keys %places);
    my $uris = any(1, 1, 1, 2);
    my %kind = map { $_ => chance(0.3) } qw/ vary cookie cond range auth fail
        purge unsafe control /;
    my @steps;

    $kind{tag} = $places{$place}{tags};
    $kind{purge} = 1 if $kind{tag};

    # "mcds_cache_local timed" lets nginx serve copies of pages from its own
    # memory without asking memcached.  Purges and variants (Vary) are difficult
    # cases for such copies, and more frequent in tests of this directive

    if ($places{$place}{timed}) {
        $kind{$_} ||= chance(0.4) for qw/ purge vary /;
    }

    @states = ();
    push @steps, { set => $_, change(\%kind, $_) } for 0 .. $uris - 1;

    for (1 .. 5 + rand 20) {
        push @steps, step($uris, \%kind);

        # with "hold", the origin delays its answers until all requests of the
        # step wait: sends these again, to see how nginx stored the answers

        if ($steps[-1]{hold} && chance(0.4)) {
            push @steps, { ask => [map { { %$_, leave => 0 } }
                @{$steps[-1]{ask}}] };
        }
    }

    return { seed => $seed, place => $place, steps => \@steps };
}


sub step {
    my ($uris, $kind, $within) = @_;

    my $uri = int rand $uris;
    my $n = rand;

    return { set => $uri, change($kind, $uri) } if $n < 0.15;
    return { clock => $within ? any(1, 1, 2, 3, 10)
        : any(1, 1, 1, 2, 3, 5, 9, 10, 30, 60, 100, 4000, 90000) }
            if $n < 0.35;
    return { purge => $uri, host => int rand 2,
        mode => any('invalidate', 'delete'),
        $kind->{tag} && chance(0.7) ? (tag => 1) : () }
            if $kind->{purge} && ($n < 0.42 || $within);

    return { clock => any(1, 3) } if $within;

    my @asks = map { ask($uris, $kind) } 1 .. any(1, 1, 1, 2, 4);

    # in half of the steps all requests are for the same variant of a page

    if (chance(0.5)) {
        @$_{'X-Lang', 'X-Kind'} = @{$asks[0]}{'X-Lang', 'X-Kind'} for @asks;
    }

    return { ask => \@asks } if !chance(0.3);

    return { ask => \@asks, hold => 1, within =>
        [map { step($uris, $kind, 1) } 1 .. any(0, 0, 1, 1, 2)] };
}


# sets the origin's answer: often the previous one with one change

sub change {
    my ($kind, $uri) = @_;

    my $s = $states[$uri];

    return %{$states[$uri] = { state($kind) }} if !$s || chance(0.4);

    my %s = (%$s, same => 0);
    my $n = rand;

    if ($n < 0.25) {
        $s{status} = any(401, 403, 404, 410, 451);

    } elsif ($n < 0.35) {
        $s{status} = any(400, 405, 412, 416, 429);

    } elsif ($n < 0.5) {
        $s{cc} = any('private', 'no-store', 'no-cache', 'max-age=0');

    } elsif ($n < 0.6) {
        @s{qw/ cookie same /} = (1, any(0, 1));

    } elsif ($n < 0.8) {
        $s{fail} = any('close', 'cut', 500, 502, 503, 504);

    } elsif ($n < 0.87) {
        $s{odd} = 1;
    }

    return %s;
}


sub state {
    my ($kind) = @_;

    my %s = (status => 200);

    $s{status} = any(403, 404, 410, 401, 451, 301, 302, 400, 429, 204)
        if chance(0.12);
    $s{fail} = any('close', 'cut', 500, 502, 503, 504)
        if $kind->{fail} && chance(0.4);

    my @cc;

    push @cc, 'max-age=' . life() if chance(0.75);
    push @cc, 's-maxage=' . life() if chance(0.15);
    push @cc, 'stale-while-revalidate=' . late() if chance(0.2);
    push @cc, 'stale-if-error=' . late() if chance(0.2);
    push @cc, any('must-revalidate', 'proxy-revalidate') if chance(0.1);
    push @cc, 'public' if chance(0.2);
    push @cc, any('private', 'no-store', 'no-cache') if chance(0.1);
    $s{cc} = join ', ', @cc if @cc;

    $s{cdn} = any('max-age=' . life(), 'no-store', '') if chance(0.05);
    $s{expires} = life() if chance(0.15);
    $s{accel} = life() if chance(0.05);
    $s{age} = any(1, 3, 8, 20) if chance(0.15);
    $s{age} = any('0;20', '3;0', 'x;20', '20;x', '3, 0', '0, 8', '-1')
        if chance(0.1);
    $s{date} = any('none', 2, 6) if chance(0.15);
    $s{etag} = any('strong', 'strong', 'weak') if chance(0.6);
    $s{lm} = any(10, 100, 100_000) if chance(0.4);
    $s{odd} = 1 if chance(0.04);
    $s{zone} = 1 if $s{expires} && chance(0.2);
    $s{lazy} = 1 if chance(0.1);
    $s{same} = 1 if chance(0.3);
    $s{vary} = any('X-Lang', 'X-Lang', 'X-Lang, X-Kind', 'x-kind', '*',
        'X-Kind, X-Lang') if $kind->{vary} && chance(0.8);
    $s{cookie} = 1 if $kind->{cookie} && chance(0.3);
    $s{size} = any(0, 10, 2000) if chance(0.2);

    return %s;
}


sub ask {
    my ($uris, $kind) = @_;

    my %r = (host => int rand 2, uri => int rand $uris);

    $r{method} = 'HEAD' if chance(0.1);
    $r{method} = 'POST' if $kind->{unsafe} && chance(0.15);

    if ($kind->{vary}) {
        $r{'X-Lang'} = any('a', 'b') if chance(0.7);
        $r{'X-Kind'} = any('a', 'b') if chance(0.5);
    }

    if ($kind->{cond}) {
        $r{inm} = any('now', 'now', 'before', 'weak', 'other', '*', 'list')
            if chance(0.4);
        $r{ims} = any('now', 'now', 'older', 'newer', 'odd')
            if chance(0.3);
    }

    if ($kind->{range} && chance(0.5)) {
        $r{range} = any('0-4', '5-', '-3', '2-2', '0-100000', '99999-',
            '0-1,4-5');
        $r{if_range} = any('now', 'before', 'date', 'olddate', 'weak')
            if chance(0.4);
    }

    $r{cookie} = any('SID=1', 'a=b', 'SID=2; a=b')
        if $kind->{cookie} && chance(0.4);
    $r{auth} = any('alice', 'bob') if $kind->{auth} && chance(0.4);
    $r{control} = any('no-cache', 'no-store', 'only-if-cached', map {
        "$_=" . any(0, 1, 3, 5, 10, 60) } qw/ max-age min-fresh max-stale /)
        if $kind->{control} && chance(0.4);
    $r{bypass} = 1 if $kind->{control} && chance(0.05);
    $r{no} = 1 if $kind->{control} && chance(0.05);

    $r{leave} = 1 if chance(0.03);

    return \%r;
}


1;
