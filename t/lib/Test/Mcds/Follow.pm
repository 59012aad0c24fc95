package Test::Mcds::Follow;

# Copyright (C) mcds authors

# A client of "mcds_log_api ... follow=1" that records the stream.
#
#     my $c = Test::Mcds::Follow->new($host, '/log?follow=1',
#         headers => { 'Last-Event-ID' => $id }, rcvbuf => 4096);
#
#     $c->status(), $c->header('content-type'), $c->text()
#     $c->drain(1000)             reads at most 1000 bytes; drain() reads all
#                                 that have arrived
#     $c->count()                 lines until now
#     $c->seen(10, seconds)       waits for 10 lines; false if there are fewer
#                                 then, or more
#     $c->events()                { time, host, line, id } of each event
#     $c->lines()                 all lines as one text, "_" for spaces
#     $c->ids()                   the ids of the events
#     $c->wrong()                 number of repeated lines, and of ids that are
#                                 less than the id before
#     $c->ended()                 true if the server has ended the stream
#     $c->whole()                 true if the last chunk has arrived
#     $c->close()

use warnings;
use strict;

use IO::Socket::INET;
use JSON::PP ();
use Socket qw/ SOL_SOCKET SO_RCVBUF /;
use Test::Mcds ();


sub new {
    my ($class, $host, $uri, %o) = @_;

    my $socket = IO::Socket::INET->new(Proto => 'tcp',
        PeerAddr => '127.0.0.1:' . $host->port(), $o{rcvbuf}
            ? (Sockopts => [[SOL_SOCKET, SO_RCVBUF, $o{rcvbuf}]]) : ())
        or die "connect: $!\n";

    my %headers = (Host => 'localhost', %{ $o{headers} // {} });

    syswrite $socket, "GET $uri HTTP/1.1\r\n"
        . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers) . "\r\n";
    $socket->blocking(0);

    my $self = bless { socket => $socket, rest => '', text => '' }, $class;

    Test::Mcds::wait_for(sub { $self->drain(); $self->{headers} }, 5);

    return $self;
}


sub drain {
    my ($self, $most) = @_;

    while (!$self->{ended}) {
        my $n = sysread $self->{socket}, my $bytes, $most // 65536;

        last if !defined $n;

        $self->{ended} = 1 if $n == 0;
        $self->{rest} .= $bytes;
        last if $most;
    }

    if (!$self->{headers}
        && $self->{rest} =~ s/^HTTP\S+ (\d+).*?\r\n(.*?)\r\n\r\n//s)
    {
        $self->{status} = $1;
        $self->{headers} = { map { /^(.*?): (.*)$/ ? (lc $1 => $2) : () }
            split /\r\n/, $2 };
    }

    while ($self->{headers} && $self->{rest} =~ /^([0-9a-f]+)\r\n/) {
        my ($start, $len) = (length($1) + 2, hex $1);

        last if length $self->{rest} < $start + $len + 2;

        $self->{text} .= substr $self->{rest}, $start, $len;
        substr $self->{rest}, 0, $start + $len + 2, '';
        $self->{whole} = $self->{ended} = 1 if $len == 0;
    }
}


sub status { $_[0]{status} }


sub header { $_[0]{headers}{$_[1]} }


sub text {
    my ($self) = @_;

    $self->drain();
    return $self->{text};
}


sub count {
    my ($self) = @_;

    return scalar(() = $self->text() =~ /^data: \{/mg);
}


sub seen {
    my ($self, $n, $seconds) = @_;

    Test::Mcds::wait_for(sub { $self->count() >= $n }, $seconds // 10);
    return $self->count() == $n;
}


sub events {
    my ($self) = @_;

    return map { JSON::PP::decode_json($_) }
        $self->text() =~ /^data: (\{.*)$/mg;
}


sub lines {
    my ($self) = @_;

    return join ' ', map { s/ /_/gr } $self->text() =~ /"line":"(.*?)"/g;
}


sub ids {
    my ($self) = @_;

    return $self->text() =~ /^id: (\S+)$/mg;
}


sub wrong {
    my ($self) = @_;

    my ($last, $wrong, %seen) = ('', 0);

    for my $id ($self->ids()) {
        my $place = sprintf '%020d %16s %020d', split /-/, $id;

        $wrong++ if $place lt $last;
        $last = $place;
    }

    return $wrong + grep { $seen{$_}++ } $self->{text} =~ /"id":"(.*?)"/g;
}


sub ended {
    my ($self) = @_;

    $self->drain();
    return $self->{ended};
}


sub whole { $_[0]{whole} }


sub close { $_[0]{socket}->close() }


1;
