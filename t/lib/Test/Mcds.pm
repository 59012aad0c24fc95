package Test::Mcds;

# Copyright (C) mcds authors

=head1 NAME

Test::Mcds - the harness of the mcds tests

=head1 A TEST

    #!/usr/bin/perl

    # Copyright (C) mcds authors

    # A counter counts.

    use warnings;
    use strict;

    use Test::More;

    use FindBin;
    use lib "$FindBin::Bin/lib";
    use Test::Mcds;

    my $t = Test::Mcds->new();

    my $m = $t->memcached('m');
    my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=9'] });

    my $a = $t->nginx('a', <<'EOT');
    %%GLOBALS%%
    worker_processes 2;
    events { }
    http {
        %%HTTP%%
        mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        }
    }
    EOT

    my $r = $a->get('/page');
    is($r->status, 200, 'answered');
    is($o->count('/page'), 1, 'one origin request');

    $t->done();

done() ends each file: it stops everything, checks the logs, the connections,
the exit codes and that no process is left, each as a test of its own, and calls
done_testing().  Do not plan.  A file that dies early is cleaned up as well.
When a test failed, the private folder is kept and its name is shown.

=head1 PLACES IN A CONFIGURATION

    %%GLOBALS%%     load_module (unless the module is static), user, daemon
                    off, pid, error_log
    %%HTTP%%        access_log, the temporary folders (inside http)
    %%PORT%%        this host's port
    %%PORT_name%%   the port of the memcached, fake, origin or nginx of that
                    name, or just a free one; the same all through the test
    %%SOCK_name%%   a unix socket's path, for those made with unix => 1
    %%TMP%%         the test's private folder
    %%DIR%%         this host's folder in it

=head1 THE TEST OBJECT

    Test::Mcds->new(%o)     module => 0: without our module; calm => 1: see
                            calm() of a response
    $t->nginx(name, conf, %o)       starts a host; log => 'debug'; loop => 1,
                                    so that it tells of its event loop;
                                    memory => 1, see Test::Mcds::Memory; table
                                    => 1, see lib/table.c; pools
                                    without a timeout get 1 s, unless patience
                                    => 0; mode => 0: see MCDS_MODE
    $t->memcached(name, %o)         real; unix => 1, args => [...], memory,
                                    threads; mute => 1, when it does not talk
                                    to the test (TLS, passwords)
    $t->fake(name, sub, %o)         scripted; unix => 1, on_connect => sub,
                                    blackhole => 1, version => '1.6.18'
    $t->origin(name, answer, %o)    answer: hash or sub; paths => { '/p' =>
                                    {...} }, unix => 1, fastcgi => 1,
                                    http2 => 1, see Test::Mcds::Origin2
    $t->load(%o)            a load generator in C, see below
    $t->helper(name, sub, @command)     runs a program until the sub, told its
                                    pid, says that it is there; dies with what
                                    it has said if it ends before; its pid
    $t->port(name)          the port of that name
    $t->dir()               the private folder
    $t->write_file(name, text)      in that folder; returns the path
    $t->read_file(name)
    $t->conf_error(conf)    nginx -t: its output, '' when it is content
    $t->conf_error(main => text, http => .., server => .., location => ..)
                            the same, with the rest of a configuration around
    $t->needs('http_ssl', 'http_v2', 'curl', 'IO::Socket::SSL', ...)
                            skips the file unless nginx has the modules, the
                            programs and Perl modules are there; 'x.so' is a
                            dynamic module that is installed
    $t->has(what)           the same as a question; the path of an 'x.so'
    $t->nginx_name()        nginx, freenginx, Angie, openresty
    $t->nginx_version()     1022001; of a fork: that of the nginx it follows
    $t->nginx_headers()     the -I of a compiler for its headers
    $t->since('1.29.4', what)       skips the file with an nginx before that
    $t->cert(names)         ($certificate, $key), files of a self-signed one
    $t->curl(@args)         curl's output
    $t->allow(qr/../, ..)   log lines that are not held against this file
    $t->slow()              1, or more where time runs slower (sanitizers):
                            multiply upper bounds of times with it
    $t->watched()           true where nginx runs with sanitizers or under
                            valgrind: memory and turns of the event loop are
                            not those of mcds, all else is tested all the same
    $w = $t->stopwatch()    $w->() are the seconds since then, without those
                            that a busy machine has taken from this test
    $t->lost()              those, up to now
    $t->seed(7)             seeds rand() with MCDS_SEED, or else with that
                            number, or one made up, and shows it; returns it;
                            each test has one from its start on
    $t->full()              true under make test-full
    $t->size(quick, full)   one of the two
    $t->mode()              MCDS_MODE, or ''
    $t->workers(n)          how many there are where a configuration says n
    $t->clients(n)          how many may be connected to a host at once, n at
                            most; many() keeps to it
    $t->not_in('single one', 'kills workers')
                            skips the file in modes in which nginx itself cannot
                            do what it is about
    $t->done(%o)            keep => ['o']: idle connections to that one are
                            meant to stay; leaks => 0: no check of connections

=head1 FUNCTIONS (exported)

