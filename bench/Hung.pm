package Hung;

# Two hosts under the same load at the same time, each with three memcached of
# its own; one memcached of one host is stopped.  What those pay who ask the
# other two, beside the same on the host where all are well.

use warnings;
use strict;

use Goals;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Runs;
use Stage;
use Time::HiRes qw/ sleep time /;


my $goal = 20;                         # percent of p99
my $timeout = 200;
my $keys = 8;                          # of each server
my $hung = 1;                          # which of the three


sub new {
    my ($class, $stage, $root) = @_;

    my $cores = POSIX::sysconf(84) // 1;               # _SC_NPROCESSORS_ONLN

    return bless {
        stage => $stage,
        root => $root,
        load => $stage->load_generator($root),
        mcds => $ENV{MCDS_MODULE} // "$root/build/ngx_http_mcds_module.so",
        on_last_core => ['taskset', '-c', $cores > 1 ? 1 : 0],
        secs => $ENV{HUNG_SECS} || 4,
        rounds => $ENV{HUNG_ROUNDS} || 9,
    }, $class;
}


sub run {
    my ($self) = @_;

    my @hosts = map { $self->raise($_) } qw/ a b /;
    my @rows;

    # a first one that does not count

    for my $round (0 .. $self->{rounds}) {
        my ($bad, $good) = $round % 2 ? @hosts : reverse @hosts;

        Runs::progress("hung, round $round of $self->{rounds}");

        my $row = $self->round($bad, $good);

        $row->{round} = $round;
        push @rows, $row if $round;
    }

    Runs::progress('');

    Runs::write_lines($self->{root}, 'hung', @rows);

    $self->{stage}->stop(map { $_->{nginx}, @{ $_->{memcached} } } @hosts);
    $self->report(@rows);
}


# an nginx with three memcached

sub raise {
    my ($self, $name) = @_;

    my $stage = $self->{stage};
    my $port = $stage->port();
    my (@ports, @pids);

    for my $i (0 .. 2) {
        my $free = $stage->port();

        push @ports, $free;
        push @pids, $stage->memcached("memcached-$name$i", $free,
            before => $self->{on_last_core}, extra => ['-t', 1]);
    }

    my $host = { name => $name, port => $port, memcached => \@pids };
    my $finder = $stage->nginx("find-$name", $port,
        $self->conf($port, \@ports));

    my $maps = $self->maps($port, @ports);

    $stage->stop($finder);
    $host->{nginx} = $stage->nginx("hung-$name", $port,
        $self->conf($port, \@ports, $maps));

    return $host;
}


# keys that are on the server that will hang, and on the others

sub maps {
    my ($self, $port, @ports) = @_;

    my @servers = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $_) // die "memcached: $!\n" } @ports;
    my %on;

    for my $n (1 .. 200) {
        $self->{stage}->get($port, "/key$n") // die "no answer\n";

        for my $i (0 .. 2) {
            my $s = $servers[$i];

            print $s "mg /key$n\r\n";
            next if (<$s> // '') !~ /^HD/;
            push @{ $on{$i == $hung ? 'hung' : 'others'} }, "/key$n";
        }
    }

    my $text = '';

    for my $name (sort keys %on) {
        my $n = $name eq 'hung' ? $keys : 2 * $keys;
        my @some = @{ $on{$name} };

        die "too few keys\n" if @some < $n;

        $text .= "    split_clients \$request_id \$$name {\n"
            . join('', map { sprintf "        %.2f%%  %s;\n", 100 / $n, $_ }
                @some[0 .. $n - 2])
            . "        *  $some[$n - 1];\n    }\n";
    }

    return $text;
}


