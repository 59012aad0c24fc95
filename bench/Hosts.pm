package Hosts;

# Hosts that all ask for one page that is not there and takes seconds to build:
# one builds it, the others wait, and memcached is asked meanwhile.

use warnings;
use strict;

use Goals;
use IO::Select;
use IO::Socket::INET;
use Runs;
use Stage;
use Time::HiRes qw/ sleep time /;


my @hosts = (2, 16, 64);


sub new {
    my ($class, $stage, $root) = @_;

    return bless {
        stage => $stage,
        root => $root,
        mcds => $ENV{MCDS_MODULE} // "$root/build/ngx_http_mcds_module.so",
        secs => $ENV{SCALE_BUILD} || 5,
    }, $class;
}


sub run {
    my ($self) = @_;

    my $stage = $self->{stage};
    my ($origin, $memcached) = ($stage->port(), $stage->port());

    my @pids = $stage->spawn('origin', $^X, "$self->{root}/demo/origin.pl",
        '--port', $origin, '--delay', $self->{secs}, '--size', 10240);

    $stage->wait_port($pids[0], $origin);
    push @pids, $stage->memcached('hosts-memcached', $memcached);
    @$self{qw/ origin memcached /} = ($origin, $memcached);

    my @ports;

    for my $n (1 .. $hosts[-1]) {
        my $port = $stage->port();

        Runs::progress("scale, hosts: $n of $hosts[-1]");
        push @pids, $stage->nginx("host-$n", $port, $self->conf($port));
        push @ports, $port;
    }

    # what is asked for without any request

    my @before = $self->commands();
    sleep 1;
    my @idle = map { $_ - shift @before } $self->commands();

    my @rows = map { $self->build('cold', @ports[0 .. $_ - 1]) } @hosts;

    # all of them have seen a build by now, and know how long one takes

    push @rows, $self->build('known', @ports);

    Runs::progress('');
    $stage->stop(@pids);

    Runs::write_lines($self->{root}, 'hosts', @rows);

    $self->report(\@idle, @rows);
}


sub conf {
    my ($self, $port) = @_;

    my $load = $self->{mcds} ne '' ? "load_module $self->{mcds};\n" : '';

    return <<"END";
${load}worker_processes 1;

events {
    worker_connections 512;
}

http {
    mcds_pool main {
        server 127.0.0.1:$self->{memcached};
    }

    server {
        listen 127.0.0.1:$port;

        location / {
            mcds_cache on;
            mcds_cache_key \$uri;
            mcds_cache_valid 200 1h;
            proxy_pass http://127.0.0.1:$self->{origin};
        }
    }
}
END
}


# what memcached has done so far: sets and adds, and all operations

sub commands {
    my ($self) = @_;

    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $self->{memcached}) or die "memcached: $!\n";
    my ($sets, $all) = (0, 0);

    print $s "stats\r\n";

    while (defined(my $line = <$s>)) {
        last if $line =~ /^END/;
        $sets += $1 if $line =~ /^STAT cmd_set (\d+)/;
        $all += $1 if $line =~ /^STAT\ (?:cmd_(?:get|set|touch)
            |(?:incr|decr|delete)_(?:hits|misses)) \s (\d+)/x;
    }

    return ($sets, $all);
}


# a client of each host asks; what was done until a moment before the end

sub build {
    my ($self, $kind, @ports) = @_;

    my $stage = $self->{stage};
    my $hosts = @ports;

    Runs::progress("scale, hosts: $hosts hosts wait for a page of"
        . " $self->{secs} s");
    $stage->origin($self->{origin}, '/-/reset');

    my @clients = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $_) // die "host: $!\n" } @ports;
    my @before = $self->commands();
    my $from = time();

    print $_ "GET /$kind-$hosts HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"
        for @clients;

    sleep $self->{secs} - 0.2;

    my @done = map { $_ - shift @before } $self->commands();
    my $took = time() - $from;
    my $answers = grep { my $client = $_;
        IO::Select->new($client)->can_read($self->{secs} + 5)
            && do { local $/; <$client> } =~ m{^HTTP/1\.1 200 }
    } @clients;
    my $origin = $stage->origin($self->{origin});

    die "$answers of $hosts hosts have answered rightly\n"
        if $answers != $hosts;

    return { kind => $kind, hosts => $hosts, sets => $done[0], all => $done[1],
        secs => $took, requests => $origin->{requests} };
}


sub report {
    my ($self, $idle, @rows) = @_;

    printf "\n### scale, hosts: one page that takes %g s to build, on one"
        . " memcached\n\n", $self->{secs};
    printf "A client of each host asks for it at once.  Commands of memcached"
        . " in the first %.1f s;\nwithout any request they were %d in a"
        . " second.\n\n", $rows[0]{secs}, $idle->[1];

    printf "| %5s | %-11s | %6s | %11s | %6s | %11s | %12s |\n", 'hosts',
        'build times', 'adds', 'per waiting', 'all', 'per waiting',
        'origin asked';
    print '|', '-' x 6, ':|', '-' x 13,
        map({ '|' . '-' x $_ . ':' } 7, 12, 7, 12, 13), "|\n";

    # the host that builds does not wait

    my $per = sub { $_[0]{$_[1]} / ($_[0]{hosts} - 1) };

    printf "| %5d | %-11s | %6d | %11.1f | %6d | %11.1f | %12d |\n",
        $_->{hosts}, $_->{kind} eq 'known' ? 'known' : 'not known',
        $_->{sets}, $per->($_, 'sets'), $_->{all}, $per->($_, 'all'),
        $_->{requests} for @rows;

    print "\n";

    my ($few, $many) = @rows[0, $#hosts];

    for (['sets', 'adds'], ['all', 'commands']) {
        my ($field, $title) = @$_;
        my $ratio = $per->($many, $field) / ($per->($few, $field) || 1);

        printf "%s of a waiting host: with %d hosts %.2f times those with %d,"
            . " the goal is less than linear, at most 0.95: %s\n", $title,
            $many->{hosts}, $ratio, $few->{hosts}, Goals::judge('scale',
                "$many->{hosts} hosts, $title", "times those of $few->{hosts},"
                . ' per host', $ratio, 0.95);
    }

    my ($most) = sort { $b <=> $a } map { $_->{requests} } @rows;

    printf "hosts: the origin was asked %d times at most, the goal is 1: %s\n",
        $most, Goals::judge('scale', "$many->{hosts} hosts, origin",
            'requests', $most, 1);
}


1;