Where "where" is a port, "host:port", or "unix:/path"; %o of all requests:
method, headers => {} or [], body, host, version => '1.0', timeout (60 s), ssl
=> 1 (or options of IO::Socket::SSL), keepalive => 1 (no "Connection: close"),
local => '127.0.0.2' (client's address), preface => bytes sent first (proxy
protocol).  Header values may be lists.

    http_get(where, uri, %o)        waits and returns the response
    http_head, http_post(where, uri, body, %o), http_request
    http_raw(where, bytes)          all that comes, up to the end
    $p = start_get(where, uri, %o)  sends, does not read
    finish($p)                      the response then; $p->close, $p->reset to
                                    leave without it
    $c = conn(where, %o)            keepalive connection:
        $c->get(uri, %o)            request and response
        $c->request(uri, %o), $c->response(timeout)  in two steps, also
                                    pipelined
        $c->send(bytes), $c->slurp(timeout)
        $c->closed(timeout)         true once the server has closed it
        $c->close, $c->reset        FIN, RST
    @res = many(n, sub { my $i = shift; [where, uri, %o] }, concurrency =>
        200, timeout => 20)         all at once; a list of [..] instead of the
                                    sub will do
    wait_for(sub { ... }, seconds)  polls until true; returns that, or false
                                    after 20 s or as many as are given, in
                                    which the machine was not busy
    slurp(path)                     a file; exported when asked for, as is
    tally(responses)                "3 200 HIT, 1 200 MISS": status, X-Cache
    ttl_between($m, key, 8, 10, name)   a test: the key lives 8 to 10 seconds
                                    longer; not for ever, and it is there


A response: status, body, header('X'), all('X') (list of lines), head (raw),
time (seconds), start, end, complete (false if cut short), error ('timed out',
'closed'); with calm => 1 also calm(), time() without what a busy machine has
taken.

=head1 A HOST: $a = $t->nginx(...)

    get(uri, %o), conn(%o), port, pid, dir, running
    workers()               pids; leaving(): those that finish
    reload(wait_old => 1)   HUP, waits for new workers; false if nginx refused
    conf(text, %o)          new configuration for the next reload(); mode => 0
                            as above
    kill_worker(i, signal)  KILL by default; waits for its successor; the alert
                            of it is allowed
    signal(name)            to the master
    quit(), stop()          graceful, at once; waits; false if it did not end
    up()                    starts it again
    freeze(), cont()        stops the workers, lets them go on
    log(), log_has(re), log_lacks(re), log_count(re), log_lines(re),
    wait_log(re, seconds), access_log()
    fds(pid)                how many descriptors a worker has
    loop(i)                 of a worker's turns since loop_begin(): { turns,
                            longest, ran, others, calls, waited } in ms, see
                            lib/loop.c

=head1 MEMCACHED: $m = $t->memcached(...), and fakes too

    mc('mg key v'), mc('ms key 3 T60', 'abc')   one raw command; the whole
                            reply, CRLFs and all
    get(key), set(key, value, ttl), delete(key), ttl(key), flush
    port, pid, stop

The real one also: freeze (SIGSTOP), cont, kill9, restart (same port), stats
(hash), keys (list of keys), connections (those of others).

=head1 FAKE: $f = $t->fake('m', sub { ... })

Keeps items in memory and answers mg, ms, ma, md, mn, version, flush_all and
the classic commands as memcached 1.6.18 does (with item_cas => 1 each item has
CAS numbers of its own, as in yrmcds).  The callback sees each command first, in
the fake's own process:

    sub { my ($f, $c, $line, $value) = @_; ... }

It returns nothing (or undef) for the usual answer, or a list of

    "bytes"             sent at once
    ["bytes", 0.2]      sent after 0.2 s
    $f->pause(0.2)      nothing for that long
    $f->lag($c, $line, $value, 0.2)     the usual answer then, the commands of
                        one read together
    $f->hold('name')    nothing until the test says $f->release('name')
    $f->stall           nothing more on this connection, ever
    $f->deaf            does not even read any more
    $f->fin, $f->rst    closes the connection, or resets it

$f->default($line, $value) gives the usual answer's bytes, to be cut, bent or
followed by more; $f->bytewise(bytes, delay) gives a list of single bytes;
$f->flag($line, 'O') a flag's text; $f->mode what the test told last; $f->{told}
the list of further arguments; $c->{id}, $c->{commands} which connection and how
many commands it saw; $c and $f may keep more.  on_connect => sub { my ($f, $c)
= @_; ... } returns such a list for a new connection.

From the test:

    log()               list of { line, cmd, key, value, conn, read, at };
                        commands with the same conn and read came in one read
    commands(re), count(re)     the lines
    mark()              forget what was logged before
    opened_count()      connections ever made; connections(): now
    tell(mode, ...)     what $f->mode returns from now on
    release(name), held(name)   lets go, counts
    push(bytes)         unasked-for bytes on every connection
    close_all, reset_all
    refuse(1), refuse(0)        stops and starts listening
    restart(%o)         empty, on the same port; on_command => sub a new script

mc(), get() and so on go through the script and the log like all others.

=head1 ORIGIN: $o = $t->origin('o', { ... } or sub)

Answers are numbered from 1: the header X-Answer has the number, and the body
unless another is given is "answer <n> of <uri>\n".  An answer is

    status, headers => [..], body (%n, %k, %u: the number, that of its path, the
    uri), delay (before it), body_delay (after the head), parts => ['bytes',
    ['more', 0.1]], chunked => 1, length => undef (ended by the connection's
    end) or a number (may be a lie), truncate => bytes of the body, then end,
    abort => bytes of everything, then RST, hold => 1, raw => bytes

A sub gets ($o, $req), $req being { n, k, method, uri, path, args, headers
(hash, lower case), head (raw, each line with its CRLF), body, params (FastCGI)
}, and returns such a hash or a body text, as it is.

    requests(path)      list of { n, k, method, uri, path, headers, head, body,
                        start, end, aborted }; path may be a regex, a uri with
                        arguments, or missing: all
    count(path), most(path)     how many; how many at once, at most
    wait_requests(n, path)      until so many have come
    hold_path(path)     answers are held from now on ('*', or none: all)
    release(path)       lets go of them and stops holding
    let(path, n)        lets n of them go and goes on holding
    held(path)          how many are held
    set(path, {...})    overrides the answer from now on; '*' all; undef ends it
    mark()              forget what was recorded before

=head1 LOAD: $t->load(...)