sub conf {
    my ($self, $port, $ports, $maps) = @_;

    my $load = $self->{mcds} ne '' ? "load_module $self->{mcds};\n" : '';
    my $servers = join '', map { "        server 127.0.0.1:$_;\n" } @$ports;
    my $locations = '';

    for my $name ($maps ? qw/ hung others / : ()) {
        $locations .= <<"END";
        location = /$name {
            mcds_counter \$n_$name key=\$$name;
            mcds_return 200 "ok \$n_$name";
        }
END
    }

    $maps //= '';

    return <<"END";
${load}worker_processes 1;
worker_cpu_affinity 1;

events {
    worker_connections 4096;
}

http {
    keepalive_requests 1000000;

    mcds_pool main {
$servers
        distribution modula;
        timeout      ${timeout}ms;
        fail_timeout 1s;
    }

$maps
    server {
        listen 127.0.0.1:$port backlog=1024;

        location / {
            mcds_counter \$n key=\$uri;
            mcds_return 200 "ok \$n";
        }

$locations
    }
}
END
}


# the load of both, in which one memcached stops after a while, until the end

sub round {
    my ($self, $bad, $good) = @_;

    my $stage = $self->{stage};
    my @groups = map { my ($name, $host) = @$_;
        ("$name-others:40:/others:$host->{port}",
            "$name-hung:20:/hung:$host->{port}") }
        ['bad', $bad], ['good', $good];

    my ($pid, $out) = $stage->reader('load', @{ $self->{on_last_core} },
        $self->{load}, '-w', 0.5, '-d', $self->{secs}, '-i', 20, @groups);

    sleep 1;
    kill 'STOP', $bad->{memcached}[$hung];

    my $json = decode_json(do { local $/; <$out> });

    kill 'CONT', $bad->{memcached}[$hung];
    $stage->wait_for($pid);

    # until it is used again

    my $end = time() + 10;

    while (time() < $end) {
        my $answer = $stage->get($bad->{port}, '/hung');
        last if $answer && $answer->{body} =~ /\d/;
        sleep 0.05;
    }

    return $json;
}


sub report {
    my ($self, @rows) = @_;

    my %text = ('good-others' => 'others, all are well',
        'bad-others' => 'others, the third hangs',
        'good-hung' => 'the third, it is well',
        'bad-hung' => 'the third, it hangs');

    printf "\n### hung: one of three memcached hangs from the first second on,"
        . " %d s, timeout %d ms, medians of %d rounds\n\n", $self->{secs},
        $timeout, scalar @rows;
    print "Two hosts side by side, 60 clients each, 50 requests a second and"
        . " client; ms.\n\n";

    printf "| %-24s | %6s | %6s | %6s | %7s | %8s | %6s |\n", 'asked', 'p50',
        'p99', 'p99.9', 'max', 'answers', 'errors';
    print '|', '-' x 26, map({ '|' . '-' x $_ } 8, 8, 8, 9, 10, 8), "|\n";

    for my $name (qw/ good-others bad-others good-hung bad-hung /) {
        my $errors = 0;
        $errors += $_->{$name}{refused} + $_->{$name}{errors} for @rows;

        printf "| %-24s | %6.2f | %6.2f | %6.2f | %7.1f | %8d | %6d |\n",
            $text{$name}, map({ my $f = $_;
                Runs::median(map { $_->{$name}{$f} } @rows) }
                qw/ p50 p99 p999 max answers /), $errors;
    }

    my $change = 100 * (Runs::median(map {
        $_->{'bad-others'}{p99} / $_->{'good-others'}{p99} } @rows) - 1);
    my $most = Runs::median(map { $_->{'bad-hung'}{max} } @rows);

    printf "\nmcds: the p99 of who asks the others changes by %+.1f%%, the goal"
        . " is less than %d%%: %s\n", $change, $goal,
        Goals::judge('hung', 'p99 of the other two', '% changed', abs($change),
            $goal);
    printf "mcds: who asks the one that hangs waits for %.0f ms at most, the"
        . " timeout is %d ms: %s\n", $most, $timeout,
        Goals::judge('hung', 'longest wait for the third', 'ms', $most,
            $timeout + 50);
}


1;
