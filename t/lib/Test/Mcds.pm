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

done() ends each file: it stops all processes, checks the logs, the connections,
the exit codes and that no process is left, each in a test of its own, and calls
done_testing().  Do not plan.  A file that dies early is cleaned up as well.  If
a test failed, the private folder is kept and its name is shown.

=head1 PLACES IN A CONFIGURATION

    %%GLOBALS%%     load_module (unless the module is static), user, daemon
                    off, pid, error_log
    %%HTTP%%        access_log, the temporary folders (inside http)
    %%PORT%%        this host's port
    %%PORT_name%%   the port of the memcached, fake, origin or nginx of that
                    name, or else a free one; constant during the test
    %%SOCK_name%%   the path of the unix socket of a server with unix => 1
    %%TMP%%         the test's private folder
    %%DIR%%         this host's folder in it

=head1 THE TEST OBJECT

    Test::Mcds->new(%o)     module => 0: nginx without the module; calm => 1:
                            see calm() of a response
    $t->nginx(name, conf, %o)       starts a host; log => 'debug'; loop => 1:
                                    see loop(); memory => 1: see
                                    Test::Mcds::Memory; spare => 1: values
                                    leave memory for the next ones; table => 1:
                                    see lib/table.c; patience => 0: do not set
                                    the timeout of a pool, which otherwise is
                                    1 s by default; mode => 0: see MCDS_MODE
    $t->memcached(name, %o)         real; unix => 1, args => [...], memory,
                                    threads; mute => 1 if the test cannot use it
                                    (TLS, passwords)
    $t->fake(name, sub, %o)         scripted; unix => 1, on_connect => sub,
                                    blackhole => 1, version => '1.6.18'
    $t->origin(name, answer, %o)    answer: hash or sub; paths => { '/p' =>
                                    {...} }, unix => 1, fastcgi => 1,
                                    http2 => 1, see Test::Mcds::Origin2
    $t->load(%o)            a load generator in C, see below
    $t->helper(name, sub, @command)
                                    starts a program and waits until the sub,
                                    called with its pid, returns true; dies with
                                    its output if it ends before; its pid
    $t->port(name)          the port of that name
    $t->dir()               the private folder
    $t->write_file(name, text)      in that folder; returns the path
    $t->read_file(name)
    $t->conf_error(conf)    the output of nginx -t, '' if it succeeds
    $t->conf_error(main => text, http => .., server => .., location => ..)
                            the same for parts of a configuration
    $t->needs('http_ssl', 'http_v2', 'curl', 'IO::Socket::SSL', ...)
                            skips the file unless nginx has the modules, and the
                            programs and Perl modules are installed; 'x.so' is
                            an installed dynamic module; 'mcds vary' is a
                            feature of mcds that MCDS_WITHOUT has not left out,
                            see docs/building.md: a configuration with
                            directives of a feature skips the file by itself
    $t->has(what)           true if it is available; of an 'x.so' the path
    $t->lacks(conf)         the features that a configuration needs and that
                            are left out
    $t->nginx_name()        nginx, freenginx, Angie, openresty
    $t->nginx_version()     1022001; of a fork: that of the nginx it is based on
    $t->nginx_headers()     the -I options of a compiler for its headers
    $t->since('1.29.4', what)       skips the file with an older nginx
    $t->cert(names)         ($certificate, $key), files of a self-signed pair
    $t->curl(@args)         curl's output
    $t->allow(qr/../, ..)   log lines that done() does not report
    $t->slow()              1, or more on slow builds (sanitizers): a factor
                            for upper bounds of times
    $t->watched()           true if nginx runs with sanitizers or under
                            valgrind, so that its use of memory and the turns
                            of its event loop are not typical
    $w = $t->stopwatch()    $w->() returns the seconds since then, without those
                            in which this test had no processor
    $t->lost()              the seconds so far in which it had none
    $t->seed(7)             seeds rand() with MCDS_SEED, else with that number,
                            else with a random one; shows and returns the seed;
                            new() calls seed() first
    $t->full()              true under make test-full
    $t->size(quick, full)   one of the two
    $t->mode()              MCDS_MODE, or ''
    $t->workers(n)          the number of workers for worker_processes n
    $t->clients(n)          the maximum number of connections to a host, at most
                            n; many() observes it
    $t->not_in('single one', 'kills workers')
                            skips the file in modes in which nginx itself cannot
                            do the tested action
    $t->done(%o)            keep => ['o']: idle connections to that server may
                            stay; leaks => 0: no check of connections