A C program, for what Perl is too slow for: load(port => p or ports => [..], uri
=> '/a' or uris => [..], clients => 64, requests => 10000 or seconds => 5, rate
=> requests a second and client (0: no bound), expect => text that each 200 body
must contain, in which %u is the uri, or a list of texts, one of which it must,
header => 'Name: value', abort => percent of the requests whose client leaves,
keys => n, for uris and bodies in which %n is a number below that, in turn,
method, body => JSON).  Keepalive connections, reopened when
closed.  Returns a hash when it is done: requests, ok (status 200), status => {
200 => n }, errors, wrong, aborted, p50, p90, p99, p999, max (ms), seconds,
per_second.  background => 1 returns an object, whose wait() returns the hash
and whose ended() is true when it need not wait.

=head1 ENVIRONMENT

TEST_NGINX_BINARY, TEST_NGINX_MODULE, TEST_NGINX_MODULES (the folder of the
others), TEST_MEMCACHED_BINARY; TEST_DEBUG=1 (debug
log), TEST_KEEP=1 (keeps the folder), TEST_TIMEOUT=seconds (for a whole file),
MCDS_SEED=n (see seed()), MCDS_FIRST=1 (ends a file with the first test that
fails), MCDS_FULL=1, MCDS_SLOW=n, MCDS_LEAKS=1 (LeakSanitizer),
MCDS_VALGRIND=1 (nginx runs under valgrind).

MCDS_MODE=name runs all hosts in one of nginx's ways, whatever their
configurations say: connections and nofile (128 of them at most), daemon, single
(no master process), one, two, many (64 workers), threads (aio), reuseport.  A
host with mode => 0 is left as it is.

=cut

use warnings;
use strict;

use Carp qw/ croak /;
use Cwd qw/ abs_path /;
use Exporter ();
use Fcntl qw/ :flock /;
use File::Basename qw/ dirname basename /;
use File::Spec;
use File::Path qw/ remove_tree /;
use File::Temp qw/ tempdir /;
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Test2::API ();
use Test::More ();
use Time::HiRes qw/ sleep time /;

use Test::Mcds::Http qw/ http_get http_head http_post http_request http_raw
    start_get finish many conn /;
use Test::Mcds::Fake;
use Test::Mcds::Memcached;
use Test::Mcds::Mode;
use Test::Mcds::Nginx;
use Test::Mcds::Origin;
use Test::Mcds::Origin2;
use Test::Mcds::Sockets;

our @ISA = qw/ Exporter /;
our @EXPORT = qw/
    http_get http_head http_post http_request http_raw start_get finish many
    conn wait_for ttl_between
/;
our @EXPORT_OK = qw/ slurp tally /;

my $root = abs_path(dirname(__FILE__) . '/../../..');
my $current;


sub new {
    my ($class, %o) = @_;

    # a name in front is allowed and not needed

    my $self = bless {
        module => 1, %o, owner => $$, ports => {}, locks => [], hosts => [],
        servers => [], allow => [], pids => {},
        name => basename($0) =~ s/\.t$//r,
    }, $class;

    $self->seed();

    $self->{dir} = tempdir("mcds-$self->{name}-XXXXXX", TMPDIR => 1);
    chmod 0755, $self->{dir};

    $SIG{PIPE} = 'IGNORE';
    $SIG{$_} = sub { exit 130 } for qw/ INT TERM HUP /;

    # whether a file fails is all that there is to know

    Test2::API::test2_stack()->top()->listen(sub {
        my ($hub, $event) = @_;
        exit 1 if $event->isa('Test2::Event::Ok')
            && !$event->effective_pass() && $$ == $self->{owner};
    }) if $ENV{MCDS_FIRST};

    # a test that hangs ends, and is cleaned up

    $SIG{ALRM} = sub { die "the test takes too long\n" };
    alarm($ENV{TEST_TIMEOUT} // (full() ? 3600 : 300) * slow());

    $self->start_reaper();
    $current = $self;

    my $binary = $self->binary();
    $self->{version} = `$binary -V 2>&1`;
    $self->{static} = $self->{version} =~ /--add-module=/;
    $self->{so} = $ENV{TEST_NGINX_MODULE}
        // "$root/build/ngx_http_mcds_module.so";

    if ($self->{module} && !$self->{static} && !-f $self->{so}) {
        die "$self->{so} is not there, make builds it\n";
    }

    $Test::Mcds::Http::LOST = sub { $self->lost() } if $self->{calm};

    $self->{mode} = Test::Mcds::Mode->new($ENV{MCDS_MODE});
    $self->allow($self->{mode}->allow());
    $self->needs($self->{mode}->needs());
    $Test::Mcds::Http::MOST = $self->{mode}->clients(1e6);

    return $self;
}


# kills what is left when this process goes away, however that happens

sub start_reaper {
    my ($self) = @_;

    pipe(my $r, my $w) or die "pipe: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        $SIG{$_} = 'IGNORE' for qw/ INT TERM HUP /;
        POSIX::close($_) for grep { $_ != fileno $r } 0 .. 255;

        my %pids;

        while (<$r>) {
            /^\+(\d+)/ and $pids{$1} = 1;
            /^-(\d+)/ and delete $pids{$1};
        }

        kill 'KILL', -$_, $_ for keys %pids;
        POSIX::_exit(0);
    }

    CORE::close($r);
    $w->autoflush(1);
    $self->{reaper} = $w;
    $self->{reaper_pid} = $pid;
}


sub spawned {
    my ($self, $pid) = @_;

    $self->{pids}{$pid} = 1;
    syswrite($self->{reaper}, "+$pid\n");
}


sub gone {
    my ($self, $pid) = @_;

    delete $self->{pids}{$pid};
    syswrite($self->{reaper}, "-$pid\n");
}


# runs a program in a process group of its own

