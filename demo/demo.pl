#!/usr/bin/perl

# The demo: two nginx hosts in front of one slow application, with 200 clients,
# three times: without a cache, with nginx's proxy_cache, with mcds.  Then a
# live page, until Ctrl-C, or for as many seconds as --keep says.  If standard
# input is no terminal and --keep is not given, the demo ends at once.
#
#   demo.pl [--seconds 8] [--people 200] [--port 8080] [--keep 60] [--no-page]
#           [--only nothing,proxy_cache,mcds]
#
# The environment may name another nginx (NGINX) or module (MCDS_MODULE; empty:
# it is built into that nginx).

use warnings;
use strict;

use Cwd qw/ abs_path /;
use FindBin;
use lib $FindBin::Bin;

use Getopt::Long;
use JSON::PP;
use Stage;
use Time::HiRes qw/ sleep /;


my $root = abs_path("$FindBin::Bin/..");
my $module = $ENV{MCDS_MODULE} // "$root/build/ngx_http_mcds_module.so";

# seconds after the start that the latencies leave out: the first page is made
my $cold = 3;

my ($seconds, $people, $from, $no_page, $keep) = (8, 200, 8080, 0);
my $only = 'nothing,proxy_cache,mcds';

GetOptions('seconds=i' => \$seconds, 'people=i' => \$people,
    'port=i' => \$from, 'only=s' => \$only, 'keep=i' => \$keep,
    'no-page' => \$no_page)
    or die "see the head of $0\n";

my @shown = (
    { name => 'nothing', title => 'no protection' },
    { name => 'proxy_cache', title => 'proxy_cache' },
    { name => 'mcds', title => 'mcds' },
);

my ($stage, $load, $failed, $ended, $serving);
my $terminal = -t STDOUT;

$| = 1;
$SIG{$_} = sub { $ended = 1; die "\n" } for qw/ INT TERM HUP /;

eval { main(); };
my $why = $@;

# nothing may interrupt the end
$SIG{$_} = 'IGNORE' for qw/ INT TERM HUP /;
$stage->end() if $stage;

if ($ended) {
    print "\nstopped\n";
    exit($serving ? 0 : 130) if !$failed;

} elsif ($why) {
    print STDERR "demo: $why";
    exit 1;
}

exit($failed ? 1 : 0);


sub main {
    need('make demo', 'memcached', 'nginx');

    if ($only =~ /mcds/ && $module ne '') {
        die "missing: $module; \"make\" builds it\n" if !-e $module;
        $module = abs_path($module);
    }

    $stage = Stage->new('demo');
    $load = $stage->load_generator($root);

    printf "Two nginx hosts, one application that takes 1 s per page,\n"
        . "%d clients that request it 10 times a second each. A page is valid"
        . " for 2 s.\n\n",
        $people;

    my ($live, @rows);

    for my $run (@shown) {
        next if ",$only," !~ /,$run->{name},/;

        my $set = raise($run->{name});
        push @rows, drive($run, $set);

        if ($run->{name} eq 'mcds' && !$no_page) {
            $live = $set;

        } else {
            $stage->stop(@{ $set->{pids} });
        }
    }

    table(@rows);
    serve($live) if $live;
}


# the processes of one run

sub raise {
    my ($name) = @_;

    my (@pids, @hosts, $memcached);
    my $origin = $stage->port();

    if ($name eq 'mcds') {
        $memcached = $stage->port();
        push @pids, $stage->memcached("memcached", $memcached);
        @hosts = live_ports();

    } else {
        @hosts = ($stage->port(), $stage->port());
    }

    my $pid = $stage->spawn("$name-application", $^X, "$root/demo/origin.pl",
        '--port', $origin, '--delay', 1, '--page', "$root/demo/page.html",
        '--set', "HOSTS=@hosts");

    $stage->wait_port($pid, $origin);
    push @pids, $pid;

    for my $i (0, 1) {
        my $conf = $name eq 'mcds'
            ? quickstart($hosts[$i], $origin, $memcached)
            : plain($name, $hosts[$i], $origin);

        push @pids, $stage->nginx("$name-host" . ($i + 1), $hosts[$i], $conf);
    }

    return { pids => \@pids, hosts => \@hosts, origin => $origin,
        memcached => $memcached };
}


sub live_ports {
    my $one = $stage->port($from);
    my $two = $stage->port($one + 1);

    if ($one != $from && !$no_page) {
        printf "%s\rport %d is taken, the live page will be at %d\n",
            $terminal ? "\e[K" : '', $from, $one;
    }

    return ($one, $two);
}


# the example of the README, with this stage's ports