=head1 FUNCTIONS (exported)

"where" is a port, "host:port", or "unix:/path".  %o of all requests: method,
headers => {} or [], body, host, version => '1.0', timeout (60 s), ssl => 1 (or
options of IO::Socket::SSL), keepalive => 1 (no "Connection: close"), local =>
'127.0.0.2' (client's address), preface => bytes sent first (proxy protocol).
Header values may be lists.

    http_get(where, uri, %o)        waits and returns the response
    http_head, http_post(where, uri, body, %o), http_request
    http_raw(where, bytes)          all bytes received, up to the end
    $p = start_get(where, uri, %o)  sends, does not read
    finish($p)                      reads the response; $p->close, $p->reset to
                                    abort
    $c = conn(where, %o)            keepalive connection:
        $c->get(uri, %o)            request and response
        $c->request(uri, %o), $c->response(timeout)  in two steps, also
                                    pipelined
        $c->send(bytes), $c->slurp(timeout)
        $c->closed(timeout)         true once the server has closed it
        $c->close, $c->reset        FIN, RST
    @res = many(n, sub { my $i = shift; [where, uri, %o] }, concurrency =>
        200, timeout => 20)         concurrently; a list of [..] is accepted
                                    instead of the sub
    wait_for(sub { ... }, seconds)  polls until true; returns the result, or
                                    false after 20 s or the given time, to which
                                    the time of a busy machine does not count
    slurp(path)                     a file; exported on request, as is
    tally(responses)                "3 200 HIT, 1 200 MISS": status, X-Cache
    ttl_between($m, key, 8, 10, name)   a test: the item exists and expires in 8
                                    to 10 seconds


A response: status, body, header('X'), all('X') (list of lines), head (raw),
time (seconds), start, end, complete (false if truncated), error ('timed out',
'closed'); with calm => 1 also calm(), which is time() without the delays caused
by a busy machine.

=head1 A HOST: $a = $t->nginx(...)

    get(uri, %o), conn(%o), port, pid, dir, running
    workers()               pids; leaving(): those shutting down
    handled(uri, %o)        waits until what clients have sent is handled
    reload(wait_old => 1)   HUP, waits for new workers; false if nginx refused
    conf(text, %o)          new configuration for the next reload(); mode => 0
                            as above
    kill_worker(i, signal)  KILL by default; waits for its successor; allows the
                            alert in the log
    signal(name)            to the master
    quit(), stop()          graceful, fast; waits; false if nginx did not end
    up()                    starts it again
    freeze(), cont()        stops and continues the workers
    log(), log_has(re), log_lacks(re), log_count(re), log_lines(re),
    wait_log(re, seconds), access_log()
    fds(pid)                the number of descriptors of a worker
    loop(i)                 the turns of a worker's event loop since
                            loop_begin(): { turns, longest, ran, others, calls,
                            waited } in ms, see lib/loop.c

=head1 MEMCACHED: $m = $t->memcached(...), and fakes too

    mc('mg key v'), mc('ms key 3 T60', 'abc')   one raw command; the whole
                            reply, with CRLFs
    get(key), set(key, value, ttl), delete(key), ttl(key), flush
    port, pid, stop

The real memcached also has: freeze (SIGSTOP), cont, kill9, restart (same port),
stats (hash), keys (list of keys), connections (number of those that are not the
test's own).

=head1 FAKE: $f = $t->fake('m', sub { ... })

A fake keeps items in memory and answers mg, ms, ma, md, mn, version, flush_all
and the classic commands as memcached 1.6.18 does (with item_cas => 1 each item
has its own CAS numbers, as in yrmcds).  The callback is called for each command
first, in the fake's own process:

    sub { my ($f, $c, $line, $value) = @_; ... }

It returns nothing (or undef) for the default reply, or a list of

    "bytes"             sent at once
    ["bytes", 0.2]      sent after 0.2 s
    $f->pause(0.2)      silence for that time
    $f->lag($c, $line, $value, 0.2)     the default reply after that time, the
                        replies to commands of one read together
    $f->hold('name')    silence until the test calls $f->release('name')
    $f->stall           silence on this connection for ever
    $f->deaf            likewise, and stops reading
    $f->fin, $f->rst    closes the connection, or resets it

$f->default($line, $value) returns the bytes of the default reply, which the
callback may truncate, modify or extend; $f->bytewise(bytes, delay) returns a
list of single bytes; $f->flag($line, 'O') the text of a flag; $f->mode the last
mode set by the test; $f->{told} the list of its further arguments; $c->{id} the
number of the connection, $c->{commands} the number of its commands; $c and $f
may hold more fields of the callback.  on_connect => sub { my ($f, $c) = @_; ...
} returns such a list for a new connection.

Methods for the test:

    log()               list of { line, cmd, key, value, conn, read, at };
                        commands with the same conn and read came in one read
    commands(re), count(re)     the lines
    mark()              forget the commands logged before
    opened_count()      total of connections; connections(): open ones
    tell(mode, ...)     sets the result of $f->mode
    release(name), held(name)   ends the silence, counts the silent ones
    push(bytes)         sends unsolicited bytes on each connection
    close_all, reset_all
    refuse(1), refuse(0)        stops and starts listening
    restart(%o)         without items, on the same port; on_command => sub: a
                        new callback

The commands of mc(), get() and so on pass through the callback and the log like
all others.

=head1 ORIGIN: $o = $t->origin('o', { ... } or sub)

Answers are numbered from 1: the header X-Answer has the number, and the default
body is "answer <n> of <uri>\n".  An answer is

    status, headers => [..], body (%n, %k, %u: the number, that of its path, the
    uri), delay (before the answer), body_delay (after the head), parts =>
    ['bytes', ['more', 0.1]], chunked => 1, length => undef (the end of the
    connection ends the body) or a number (may be wrong), truncate => bytes of
    the body, then FIN, abort => bytes of the answer, then RST, hold => 1, raw
    => bytes

A sub gets ($o, $req), where $req is { n, k, method, uri, path, args, headers
(hash, lower case), head (raw, each line with its CRLF), body, params (FastCGI)
}, and returns such a hash or the text of a body, which is sent unchanged.

    requests(path)      list of { n, k, method, uri, path, headers, head, body,
                        start, end, aborted }; path may be a regex, a uri with
                        arguments, or missing (all requests)
    count(path), most(path)     number of requests; maximum of concurrent ones
    wait_requests(n, path)      until n requests were received
    hold_path(path)     holds answers from now on ('*', or missing: all)
    release(path)       sends the held answers and stops holding
    let(path, n)        sends n of them and continues to hold
    held(path)          number of held answers
    set(path, {...})    overrides the answer from now on; '*' all; undef: reset
    mark()              forget the requests recorded before

=head1 LOAD: $t->load(...)

A load generator in C, as Perl is too slow: load(port => p or ports => [..], uri
=> '/a' or uris => [..], clients => 64, requests => 10000 or seconds => 5, rate
=> requests per second and client (0: unlimited), expect => text that each 200
body must contain, where %u is the uri, or a list of alternative texts, header
=> 'Name: value', abort => percent of the requests that the client aborts, keys
=> n, for uris and bodies where %n is a number below n, in turn, method, body =>
JSON).  Connections are kept alive, and reopened when the server closes them.
Returns a hash at the end: requests, ok (status 200), status => { 200 => n },
errors, wrong, aborted, p50, p90, p99, p999, max (ms), seconds, per_second.
background => 1 returns an object instead: its wait() returns the hash, and its
ended() is true if wait() would not block.

=head1 ENVIRONMENT

TEST_NGINX_BINARY, TEST_NGINX_MODULE, TEST_NGINX_MODULES (the folder of other
modules), TEST_MEMCACHED_BINARY; TEST_DEBUG=1 (debug log), TEST_KEEP=1 (keeps
the folder), TEST_TIMEOUT=seconds (for a whole file), MCDS_SEED=n (see seed()),
MCDS_FIRST=1 (ends a file at the first failed test), MCDS_FULL=1, MCDS_SLOW=n,
MCDS_LEAKS=1 (LeakSanitizer), MCDS_VALGRIND=1 (nginx runs under valgrind).

MCDS_MODE=name runs all hosts in a certain mode of nginx, regardless of their
configurations: connections and nofile (128 of them at most), daemon, single (no
master process), one, two, many (64 workers), threads (aio), reuseport.  A host
with mode => 0 is not changed.

=cut

use warnings;
use strict;

use Carp qw/ croak /;
use Cwd qw/ abs_path /;
use Exporter ();
use Fcntl qw/ :flock /;
use File::Basename qw/ dirname basename /;
use List::Util qw/ sum0 /;
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

# features that a build of mcds may lack: a symbol that the module has only with
# the feature, and a regex for the directives that need the feature, or undef

my %features = (
    compress => ['ngx_http_mcds_coding_filter_module',
        qr/mcds_cache_compress\b/],
    data => ['ngx_http_mcds_data_module',
        qr/mcds_(?:array_(?:api|push)|table_(?:api|lookup))\b/],
    hmac => ['ngx_mcds_sign_functions', qr/mcds_cache_hmac_key\b/],
    large => ['ngx_mcds_body_part_find', undef],
    local => [undef, qr/mcds_cache_local\b/],
    lock => ['ngx_http_mcds_lock_module', qr/mcds_lock(?:_api)?\b/],
    log => ['ngx_http_mcds_log_module', qr/mcds_log(?:_api)?\b/],
    status => ['ngx_http_mcds_status_module', qr/mcds_status(?:_host)?\b/],
    tags => ['ngx_http_mcds_tags_functions', qr/mcds_cache_tag\b/],
    top => ['ngx_http_mcds_top_module',
        qr/mcds_counter(?:_top|(?:_api)?\s[^;]*\btop=)/],
    vary => ['ngx_mcds_vary_functions', qr/mcds_cache_max_variants\b/],
    writeback => ['ngx_http_mcds_writeback_module',
        qr/mcds_counter_writeback\b/],
);


sub new {
    my ($class, %o) = @_;

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

    # with MCDS_FIRST the test file ends at its first failed test

    Test2::API::test2_stack()->top()->listen(sub {
        my ($hub, $event) = @_;
        exit 1 if $event->isa('Test2::Event::Ok')
            && !$event->effective_pass() && $$ == $self->{owner};
    }) if $ENV{MCDS_FIRST};

    # a test that hangs dies, so that its processes and files are removed

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


# starts a process that kills all processes of the test when the test has ended

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


# starts a program in a process group of its own, with its output in a file

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


# starts a program and waits until the sub $ready returns true; dies with the
# program's output if the program ends before, or is not ready in time

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


# starts a server on the port that port($name) allocates.  If another process
# has just taken the port, the server gets another one, unless the test already
# uses the first port

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


# start the servers of a site: nginx, memcached, a simulated memcached (fake)
# and an origin

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


# allocates a port that no other test uses, below the range of ephemeral ports

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


# returns the nginx to test: TEST_NGINX_BINARY, or the nginx in the PATH

sub binary {
    my ($self) = @_;

    return $self->{binary} //= $ENV{TEST_NGINX_BINARY}
        // (grep { -x } map { "$_/nginx" } split(/:/, $ENV{PATH} // ''),
            '/usr/sbin', '/usr/local/sbin')[0] // die "nginx is missing\n";
}


sub expand {
    my ($self, $text, $name, %o) = @_;

    my ($feature) = $self->lacks($text);
    $self->leave("no mcds $feature") if $feature;

    my $dir = "$self->{dir}/$name";
    my $level = $o{log} // ($ENV{TEST_DEBUG} ? 'debug' : 'info');
    my $mode = $o{mode} // 1 ? $self->{mode} : Test::Mcds::Mode->new();
    my $globals = 'daemon ' . $mode->daemon() . "; pid $dir/nginx.pid;"
        . " error_log $dir/error.log $level;";

    # freenginx limits the rate of log lines (rate=0: no limit), and logs the
    # memory that it frees at exit

    $globals =~ s/;\z/ rate=0;/ if $self->nginx_name() eq 'freenginx';

    $globals = "load_module $self->{so}; $globals"
        if $self->{module} && !$self->{static};
    $globals .= ' user root root;' if $> == 0;

    my $http = "access_log $dir/access.log;"
        . join '', map { " ${_}_temp_path $dir/${_}_temp;" }
            qw/ client_body proxy fastcgi uwsgi scgi /;

    $text = $mode->edit($text);

    # the inserted texts have no line feeds, so that the line numbers in nginx's
    # messages are those of the configuration in the test

    $text =~ s/%%GLOBALS%%/$globals/g;
    $text =~ s/%%HTTP%%/$http/g;
    $text =~ s/%%PORT%%/$self->port($name)/ge;
    $text =~ s/%%PORT_(\w+)%%/$self->port($1)/ge;
    $text =~ s/%%SOCK_(\w+)%%/$self->sock($1)/ge;
    $text =~ s/%%TMP%%/$self->{dir}/g;
    $text =~ s/%%DIR%%/$dir/g;

    # on a busy machine memcached may get no processor time for 200 ms; under
    # valgrind nginx may need a second

    my $time = ($self->valgrind() ? 4 : 1) . 's';

    $text =~ s/^(\s*mcds_pool\s+\w+\s*\{)([^{}]*\bserver\b[^{}]*\})/
        my ($pool, $rest) = ($1, $2);
        $rest =~ m{\b(?:connect_)?timeout\b|libmemcached} ? "$pool$rest"
            : "$pool timeout $time; connect_timeout $time;$rest"/gmex
        if $o{patience} // 1;

    return $text;
}


# the environment for sanitizers; no leak check for nginx -t, which exits
# without freeing the configuration

sub sanitizer_env {
    my ($self, $path, $test) = @_;

    my $leaks = !$test && $ENV{MCDS_LEAKS} ? 1 : 0;

    # nginx never frees the compile context of PCRE2, of 72 bytes; and at exit a
    # worker may have no pointer left to its array of connections

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


# the command prefix that runs nginx under valgrind, with its reports in
# <path>.<pid>; empty without MCDS_VALGRIND

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

    # nginx -t takes a second under valgrind: every tenth run is enough

    my @valgrind = $self->{tested}++ % 10 ? () : $self->valgrind("$dir/san", 1);
    my $output = $self->run(@valgrind, $self->binary(), '-t', '-p', "$dir/",
        '-c', 'nginx.conf', '-e', 'stderr');
    my $code = $?;

    # Angie reports unknown variables after "syntax is ok"

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


# returns the output and errors of a program together; $? is its wait status

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


# compiles a program in C into build/, if its source is newer

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


# the -I options of a compiler for the nginx under test; empty if there are no
# headers of that nginx

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


# runs the load generator t/lib/load.c, and returns its results

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


# whether there is a feature: a Perl module, a part of mcds ("mcds log"), a
# dynamic module, a --with option of nginx, or a program in the PATH

sub has {
    my ($self, $what) = @_;

    if ($what =~ /::/) {
        return eval "require $what; 1";
    }

    if ($what =~ /^mcds (\w+)$/) {
        my ($symbol) = @{$features{$1} // die "there is no feature $1\n"};

        $self->{symbols} //= slurp($self->{static} ? $self->binary()
            : $self->{so});

        return $self->{symbols} =~ /\0$symbol\0/ ? 1 : 0 if defined $symbol;

        # no symbol of the module shows whether the module has the directive
        # mcds_cache_local: nginx -t shows it

        if (!defined $self->{local}) {
            $self->{local} = 1;
            $self->{local} = $self->conf_error(http => 'mcds_cache_local off;')
                =~ /unknown directive/ ? 0 : 1;
        }

        return $self->{local};
    }

    if ($what =~ /\.so$/) {
        my ($dir) = $self->{version} =~ /--modules-path=(\S+)/;

        $dir = $ENV{TEST_NGINX_MODULES} // $dir;

        return !$self->{static} && $dir && $self->loads("$dir/$what")
            && "$dir/$what";
    }

    # under valgrind, strace would trace the calls of valgrind itself

    return 0 if $what eq 'strace' && $self->valgrind();

    return 1 if $self->{version} =~ /--with-${what}(?:_module)?(?:\s|$)/;

    return scalar grep { -x "$_/$what" }
        split(/:/, $ENV{PATH} // ''), '/usr/sbin', '/sbin';
}


# checks that nginx loads a dynamic module, which may be built for another nginx

sub loads {
    my ($self, $so) = @_;

    return if !-f $so;

    # lua requires another module

    my $first = $so =~ s/ngx_http_lua_/ndk_http_/r;
    my $load = join '', map { "load_module $_;\n" }
        $first ne $so ? $first : (), $so;

    $self->write_file('loads.conf',
        "${load}pid loads.pid;\nerror_log stderr;\nevents { }\n");
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


# the features of mcds that a configuration needs and the module lacks

sub lacks {
    my ($self, $text) = @_;

    return if !$self->{module};

    return grep {
        my $used = $features{$_}[1];
        $used && $text =~ /(?:^|[{};])\s*$used/m && !$self->has("mcds $_")
    } sort keys %features;
}


# skips the test file in those modes of nginx (MCDS_MODE) in which nginx cannot
# do the tested action

sub not_in {
    my ($self, $modes, $reason) = @_;

    my $mode = $self->{mode}->name();

    $self->leave("$mode: $reason")
        if grep { $_ eq $mode } split ' ', $modes;

    return $self;
}


# skips the test file, or the rest of it, for the given reason

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


# the name of the tested server: nginx, freenginx, Angie, or openresty

sub nginx_name {
    my ($self) = @_;
    return $self->{version} =~ m{^\w+ version: (\w+)/} ? $1 : '';
}


# the version in the output of nginx -V; a fork also prints the version of the
# nginx that it is based on, Angie in a line of its own

sub version_in {
    my ($text) = @_;

    return $text =~ m{^nginx version: \w+/(\d+)\.(\d+)\.(\d+)}m
        ? $1 * 1000000 + $2 * 1000 + $3 : undef;
}


# skips the test file if nginx is older than the version that added a feature,
# or is the fork $but, such as Angie, which lacks the feature or has its own

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


# true with a sanitizer or valgrind, which keep freed memory: measurements of
# memory and of turns of the event loop mean little then, and no other library
# can be preloaded

sub watched {
    my ($self) = @_;
    return $self->{version} =~ /-fsanitize=/ || $self->valgrind() ? 1 : 0;
}


# seeds rand(), so that a run with random values can be repeated

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


# writes a file in the private folder of the test; returns its path

sub write_file {
    my ($self, $name, $text) = @_;

    my $path = "$self->{dir}/$name";

    # a concurrent reader of the file sees either all old or all new text

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


# tests that an item expires in $least to $most seconds; the ttl() of an item
# that never expires is -1, which is less than any time

sub ttl_between {
    my ($m, $key, $least, $most, $name) = @_;

    my $ttl = $m->ttl($key);
    my $right = defined $ttl && $ttl >= 0 && $ttl >= $least && $ttl <= $most;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return Test::More::ok($right, $name) || !Test::More::diag("\"$key\" "
        . (!defined $ttl ? 'is not there' : $ttl < 0 ? 'never ends'
            : "ends in $ttl s") . ", not in $least to $most s");
}


# Calls the sub until it returns true or the timeout is over.  While the machine
# is too busy to run the processes that the test waits for, the timeout is
# extended: up to four times as long, and by at most a minute.

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

        # the longer the wait, the longer the pauses between calls of the sub

        sleep($past < 0.36 ? 0.002 + $past / 20 : $past < 2 ? 0.02 : 0.05);
    }
}


# how many seconds, since this machine started, at least one task was ready to
# run but had no processor; 0 if the kernel does not report this time

sub pressure {
    open my $fh, '<', '/proc/pressure/cpu' or return 0;
    return (<$fh> // '') =~ /^some .*total=(\d+)/ ? $1 / 1e6 : 0;
}


# measures a duration as on an idle machine: returns a sub that returns the
# seconds since the call of stopwatch(), without the time that lost() counts

sub stopwatch {
    my ($self) = @_;

    my ($start, $lost) = (time(), $self->lost());

    return sub {
        my $took = time() - $start - ($self->lost() - $lost);
        return $took < 0 ? 0 : $took;
    };
}


# seconds, so far, in which threads of this test, of its helper programs and of
# its nginx processes were ready to run but had no processor

sub lost {
    my ($self) = @_;

    # each thread's waiting time for a processor, by the path of the thread's
    # file in /proc; threads that have ended stay in the hash, and in the sum

    my $waited = $self->{waited} //= {};

    for my $pid ($$, keys %{$self->{pids}},
        map { $_->children() } @{$self->{hosts}})
    {
        my $threads = $self->{threads}{$pid}
            //= [glob "/proc/$pid/task/*/schedstat"];

        for my $thread (@$threads) {
            open my $fh, '<', $thread or next;
            $waited->{$thread} = (split ' ', <$fh> // '')[1]
                // $waited->{$thread} // 0;
        }
    }

    return sum0(values %$waited) / 1e9;
}


# ends the test: stops all servers, reports leaks, errors in logs and the like

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

        # recent versions of nginx keep upstream connections alive by default

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


# waits until each memcached and the workers count the same number of
# connections between them, at most $seconds long; returns a text about each
# difference that is left then

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


# waits until no worker outlives its master process; returns a text about each
# process group of nginx that is left after the timeout

sub wait_stray {
    my ($self, $seconds) = @_;

    my @groups = map { @{$_->{groups}} } grep { !$_->running() }
        @{$self->{hosts}};

    my @left;

    wait_for(sub { !(@left = grep { alive($_) } @groups) },
        $seconds // 2 * $self->slow());

    return map { "a process of nginx $_ is left" } @left;
}


# whether the process group has a process that has not ended; a zombie has
# ended, although its parent has not waited for it yet

sub alive {
    my ($group) = @_;

    return 0 if !kill 0, -$group;

    for my $stat (glob '/proc/[0-9]*/stat') {
        open my $fh, '<', $stat or next;
        return 1 if (<$fh> // '') =~ /\) [^ZX] \d+ $group /;
    }

    return 0;
}


# the state of the process, a letter as in /proc/pid/stat: S if it sleeps, T if
# SIGSTOP has stopped it, X if it is dead or there is no such process

sub state {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/stat" or return 'X';
    return (<$fh> // '') =~ /\) (\w) / ? $1 : 'X';
}


# whether SIGSTOP has stopped the process, or the process has ended

sub stopped { return Test::Mcds::state($_[0]) =~ /[TZX]/ }


# waits until no process holds a socket on a port of this test; returns a text
# about each socket left, but for those in TIME_WAIT, which have no inode

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
