package Test::Mcds::Nginx;

# Copyright (C) mcds authors

# A running nginx, with its own configuration and logs: a host of the site.

use warnings;
use strict;

use Time::HiRes qw/ sleep time /;

use Test::Mcds::Http;
use Test::Mcds::Sockets;


sub start {
    my ($class, %o) = @_;

    my $self = bless { %o, killed => {} }, $class;

    mkdir $self->{dir} or die "mkdir $self->{dir}: $!\n" if !-d $self->{dir};

    $self->conf($self->{conf});
    $self->up();

    return $self;
}


# writes a new configuration, which reload() applies

sub conf {
    my ($self, $text, %o) = @_;

    $self->{conf} = $text;
    $self->{text} = $self->{test}->expand($text, $self->{name},
        log => $self->{log}, patience => $self->{patience},
        mode => $o{mode} // $self->{mode});

    $self->{test}->write_file("$self->{name}/nginx.conf", $self->{text});

    my ($n) = $self->{text} =~ /^\s*worker_processes\s+(\w+)\s*;/m;
    $n = `nproc` + 0 if defined $n && $n eq 'auto';
    $self->{want} = $n // 1;
    $self->{single} = $self->{text} =~ /\bmaster_process\s+off\s*;/;
    $self->{daemon} = $self->{text} =~ /\bdaemon\s+on\s*;/;

    return $self;
}


sub up {
    my ($self) = @_;

    my $t = $self->{test};

    local %ENV = (%ENV, $t->sanitizer_env("$self->{dir}/sanitizer"));

    for my $name (grep { $self->{$_} } qw/ loop memory table /) {
        $ENV{LD_PRELOAD} = join ' ', $t->preload($name),
            $ENV{LD_PRELOAD} // ();
        $ENV{'MCDS_' . uc $name} = "$self->{dir}/$name";
    }

    # with MALLOC_PERTURB_ a worker keeps no freed memory, see ngx_mcds_spare.h

    $ENV{MALLOC_PERTURB_} //= 165 if $self->{memory} && !$self->{spare};

    $t->leave('allocations are valgrind\'s')
        if $self->{memory} && $t->valgrind();

    unlink "$self->{dir}/nginx.pid";
    adopt() if $self->{daemon};

    $self->{pid} = $t->spawn("$self->{name}/stderr",
        $t->valgrind("$self->{dir}/sanitizer"), $t->binary(),
        '-p', "$self->{dir}/", '-c', 'nginx.conf',
        '-e', "$self->{dir}/error.log");

    $self->follow_daemon() if $self->{daemon};

    push @{$self->{groups}}, $self->{pid};
    delete $self->{exit};

    Test::Mcds::wait_for(sub { $self->reap() || $self->ready() },
        60 * $t->slow());

    if (!$self->{pid} || !$self->ready()) {
        die "nginx $self->{name} did not start:\n"
            . $t->read_file("$self->{name}/stderr")
            . $self->tail(20);
    }

    $self->settle();
    $self->take_baseline();

    return $self;
}


# makes the test the parent of orphans, such as the master of a daemonized nginx

sub adopt {
    require 'syscall.ph';

    # 36 is PR_SET_CHILD_SUBREAPER

    syscall(SYS_prctl(), 36, 1, 0, 0, 0) == 0 or die "prctl: $!\n";
}


# replaces the pid of the started process, which ends, by that of its daemon

sub follow_daemon {
    my ($self) = @_;

    my $t = $self->{test};

    return if !$self->wait_exit(60 * $t->slow()) || $self->{exit};

    Test::Mcds::wait_for(sub {
        ($self->{pid}) = $t->read_file("$self->{name}/nginx.pid") =~ /^(\d+)\n/;
        return $self->{pid};
    }, 60 * $t->slow());

    $t->spawned($self->{pid}) if $self->{pid};
}


# true when all workers of this nginx have started

sub ready {
    my ($self) = @_;

    return -s "$self->{dir}/nginx.pid" && $self->workers() > 0
        if $self->{single};
    return $self->workers() >= $self->{want};
}


sub children {
    my ($self) = @_;

    return if !$self->{pid};

    my @pids;

    if (open my $fh, '<', "/proc/$self->{pid}/task/$self->{pid}/children") {
        @pids = split ' ', <$fh> // '';

    } else {
        for my $stat (glob '/proc/[0-9]*/stat') {
            open my $in, '<', $stat or next;
            my ($pid, $ppid) = (<$in> // '') =~ /^(\d+) \(.*\) \S (\d+)/
                or next;
            push @pids, $pid if $ppid == $self->{pid};
        }
    }

    return @pids;
}


# the title of a process as nginx writes it; replaces "angie:" by "nginx:" and
# removes the number that Angie adds

sub title_of {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/cmdline" or return '';
    local $/;

    return (<$fh> // '') =~ s/[\0 ]+\z//r
        =~ s/^angie: (.*?)(?: #\d+)?\z/nginx: $1/r;
}


# the title that nginx gives to one of its processes

sub title {
    my ($self, $pid) = @_;

    my $title = title_of($pid);

    return $title if !$self->{test}->valgrind() || $title eq '';

    # valgrind hides the title: a worker is known by its epoll descriptor, and
    # by lines in the error log

    my $log = $self->log();

    return 'nginx: worker process is shutting down'
        if $log =~ /\b$pid#$pid: gracefully shutting down/;

    return 'nginx: worker process'
        if $log =~ /\bstart worker process $pid\b/
        && grep { (readlink // '') eq 'anon_inode:[eventpoll]' }
            glob "/proc/$pid/fd/*";

    return "nginx: other process";
}


# pids of the workers that accept requests, lowest first

sub workers {
    my ($self) = @_;

    return $self->{pid} ? ($self->{pid}) : () if $self->{single};

    my @pids = sort { $a <=> $b }
        grep { $self->title($_) eq 'nginx: worker process' } $self->children();

    return @pids;
}


# pids of the workers that are shutting down

sub leaving {
    my ($self) = @_;

    my @pids = grep { $self->title($_) =~ /worker process is shutting down/ }
        $self->children();

    return @pids;
}


# waits until the workers have sent each other the sockets of their channels:
# the numbers of their descriptors no longer change

sub settle {
    my ($self) = @_;

    my ($last, $same) = ('', 0);
    my $end = time() + 2 * $self->{test}->slow();

    while ($same < 3 && time() < $end) {
        my $now = join ' ', map { $self->fds($_) } $self->workers();
        $same = $now eq $last ? $same + 1 : 0;
        $last = $now;
        sleep 0.01 * $self->{test}->slow() if $same < 3;
    }
}


# Waits until the workers have handled all requests that clients have sent, and
# are asleep.  To this end, sends four more requests, for $uri: their commands
# follow those of the clients' requests on the connections to memcached, so that
# with these four answers the lookups of the clients' requests have ended, too.

sub handled {
    my ($self, $uri, %o) = @_;

    $self->asleep();
    $self->get($uri, %o) for 1 .. 4;
    $self->asleep();
}

sub asleep {
    my ($self) = @_;

    Test::Mcds::wait_for(sub {
        return !grep { Test::Mcds::state($_) ne 'S' } $self->workers();
    }, 60) or die "nginx $self->{name}: the workers are busy\n";
}


sub signal {
    my ($self, $name) = @_;

    kill $name, $self->{pid};

    return $self;
}


# reloads nginx by HUP; returns 1 when the new workers run, 0 if nginx refused
# the configuration.  wait_old => 1 also waits for the old workers to exit

sub reload {
    my ($self, %o) = @_;

    return $self->restart() if $self->{single};

    my %old = map { $_ => 1 } $self->workers();
    my $mark = length $self->log();
    my $slow = $self->{test}->slow();
    my $refused;

    $self->signal('HUP');

    Test::Mcds::wait_for(sub {
        $refused = substr($self->log(), $mark) =~ /\[emerg\]/;
        return $refused
            || grep({ !$old{$_} } $self->workers()) >= $self->{want};
    }, 60 * $slow) or die "nginx $self->{name}: no new workers\n";

    return 0 if $refused;

    if ($o{wait_old}) {
        Test::Mcds::wait_for(sub { !grep { $old{$_} } $self->children() },
            20 * $slow) or die "nginx $self->{name}: old workers stay\n";
    }

    $self->settle();
    $self->take_baseline();

    return 1;
}


# reloads an nginx without a master: starts a new process, unless nginx refuses
# the configuration

sub restart {
    my ($self) = @_;

    my $t = $self->{test};

    $t->run($t->binary(), '-t', '-q', '-p', "$self->{dir}/", '-c',
        'nginx.conf', '-e', "$self->{dir}/error.log");
    return 0 if $? != 0;

    $self->quit();
    $self->up();

    return 1;
}


# kills the worker with the pid $which, or with the index $which in workers()
# (modulo the number of workers), and waits for its successor

sub kill_worker {
    my ($self, $which, $signal) = @_;

    my @workers = $self->workers();
    my $pid = $workers[($which // 0) % @workers];

    $pid = $which if grep { $_ == ($which // 0) } $self->children();

    $self->{killed}{$pid} = 1;
    kill $signal // 'KILL', $pid;

    if ($self->{single}) {
        $self->wait_exit();
        $self->up();
        return $pid;
    }

    Test::Mcds::wait_for(sub {
        grep({ $_ != $pid } $self->workers()) >= $self->{want};
    });

    return $pid;
}


# true once the process of nginx has ended; its exit code is in {exit}

sub reap {
    my ($self) = @_;

    if ($self->{pid} && waitpid($self->{pid}, 1) == $self->{pid}) {
        $self->{exit} = $?;
        $self->{test}->gone($self->{pid});
        $self->{pid} = 0;
    }

    return $self->{pid} ? 0 : 1;
}


sub wait_exit {
    my ($self, $timeout) = @_;

    return Test::Mcds::wait_for(sub { $self->reap() },
        $timeout // 10 * $self->{test}->slow());
}


# ends nginx gracefully, with SIGQUIT; returns false after the timeout

sub quit {
    my ($self, $timeout) = @_;

    return 1 if !$self->{pid};
    $self->signal('QUIT');

    return $self->wait_exit($timeout);
}


# stops the workers until cont(), so that each handles all events that arrive in
# between in one turn of its event loop

sub freeze {
    my ($self) = @_;

    my @frozen = $self->workers();
    kill 'STOP', @frozen;
    Test::Mcds::wait_for(sub { Test::Mcds::stopped($_) }) for @frozen;

    $self->{frozen} = \@frozen;
}


sub cont {
    my ($self) = @_;

    kill 'CONT', @{delete $self->{frozen} // []};
}


# ends nginx fast, with SIGTERM; returns false after the timeout

sub stop {
    my ($self, $timeout) = @_;

    return 1 if !$self->{pid};
    $self->signal('TERM');

    return $self->wait_exit($timeout);
}


sub kill9 {
    my ($self) = @_;

    return if !$self->{pid};
    kill 'KILL', -$self->{pid};
    $self->wait_exit(5);
    $self->{exit} = 0;
}


sub name { $_[0]{name} }
sub pid { $_[0]{pid} }
sub dir { $_[0]{dir} }
sub running { $_[0]{pid} ? 1 : 0 }


sub port {
    my ($self) = @_;
    return $self->{test}->port($self->{name});
}


# sends a request to this host, with the options of http_get()

sub get {
    my ($self, $uri, %o) = @_;
    return Test::Mcds::Http::http_get($self->port(), $uri, %o);
}


sub conn {
    my ($self, %o) = @_;
    return Test::Mcds::Http::conn($self->port(), %o);
}


# for an nginx started with loop => 1: restarts the measurements of the workers'
# event loops by t/lib/loop.c; loop() returns those of one worker, times in ms

sub loop_begin {
    my ($self) = @_;

    for my $pid ($self->workers()) {
        open my $fh, '+<:raw', "$self->{dir}/loop.$pid" or next;
        sysread $fh, my $round, 8;
        sysseek $fh, 0, 0;
        syswrite $fh, pack('Q', unpack('Q', $round) + 1);
    }
}


sub loop {
    my ($self, $which) = @_;

    my $pid = ($self->workers())[$which // 0];
    my $text = $self->{test}->read_file("$self->{name}/loop.$pid");
    my ($wanted, $round, @n) = unpack('Q8', $text);
    my %loop;

    @loop{qw/ turns longest ran others calls waited /}
        = $wanted == $round ? @n : (0) x 6;
    $loop{$_} /= 1e6 for qw/ longest ran others waited /;
    $loop{name} = unpack('Z*', substr $text, 64);

    return \%loop;
}


# returns the text of nginx's error log

sub log {
    my ($self) = @_;
    return $self->{test}->read_file("$self->{name}/error.log");
}


sub access_log {
    my ($self) = @_;
    return $self->{test}->read_file("$self->{name}/access.log");
}


sub log_lines {
    my ($self, $re) = @_;
    return grep { $_ =~ $re } split /\n/, $self->log();
}


sub log_has {
    my ($self, $re) = @_;
    return scalar(() = $self->log_lines($re)) > 0;
}


sub log_lacks {
    my ($self, $re) = @_;
    return !$self->log_has($re);
}


sub log_count {
    my ($self, $re) = @_;
    return scalar(() = $self->log_lines($re));
}


sub wait_log {
    my ($self, $re, $timeout) = @_;

    return Test::Mcds::wait_for(sub { $self->log_has($re) }, $timeout);
}


sub tail {
    my ($self, $n) = @_;

    my @lines = grep { !/\[(debug|info)\]/ } split /\n/, $self->log();
    splice @lines, 0, @lines - $n if @lines > $n;

    return join '', map { "$_\n" } @lines;
}


# the number of file descriptors of a worker

sub fds {
    my ($self, $pid) = @_;

    opendir my $dh, "/proc/$pid/fd" or return 0;
    return scalar grep { /^\d+$/ } readdir $dh;
}


# notes how many descriptors workers have when they have just started

sub take_baseline {
    my ($self) = @_;

    for my $pid ($self->workers()) {
        my $now = descriptors($pid) // next;
        $self->{baseline}{$pid} = { files => $now->{files},
                                    unix => scalar @{$now->{unix}} };
    }
}


# the number of files in memory (memfd) that hold copies of pages in a worker

sub memfiles {
    my ($self, $pid) = @_;

    return scalar grep { (readlink($_) // '') =~ m{^/memfd:mcds\b} }
        glob "/proc/$pid/fd/*";
}


# counts a worker's descriptors: files, pipes and the like; unix sockets; TCP
# connections by remote port.  $nets caches the kernel's tables of TCP and UDP
# sockets, which are slow to read, for calls for many workers

sub count_fds {
    my ($self, $pid, $nets) = @_;

    my $net = readlink "/proc/$pid/ns/net" // return;
    my $inodes = $nets->{$net} //= inet_inodes($pid);
    my $now = descriptors($pid) // return;
    my $unix = @{$now->{unix}};
    my %tcp;

    for (@{$now->{others}}) {
        my $socket = $inodes->{$_};

        if (!$socket) {
            $unix++;

        } elsif (!$socket->{listens}) {
            push @{$tcp{$socket->{remote}}}, $socket->{local};
        }
    }

    return { files => $now->{files}, unix => $unix, tcp => \%tcp };
}


# the number of a process's files, pipes and the like, and the inodes of its
# unix sockets and of its other sockets.  Omits the memfds with copies of pages,
# as mcds limits their number.

sub descriptors {
    my ($pid) = @_;

    my %unix = map { $_ => 1 } Test::Mcds::Sockets::unix($pid);
    my $found = { files => 0, unix => [], others => [] };

    opendir my $dh, "/proc/$pid/fd" or return;

    for my $fd (grep { /^\d+$/ } readdir $dh) {
        my $to = readlink "/proc/$pid/fd/$fd" // next;

        if ($to =~ m{^/memfd:mcds\b}) {
            next;

        } elsif ($to =~ /^socket:\[(\d+)\]/) {
            push @{$found->{$unix{$1} ? 'unix' : 'others'}}, $1;

        } else {
            $found->{files}++;
        }
    }

    return $found;
}


sub inet_inodes {
    my ($pid) = @_;

    return { map { $_->{inode} => $_ } Test::Mcds::Sockets::tcp($pid),
        Test::Mcds::Sockets::udp($pid) };
}


# returns texts about descriptors that workers have leaked.  A worker may have
# as many files as at its start, and $unix more unix sockets than at its start.
# $keep->{$port} is the number of connections to a port that it may have (undef:
# none), but 1 stands for as many connections as mcds's pools may have there

sub leaks {
    my ($self, $keep, $unix) = @_;
    my (@leaks, %nets);
    my @workers = $self->workers();

    for my $pid (@workers) {
        my $now = $self->count_fds($pid, \%nets) // next;
        my $was = $self->{baseline}{$pid};

        for my $port (sort keys %{$now->{tcp}}) {
            my $n = @{$now->{tcp}{$port}};
            my ($local) = @{$now->{tcp}{$port}};

            # each pool may have one connection to memcached for commands, and
            # one for large values

            my $most = !$keep->{$port} ? 0
                : $keep->{$port} > 1 ? $keep->{$port}
                : 2 * (() = $self->{text} =~ /:$port\b/g);

            push @leaks, "worker $pid: $n connections, remote port $port, "
                . "local $local" if $n > $most;
        }

        next if !$was;

        push @leaks, "worker $pid: $was->{files} files, now $now->{files}"
            if $now->{files} > $was->{files};

        # a worker has a channel (unix socket) of each worker; a channel that it
        # gets when another worker starts is no leak

        my $channels = $was->{unix} > @workers ? $was->{unix} : @workers;

        push @leaks, "worker $pid: $channels unix sockets, "
            . "now $now->{unix}" if $now->{unix} > $channels + $unix;
    }

    return @leaks;
}


# returns lines of the error log that are errors or reports of a sanitizer, but
# for those that match one of @allow

sub complaints {
    my ($self, @allow) = @_;

    my $t = $self->{test};
    my @bad;

    for (split /\n/, $self->log()) {
        next if !/\[(?:alert|emerg|crit)\]/
            && !/exited (?:on signal|with (?:fatal )?code [^0])/;
        next if /process (\d+) exited on signal/ && $self->{killed}{$1};
        next if /zone \S+ was locked by (\d+)/ && $self->{killed}{$1};

        # nginx cannot set the limit of descriptors, as valgrind reserves some

        next if /setrlimit\(RLIMIT_NOFILE/ && $t->valgrind();

        my $line = $_;
        next if grep { $line =~ $_ } @allow;

        push @bad, $line;
    }

    # stderr of a worker is the error log, into which a sanitizer may write

    for my $file (map { "$self->{name}/$_" } 'error.log', 'stderr',
        $self->sanitizer_files())
    {
        my @lines = split /\n/, $t->read_file($file);
        my ($at) = grep {
            $lines[$_] =~ /Sanitizer:|runtime error:|^==\d+== \S/
        } 0 .. $#lines;

        next if !defined $at;

        my $last = $at + 30 > $#lines ? $#lines : $at + 30;
        push @bad, "$file:", @lines[$at .. $last];
    }

    return @bad;
}


sub sanitizer_files {
    my ($self) = @_;

    opendir my $dh, $self->{dir} or return;
    return sort grep { /^sanitizer\./ } readdir $dh;
}


1;
