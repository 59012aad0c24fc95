package Test::Mcds::Server;

# Copyright (C) mcds authors

# The base of the servers that tests fork: the event loop, the steps of an
# answer, the record of events, and the control connection for the test.  The
# protocols are in Fake.pm, Origin.pm and Dns.pm.

use warnings;
use strict;

use Errno qw/ EAGAIN EINTR EWOULDBLOCK /;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ();
use Socket qw/ AF_UNIX SOCK_STREAM PF_UNSPEC SOL_SOCKET SO_LINGER
    IPPROTO_TCP TCP_NODELAY SOMAXCONN /;
use Storable qw/ freeze thaw /;
use Time::HiRes qw/ time /;


# starts a server in a process of its own; called in the test's process

sub start {
    my ($class, %o) = @_;

    my $self = bless { %o, mark => 0 }, $class;

    $self->{record} = "$o{dir}/$o{name}.record";
    $self->{stderr} = "$o{dir}/$o{name}.stderr";

    my $listen = $self->open_listener();

    socketpair(my $near, my $far, AF_UNIX, SOCK_STREAM, PF_UNSPEC)
        or die "socketpair: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        $self->child($listen, $far);
        POSIX::_exit(0);
    }

    CORE::close($listen) if $listen;
    CORE::close($far);

    $self->{pid} = $pid;
    $self->{control} = $near;
    $self->{up} = 1;

    # waits for the message that the server sends when it is ready

    $self->{blackhole} and $self->fill_backlog();
    my $hello = receive($near);
    die "$o{name} did not start, see $self->{stderr}\n" if !$hello;

    return $self;
}


sub open_listener {
    my ($self) = @_;
    my $s;

    my $backlog = $self->{blackhole} ? 1 : SOMAXCONN;

    if ($self->{unix}) {
        unlink $self->{unix};
        $s = IO::Socket::UNIX->new(Type => SOCK_STREAM,
            Local => $self->{unix}, Listen => $backlog);

    } else {
        $s = IO::Socket::INET->new(Proto => 'tcp', ReuseAddr => 1,
            LocalAddr => $self->{addr} // '127.0.0.1',
            LocalPort => $self->{port}, Listen => $backlog);
    }

    return $s // die "cannot listen for $self->{name}: $!\n";
}


# fills the backlog of a listener that accepts no connection ("blackhole"):
# further calls of connect() neither succeed nor fail

sub fill_backlog {
    my ($self) = @_;

    for (1 .. 16) {
        my $s = IO::Socket::INET->new(Proto => 'tcp', Timeout => 0.2,
            PeerAddr => '127.0.0.1', PeerPort => $self->{port}) or last;
        push @{$self->{fillers}}, $s;
    }
}


sub send_message {
    my ($sock, $data) = @_;

    my $bytes = freeze([$data]);
    $bytes = pack('N', length $bytes) . $bytes;

    while (length $bytes) {
        my $n = syswrite($sock, $bytes) // return 0;
        substr($bytes, 0, $n, '');
    }

    return 1;
}


sub receive {
    my ($sock) = @_;

    my $in = '';
    my $need = 4;

    while (length $in < $need) {
        my $n = sysread($sock, $in, $need - length $in, length $in);
        return if !$n;
        $need = 4 + unpack('N', $in) if length $in == 4;
    }

    return thaw(substr($in, 4))->[0];
}


# calls do_<method>() in the server's process and returns its result

sub call {
    my ($self, $method, @args) = @_;

    die "$self->{name} is not running\n" if !$self->{up};

    send_message($self->{control}, [$method, @args]);

    my $r = receive($self->{control})
        // die "$self->{name} has died, see $self->{stderr}\n";

    die "$self->{name}: $r->{error}\n" if defined $r->{error};

    return wantarray ? @{$r->{value}} : $r->{value}[0];
}


sub name { $_[0]{name} }
sub pid { $_[0]{pid} }
sub port { $_[0]{port} }


sub stop {
    my ($self) = @_;

    return if !$self->{up};

    $self->{up} = 0;
    CORE::close($self->{control});
    delete $self->{fillers};

    kill 'KILL', $self->{pid};
    waitpid $self->{pid}, 0;
}


