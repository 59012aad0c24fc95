package Test::Mcds::Slow;

# Copyright (C) mcds authors

# Clients that read slowly.  slow(port, uri) sends a request, and reads only the
# start of the answer; rest(slow) reads the remainder, and returns the body.

use warnings;
use strict;

use Exporter qw/ import /;
use IO::Socket::INET;
use Socket qw/ inet_aton pack_sockaddr_in SOL_SOCKET SO_RCVBUF /;

our @EXPORT = qw/ slow rest /;


sub slow {
    my ($port, $uri) = @_;

    my $s = IO::Socket::INET->new(Proto => 'tcp') or die "socket: $!\n";
    setsockopt($s, SOL_SOCKET, SO_RCVBUF, 4096) or die "setsockopt: $!\n";
    connect($s, pack_sockaddr_in($port, inet_aton('127.0.0.1')))
        or die "connect: $!\n";
    syswrite $s, "GET $uri HTTP/1.0\r\nHost: localhost\r\n\r\n";

    my $head = '';
    sysread $s, $head, 1, length $head or die "no answer\n"
        while $head !~ /\r\n\r\n./s;

    return [$s, $head];
}


sub rest {
    my ($slow) = @_;
    my ($s, $text) = @$slow;
    1 while sysread $s, $text, 65536, length $text;
    return $text =~ s/^.*?\r\n\r\n//sr;
}


1;
