package Test::Mcds::Jepsen;

# Copyright (C) mcds authors

# The site of the long chaos run: three hosts, four memcached, a proxy between
# each host and each memcached, an origin and a crowd of clients; see t/jepsen/.
#
#     $site = Test::Mcds::Jepsen->new($t, seed => n, seconds => n, rate => n)
#     $site->start(\&conf)            starts all but the crowd; conf(host)
#                                     returns a configuration, in which
#                                     %%MC_0%% and so on are the ports of
#                                     memcached for that host
#     $site->crowd()                  starts the crowd
#     $site->reader()                 twice a second reads the new lines of the
#                                     log (mcds_log_api) from a random host, and
#                                     adds them to reader.history
#     $site->crowd_ended()            the output of the crowd, once it has ended
#     $site->finish()                 at the end reads the counters from each
#                                     host, and the log (mcds_log_api) from
#                                     one host, and writes them to end.history
#     $site->proxy(line)              a command for the proxy, see proxy.c
#     $site->ahead(host, seconds)     moves the time of day of a host
#     $site->hosts(), $site->memcached()  lists of the hosts and the memcached
#     now()                           microseconds, as in histories

use warnings;
use strict;

use Cwd qw/ abs_path /;
use Exporter qw/ import /;
use Fcntl qw/ :flock /;
use File::Basename qw/ dirname /;
use IO::Socket::INET;
use JSON::PP qw/ decode_json /;
use POSIX ();
use Time::HiRes qw/ clock_gettime CLOCK_MONOTONIC /;

our @EXPORT = qw/ now /;

my $root = abs_path(dirname(__FILE__) . '/../../../..');

my %sources = (
    proxy => ['proxy.c'], origin => ['origin.c'],
    crowd => ['crowd.c', 'roles.c'], 'host.so' => ['host.c'],
);


sub now { return int(clock_gettime(CLOCK_MONOTONIC) * 1e6) }


sub new {
    my ($class, $t, %o) = @_;

    return bless { hosts_wanted => 3, memcached_wanted => 4, %o, test => $t },
        $class;
}


sub hosts { @{$_[0]{hosts}} }
sub memcached { @{$_[0]{memcached}} }
sub dir { $_[0]{test}->dir() }


# compiles a program into build/jepsen/, if one of its sources is newer

sub program {
    my ($self, $name) = @_;

    my $dir = "$root/t/jepsen";
    my $program = "$root/build/jepsen/$name";
    my @sources = map { "$dir/$_" } @{$sources{$name}};

    return $program if -f $program
        && !grep { -M $_ < -M $program } @sources, glob "$dir/*.h";

    mkdir "$root/build";
    mkdir "$root/build/jepsen";

    my $output = $self->{test}->run($ENV{CC} // 'cc', '-O2', '-Wall', '-Wextra',
        '-Werror', '-o', "$program.$$", @sources,
        $name =~ /so$/ ? ('-shared', '-fPIC') : ('-lz', '-lm'));
    die $output if $? != 0;

    rename "$program.$$", $program or die "$program: $!\n";

    return $program;
}


# allocates n consecutive ports, as Test::Mcds::port() does for one; returns the
# first

sub take_ports {
    my ($self, $n) = @_;

    my $locks = dirname($self->dir()) . "/mcds-ports-$>";
    mkdir $locks;

    TRY: for (1 .. 2000) {
        my $first = 20000 + int rand(12000 - $n);
        my @taken;

        for my $port ($first .. $first + $n - 1) {
            open my $lock, '>', "$locks/$port" or die "$locks/$port: $!\n";
            flock $lock, LOCK_EX | LOCK_NB or next TRY;
            IO::Socket::INET->new(Proto => 'tcp', ReuseAddr => 1,
                LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 1)
                or next TRY;
            push @taken, $lock;
        }

        push @{$self->{locks}}, @taken;

        return $first;
    }

    die "no free ports\n";
}


sub start {
    my ($self, $conf) = @_;

    my ($t, $dir) = ($self->{test}, $self->dir());
    my ($hosts, $n) = ($self->{hosts_wanted}, $self->{memcached_wanted});
    my $seed = $self->{seed};

    # mute: the test itself does not connect to memcached, only the proxy does

    my @m = map { $t->memcached("m$_", mute => 1, memory => 256) } 0 .. $n - 1;
    $self->{memcached} = \@m;

    $self->{first} = $self->take_ports($hosts * $n);
    $self->{control} = $t->port('control');

    my ($proxy, $origin) = map { $self->program($_) } qw/ proxy origin /;

    $self->{proxy} = $t->helper('proxy', sub { listens($self->{control}) },
        $proxy, '-c', $self->{control}, '-l', $self->{first}, '-h', $hosts,
        '-m', join(',', map { $_->port() } @m), '-s', $seed);
    $self->{origin} = $t->helper('origin', sub { listens($t->port('o')) },
        $origin, '-p', $t->port('o'), '-o', "$dir/origin.history",
        '-s', $seed);

    for my $h (0 .. $hosts - 1) {
        my $text = $conf->($h) =~ s/%%MC_(\d)%%/$self->{first} + $1/ger;
        my $file = $t->write_file("ahead$h", pack 'q', 0);

        local %ENV = (%ENV, MCDS_AHEAD => $file, MCDS_FROM => $self->{first},
            MCDS_PORTS => $n, MCDS_SHIFT => $h * $n,
            LD_PRELOAD => $self->program('host.so'));

        push @{$self->{envs}}, { map { $_ => $ENV{$_} } qw/ MCDS_AHEAD MCDS_FROM
            MCDS_PORTS MCDS_SHIFT LD_PRELOAD / };
        push @{$self->{hosts}}, $t->nginx("h$h", $text, patience => 0);
    }

    return $self;
}


