package Stage;

# The stage on which the demo and the benchmark play: a private directory,
# free ports, and processes that are gone when the script is gone, however it
# ends.

use warnings;
use strict;

use Exporter qw/ import /;
use File::Path qw/ make_path remove_tree /;
use File::Temp qw/ tempdir /;
use IO::Socket::INET;
use JSON::PP;
use POSIX qw/ WNOHANG /;
use Time::HiRes qw/ sleep time /;

our @EXPORT = qw/ program need /;


my (%processes, $warden, $warden_pid);


sub new {
    my ($class, $name) = @_;

    my $dir = tempdir("mcds-$name-XXXXXX", TMPDIR => 1);

    # nginx's workers are another user when the master is root
    chmod 0711, $dir;

    my $self = bless {
        dir => $dir,
        owner => $$,
        next => 20000 + int(rand(9000)),
    }, $class;

    $self->watch();

    return $self;
}


sub dir {
    my ($self) = @_;
    return $self->{dir};
}


sub program {
    my ($name) = @_;

    for my $dir (split(/:/, $ENV{PATH} // ''), '/usr/sbin', '/sbin',
        '/usr/local/sbin', '/usr/local/bin')
    {
        return "$dir/$name" if -x "$dir/$name" && ! -d _;
    }

    return;
}


sub need {
    my ($target, @names) = @_;

    my @missing = grep { !defined program($_) } @names;

    die "missing: @missing; \"make $target\" installs what it needs\n"
        if @missing;
}


# a process that outlives this script by a moment, and ends what a killed
# script could not; it learns of the end by the pipe's

sub watch {
    my ($self) = @_;

    pipe(my $read, my $write) or die "pipe: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        my %alive;

        setpgrp(0, 0);
        $SIG{$_} = 'IGNORE' for qw/ INT TERM HUP /;
        close $write;
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';

        while (my $line = <$read>) {
            $alive{$1} = 1 if $line =~ /^\+(\d+)$/;
            delete $alive{$1} if $line =~ /^-(\d+)$/;
        }

        kill 'TERM', keys %alive if %alive;
        sleep 1 if %alive;
        remove_tree($self->{dir});
        POSIX::_exit(0);
    }

    close $read;
    $write->autoflush(1);
    $warden = $write;
    $warden_pid = $pid;
}


sub port {
    my ($self, $from) = @_;

    for my $port ($from // $self->{next} .. 65535) {
        my $s = IO::Socket::INET->new(Listen => 1, ReuseAddr => 1,
            LocalAddr => '127.0.0.1', LocalPort => $port);

        next if !$s;

        close $s;
        $self->{next} = $port + 1 unless defined $from;
        return $port;
    }

    die "no free port\n";
}


# starts a command in the background, its output goes to a log

sub spawn {
    my ($self, $name, @command) = @_;

    my $path = "$self->{dir}/$name.log";
    open my $log, '>>', $path or die "$path: $!\n";

    return $self->start($name, $log, @command);
}


# the same with its output in a pipe

sub reader {
    my ($self, $name, @command) = @_;

    pipe(my $read, my $write) or die "pipe: $!\n";

    return ($self->start($name, $write, @command), $read);
}


sub start {
    my ($self, $name, $output, @command) = @_;

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        # a Ctrl-C is for the script alone, it ends the others in order
        setpgrp(0, 0);
        $SIG{$_} = 'DEFAULT' for qw/ INT TERM HUP /;
        open STDIN, '<', '/dev/null';
        open STDOUT, '>&', $output;
        open STDERR, '>>', "$self->{dir}/$name.log";
        exec { $command[0] } @command or POSIX::_exit(127);
    }

    $processes{$pid} = $name;
    print $warden "+$pid\n";

    return $pid;
}


sub alive {
    my ($self, $pid) = @_;

    return 0 if !exists $processes{$pid};
    return 1 if waitpid($pid, WNOHANG) == 0;

    $self->forget($pid);
    return 0;
}


sub forget {
    my ($self, $pid) = @_;

    delete $processes{$pid};
    print $warden "-$pid\n";
}


sub wait_for {
    my ($self, $pid) = @_;

    waitpid($pid, 0);
    my $status = $?;
    $self->forget($pid);

    return $status;
}


sub stop {
    my ($self, @pids) = @_;

    @pids = grep { exists $processes{$_} } @pids;
    kill 'TERM', @pids if @pids;

    for my $pid (@pids) {
        for (1 .. 100) {
            last if !$self->alive($pid);
            sleep 0.03;
        }

        if ($self->alive($pid)) {
            kill 'KILL', $pid;
            $self->wait_for($pid);
        }
    }
}


sub end {
    my ($self) = @_;

    return if $self->{ended} || $self->{owner} != $$;

    $self->{ended} = 1;
    $self->stop(keys %processes);
    remove_tree($self->{dir});

    close $warden;
    waitpid($warden_pid, 0);
}


sub DESTROY {
    my ($self) = @_;

    local ($?, $@, $!);
    $self->end();
}


# until the port answers; the log tells why if it does not