sub quickstart {
    my ($port, $origin, $memcached) = @_;

    open my $f, '<', "$root/conf-examples/quickstart.conf"
        or die "conf-examples/quickstart.conf: $!\n";
    my $conf = do { local $/; <$f> };

    my $load_module = $module eq '' ? '' : "load_module $module;";

    change(\$conf, qr/load_module [^;]+;/, $load_module);
    change(\$conf, qr/# [^\n]+\nuser [^;]+;\n\n/, '');
    change(\$conf, qr/server 127\.0\.0\.1:11211;/,
        "server 127.0.0.1:$memcached;");
    change(\$conf, qr/server 127\.0\.0\.1:8000;/,
        "server 127.0.0.1:$origin;");
    change(\$conf, qr/listen 80;/, "listen 127.0.0.1:$port;");

    # these hosts differ by their ports, which real ones do not

    change(\$conf, qr/mcds_cache on;/,
        "mcds_cache on;\n            mcds_cache_key \$uri\$is_args\$args;");

    return $conf;
}


sub change {
    my ($text, $what, $by) = @_;

    $$text =~ s/$what/$by/ or die "quickstart.conf has no \"$what\"\n";
}


sub plain {
    my ($name, $port, $origin) = @_;

    my ($path, $cache) = ('', '');

    if ($name eq 'proxy_cache') {
        $path = 'proxy_cache_path @HOME@/pages keys_zone=pages:1m;';
        $cache = 'proxy_cache pages;
            proxy_cache_valid 200 2s;
            proxy_cache_lock on;
            proxy_cache_use_stale updating error timeout;
            proxy_cache_background_update on;';
    }

    return <<"END";
worker_processes auto;

events {
    worker_connections 1024;
}

http {
    $path

    upstream application {
        server 127.0.0.1:$origin;
    }

    server {
        listen 127.0.0.1:$port;

        location / {
            $cache
            ssi on;
            proxy_pass http://application;
        }
    }
}
END
}


# lets the people in, and takes down what happened

sub drive {
    my ($run, $set) = @_;

    my $title = $run->{title};
    my $json;

    $stage->origin($set->{origin}, '/-/reset');

    my ($pid, $out) = $stage->reader('load', $load, '-p', '-w', $cold,
        '-d', $seconds, '-i', 100,
        "people:$people:/:" . join(',', @{ $set->{hosts} }));

    while (my $line = <$out>) {
        if ($line =~ /^\{/) {
            $json = decode_json($line)->{people};
            last;
        }

        my ($second, $answers, $waiting) = split ' ', $line;
        my $origin = $stage->origin($set->{origin});

        $run->{early} = $origin->{requests} if $second <= $cold;

        next if !$terminal;

        printf "\r\e[K%-13s  %2d of %d s: %5d answers, %3d wait, "
            . '%4d pages made', $title, $second, $cold + $seconds, $answers,
            $waiting, $origin->{requests};
    }

    $stage->wait_for($pid);
    die "the load generator failed\n" . $stage->log_tail('load') if !$json;

    my $origin = $stage->origin($set->{origin});

    printf "%s%-13s  %d answers, %d pages made\n", $terminal ? "\r\e[K" : '',
        $title, $json->{answers}, $origin->{requests};

    return { %$run, %$json, origin => $origin };
}


sub table {
    my (@rows) = @_;

    my @lines = (
        ['', 'title'],
        ['requests to the application', 'made'],
        ['  most at the same time', 'most'],
        ["  in the first $cold s", 'early'],
        ['responses per second', 'rate', '%.0f'],
        ['median response time, ms', 'p50', '%.1f'],
        ['99th percentile, ms', 'p99', '%.1f'],
        ['slowest response, ms', 'max', '%.1f'],
        ['errors', 'bad'],
        ['views counted', 'counted'],
        ['responses', 'good'],
    );

    judge($_) for @rows;

    print "\n";

    for my $line (@lines) {
        my ($title, $field, $format) = @$line;

        printf "%-32s", $title;
        printf " %15s", sprintf($format // '%s', $_->{$field}) for @rows;
        print "\n";
        print '-' x (32 + 16 * @rows), "\n" if $field eq 'title';
    }

    print "\nAll clients wait for the first page, so the times leave out the"
        . " first $cold s.\nThe counts include them.";

    my ($mcds) = grep { $_->{name} eq 'mcds' } @rows;

    if (!$mcds) {
        print "\n";

    } elsif ($mcds->{exact}) {
        print " Every view got a number of its own, and none is missing.\n";

    } else {
        printf "\nTHE COUNTER IS NOT EXACT: %d numbers shown, %d of them"
            . " different.\n", @$mcds{qw/ views_shown views_distinct /};
    }
}


sub judge {
    my ($row) = @_;

    $row->{made} = $row->{origin}{requests};
    $row->{most} = $row->{origin}{most};
    $row->{good} = $row->{answers} - $row->{refused};
    $row->{bad} = $row->{refused} + $row->{errors};
    $row->{counted} = '-';

    return if $row->{name} ne 'mcds';

    $row->{counted} = $row->{views_max};
    $row->{exact} = $row->{views_max} == $row->{good}
        && $row->{views_distinct} == $row->{good}
        && $row->{views_shown} == $row->{good};

    $failed = 1 if !$row->{exact} || $row->{bad};
}


# the live page: some people stay, so that there is something to see

sub serve {
    my ($set) = @_;

    my ($one, $two) = @{ $set->{hosts} };

    $serving = 1;

    my $pid = $stage->spawn('people', $load, '-d', 0, '-i', 2000,
        "people:30:/:$one,$two");

    sleep 0.5;

    my $page = $stage->get($one, '/');
    die "the live page does not answer\n" . $stage->log_tail('mcds-host1')
        if !$page || $page->{status} != 200;

    print "\nA live page, and 30 clients that go on requesting it:\n\n"
        . "    http://127.0.0.1:$one/    the first host\n"
        . "    http://127.0.0.1:$two/    the second host\n"
        . "    http://127.0.0.1:$one/mcds    the status of the first host\n\n";

    if (!-t STDIN && !$keep) {
        printf "It answers: %s views, %s people online, %s.\n"
            . "Standard input is not a terminal, so the demo ends here;"
            . " \"make demo KEEP=60\"\nkeeps it for 60 seconds.\n",
            map { $page->{headers}{$_} // '-' } qw/ x-views x-online
            x-cache /;
        return;
    }

    print $keep ? "The demo ends in $keep seconds, or with Ctrl-C.\n"
        : "Ctrl-C ends the demo.\n";

    my $end = time() + ($keep // 0);

    while (!$keep || time() < $end) {
        sleep 1;

        for my $pid (@{ $set->{pids} }) {
            die "a process of the demo has ended\n" if !$stage->alive($pid);
        }
    }
}
