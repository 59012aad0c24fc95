package Test::Mcds::Sockets;

# Copyright (C) mcds authors

# The TCP sockets of a network namespace.  /proc/net/tcp includes those in
# TIME_WAIT: tens of thousands while tests run in parallel, so that reading it
# takes a tenth of a second; netlink omits them, as ss does.

use warnings;
use strict;

use Errno qw/ EINTR /;
use Socket qw/ AF_INET SOCK_RAW /;

use constant {
    AF_NETLINK => 16, NETLINK_SOCK_DIAG => 4, TCPDIAG_GETSOCK => 18,
    REQUEST_DUMP => 0x301, ERROR => 2, DONE => 3, TIME_WAIT => 6,
    ESTABLISHED => 1, LISTEN => 10,
};

my $header = 'LSSLL';
my $size = length pack $header, (0) x 5;


# returns { inode, local, remote (ports), open, listens } for each TCP socket in
# the network namespace of a process

sub tcp {
    my ($pid) = @_;

    my ($own, $its) = map { readlink("/proc/$_/ns/net") // '' } $$, $pid // $$;
    my $list = $own eq $its ? from_netlink() : undef;

    return $list ? @$list : map { @{from_proc($pid, $_)} } 'tcp', 'tcp6';
}


# returns { inode, local, remote (ports), open, listens } for each UDP socket;
# UDP has no connections, so all these sockets listen

sub udp {
    my ($pid) = @_;

    return map { { %$_, listens => 1 } }
        map { @{from_proc($pid, $_)} } 'udp', 'udp6';
}


# returns the inode of each unix socket

sub unix {
    my ($pid) = @_;

    open my $fh, '<', '/proc/' . ($pid // $$) . '/net/unix' or return;
    return map { (split)[6] } grep { /^\w+: / } <$fh>;
}


# Lists the TCP sockets by netlink.  The kernel looks through its whole table of
# TCP sockets for each request to list them, which takes some milliseconds.  The
# older request, TCPDIAG_GETSOCK, lists IPv4 and IPv6 sockets in one pass.

sub from_netlink {
    socket(my $s, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG) or return;

    my $query = pack 'Cx3x48LL', AF_INET, 0xfff & ~(1 << TIME_WAIT), 0;

    send($s, pack($header, $size + length $query, TCPDIAG_GETSOCK,
        REQUEST_DUMP, 1, 0) . $query, 0) or return;

    my @found;

    while (1) {
        my $got = recv $s, my $in, 1 << 18, 0;

        next if !defined $got && $! == EINTR;
        return if !defined $got || length $in < $size;

        while (length $in >= $size) {
            my ($len, $type) = unpack $header, $in;

            return \@found if $type == DONE;
            return if $type == ERROR || $len < $size || $len > length $in;

            my ($state, $local, $remote, $inode)
                = unpack 'xCxxnnx44x16L', substr $in, $size, $len - $size;

            push @found, { inode => $inode, local => $local,
                           remote => $remote, open => $state == ESTABLISHED,
                           listens => $state == LISTEN };

            substr $in, 0, ($len + 3) & ~3, '';
        }
    }
}


sub from_proc {
    my ($pid, $file) = @_;
    my @found;

    open my $fh, '<', '/proc/' . ($pid // $$) . "/net/$file" or return [];

    while (my $line = <$fh>) {
        my @f = split ' ', $line;
        next if $f[0] !~ /:$/;

        $f[3] = hex $f[3];
        my ($local) = $f[1] =~ /:(\w+)$/;
        my ($remote) = $f[2] =~ /:(\w+)$/;

        push @found, { inode => $f[9], local => hex $local,
                       remote => hex $remote, open => $f[3] == ESTABLISHED,
                       listens => $f[3] == LISTEN }
            if $f[3] != TIME_WAIT;
    }

    return \@found;
}


1;