sub wait_port {
    my ($self, $pid, $port) = @_;

    my $name = $processes{$pid};

    for (1 .. 200) {
        return if IO::Socket::INET->new(PeerAddr => '127.0.0.1',
            PeerPort => $port, Timeout => 1);
        last if !$self->alive($pid);
        sleep 0.05;
    }

    die "$name did not start on port $port:\n" . $self->log_tail($name);
}


sub log_tail {
    my ($self, $name) = @_;

    my $text = '';

    for my $file ("$self->{dir}/$name.log", "$self->{dir}/$name/error.log") {
        open my $f, '<', $file or next;
        my @lines = <$f>;
        splice @lines, 0, -15 if @lines > 15;
        $text .= join '', @lines;
    }

    return $text;
}


sub write_file {
    my ($self, $path, $text) = @_;

    open my $f, '>', $path or die "$path: $!\n";
    print $f $text;
    close $f or die "$path: $!\n";
}


# An nginx with a configuration of its own.  The text is a whole nginx.conf;
# what only a stage needs is added to it: places for its files, no daemon.

sub nginx {
    my ($self, $name, $port, $conf, @before) = @_;

    my $home = "$self->{dir}/$name";
    my $nginx = $ENV{NGINX} // program('nginx');

    make_path($home);
    chmod 0711, $home;

    my $main = "daemon off;\n"
        . "pid $home/nginx.pid;\n"
        . "error_log $home/error.log;\n";

    my $http = "    access_log off;\n";

    for my $kind (qw/ client_body proxy fastcgi uwsgi scgi /) {
        $http .= "    ${kind}_temp_path $home/$kind;\n";
    }

    $conf =~ s/^http \{\n/http {\n$http/m or die "no http block for $name\n";
    $conf =~ s/\@HOME\@/$home/g;

    $self->write_file("$home/nginx.conf", $main . $conf);

    my $pid = $self->spawn($name, @before, $nginx, '-p', "$home/", '-e',
        "$home/error.log", '-c', "$home/nginx.conf");

    $self->wait_port($pid, $port);

    return $pid;
}


# the worker processes of an nginx

sub workers {
    my ($self, $master) = @_;

    for (1 .. 100) {
        my @workers;

        for my $stat (glob '/proc/[0-9]*/stat') {
            open my $f, '<', $stat or next;
            my $line = <$f> // next;
            my ($parent) = $line =~ /^\d+ \(.*\) \S (\d+)/s or next;
            next if $parent != $master;

            my ($pid) = $stat =~ /(\d+)/;
            open my $c, '<', "/proc/$pid/cmdline" or next;
            push @workers, $pid if (<$c> // '') =~ /worker process/;
        }

        return sort { $a <=> $b } @workers if @workers;
        sleep 0.02;
    }

    die "no worker of process $master\n";
}


sub memcached {
    my ($self, $name, $port, %options) = @_;

    my @command = (@{ $options{before} // [] }, program('memcached'),
        '-l', '127.0.0.1', '-p', $port, '-U', 0, '-m',
        $options{memory} // 64, '-c', 4096, @{ $options{extra} // [] });

    push @command, '-u', 'nobody' if $> == 0;

    my $pid = $self->spawn($name, @command);
    $self->wait_port($pid, $port);

    return $pid;
}


# one HTTP/1.0 request; undef when there is no answer

sub get {
    my ($self, $port, $path, %headers) = @_;

    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port,
        Timeout => 2) or return;

    my $text = "GET $path HTTP/1.0\r\nHost: 127.0.0.1\r\n"
        . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers)
        . "\r\n";
    my $answer = '';

    eval {
        local $SIG{ALRM} = sub { die "timeout\n" };
        local $SIG{PIPE} = 'IGNORE';
        alarm 10;
        print $s $text;
        1 while sysread $s, $answer, 65536, length $answer;
        alarm 0;
    };
    alarm 0;
    die $@ if $@ && $@ ne "timeout\n";

    my ($head, $body) = split /\r\n\r\n/, $answer, 2;
    return if !defined $body;

    my ($line, @lines) = split /\r\n/, $head;
    my ($status) = $line =~ m{^HTTP/1\.\d (\d\d\d)} or return;
    my %seen = map { /^([^:]+):\s*(.*)$/ ? (lc $1, $2) : () } @lines;

    return { status => $status, headers => \%seen, body => $body };
}


# what the slow origin has counted

sub origin {
    my ($self, $port, $path) = @_;

    my $answer = $self->get($port, $path // '/-/stats')
        // die "the origin does not answer\n";

    return decode_json($answer->{body});
}


# the C load generator, built when it is older than its source

sub load_generator {
    my ($self, $root) = @_;

    my $source = "$root/demo/load.c";
    my $binary = "$root/build/demo-load";
    my $cc = program($ENV{CC} // 'cc') // program('gcc')
        // die "missing: a C compiler; \"make\" installs one\n";

    return $binary if -x $binary && -M $binary <= -M $source;

    make_path("$root/build");

    system($cc, '-O2', '-Wall', '-Wextra', '-o', "$binary.$$", $source) == 0
        or die "cannot build $source\n";
    rename "$binary.$$", $binary or die "$binary: $!\n";

    return $binary;
}


1;
