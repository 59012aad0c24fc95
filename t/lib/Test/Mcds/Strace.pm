package Test::Mcds::Strace;

# Copyright (C) mcds authors

# The system calls of a worker that could block, as seen by strace.

use warnings;
use strict;

my $waits = 'poll|ppoll|select|pselect6|nanosleep|clock_nanosleep';


# starts strace of a process; undef if strace is not installed or may not trace

sub start {
    my ($class, $t, $pid) = @_;

    return if !$t->has('strace');

    my $self = bless { test => $t, name => "strace.$pid" }, $class;

    my $tracer = $t->spawn("$self->{name}.out", 'strace', '-q', '-T', '-o',
        $t->dir() . "/$self->{name}", '-p', $pid,
        '-e', 'trace=' . $waits =~ tr/|/,/r . ',connect,openat');

    $self->{pid} = $tracer;

    return $self if Test::Mcds::wait_for(sub {
        $t->run('cat', "/proc/$pid/status") =~ /^TracerPid:\s*[1-9]/m;
    }, 10);

    $self->end('KILL');

    return;
}


sub end {
    my ($self, $signal) = @_;

    kill $signal // 'INT', $self->{pid};
    waitpid $self->{pid}, 0;
    $self->{test}->gone($self->{pid});

    my @calls = split /\n/, $self->{test}->read_file($self->{name});

    return @calls;
}


# returns the calls that block: those whose only purpose is to wait; connect()
# of a blocking socket, or to a name server; openat() of a file, such as
# /etc/hosts, that a blocking look-up of a name reads.  Leaves out connect() of
# nginx's own resolver, which does not block, to the UDP port $resolver

sub waiting {
    my ($calls, $resolver) = @_;

    my $udp = $resolver ? qr/htons\($resolver\)/ : qr/(?!)/;

    return grep {
        /\b(?:$waits)\(/
        || /\bconnect\(/ && (/ = -1 ETIMEDOUT/ || / = 0\b/ && !/AF_UNIX|$udp/
            || /htons\(53\)|nscd/)
        || m{\bopenat\(.*"/etc/(?:hosts|resolv\.conf|nsswitch\.conf)"}
    } @$calls;
}


1;
