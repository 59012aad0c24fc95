package Varnish;

# Varnish as its users run it before an application: pages in memory, cookies
# put aside, with grace, and with nobody who reads its log.  The log itself is
# always written, to shared memory.

use warnings;
use strict;

use File::Path qw/ make_path /;
use Stage;


# Starts one that listens to the port: it answers /control by itself and asks
# the origin for all else.  Options: ttl and grace, of all pages; header, which
# the origin is told; before, the start of the command; pools of threads, one
# for each core.

sub start {
    my ($stage, $name, $port, $origin, %options) = @_;

    my $home = $stage->dir() . "/$name";

    make_path($home);

    # the child is another user when the manager is root
    chmod 0711, $home;

    $stage->write_file("$home/default.vcl", vcl($origin, %options));

    # as many threads as clients from the start on, and all of them stay
    my $pid = $stage->spawn($name, @{ $options{before} // [] },
        program('varnishd'), '-F', '-n', "$home/work",
        '-f', "$home/default.vcl", '-a', "127.0.0.1:$port", '-T', 'none',
        '-s', 'malloc,256m', '-l', '16m',
        '-p', 'thread_pools=' . ($options{pools} // 1),
        '-p', 'thread_pool_min=200', '-p', 'thread_pool_max=2000',
        '-p', 'timeout_idle=600');

    $stage->wait_port($pid, $port);

    # the port is open before the child is there
    $stage->get($port, '/control')
        or die "$name does not answer:\n" . $stage->log_tail($name);

    return $pid;
}


sub vcl {
    my ($origin, %options) = @_;

    my $told = '';

    if ($options{header}) {
        my ($name, $value) = split /: /, $options{header};

        $told = "\nsub vcl_backend_fetch {\n"
            . "    set bereq.http.$name = \"$value\";\n}\n\n";
    }

    return <<"END";
vcl 4.1;

backend default {
    .host = "127.0.0.1";
    .port = "$origin";
}

sub vcl_recv {
    unset req.http.Cookie;

    if (req.url == "/control") {
        return (synth(200));
    }
}
$told
sub vcl_backend_response {
    set beresp.ttl = $options{ttl};
    set beresp.grace = $options{grace};
}

sub vcl_synth {
    set resp.body = "ok";
    return (deliver);
}
END
}


# the manager, and its child whose threads do the work

sub processes {
    my ($pid) = @_;

    open my $f, '<', "/proc/$pid/task/$pid/children"
        or die "process $pid: $!\n";

    return ($pid, split ' ', <$f> // '');
}


1;
