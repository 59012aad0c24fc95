package Test::Mcds::Memcached;

# Copyright (C) mcds authors

# A real memcached, which the test starts, stops and kills.

use warnings;
use strict;

use base qw/ Test::Mcds::Talk /;

use Time::HiRes qw/ sleep time /;

use Test::Mcds::Http;


sub start {
    my ($class, %o) = @_;

    my $self = bless { %o }, $class;

    $self->up();

    return $self;
}


sub up {
    my ($self) = @_;

    my $program = $ENV{TEST_MEMCACHED_BINARY} // 'memcached';
    my @args = ($program, '-t', $self->{threads} // 2,
        '-m', $self->{memory} // 64);

    push @args, '-u', 'root' if $> == 0;

    if ($self->{unix}) {
        unlink $self->{unix};
        push @args, '-s', $self->{unix};

    } else {
        push @args, '-l', '127.0.0.1', '-p', $self->{port}, '-U', 0;
    }

    # tests give slab_chunk_max in bytes; recent versions expect kilobytes

    my @more = @{$self->{args} // []};
    s{(?<=slab_chunk_max=)(\d+)}{ in_kilobytes($program) ? $1 / 1024 : $1 }e
        for @more;
    push @args, @more;

    # waits until the statistics show the pid of the memcached started here, as
    # another process may listen on the port

    $self->{pid} = $self->{test}->helper($self->{name}, sub {
        return $self->{mute} ? $self->reaches()
            : $self->says('stats', qr/^STAT pid $_[0]\r$/m);
    }, @args);

    return $self if $self->{mute};

    # the connections of the test itself are counted at the first start only:
    # after a restart nginx, too, may connect to memcached at once

    $self->{base} //= $self->stats()->{curr_connections};

    return $self;
}


my %kilobytes;

sub in_kilobytes {
    my ($program) = @_;

    return $kilobytes{$program} //= do {
        my ($patch) = `$program -V` =~ /1\.6\.(\d+)/;
        defined $patch && $patch >= 38;
    };
}


# whether a connection succeeds, for a memcached with TLS or a password

sub reaches {
    my ($self) = @_;

    my $c = eval { Test::Mcds::Http::conn($self->where()) } or return;
    $c->close();

    return 1;
}


sub name { $_[0]{name} }
sub pid { $_[0]{pid} }
sub port { $_[0]{port} }


sub where {
    my ($self) = @_;
    return $self->{unix} // $self->{port};
}


sub stats {
    my ($self, $what) = @_;

    my $r = $self->mc(defined $what ? "stats $what" : 'stats');

    return { $r =~ /^STAT (\S+) (.*?)\r?$/mg };
}


# whether memcached is running, and not stopped by a signal

sub answers {
    my ($self) = @_;

    return 0 if Test::Mcds::stopped($self->{pid});

    return eval { $self->mc('version') =~ /\AVERSION/ };
}


# the number of connections of memcached that are not those of the test itself

sub connections {
    my ($self) = @_;
    return $self->stats()->{curr_connections} - $self->{base};
}


sub keys {
    my ($self) = @_;
    my ($before, @keys) = ('');

    # The dump of all keys omits an item that is in use, and includes one that
    # is just being removed.  Repeat it until two dumps are equal and contain as
    # many keys as there are items.

    for (1 .. 50) {
        my %keys = map { $_ => 1 }
            $self->mc('lru_crawler metadump all') =~ /^key=(\S+)/mg;

        @keys = sort keys %keys;
        last if $before eq "@keys" && @keys >= $self->stats()->{curr_items};

        $before = "@keys";
        sleep 0.005;
    }

    s/%([0-9A-Fa-f]{2})/chr hex $1/ge for @keys;

    @keys = sort @keys;

    return @keys;
}


# stops memcached by SIGSTOP: it is running but silent.  kill with pid 0 would
# signal the test's own process group

sub freeze {
    my ($self) = @_;

    die "memcached does not run\n" if !$self->{pid};

    kill 'STOP', $self->{pid};

    Test::Mcds::wait_for(sub { Test::Mcds::stopped($self->{pid}) });
}


sub cont {
    my ($self) = @_;
    kill 'CONT', $self->{pid} if $self->{pid};
}


sub kill9 {
    my ($self) = @_;

    return if !$self->{pid};

    $self->hang_up();
    kill 'KILL', $self->{pid};
    waitpid $self->{pid}, 0;
    $self->{test}->gone($self->{pid});
    $self->{pid} = 0;
}


sub restart {
    my ($self) = @_;

    $self->kill9();

    return $self->up();
}


sub stop {
    my ($self) = @_;
    $self->kill9();
}


1;