# starts the server again on the same port, without its state

sub restart {
    my ($self, %o) = @_;

    $self->stop();

    my %own = map { $_ => 1 } qw/ pid control up mark record stderr fillers
        talk /;
    my %keep = map { $_ => $self->{$_} } grep { !$own{$_} } keys %$self;
    my $new = ref($self)->start(%keep, %o);

    my $mark = $self->{mark};
    %$self = %$new;
    $self->{mark} = $mark;
    $self->{on_start}->($self) if $self->{on_start};

    return $self;
}


# all events (connections, requests) that the server has recorded since mark()

sub records {
    my ($self) = @_;

    open my $fh, '<:raw', $self->{record} or return;
    seek $fh, $self->{mark}, 0;
    local $/;
    my $all = <$fh> // '';

    my @r;
    my $pos = 0;

    while ($pos + 4 <= length $all) {
        my $len = unpack('N', substr($all, $pos, 4));
        last if $pos + 4 + $len > length $all;
        push @r, thaw(substr($all, $pos + 4, $len));
        $pos += 4 + $len;
    }

    return @r;
}


# lets records() leave out the events (connections, requests) that the server
# has recorded so far

sub mark {
    my ($self) = @_;

    # In each turn, the server's loop first answers a call, then accepts
    # connections, then reads requests; it reads from a new connection in the
    # next turn.  With the third answer, it has read all requests sent before.

    if ($self->{up}) {
        $self->call('nothing') for 1 .. 3;
    }

    $self->{mark} = -s $self->{record} // 0;

    return $self;
}


sub errors {
    my ($self) = @_;

    open my $fh, '<', $self->{stderr} or return '';
    local $/;

    return <$fh> // '';
}


# runs the server, in its own process, until the test ends or stops it

sub child {
    my ($self, $listen, $control) = @_;

    $SIG{$_} = 'DEFAULT' for qw/ INT TERM HUP __DIE__ __WARN__ /;
    $SIG{PIPE} = 'IGNORE';

    # This process, forked from the test's, closes its copies of the test's
    # descriptors.  Otherwise a connection would stay open after the test closes
    # it.

    my %keep = map { $_ => 1 } 0, 1, 2, fileno($listen), fileno($control);

    opendir my $dh, '/proc/self/fd' or POSIX::_exit(1);
    my @fds = grep { /^\d+$/ && !$keep{$_} } readdir $dh;
    my $own = fileno($dh) // -1;
    POSIX::close($_) for grep { $_ != $own } @fds;
    closedir $dh;

    open STDIN, '<', '/dev/null';
    open STDOUT, '>', '/dev/null';
    open STDERR, '>>', $self->{stderr};
    STDERR->autoflush(1);

    open $self->{out}, '>>:raw', $self->{record};
    $self->{out}->autoflush(1);

    $listen->blocking(0);
    $self->{listen} = $listen;
    $self->{control} = $control;
    $self->{conns} = {};
    $self->{next_id} = 1;
    $self->{mode} //= '';

    $self->init();
    send_message($control, 'ready');

    eval { $self->loop(); 1 } or print STDERR "died: $@";
    POSIX::_exit(0);
}


sub init { }


sub loop {
    my ($self) = @_;

    while (1) {
        my ($rin, $win) = ('', '');
        my $now = time();
        my $wake;

        vec($rin, fileno($self->{control}), 1) = 1;
        vec($rin, fileno($self->{listen}), 1) = 1
            if $self->{listen} && !$self->{blackhole};

        for my $c (values %{$self->{conns}}) {
            vec($rin, fileno($c->{sock}), 1) = 1 if !$c->{deaf} && !$c->{eof};
            my $next = $c->{steps}[0] or next;

            if (exists $next->{bytes}) {
                vec($win, fileno($c->{sock}), 1) = 1;

            } elsif (exists $next->{at}) {
                $wake = $next->{at} if !$wake || $next->{at} < $wake;
            }
        }

        my $timeout = $wake ? $wake - $now : 60;
        $timeout = 0 if $timeout < 0;

        my $n = select($rin, $win, undef, $timeout);
        next if $n < 0;

        if ($n && vec($rin, fileno($self->{control}), 1)) {
            my $m = receive($self->{control}) or return;
            $self->answer_call($m);
        }

        if ($self->{listen} && !$self->{blackhole}
            && vec($rin, fileno($self->{listen}), 1))
        {
            $self->accept_all();
        }

        for my $c (values %{$self->{conns}}) {
            next if !$c->{sock};

            if (vec($rin, fileno($c->{sock}), 1)) {
                $self->read_from($c);
            }

            $self->run($c) if $c->{sock};
        }
    }
}