sub spawn {
    my ($self, $output, @cmd) = @_;

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        setpgrp(0, 0);
        $SIG{$_} = 'DEFAULT' for qw/ INT TERM HUP PIPE /;
        open STDIN, '<', '/dev/null';
        open STDOUT, '>>', "$self->{dir}/$output";
        open STDERR, '>&', \*STDOUT;
        { no warnings; exec { $cmd[0] } @cmd }
        print STDERR "cannot run $cmd[0]: $!\n";
        POSIX::_exit(127);
    }

    $self->spawned($pid);

    return $pid;
}


# runs a program that is there once the sub says so; one that ends before that
# is an error at once, with what it has said

sub helper {
    my ($self, $name, $ready, @cmd) = @_;

    my $pid = $self->spawn("$name.stderr", @cmd);
    my ($ended, $there);

    wait_for(sub {
        $ended = waitpid($pid, POSIX::WNOHANG()) == $pid;
        return $ended || ($there = $ready->($pid));
    }, 60 * slow());

    return $pid if $there;

    if (!$ended) {
        kill 'KILL', -$pid, $pid;
        waitpid $pid, 0;
    }

    $self->gone($pid);

    die "$name ", ($ended ? "has ended, $?" : 'did not start'), ":\n",
        $self->read_file("$name.stderr");
}


# starts what listens on a port of that name; on another one when somebody else
# was faster, unless the test knows the port already

sub on_port {
    my ($self, $name, $start) = @_;

    my $known = $self->{ports}{$name};

    for my $try (1 .. 5) {
        my $server = eval { $start->($self->port($name)) };

        return $server if $server;
        die $@ if $known || $try == 5 || $@ !~ /address already in use/i;

        delete $self->{ports}{$name};
    }
}


# parts of a site

sub nginx {
    my ($self, $name, $conf, %o) = @_;

    my $host = Test::Mcds::Nginx->start(name => $name, conf => $conf, %o,
        test => $self, dir => "$self->{dir}/$name");

    push @{$self->{hosts}}, $host;

    return $host;
}


sub memcached {
    my ($self, $name, %o) = @_;

    $o{unix} = $self->sock($name) if $o{unix};

    my $m = $self->on_port($name, sub {
        Test::Mcds::Memcached->start(name => $name, %o, test => $self,
            port => shift);
    });

    push @{$self->{servers}}, $m;

    return $m;
}


sub fake {
    my ($self, $name, @more) = @_;

    unshift @more, 'on_command' if @more % 2;

    return $self->forked('Test::Mcds::Fake', $name, @more);
}


sub origin {
    my ($self, $name, @more) = @_;

    unshift @more, 'answer' if @more % 2;

    my %o = @more;
    my $class = delete $o{http2} ? 'Test::Mcds::Origin2' : 'Test::Mcds::Origin';

    return $self->forked($class, $name, %o);
}


sub forked {
    my ($self, $class, $name, %o) = @_;

    $o{unix} = $self->sock($name) if $o{unix};

    my $s = $self->on_port($name, sub {
        $class->start(name => $name, %o, dir => $self->{dir}, port => shift,
            on_start => sub { $self->spawned($_[0]->pid()) });
    });

    $self->spawned($s->pid());
    push @{$self->{servers}}, $s;

    return $s;
}


sub dir { $_[0]{dir} }


sub sock {
    my ($self, $name) = @_;
    return "$self->{dir}/$name.sock";
}


# a port that no other test has, below those that the kernel hands out

sub port {
    my ($self, $name) = @_;

    return $self->{ports}{$name} if $self->{ports}{$name};

    my $dir = (File::Spec->tmpdir()) . "/mcds-ports-$>";
    mkdir $dir;

    for (1 .. 2000) {
        my $port = 20000 + int rand 12000;

        open my $lock, '>', "$dir/$port" or die "$dir/$port: $!\n";
        flock $lock, LOCK_EX | LOCK_NB or next;

        my $s = IO::Socket::INET->new(Proto => 'tcp', ReuseAddr => 1,
            LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 1) or next;
        CORE::close($s);

        push @{$self->{locks}}, $lock;

        return $self->{ports}{$name} = $port;
    }

    die "no free port\n";
}


# configurations

sub binary {
    my ($self) = @_;

    return $self->{binary} //= $ENV{TEST_NGINX_BINARY}
        // (grep { -x } map { "$_/nginx" } split(/:/, $ENV{PATH} // ''),
            '/usr/sbin', '/usr/local/sbin')[0] // die "nginx is missing\n";
}


sub expand {
    my ($self, $text, $name, %o) = @_;

    my $dir = "$self->{dir}/$name";
    my $level = $o{log} // ($ENV{TEST_DEBUG} ? 'debug' : 'info');
    my $mode = $o{mode} // 1 ? $self->{mode} : Test::Mcds::Mode->new();
    my $globals = 'daemon ' . $mode->daemon() . "; pid $dir/nginx.pid;"
        . " error_log $dir/error.log $level;";

    # it leaves out lines, and looks at what is freed when a worker exits

    $globals =~ s/;\z/ rate=0;/ if $self->nginx_name() eq 'freenginx';

    $globals = "load_module $self->{so}; $globals"
        if $self->{module} && !$self->{static};
    $globals .= ' user root root;' if $> == 0;

    my $http = "access_log $dir/access.log;"
        . join '', map { " ${_}_temp_path $dir/${_}_temp;" }
            qw/ client_body proxy fastcgi uwsgi scgi /;

    $text = $mode->edit($text);

    # on one line each, so that line numbers in messages are the test's own

    $text =~ s/%%GLOBALS%%/$globals/g;
    $text =~ s/%%HTTP%%/$http/g;
    $text =~ s/%%PORT%%/$self->port($name)/ge;
    $text =~ s/%%PORT_(\w+)%%/$self->port($1)/ge;
    $text =~ s/%%SOCK_(\w+)%%/$self->sock($1)/ge;
    $text =~ s/%%TMP%%/$self->{dir}/g;
    $text =~ s/%%DIR%%/$dir/g;

    # a machine that is busy may not run memcached for 200 ms, nor may valgrind
    # run nginx for a second

    my $time = ($self->valgrind() ? 4 : 1) . 's';

    $text =~ s/^(\s*mcds_pool\s+\w+\s*\{)([^{}]*\bserver\b[^{}]*\})/
        my ($pool, $rest) = ($1, $2);
        $rest =~ m{timeout|libmemcached} ? "$pool$rest"
            : "$pool timeout $time; connect_timeout $time;$rest"/gmex
        if $o{patience} // 1;

    return $text;
}