# starts nginx of a host again after all its processes were killed

sub up {
    my ($self, $h) = @_;

    local %ENV = (%ENV, %{$self->{envs}[$h]});
    $self->{hosts}[$h]->up();
}


sub listens {
    my ($port) = @_;

    my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port)
        or return;
    close $c;

    return 1;
}


sub ports {
    my ($self) = @_;

    my $n = $self->{hosts_wanted} * $self->{memcached_wanted};

    return $self->{first} .. $self->{first} + $n - 1;
}


sub proxy {
    my ($self, $line) = @_;

    my $c = $self->{connection} //= IO::Socket::INET->new(
        PeerAddr => '127.0.0.1', PeerPort => $self->{control})
        // die "the proxy is gone\n";

    syswrite $c, "$line\n";
    sysread $c, my $said, 100;

    die "the proxy says to \"$line\": ", $said // "nothing\n"
        if ($said // '') ne "ok\n";
}


sub ahead {
    my ($self, $h, $seconds) = @_;

    open my $fh, '+<:raw', $self->dir() . "/ahead$h" or die "ahead$h: $!\n";
    syswrite $fh, pack 'q', int($seconds * 1e6);
}


sub crowd {
    my ($self) = @_;

    my $t = $self->{test};

    $self->{crowd} = $t->spawn('crowd.said', $self->program('crowd'),
        '-p', join(',', map { $_->port() } $self->hosts()),
        '-t', $self->{seconds}, '-o', $self->dir() . '/crowd.history',
        '-r', $self->{rate} // 1, '-s', $self->{seed});
}


# starts a process that twice a second reads the new lines of the log from
# mcds_log_api, and writes each to reader.history as "R id host text"

sub reader {
    my ($self) = @_;

    my @ports = map { $_->port() } $self->hosts();
    my $first = int Time::HiRes::time();
    my $file = $self->dir() . '/reader.history';
    my $pid = fork() // die "fork: $!\n";

    if ($pid) {
        $self->{test}->spawned($pid);
        return;
    }

    $SIG{$_} = 'DEFAULT' for qw/ INT TERM HUP ALRM /;
    open my $out, '>', $file or POSIX::_exit(1);
    $out->autoflush(1);

    my $from = "first=$first";

    while (1) {
        my $r = eval { Test::Mcds::Http::http_get($ports[rand @ports],
            "/log?$from&limit=5000&format=ndjson", timeout => 5) };
        my ($id) = $r && $r->status() == 200 && $r->complete()
            ? $r->header('X-Log-Cursor') // '' : '';

        if ($id ne '') {
            print $out map { my $line = decode_json($_);
                "R $line->{id} $line->{host} $line->{line}\n" }
                split /\n/, $r->body();
            $from = "after=$id";
        }

        Time::HiRes::sleep(0.5);
    }
}


sub crowd_ended {
    my ($self) = @_;

    waitpid($self->{crowd}, 1) == $self->{crowd} or return;
    $self->{test}->gone($self->{crowd});

    return $self->{test}->read_file('crowd.said') || "ended with $?";
}


# Writes end.history after a chaos run: lines "N ..." (for their format, see
# t/jepsen/roles.c) with the number that each host answers for each counter of
# /count/plain/ and /count/async/, and a line "R id host text" for each line of
# the log that mcds_log_api returns.

sub finish {
    my ($self) = @_;

    open my $out, '>', $self->dir() . '/end.history' or die "$!\n";

    my @hosts = $self->hosts();

    for my $uri (map { ("plain/$_", "async/$_") } 0 .. 7) {
        for my $h (0 .. $#hosts) {
            my $begin = now();
            my $r = $hosts[$h]->get("/count/$uri");
            my ($n) = $r->body() =~ /^(\d+)/;
            print $out join(' ', 'N', $begin, now(), $h, 'end',
                $uri =~ s{/.*}{}r, "/count/$uri", $r->status() || 0,
                $n // '-'), "\n";
        }
    }

    my $from = int(Time::HiRes::time() - $self->{seconds} - 120);
    my $next = "/log?first=$from&limit=2000&format=ndjson";

    while (1) {
        my $r = $hosts[0]->get($next);

        if ($r->status() != 200) {
            print $out 'R failed ', $r->status(), "\n";
            last;
        }

        my @lines = split /\n/, $r->body();
        last if !@lines;

        for (@lines) {
            my $line = decode_json($_);
            print $out "R $line->{id} $line->{host} $line->{line}\n";
        }

        $next = '/log?limit=2000&format=ndjson&after='
            . decode_json($lines[-1])->{id};
    }

    close $out or die "end.history: $!\n";
}


# counts the open connections of each worker to each memcached, and returns the
# largest number; each pool in a worker may have two

sub most_connections {
    my ($self) = @_;

    my $most = 0;

    for my $host ($self->hosts()) {
        for my $pid ($host->workers()) {
            my $now = $host->count_fds($pid, {}) // next;

            for my $port ($self->ports()) {
                my $n = @{$now->{tcp}{$port} // []};
                $most = $n if $n > $most;
            }
        }
    }

    return $most;
}


1;