sub answer_call {
    my ($self, $m) = @_;

    my ($method, @args) = @$m;
    my $code = $self->can("do_$method");

    my @value = eval { $code ? $code->($self, @args) : die "no $method\n" };
    my $error = $@;
    chomp $error;

    send_message($self->{control},
        length $error ? { error => $error } : { value => \@value });
}


sub accept_all {
    my ($self) = @_;

    while (my $s = $self->{listen}->accept()) {
        $s->blocking(0);
        setsockopt($s, IPPROTO_TCP, TCP_NODELAY, 1) if !$self->{unix};

        my $c = { id => $self->{next_id}++, sock => $s, in => '', steps => [] };

        $self->{conns}{$c->{id}} = $c;
        $self->put(event => 'open', conn => $c->{id});
        $self->opened($c);
        $self->run($c);
    }
}


sub opened { }


sub read_from {
    my ($self, $c) = @_;

    my $n = sysread($c->{sock}, $c->{in}, 262144, length $c->{in});

    if (!defined $n) {
        return if $! == EAGAIN || $! == EWOULDBLOCK || $! == EINTR;
        $self->drop($c, 'reset');
        return;
    }

    if ($n == 0) {
        $c->{eof} = 1;
        $self->ended($c);
        $self->drop($c, 'closed') if $c->{sock} && !@{$c->{steps}};
        return;
    }

    $c->{reads}++;
    $self->input($c);
}


# called when the peer of a connection has closed its end

sub ended {
    my ($self, $c) = @_;
    $self->drop($c, 'closed');
}


sub drop {
    my ($self, $c, $why) = @_;

    return if !$c->{sock};

    $self->dropped($c, $why);
    $self->put(event => 'close', conn => $c->{id}, why => $why);
    close_fd($c->{sock});
    $c->{sock} = undef;
    delete $self->{conns}{$c->{id}};
}


# Closes a handle and its descriptor.  CORE::close() may leave the descriptor
# open: child() closes descriptors inherited from the test without telling Perl.
# If the new descriptor has the number of one of these, Perl believes that
# another handle still uses it.

sub close_fd {
    my ($handle) = @_;

    my $fd = fileno $handle;

    CORE::close($handle);
    POSIX::close($fd);
}


sub dropped { }


# converts the elements of an answer into steps, which run() takes one by one

sub queue {
    my ($self, $c, @answer) = @_;

    for my $a (@answer) {
        next if !defined $a;

        if (!ref $a) {
            push @{$c->{steps}}, { bytes => $a } if length $a;

        } elsif (ref $a eq 'ARRAY') {
            my ($bytes, $delay) = @$a;
            push @{$c->{steps}}, { delay => $delay } if $delay;
            push @{$c->{steps}}, { bytes => $bytes }
                if defined $bytes && length $bytes;

        } else {
            push @{$c->{steps}}, { %$a };
        }
    }
}