# nginx -t ends without giving back what it has read: no leaks there

sub sanitizer_env {
    my ($self, $path, $test) = @_;

    my $leaks = !$test && $ENV{MCDS_LEAKS} ? 1 : 0;

    # nginx never frees the compile context of PCRE2, 72 bytes of it, nor the
    # connections of a worker, which by chance nothing points to at its end

    $self->write_file('lsan.supp', "leak:ngx_regex_malloc\n"
        . "leak:ngx_event_process_init\n");

    return (
        LSAN_OPTIONS => "suppressions=$self->{dir}/lsan.supp:"
            . "print_suppressions=0",
        ASAN_OPTIONS => "detect_leaks=$leaks:log_path=$path"
            . ':verify_asan_link_order=0',
        UBSAN_OPTIONS => "print_stacktrace=1:log_path=$path",
    );
}


# what runs nginx under valgrind, with its reports in <path>.<pid>; nothing
# where it does not

sub valgrind {
    my ($self, $path, $test) = @_;

    return if !$ENV{MCDS_VALGRIND};
    return 1 if !defined $path;

    return ('valgrind', '-q', '--trace-children=yes', '--vgdb=no',
        '--child-silent-after-fork=no', '--num-callers=30',
        '--leak-check=' . ($test ? 'no' : 'full'),
        '--show-leak-kinds=definite,indirect',
        '--errors-for-leak-kinds=definite,indirect',
        "--suppressions=$root/t/lib/valgrind.supp",
        "--log-file=$path.%p");
}


sub conf_test {
    my ($self, @conf) = @_;

    my $conf = @conf == 1 ? $conf[0] : wrap(@conf);

    mkdir "$self->{dir}/conf_test";
    $self->write_file('conf_test/nginx.conf',
        $self->expand($conf, 'conf_test'));

    local %ENV = (%ENV, $self->sanitizer_env("$self->{dir}/conf_test/san", 1));

    my $dir = "$self->{dir}/conf_test";

    # valgrind takes a second; each tenth is enough

    my @valgrind = $self->{tested}++ % 10 ? () : $self->valgrind("$dir/san", 1);
    my $output = $self->run(@valgrind, $self->binary(), '-t', '-p', "$dir/",
        '-c', 'nginx.conf', '-e', 'stderr');
    my $code = $?;

    # Angie finds unknown variables when it has found the syntax to be right

    $output =~ s/^nginx: .* syntax is ok\n//m
        if $output =~ s/^angie: /nginx: /mg && $code;

    for my $file (glob "$dir/san.*") {
        next if !-s $file && unlink $file;
        $output .= $self->read_file('conf_test/' . basename($file));
        unlink $file;
        $self->{sanitized} .= $output;
    }

    $self->{sanitized} .= $output if $code & 127;

    return ($code, $output);
}


sub conf_error {
    my ($self, @conf) = @_;

    my ($code, $output) = $self->conf_test(@conf);

    return $code ? $output : '';
}


sub wrap {
    my (%part) = @_;

    $part{$_} //= '' for qw/ main events http server location /;

    return <<EOT;
%%GLOBALS%%
$part{main}
events { $part{events} }
http {
    %%HTTP%%
    $part{http}
    server {
        listen 127.0.0.1:%%PORT%%;
        $part{server}
        location / {
            $part{location}
        }
    }
}
EOT
}


# output and errors of a program, together; \$? is its exit code

sub run {
    my ($self, @cmd) = @_;

    my $pid = open(my $fh, '-|') // die "fork: $!\n";

    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        open STDIN, '<', '/dev/null';
        { no warnings; exec { $cmd[0] } @cmd }
        POSIX::_exit(127);
    }

    local $/;
    my $output = <$fh> // '';
    CORE::close($fh);

    return $output;
}


sub curl {
    my ($self, @args) = @_;
    return $self->run('curl', '-s', '-S', '-k', '-m', '20', @args);
}


sub cert {
    my ($self, @names) = @_;

    @names = ('localhost') if !@names;

    my ($crt, $key) = ("$self->{dir}/$names[0].crt",
        "$self->{dir}/$names[0].key");

    $self->run('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
        'ec_paramgen_curve:prime256v1', '-nodes', '-days', '30', '-subj',
        "/CN=$names[0]", '-addext',
        'subjectAltName=' . join(',', map { "DNS:$_" } @names),
        '-keyout', $key, '-out', $crt);

    die "no certificate\n" if !-s $crt;

    return ($crt, $key);
}


# programs in C, in build/, made anew when their source has changed

sub program {
    my ($self, $name, @flags) = @_;

    my ($source, $program) = ("$root/t/lib/$name.c", "$root/build/$name");

    return $program if -f $program && -M $program <= -M $source;

    my $cc = $ENV{CC} // 'cc';
    my $new = "$program.$$";

    mkdir "$root/build";
    my $output = $self->run($cc, '-O2', '-o', $new, $source, @flags);

    if ($? != 0) {
        Test::More::diag($output);
        return;
    }

    rename $new, $program or die "$program: $!\n";

    return $program;
}


