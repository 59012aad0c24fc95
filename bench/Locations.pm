package Locations;

# A configuration with thousands of locations that inherit what mcds does, and
# the same file without mcds: the time of a test and of a reload, and the memory
# of the master.

use warnings;
use strict;

use Runs;
use Stage;
use Time::HiRes qw/ sleep time /;


my $rounds = 3;


sub new {
    my ($class, $stage, $root) = @_;

    return bless {
        stage => $stage,
        root => $root,
        mcds => $ENV{MCDS_MODULE} // "$root/build/ngx_http_mcds_module.so",
        locations => $ENV{SCALE_LOCATIONS} || 5000,
    }, $class;
}


sub run {
    my ($self) = @_;

    my $stage = $self->{stage};
    my $memcached = $stage->port();
    my $pid = $stage->memcached('locations-memcached', $memcached);
    my @rows = map { $self->measure($_, $memcached) } qw/ without with /;

    $stage->stop($pid);

    Runs::write_lines($self->{root}, 'locations', @rows);

    $self->report(@rows);
}


sub conf {
    my ($self, $port, $with, $memcached) = @_;

    my $load = $with && $self->{mcds} ne '' ? "load_module $self->{mcds};\n"
        : '';
    my $locations = join '', map { <<"END" } 1 .. $self->{locations};
        location /part-$_/ {
            proxy_pass http://origin;
        }

END

    my $mcds = !$with ? '' : <<"END";
    mcds_pool main {
        server 127.0.0.1:$memcached;
    }

    mcds_cache on;
    mcds_cache_key \$host\$request_uri;
    mcds_cache_valid 200 1m;
    mcds_cache_valid 404 10s;
    mcds_cache_session_cookies session;
    mcds_cache_background_update 1m;
    mcds_cache_tag "part \$uri";
    mcds_cache_local validated;
    mcds_counter \$views key=views:\$uri;
    mcds_counter \$daily key=daily:\$uri;
    mcds_log requests combined;
    mcds_table_lookup \$banned bans \$remote_addr;
END

    return <<"END";
${load}worker_processes 1;

events {
    worker_connections 512;
}

http {
$mcds
    upstream origin {
        server 127.0.0.1:$port;
    }

    server {
        listen 127.0.0.1:$port;

        location = /control {
            return 200 "ok";
        }

$locations
    }
}
END
}


sub measure {
    my ($self, $name, $memcached) = @_;

    my $stage = $self->{stage};
    my $port = $stage->port();
    my $master = $stage->nginx("locations-$name", $port,
        $self->conf($port, $name eq 'with', $memcached));
    my $home = $stage->dir() . "/locations-$name";
    my $nginx = $ENV{NGINX} // program('nginx');
    my (@tests, @cpu, @reloads, @master);

    Runs::progress("scale, locations: $name mcds");

    my $row = { name => $name, started => Runs::anonymous($master) };

    for (1 .. $rounds) {
        my (undef, undef, @before) = times();
        my $from = time();

        system("'$nginx' -t -q -p '$home/' -c '$home/nginx.conf'"
            . " > '$home/test.log' 2>&1") == 0
            or die "nginx -t fails:\n" . slurp("$home/test.log");

        push @tests, time() - $from;

        my (undef, undef, @after) = times();

        push @cpu, $after[0] + $after[1] - $before[0] - $before[1];
    }

    for (1 .. $rounds) {
        my %old = map { $_ => 1 } children($master);
        my ($cpu, $from) = (Runs::cpu($master), time());

        kill 'HUP', $master;

        until (grep { !$old{$_} } children($master)) {
            die "nginx does not reload:\n"
                . $stage->log_tail("locations-$name") if time() - $from > 60;
            sleep 0.005;
        }

        push @reloads, time() - $from;
        push @master, Runs::cpu($master) - $cpu;

        # the next one comes when the old workers are gone

        my $end = time() + 10;
        sleep 0.02 while time() < $end && grep { $old{$_} } children($master);
    }

    my $answer = $stage->get($port, '/control');

    die "nginx does not answer after a reload\n"
        if !$answer || $answer->{body} ne 'ok';

    @$row{qw/ test test_cpu reload reload_cpu /} =
        map { 1e3 * Runs::median(@$_) } \@tests, \@cpu, \@reloads, \@master;
    $row->{reloaded} = Runs::anonymous($master);

    $stage->stop($master);
    Runs::progress('');

    return $row;
}


sub children {
    my ($pid) = @_;

    open my $f, '<', "/proc/$pid/task/$pid/children"
        or die "process $pid: $!\n";

    return split ' ', <$f> // '';
}


sub slurp {
    my ($path) = @_;

    open my $f, '<', $path or return '';
    local $/;

    return <$f>;
}


sub report {
    my ($self, @rows) = @_;

    my ($without, $with) = @rows;

    printf "\n### scale, locations: %d locations that inherit what mcds does,"
        . " and the same\nfile without mcds, medians of %d\n\n",
        $self->{locations}, $rounds;

    printf "| %-34s | %8s | %8s | %6s |\n", '', 'without', 'with', 'ratio';
    print '|', '-' x 36, '|', map({ '-' x $_ . ':|' } 9, 9, 7), "\n";

    for (['test', 'nginx -t, ms'], ['test_cpu', 'nginx -t, ms of CPU'],
        ['reload', 'reload until there are workers, ms'],
        ['reload_cpu', 'reload, ms of CPU of the master'],
        ['started', 'memory of the master, MB'],
        ['reloaded', 'the same after the reloads, MB'])
    {
        my ($field, $title) = @$_;

        printf "| %-34s | %8.1f | %8.1f | %6.2f |\n", $title,
            $without->{$field}, $with->{$field},
            $with->{$field} / ($without->{$field} || 1);
    }

    print "\n";
}


1;