sub run {
    my ($self, $c) = @_;

    while ($c->{sock} && (my $s = $c->{steps}[0])) {

        if (exists $s->{bytes}) {
            my $n = syswrite($c->{sock}, $s->{bytes});

            if (!defined $n) {
                return if $! == EAGAIN || $! == EWOULDBLOCK || $! == EINTR;
                $self->drop($c, 'reset');
                return;
            }

            $c->{sent} += $n;
            substr($s->{bytes}, 0, $n, '');
            return if length $s->{bytes};

        } elsif (exists $s->{delay}) {
            $s->{at} = time() + delete $s->{delay};
            return;

        } elsif (exists $s->{at}) {
            return if $s->{at} > time();

        } elsif (exists $s->{hold}) {
            return if !$s->{released};

        } elsif ($s->{stall}) {
            return;

        } elsif ($s->{deaf}) {
            $c->{deaf} = 1;

        } elsif ($s->{fin}) {
            $self->drop($c, 'fin');
            return;

        } elsif ($s->{rst}) {
            setsockopt($c->{sock}, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
            $self->drop($c, 'rst');
            return;

        } elsif ($s->{code}) {
            shift @{$c->{steps}};
            $s->{code}->();
            next;
        }

        shift @{$c->{steps}};
    }
}


# the elements, other than bytes, that a test may put into a response of the
# server: pause, wait for do_release(), close or reset the connection, send no
# more, read no more

sub pause { return { delay => $_[1] } }
sub hold { return { hold => $_[1] // 'held' } }
sub fin { return { fin => 1 } }
sub rst { return { rst => 1 } }
sub stall { return { stall => 1 } }
sub deaf { return { deaf => 1 } }

sub bytewise {
    my ($self, $bytes, $delay) = @_;
    return map { [$_, $delay // 0.001] } split //, $bytes;
}


sub put {
    my ($self, %r) = @_;

    my $bytes = freeze({ at => time(), %r });
    syswrite($self->{out}, pack('N', length $bytes) . $bytes);
}


sub mode {
    my ($self) = @_;
    return $self->{mode};
}


# functions in the server's process that a test calls by call()

sub do_nothing { return 1 }


sub do_tell {
    my ($self, $mode, @more) = @_;

    $self->{mode} = $mode;
    $self->{told} = \@more;
    $self->told($mode, @more);

    return 1;
}


sub told { }


# sends the answers that are held under a name, or all held ones; at most $count

sub do_release {
    my ($self, $name, $count) = @_;
    my $n = 0;

    for my $id (sort { $a <=> $b } keys %{$self->{conns}}) {
        my $c = $self->{conns}{$id} or next;

        last if defined $count && $n >= $count;

        my $s = $c->{steps}[0] or next;

        if (exists $s->{hold} && (!defined $name || $s->{hold} eq $name)) {
            $s->{released} = 1;
            $n++;
            $self->run($c);
        }
    }

    return $n;
}


sub do_held {
    my ($self, $name) = @_;

    return scalar grep {
        my $s = $_->{steps}[0];
        $s && exists $s->{hold} && (!defined $name || $s->{hold} eq $name)
    } values %{$self->{conns}};
}


sub do_connections {
    my ($self) = @_;
    return scalar keys %{$self->{conns}};
}


# sends bytes on each connection, without a request for them

sub do_push {
    my ($self, $bytes) = @_;

    for my $c (values %{$self->{conns}}) {
        $self->queue($c, $bytes);
        $self->run($c);
    }

    return 1;
}


sub do_close_all {
    my ($self, $rst) = @_;

    for my $c (values %{$self->{conns}}) {
        $c->{steps} = [];
        $self->queue($c, $rst ? { rst => 1 } : { fin => 1 });
        $self->run($c);
    }

    return 1;
}


# closes the listener, so that the kernel refuses connections, or opens it again

sub do_refuse {
    my ($self, $refuse) = @_;

    if ($refuse) {
        close_fd($self->{listen}) if $self->{listen};
        $self->{listen} = undef;

    } elsif (!$self->{listen}) {
        $self->{listen} = $self->open_listener();
        $self->{listen}->blocking(0);
    }

    return 1;
}


# These functions are called in the test's process.  By call(), each runs the
# function do_<name>() above in the server's process; reset_all() runs
# do_close_all().

sub tell { my ($self, @a) = @_; return $self->call('tell', @a) }
sub release { my ($self, @a) = @_; return $self->call('release', @a) }
sub held { my ($self, @a) = @_; return $self->call('held', @a) }
sub connections { my ($self) = @_; return $self->call('connections') }
sub push { my ($self, $bytes) = @_; return $self->call('push', $bytes) }
sub close_all { my ($self) = @_; return $self->call('close_all') }
sub reset_all { my ($self) = @_; return $self->call('close_all', 1) }
sub refuse { my ($self, $on) = @_; return $self->call('refuse', $on // 1) }


1;
