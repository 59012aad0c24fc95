package Test::Mcds::Wire;

# Copyright (C) mcds authors

# A memcached on another machine, and a network between that can be down, silent
# or slow, or lose, duplicate and reorder packets.
#
# The other machine is a network namespace, the network a program that reads
# packets on one side and writes them on the other.  The test runs in a
# namespace of its own.

use warnings;
use strict;

use base qw/ Test::Mcds::Talk /;

use Fcntl qw/ F_SETFD /;
use File::Basename qw/ dirname /;
use Socket qw/ AF_UNIX SOCK_STREAM /;
use Time::HiRes qw/ sleep time /;

my $near = '10.93.0.1';
my $far = '10.93.0.2';


# restarts the test in a network namespace, or returns why this is impossible

sub enter {
    if (!$ENV{MCDS_NET}) {
        return 'not root' if $> != 0;
        return 'no /dev/net/tun' if !-w '/dev/net/tun';
        return 'no network namespaces' if system('unshare', '-n', '--', 'sh',
            '-c', 'ip link set lo up 2> /dev/null && ip tuntap add mode tun '
            . 'name mcds 2> /dev/null') != 0;

        $ENV{MCDS_NET} = 1;
        exec 'unshare', '-n', '--', $^X, (map { "-I$_" } @INC), $0;
    }

    system('ip', 'link', 'set', 'lo', 'up') == 0 or die "no network\n";

    return;
}


sub start {
    my ($class, $t, $name) = @_;

    my $self = bless { name => $name, test => $t, port => $t->port($name) },
        $class;

    my $tun = tun('near', $near, $far) or die "no device: $!\n";

    socketpair($self->{control}, my $c, AF_UNIX, SOCK_STREAM, 0)
        or die "socketpair: $!\n";

    # the program that simulates the network inherits the network device $tun
    # and the control socket $c

    fcntl($_, F_SETFD, 0) for $tun, $c;

    $self->{pid} = $t->helper($name, sub {
        return $self->says('version', qr/^VERSION/);
    }, 'unshare', '-n', '--', $^X,
        '-I' . dirname(__FILE__) . '/../..', '-M' . __PACKAGE__,
        '-e', __PACKAGE__ . '::run(@ARGV)', fileno($tun), fileno($c),
        $self->{port});

    push @{$t->{servers}}, $self;

    return $self;
}


sub name { $_[0]{name} }
sub pid { $_[0]{pid} }
sub port { $_[0]{port} }
sub address { return $far }
sub where { return "$far:$_[0]{port}" }


# the faults of the simulated network: [name, setting for set_how(), commands of
# "ip"]; the first half of the commands causes the fault, the second one ends it

sub faults {
    return (
        ['the link is down', '', 'link set near down', 'link set near up'],
        ['all is lost', 'loss 100'],
        ['no route', '', "route del $far", "route add blackhole $far",
            "route del blackhole $far", "route add $far dev near"],
        ['200 ms, more or less 100', 'delay 200 100'],
        ['5% are lost', 'loss 5'],
        ['30% are doubled', 'duplicate 30'],
        ['25% come later', 'reorder 25 5'],
    );
}


sub break {
    my ($self, $fault) = @_;

    my ($name, $how, @calls) = @$fault;

    $self->set_how($how) if $how;
    ip($_) for @calls[0 .. @calls / 2 - 1];
}


sub mend {
    my ($self, $fault) = @_;

    my ($name, $how, @calls) = @$fault;

    ip($_) for @calls[@calls / 2 .. $#calls];
    $self->set_how('well 0');
    $self->hang_up();
}


sub ip {
    my ($args) = @_;
    return system("ip $args 2> /dev/null") == 0;
}


sub set_how {
    my ($self, $how) = @_;

    syswrite($self->{control}, $how);
    sysread($self->{control}, my $ok, 10);
}


sub stop {
    my ($self) = @_;

    return if !$self->{pid};

    $self->hang_up();
    kill 'KILL', -$self->{pid};
    waitpid $self->{pid}, 0;
    $self->{test}->gone(delete $self->{pid});
}


# the functions from here on are those of the program that simulates the network

# opens a network device as a file; TUNSETIFF, IFF_TUN | IFF_NO_PI

sub tun {
    my ($name, $from, $to) = @_;

    open my $fh, '+<', '/dev/net/tun' or return;
    ioctl($fh, 0x400454ca, pack('a16 s x22', $name, 0x1001)) or return;

    for ("address add $from peer $to dev $name", "link set $name up") {
        system('ip', split / /) == 0 or return;
    }

    return $fh;
}


sub run {
    my ($fd, $control, $port) = @_;

    open my $near_tun, '+<&=', $fd or die "$fd: $!\n";
    open my $c, '+<&=', $control or die "$control: $!\n";

    my $far_tun = tun('far', $far, $near) or die "no device: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        exec $ENV{TEST_MEMCACHED_BINARY} // 'memcached', '-u', 'root', '-l',
            $far, '-p', $port, '-U', 0, '-t', 1 or die "no memcached: $!\n";
    }

    my ($how, $p, $more) = ('well', 0, 0);
    my @late;

    srand 5;

    while (1) {
        my $rin = '';
        vec($rin, fileno $_, 1) = 1 for $near_tun, $far_tun, $c;

        @late = sort { $a->[0] <=> $b->[0] } @late if @late > 1;
        my $wait = @late ? $late[0][0] - time() : 10;

        select($rin, undef, undef, $wait < 0 ? 0 : $wait);

        if (vec($rin, fileno $c, 1)) {
            sysread($c, my $line, 100) or last;
            ($how, $p, $more) = split ' ', $line;
            @late = ();
            syswrite($c, "ok\n");
        }

        for my $side ([$near_tun, $far_tun], [$far_tun, $near_tun]) {
            my ($in, $out) = @$side;

            next if !vec($rin, fileno $in, 1);
            sysread($in, my $packet, 65536) or next;
            next if $how eq 'loss' && rand(100) < $p;

            my $delay = $how eq 'delay' ? $p + $more * (rand(2) - 1)
                : $how eq 'reorder' && rand(100) < $p ? $more : 0;

            push @late, [time() + $delay / 1000, $out, $packet];
            push @late, [$late[-1][0] + rand(0.002), $out, $packet]
                if $how eq 'duplicate' && rand(100) < $p;
        }

        while (@late && $late[0][0] <= time()) {
            my $one = shift @late;
            syswrite($one->[1], $one->[2]);
        }
    }

    kill 'KILL', $pid;
    waitpid $pid, 0;
}


1;