# the -I of a compiler for what is built for the nginx under test; none if there
# are no headers of it

sub nginx_headers {
    my ($self) = @_;

    my $built = $ENV{TEST_NGINX_MODULE} // "$root/build/x";

    my ($tree) = grep { -f "$_/objs/ngx_auto_config.h" }
        dirname(dirname($self->binary())), dirname(dirname($built)),
        dirname($built) . '/src', dirname($built) . '/nginx-dev/src';

    return if !defined $tree;

    return map { ('-I', $_) }
        (map { "$tree/$_" } qw{ objs src/core src/event src/event/modules
            src/event/quic src/os/unix src/http src/http/modules src/http/v2
            src/http/v3 }),
        grep { -d } glob "$root/src/* $root/src/*/*";
}


sub preload {
    my ($self, $name) = @_;

    return $self->program($name, '-shared', '-fPIC') // die "no $name.c\n";
}


# the load generator

sub load {
    my ($self, %o) = @_;

    my $program = $self->program('load') // die "no load generator\n";
    my @ports = map { ref $_ ? $_->port() : $_ } @{$o{ports} // [$o{port}]};
    my $list = sub { join ',', @{$_[0]} };
    my @args = ('-p', $list->(\@ports),
        '-u', $list->($o{uris} // [$o{uri} // '/']));

    my %flag = (clients => '-c', requests => '-n', seconds => '-t',
        rate => '-r', header => '-H', timeout => '-o', abort => '-a',
        keys => '-k', method => '-m', body => '-b');

    push @args, map { defined $o{$_} ? ($flag{$_}, $o{$_}) : () }
        sort keys %flag;

    push @args, map { ('-e', $_) } ref $o{expect} ? @{$o{expect}}
        : $o{expect} // ();

    my $pid = open(my $fh, '-|') // die "fork: $!\n";

    if ($pid == 0) {
        open STDIN, '<', '/dev/null';
        { no warnings; exec { $program } $program, @args }
        POSIX::_exit(127);
    }

    $self->spawned($pid);

    my $load = bless { test => $self, pid => $pid, fh => $fh },
        'Test::Mcds::Load';

    return $o{background} ? $load : $load->wait();
}


# what there is

sub has {
    my ($self, $what) = @_;

    if ($what =~ /::/) {
        return eval "require $what; 1";
    }

    if ($what =~ /\.so$/) {
        my ($dir) = $self->{version} =~ /--modules-path=(\S+)/;

        $dir = $ENV{TEST_NGINX_MODULES} // $dir;

        return !$self->{static} && $dir && $self->loads("$dir/$what")
            && "$dir/$what";
    }

    # it would follow valgrind

    return 0 if $what eq 'strace' && $self->valgrind();

    return 1 if $self->{version} =~ /--with-${what}(?:_module)?(?:\s|$)/;

    return scalar grep { -x "$_/$what" }
        split(/:/, $ENV{PATH} // ''), '/usr/sbin', '/sbin';
}


# a module of another nginx does not

sub loads {
    my ($self, $so) = @_;

    return if !-f $so;

    $self->write_file('loads.conf', "load_module $so;\npid loads.pid;\n"
        . "error_log stderr;\nevents { }\n");
    $self->run($self->binary(), '-t', '-q', '-p', "$self->{dir}/",
        '-c', 'loads.conf', '-e', 'stderr');

    return $? == 0;
}


sub needs {
    my ($self, @what) = @_;

    for (@what) {
        $self->leave("no $_") if !$self->has($_);
    }

    return $self;
}


# modes in which nginx cannot do what the test is about

sub not_in {
    my ($self, $modes, $reason) = @_;

    my $mode = $self->{mode}->name();

    $self->leave("$mode: $reason")
        if grep { $_ eq $mode } split ' ', $modes;

    return $self;
}


# skips the file, or what is left of it

sub leave {
    my ($self, $why) = @_;

    $self->stop_all();
    $self->{ended} = 1;
    $self->remove_dir();

    if (!Test::More->builder()->current_test()) {
        Test::More::plan(skip_all => $why);
    }

    Test::More::pass("# skip $why");
    Test::More::done_testing();
    exit 0;
}


sub nginx_version {
    my ($self) = @_;

    return version_in($self->{version})
        // die $self->binary() . " -V tells no version of nginx\n";
}


# nginx, freenginx, Angie, or openresty

sub nginx_name {
    my ($self) = @_;
    return $self->{version} =~ m{^\w+ version: (\w+)/} ? $1 : '';
}


# of what nginx -V says, or a fork of nginx with a name of its own; Angie tells
# both its version and that of nginx

sub version_in {
    my ($text) = @_;

    return $text =~ m{^nginx version: \w+/(\d+)\.(\d+)\.(\d+)}m
        ? $1 * 1000000 + $2 * 1000 + $3 : undef;
}


# Angie tells the version of nginx that it is made of, but leaves features out

sub since {
    my ($self, $version, $what, $but) = @_;

    $self->leave("Angie has it not, or in its own way: $what")
        if $but && $self->nginx_name() =~ /^$but$/;

    my ($major, $minor, $patch) = split /\./, $version;

    $self->leave("nginx $version or later needed: $what")
        if $self->nginx_version()
            < $major * 1000000 + $minor * 1000 + $patch;

    return $self;
}


# a sanitizer, or valgrind: what is freed is kept, so memory tells nothing; nor
# do turns of the event loop, and nothing else can be loaded before it

sub watched {
    my ($self) = @_;
    return $self->{version} =~ /-fsanitize=/ || $self->valgrind() ? 1 : 0;
}


# what is made at random can be made again

sub seed {
    my ($self, $seed) = @_;

    $seed = $ENV{MCDS_SEED} // $seed // 1 + int rand 2 ** 31 - 1;
    srand $seed;
    $self->{seed} = $seed;
    Test::More::note("MCDS_SEED=$seed");

    return $seed;
}


sub full { return $ENV{MCDS_FULL} ? 1 : 0 }
sub slow { return $ENV{MCDS_SLOW} || 1 }
sub size { return $_[0]->full() ? $_[2] : $_[1] }
sub mode { return $_[0]{mode}->name() }
sub workers { return $_[0]{mode}->workers($_[1]) }
sub clients { return $_[0]{mode}->clients($_[1]) }


sub allow {
    my ($self, @re) = @_;

    push @{$self->{allow}}, @re;

    return $self;
}


# files

sub write_file {
    my ($self, $name, $text) = @_;

    my $path = "$self->{dir}/$name";

    # whoever reads it meanwhile sees all of the old one, or of the new one

    open my $fh, '>:raw', "$path.new" or die "$path.new: $!\n";
    print $fh $text;
    CORE::close($fh) or die "$path.new: $!\n";
    rename "$path.new", $path or die "$path: $!\n";

    return $path;
}


sub read_file {
    my ($self, $name) = @_;

    open my $fh, '<:raw', "$self->{dir}/$name" or return '';
    local $/;

    return <$fh> // '';
}


sub slurp {
    my ($path) = @_;

    open my $fh, '<', $path or die "$path: $!\n";
    local $/;

    return <$fh>;
}


sub tally {
    my %n;

    $n{$_->status() . ' ' . ($_->header('X-Cache') // 'none')}++ for @_;

    return join ', ', map { "$n{$_} $_" } sort keys %n;
}


# what never ends has a ttl() of -1, which is less than each number of seconds

sub ttl_between {
    my ($m, $key, $least, $most, $name) = @_;

    my $ttl = $m->ttl($key);
    my $right = defined $ttl && $ttl >= 0 && $ttl >= $least && $ttl <= $most;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return Test::More::ok($right, $name) || !Test::More::diag("\"$key\" "
        . (!defined $ttl ? 'is not there' : $ttl < 0 ? 'never ends'
            : "ends in $ttl s") . ", not in $least to $most s");
}


# a deadline does not pass while the machine is too busy to run what is waited
# for, up to four times as long and a minute at the most

sub wait_for {
    my ($code, $seconds) = @_;

    my ($start, $busy) = (time(), pressure());

    $seconds //= 20 * slow();

    while (1) {
        my $r = $code->();
        my $past = time() - $start;

        return $r if $r || $past > 4 * $seconds || $past > $seconds + 60;
        return $r if $past > $seconds
            && $past - (pressure() - $busy) > $seconds;

        # what has taken long may take as long again

        sleep($past < 0.36 ? 0.002 + $past / 20 : $past < 2 ? 0.02 : 0.05);
    }
}


# seconds since this machine started in which something was ready to run and
# had no processor; 0 where the kernel does not tell

sub pressure {
    open my $fh, '<', '/proc/pressure/cpu' or return 0;
    return (<$fh> // '') =~ /^some .*total=(\d+)/ ? $1 / 1e6 : 0;
}


# how long something takes, in seconds of a machine that does nothing else:
# returns a sub that tells the time since then, without what was lost

sub stopwatch {
    my ($self) = @_;

    my ($start, $lost) = (time(), $self->lost());

    return sub {
        my $took = time() - $start - ($self->lost() - $lost);
        return $took < 0 ? 0 : $took;
    };
}


# seconds up to now in which threads of this test, its helpers and its hosts
# were ready to run and had no processor

sub lost {
    my ($self) = @_;
    my $ns = 0;

    for my $pid ($$, keys %{$self->{pids}},
        map { $_->children() } @{$self->{hosts}})
    {
        my $threads = $self->{threads}{$pid}
            //= [glob "/proc/$pid/task/*/schedstat"];

        for my $thread (@$threads) {
            open my $fh, '<', $thread or next;
            $ns += (split ' ', <$fh> // '')[1] // 0;
        }
    }

    return $ns / 1e9;
}


# the end

sub done {
    my ($self, %o) = @_;

    return if $self->{ended}++;

    my @hosts = @{$self->{hosts}};
    my (@leaks, @stuck, @codes, @bad, @sockets, @left);

    Test::Mcds::Http::close_all();

    if (!exists $o{leaks} || $o{leaks}) {
        @leaks = $self->wait_leaks($o{keep} // []);
    }

    my @count = $self->wait_count();

    for my $host (@hosts) {
        next if !$host->running();

        if (!$host->quit()) {
            push @stuck, $host->name();
            $host->kill9();
        }
    }

    for my $host (@hosts) {
        my $exit = $host->{exit} // 0;

        push @codes, $host->name() . ": $exit" if $exit;
        push @bad, map { $host->name() . ": $_" }
            $host->complaints(@{$self->{allow}});
        push @sockets, map { $host->name() . ": $_" }
            $host->log_lines(qr/open socket #\d+ left in connection/);
    }

    push @bad, $self->{sanitized} if $self->{sanitized};

    my @stray = $self->wait_stray();

    $self->stop_all();

    for my $s (@{$self->{servers}}) {
        my $e = $s->can('errors') ? $s->errors() : '';
        push @left, $s->name() . " said: $e" if length $e;
    }

    for my $pid (keys %{$self->{pids}}) {
        push @left, "process $pid is left" if kill 0, $pid;
    }

    push @left, @stray, $self->wait_sockets();

    if (@hosts) {
        report(\@bad, 'logs: nothing above error, no sanitizer, no crash');
        report(\@sockets, 'logs: no open socket left');
        report(\@leaks, 'workers hold no connection or file') if !exists
            $o{leaks} || $o{leaks};
        report(\@count, 'memcached has the connections of the workers alone');
        report(\@stuck, 'all hosts ended when asked to');
        report(\@codes, 'all hosts ended with code 0');
    }

    report(\@left, 'helpers ended well');

    Test::More::done_testing();

    $self->remove_dir();
}


sub report {
    my ($lines, $name) = @_;

    my @show = @$lines > 40 ? (@$lines[0 .. 39], '...') : @$lines;

    Test::More::ok(!@$lines, $name)
        or Test::More::diag(map { "$_\n" } @show);
}


sub wait_leaks {
    my ($self, $keep) = @_;

    my %keep;
    my $unix = 0;

    for my $s (@{$self->{servers}}) {

        # newer nginx keep connections to upstreams without being told

        if ($s->isa('Test::Mcds::Origin')) {
            $keep{$s->port()} = 1e6 if $self->nginx_version() >= 1029007;
            next;
        }

        $keep{$s->port()} = 1;
        $unix += 4 if $s->{unix};
    }

    $keep{$_} = 1e6 for map { /^\d+$/ ? $_ : $self->port($_) } @$keep;

    my @leaks;
    my $end = time() + 8 * $self->slow();

    do {
        @leaks = map {
            my $name = $_->name();
            map { "$name: $_" } $_->leaks(\%keep, $unix)
        } grep { $_->running() } @{$self->{hosts}};

        sleep 0.01 if @leaks;
    } while (@leaks && time() < $end);

    return @leaks;
}


# connections that a memcached has, and those that the workers have to it

sub wait_count {
    my ($self, $seconds) = @_;

    my @m = grep { $_->isa('Test::Mcds::Memcached') && !$_->{unix}
        && !$_->{mute} && $_->answers() } @{$self->{servers}};
    my @running = grep { $_->running() } @{$self->{hosts}};
    my @wrong;
    my $end = time() + ($seconds // 3 * $self->slow());

    do {
        my (%ours, %nets);

        for my $pid (map { $_->workers(), $_->leaving() } @running) {
            my $now = Test::Mcds::Nginx->count_fds($pid, \%nets) // next;
            $ours{$_} += @{$now->{tcp}{$_}} for keys %{$now->{tcp}};
        }

        @wrong = map {
            my ($n, $ours) = ($_->connections(), $ours{$_->port()} // 0);
            $n == $ours ? () : $_->name() . ": $n, of workers $ours";
        } @m;

        sleep 0.02 if @wrong;
    } while (@wrong && time() < $end);

    return @wrong;
}


# what has outlived its master

sub wait_stray {
    my ($self, $seconds) = @_;

    my @groups = map { @{$_->{groups}} } grep { !$_->running() }
        @{$self->{hosts}};

    my @left;

    wait_for(sub { !(@left = grep { alive($_) } @groups) },
        $seconds // 2 * $self->slow());

    return map { "a process of nginx $_ is left" } @left;
}


# whether a group has a process; zombies are those who have been waited for by
# nobody

sub alive {
    my ($group) = @_;

    return 0 if !kill 0, -$group;

    for my $stat (glob '/proc/[0-9]*/stat') {
        open my $fh, '<', $stat or next;
        return 1 if (<$fh> // '') =~ /\) [^ZX] \d+ $group /;
    }

    return 0;
}


# SIGSTOP has reached it, or it has ended

sub stopped {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/stat" or return 1;
    return (<$fh> // '') =~ /\) [TZX] /;
}


# sockets that somebody still holds on a port of this test; those that nobody
# does have no inode

sub wait_sockets {
    my ($self, $seconds) = @_;

    my %port = reverse %{$self->{ports}};
    my @held;

    wait_for(sub {
        @held = map { "a socket of $port{$_->{local}} is left" }
            grep { $_->{inode} && $port{$_->{local}} }
            Test::Mcds::Sockets::tcp(), Test::Mcds::Sockets::udp();

        return !@held;
    }, $seconds // 2 * $self->slow());

    return @held;
}


sub stop_all {
    my ($self) = @_;

    $_->kill9() for grep { $_->running() } @{$self->{hosts}};

    for my $s (@{$self->{servers}}) {
        my $pid = $s->pid();
        $s->stop();
        $self->gone($pid) if $pid;
    }

    for my $pid (keys %{$self->{pids}}) {
        kill 'KILL', -$pid, $pid;
        waitpid $pid, 0;
        $self->gone($pid) if !kill 0, -$pid;
    }

    if ($self->{reaper}) {
        CORE::close($self->{reaper});
        waitpid $self->{reaper_pid}, 0;
        delete $self->{reaper};
    }
}


sub remove_dir {
    my ($self) = @_;

    if ($ENV{TEST_KEEP} || !Test::More->builder()->is_passing()) {
        Test::More::diag("MCDS_SEED=$self->{seed}");
        Test::More::diag("kept $self->{dir}");
        return;
    }

    remove_tree($self->{dir});
}


sub Test::Mcds::Load::ended {
    my ($load) = @_;
    return !$load->{fh} || IO::Select->new($load->{fh})->can_read(0);
}


sub Test::Mcds::Load::wait {
    my ($load) = @_;

    my $fh = delete $load->{fh} // return $load->{result};
    my $line = <$fh> // '';

    CORE::close($fh);
    $load->{test}->gone($load->{pid});

    require JSON::PP;

    return $load->{result} = JSON::PP::decode_json($line);
}


END {
    my $code = $?;
    my $t = $current;

    if ($t && $t->{owner} == $$ && !$t->{ended}) {
        $t->{ended} = 1;

        for my $host (@{$t->{hosts}}) {
            my $tail = $host->tail(20);
            Test::More::diag("log of " . $host->name() . ":\n$tail") if $tail;
        }

        Test::More::diag("the file ended before done(), kept $t->{dir}");
        $t->stop_all();
        $code ||= 1;
    }

    $? = $code;
}


1;
