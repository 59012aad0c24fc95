package Test::Mcds::Chaos;

# Copyright (C) mcds authors

# The parts of the chaos run: pages that contain their user, the time when they
# were made and a checksum; clients that read pages and sometimes abort; and
# checks of the recorded results.
#
#     $answer = chaos_page($q, %page)     a page with a checksum, for a request
#                                         to the origin
#     $crowd = chaos_crowd(%o)            clients in a separate process, until
#                                         $crowd->wait() or the given seconds
#     overlaps(\@requests)                pairs of concurrent requests among
#                                         these requests to the origin
#     returned(\@seen, \@purges)          pairs [page, purge]: the page is older
#                                         than the purge, and was served to a
#                                         request that began after the response
#                                         to the purge; a stale page may be
#                                         older than a purge by "invalidate"

use warnings;
use strict;

use Digest::SHA qw/ sha256_hex /;
use Exporter qw/ import /;
use IO::Select;
use POSIX ();
use Storable qw/ nstore retrieve /;
use Time::HiRes qw/ time /;

use Test::Mcds::Http qw/ start_get close_all /;

our @EXPORT = qw/ chaos_page chaos_crowd overlaps returned /;


# the body of a page: its parameters, the number and the time of the request to
# the origin, filling text, and a digest of all these

sub chaos_page {
    my ($q, %page) = @_;

    my $body = join ' ', 'page', map { "$_=$page{$_}" } sort keys %page;
    $body .= sprintf " uri=%s n=%d at=%.3f\n", $q->{uri}, $q->{n}, time();

    my ($n) = $q->{path} =~ /(\d+)$/;
    my $size = $q->{path} =~ /large/ ? (600_000, 1_400_000)[$n % 2]
        : (200, 1000, 5000, 20_000, 70_000, 150_000)[($n // 0) % 6];

    $body .= "$q->{n}\r\nEND\r\nVA 3 " x ($size / 16);

    return $body . sha256_hex($body);
}


# checks the body of a page: returns its fault, or '', and the fields of the
# body's first line

sub check {
    my ($body, %want) = @_;

    return 'torn' if length $body < 64
        || sha256_hex(substr $body, 0, -64) ne substr $body, -64;

    my ($line) = $body =~ /^page (.*)\n/ or return 'torn';
    my %got = map { split /=/, $_, 2 } split / /, $line;

    return ('private', %got) if ($got{user} // '') ne $want{user};
    return ('wrong', %got) if grep { ($got{$_} // '') ne $want{$_} }
        keys %want;

    return ('', %got);
}


# Starts clients: ports => [..], clients => n, seconds, seed, abort => percent
# of aborted requests, pause => seconds between two requests of a client, limit
# => maximum age of a page, next => sub that returns the next request: { kind,
# uri, headers, want => fields of the page, watch => 1: returned() checks the
# page, may => [accepted statuses other than 200] }, or, for a purge, { kind,
# uri, headers, purge => { uri, mode } }

sub chaos_crowd {
    my ($test, %o) = @_;

    my $self = bless { %o, test => $test,
        file => $test->dir() . "/crowd.$o{seed}" }, __PACKAGE__;

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        $SIG{$_} = 'DEFAULT' for qw/ INT TERM HUP ALRM /;
        my $ok = eval { $self->run(); 1 };
        print STDERR "crowd: $@" if !$ok;
        POSIX::_exit($ok ? 0 : 1);
    }

    $test->spawned($pid);
    $self->{pid} = $pid;

    return $self;
}


sub wait {
    my ($self) = @_;

    waitpid $self->{pid}, 0;
    $self->{test}->gone($self->{pid});

    return -f $self->{file} ? retrieve($self->{file}) : undef;
}


sub run {
    my ($self) = @_;

    srand $self->{seed};
    my $end = time() + $self->{seconds};
    my $stop = $end + $self->{limit};
    my %active;
    my @idle = map { time() + rand $self->{pause} } 1 .. $self->{clients};
    my $select = IO::Select->new();

    $self->{seen} = { count => {}, status => {}, bad => [], fail => [],
                      watched => [], purges => [] };

    while (time() < $end || %active && time() < $stop) {
        my $now = time();

        @idle = sort { $a <=> $b } @idle;

        while ($now < $end && @idle && $idle[0] <= $now) {
            shift @idle;
            my $c = $self->begin() // next;
            $active{$c} = $c;
            $select->add([$c->{sock}, $c]);
        }

        for my $ready ($select->can_read(0.01)) {
            my $c = $ready->[1];
            $c->fill(0);
            my $res = Test::Mcds::Http::parse(\$c->{in}, 'GET', $c->{eof});
            next if !$res && !$c->{eof};

            $self->ended($c, $res);
            $select->remove($c->{sock});
            $c->close();
            delete $active{$c};
            push @idle, time() + rand $self->{pause};
        }

        for my $c (grep { $_->{leave} && $_->{leave} < time() } values %active)
        {
            $select->remove($c->{sock});
            $self->{seen}{count}{left}++;
            rand() < 0.5 ? $c->close() : $c->reset();
            delete $active{$c};
            push @idle, time() + rand $self->{pause};
        }
    }

    for my $c (grep { !$_->{leave} } values %active) {
        $self->failed($c, 'no answer');
    }

    close_all();
    nstore($self->{seen}, $self->{file});
}


sub begin {
    my ($self) = @_;

    my $r = $self->{next}->();
    my @ports = @{$self->{ports}};
    my $host = int rand @ports;
    my $c = eval { start_get($ports[$host], $r->{uri},
        headers => $r->{headers} // []) };

    if (!$c) {
        $self->failed({ start => time(), host => $host, r => $r }, $@);
        return;
    }

    $c->{r} = $r;
    $c->{host} = $host;
    $c->{leave} = time() + rand 0.2 if rand 100 < $self->{abort};
    $self->{seen}{count}{all}++;

    return $c;
}


sub ended {
    my ($self, $c, $res) = @_;

    my ($seen, $r) = ($self->{seen}, $c->{r});

    if (!$res) {
        return $seen->{count}{left}++ if $c->{leave};
        return $self->failed($c, $c->{error} // 'closed');
    }

    return $self->purged($c, $res) if $r->{purge};

    $seen->{status}{$r->{kind}}{$res->header('X-Cache') // 'none'}++;

    if ($res->status() != 200) {
        return $seen->{count}{$res->status()}++
            if grep { $_ == $res->status() } @{$r->{may} // []};
        return $self->failed($c, "status $res->{status}");
    }

    my ($what, %got) = check($res->body(), uri => $r->{uri}, %{$r->{want}});

    # the age of the page when the client's request began must not exceed the
    # limit

    my $age = $c->{start} - ($got{at} // 0);

    $what = 'stale' if !$what && $age > $r->{limit};
    $seen->{count}{whole}++;

    push @{$seen->{watched}}, { uri => $r->{uri}, start => $c->{start},
        at => $got{at}, host => $c->{host}, n => $got{n},
        cache => $res->header('X-Cache') // 'none' }
        if $r->{watch} && !$what;

    return if !$what;

    push @{$seen->{bad}}, { what => $what, kind => $r->{kind},
        uri => $r->{uri}, age => sprintf('%.3f', $age), start => $c->{start},
        host => $c->{host}, cache => $res->header('X-Cache'),
        reason => $res->header('X-Reason'), line => substr($res->body(), 0,
        120) =~ s/\n.*//sr };
}


# records a purge; one that failed in part (503) may or may not have removed the
# page, and is left out

sub purged {
    my ($self, $c, $res) = @_;

    my ($seen, $status) = ($self->{seen}, $res->status());

    $seen->{status}{purge}{$status}++;

    return $self->failed($c, "status $status")
        if $status != 200 && $status != 404 && $status != 503;

    push @{$seen->{purges}}, { %{$c->{r}{purge}}, sent => $c->{start},
        acked => time(), host => $c->{host} } if $status != 503;
}


sub failed {
    my ($self, $c, $why) = @_;

    push @{$self->{seen}{fail}}, { why => $why, start => $c->{start},
        end => time(), host => $c->{host}, kind => $c->{r}{kind},
        uri => $c->{r}{uri} };
}


# returns pairs of requests to the origin, of which the second began before the
# first had ended

sub overlaps {
    my ($requests) = @_;

    my @r = sort { $a->{start} <=> $b->{start} } @$requests;
    my @pairs;

    for my $i (0 .. $#r) {
        for my $j ($i + 1 .. $#r) {
            last if $r[$j]{start} > $r[$i]{start} + 30;
            push @pairs, [$r[$i], $r[$j]]
                if $r[$j]{start} < ($r[$i]{end} // 9e99);
        }
    }

    return @pairs;
}


sub returned {
    my ($seen, $purges) = @_;

    my (%purges, @pairs);

    push @{$purges{$_->{uri}}}, $_ for @$purges;

    for my $s (@$seen) {
        my $stale = $s->{cache} =~ /^(?:STALE|UPDATING)$/;

        for my $p (@{$purges{$s->{uri}} // []}) {
            push @pairs, [$s, $p] if $p->{acked} < $s->{start}
                && $p->{sent} > $s->{at} + 0.001
                && !($stale && $p->{mode} eq 'invalidate');
        }
    }

    return @pairs;
}


1;
