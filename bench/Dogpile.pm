package Dogpile;

# Two hosts of two workers each (of Varnish: pools of threads) before one slow
# page, under paced clients, and the same cold, all at once.

use warnings;
use strict;

use Goals;
use JSON::PP;
use Runs;
use Stage;
use Varnish;


# the rows, and what configures nginx for each

my @protections = qw/ mcds proxy_cache srcache+memc varnish /;
my %conf = (
    'mcds' => \&conf_mcds,
    'proxy_cache' => \&conf_proxy_cache,
    'srcache+memc' => \&conf_srcache,
);

my $head = <<'END';
worker_processes 2;

events {
    worker_connections 4096;
}
END


sub new {
    my ($class, $stage, $root) = @_;

    return bless {
        stage => $stage,
        root => $root,
        load => $stage->load_generator($root),
        mcds => $ENV{MCDS_MODULE} // "$root/build/ngx_http_mcds_module.so",
        dir => $ENV{MODULES} // '/usr/lib/nginx/modules',
        secs => $ENV{DOG_SECS} || 30,
        rounds => $ENV{DOG_ROUNDS} || 7,
    }, $class;
}


sub run {
    my ($self) = @_;

    my (@warm, @cold);
    my $only = $ENV{ONLY} // '.';

    for my $name (@protections) {
        next if $name !~ /$only/;

        my @missing = $self->missing($name);

        if (@missing) {
            print "left out: $name, @missing is missing (make bench installs"
                . " or builds it)\n";
            next;
        }

        Runs::progress("dogpile: $name, $self->{secs} s");
        push @warm, $self->warm($name);
        push @cold, $self->cold($name);
    }

    Runs::progress('');

    Runs::write_lines($self->{root}, 'dogpile', @warm, @cold);

    $self->report_warm(@warm);
    $self->report_cold(@cold);
}


# the modules of a protection, and what of it is not there

sub modules {
    my ($self, $name) = @_;

    return grep { $_ ne '' } $self->{mcds} if $name eq 'mcds';
    return map { "$self->{dir}/ngx_http_${_}_module.so" }
        qw/ memc srcache_filter / if $name eq 'srcache+memc';
    return;
}


sub missing {
    my ($self, $name) = @_;

    return program('varnishd') ? () : 'varnishd' if $name eq 'varnish';
    return grep { !-e } $self->modules($name);
}


# a slow origin and two hosts

sub raise {
    my ($self, $name) = @_;

    my $stage = $self->{stage};
    my $origin = $stage->port();
    my (@pids, @hosts, $memcached);

    my $pid = $stage->spawn('origin', $^X, "$self->{root}/demo/origin.pl",
        '--port', $origin, '--delay', 1, '--size', 10240);

    $stage->wait_port($pid, $origin);
    push @pids, $pid;

    if ($name =~ /^mcds$|memc$/) {
        $memcached = $stage->port();
        push @pids, $stage->memcached('dog-memcached', $memcached);
    }

    for my $host (qw/ a b /) {
        my $port = $stage->port();

        push @hosts, $port;
        push @pids, $name eq 'varnish'
            ? Varnish::start($stage, "$name-$host", $port, $origin,
                ttl => '2s', grace => '1h', header => "X-Edge: $host",
                pools => 2)
            : $stage->nginx("$name-$host", $port,
                $self->conf($name, $host, $port, $origin, $memcached));
    }

    return { name => $name, pids => \@pids, hosts => \@hosts,
        origin => $origin };
}


sub conf {
    my ($self, $name, $host, $port, $origin, $memcached) = @_;

    my $load = join '', map { "load_module $_;\n" } $self->modules($name);
    my ($http, $server, $location) = $conf{$name}->($memcached);

    return $load . $head . <<"END";

http {
    keepalive_requests 1000000;

$http
    server {
        listen 127.0.0.1:$port backlog=1024;

        location = /control {
            return 200 "ok";
        }

$server
        location / {
$location
            proxy_set_header X-Edge $host;
            proxy_pass http://127.0.0.1:$origin;
        }
    }
}
END
}


# what stands in http, in server and in location

sub conf_mcds {
    my ($memcached) = @_;

    return ("    mcds_pool main { server 127.0.0.1:$memcached; }\n", '',
        <<'END');
            mcds_cache on;
            mcds_cache_key $uri;
            mcds_cache_valid 200 2s;
END
}


sub conf_proxy_cache {
    return ("    proxy_cache_path \@HOME\@/pages keys_zone=pages:1m;\n", '',
        <<'END');
            proxy_cache pages;
            proxy_cache_key $uri;
            proxy_cache_valid 200 2s;
            proxy_cache_lock on;
            proxy_cache_use_stale updating error timeout;
            proxy_cache_background_update on;
END
}


# it has neither a lock nor old pages

sub conf_srcache {
    my ($memcached) = @_;

    return (<<"END", <<'END', <<'END');
    upstream mc {
        server 127.0.0.1:$memcached;
        keepalive 512;
    }

END
        # the whole value in one buffer
        location = /memc {
            internal;
            memc_buffer_size 32k;
            set $memc_key $query_string;
            set $memc_exptime 2;
            memc_pass mc;
        }

END
            set $key srcache:$uri;
            srcache_fetch GET /memc $key;
            srcache_store PUT /memc $key;
END
}


# people at a pace; a few more of them ask for a plain "return 200"

sub warm {
    my ($self, $name) = @_;

    my $stage = $self->{stage};
    my $set = $self->raise($name);
    my $ports = join ',', @{ $set->{hosts} };

    my ($pid, $out) = $stage->reader('load', $self->{load}, '-w', 3, '-d',
        $self->{secs}, '-i', 100, "page:200:/page:$ports",
        "control:50:/control:$ports");

    my $json = decode_json(do { local $/; <$out> });

    $stage->wait_for($pid);

    my $origin = $stage->origin($set->{origin});
    my @at = map { $_->{at} } @{ $origin->{done} };

    $stage->stop(@{ $set->{pids} });

    return { name => $name, kind => 'warm', %$json, made => \@at,
        most => $origin->{most}, requests => $origin->{requests} };
}


sub report_warm {
    my ($self, @rows) = @_;

    printf "\n### dogpile: two hosts, a page of 1 s, valid 2 s, 200 clients,"
        . " 10 requests a second each, %d s\n\n", $self->{secs};
    print "Times in ms, from 3 s after the start on; control is a plain"
        . " \"return 200\" in the\nsame run.\n\n";

    printf "| %-12s | %6s | %7s | %7s | %6s | %6s | %6s | %6s | %13s | %11s"
        . " | %6s |\n", 'protection', 'origin', 'most at', 'least s',
        'p50', 'p99', 'p99.9', 'max', 'control p99.9', 'control max',
        'errors';
    printf "| %-12s | %6s | %7s | %7s |%s|\n", '', 'asked', 'once',
        'between', join '|', map { ' ' x $_ } 8, 8, 8, 8, 15, 13, 8;
    print '|', '-' x 14, map({ '|' . '-' x $_ } 8, 9, 9, 8, 8, 8, 8, 15, 13,
        8), "|\n";

    for my $row (@rows) {
        my ($page, $control) = @$row{qw/ page control /};
        my @at = @{ $row->{made} };
        my ($least) = sort { $a <=> $b }
            map { $at[$_] - $at[$_ - 1] } 1 .. $#at;

        printf "| %-12s | %6d | %7d | %7.2f | %6.2f | %6.2f | %6.2f | %6.1f"
            . " | %13.2f | %11.1f | %6d |\n", $row->{name}, $row->{requests},
            $row->{most}, $least // 0, @$page{qw/ p50 p99 p999 max /},
            @$control{qw/ p999 max /}, $page->{refused} + $page->{errors};
    }

    print "\n";

    for my $row (grep { $_->{name} eq 'mcds' } @rows) {
        my $more = $row->{page}{p999} - $row->{control}{p999};

        printf "mcds: p99.9 is %.2f ms from the control's, the goal is at"
            . " most 10: %s\n", $more,
            Goals::judge('dogpile', 'p99.9 of a page',
                'ms more than the control\'s', $more, 10);
        printf "mcds: %d at once, the goal is 1: %s\n", $row->{most},
            Goals::judge('dogpile', 'origin, on two hosts',
                'requests at once', $row->{most}, 1);
    }
}


# nobody has the page and everybody asks

sub cold {
    my ($self, $name) = @_;

    my $stage = $self->{stage};
    my $set = $self->raise($name);
    my ($a, $b) = @{ $set->{hosts} };
    my @rounds;

    for my $round (1 .. $self->{rounds}) {
        Runs::progress("dogpile: $name, cold, round $round of"
            . " $self->{rounds}");

        $stage->origin($set->{origin}, '/-/reset');

        my ($pid, $out) = $stage->reader('load', $self->{load}, '-b',
            "a:50:/cold$round:$a", "b:50:/cold$round:$b");
        my $json = decode_json(do { local $/; <$out> });

        $stage->wait_for($pid);

        push @rounds, $self->round($json,
            $stage->origin($set->{origin}));
    }

    $stage->stop(@{ $set->{pids} });

    return { name => $name, kind => 'cold', rounds => \@rounds };
}


# the host whose request the origin ended first is the one that fills

sub round {
    my ($self, $json, $origin) = @_;

    my $first = $origin->{done}[0] // die "the origin was not asked\n";
    my (%late, $bad);

    for my $answer (@{ $json->{answers} }) {
        $bad++ if $answer->{status} != 200;

        my $side = $answer->{group} eq $first->{edge} ? 'filling' : 'other';
        push @{ $late{$side} }, ($answer->{at} - $first->{at}) * 1e3;
    }

    my ($filling, $other) = map { [sort { $a <=> $b } @{ $late{$_} }] }
        qw/ filling other /;

    return {
        requests => $origin->{requests},
        errors => $bad // 0,
        filling => Runs::median(@$filling),
        filling_last => $filling->[-1],
        other => Runs::median(@$other),
        other_last => $other->[-1],
    };
}


sub report_cold {
    my ($self, @rows) = @_;

    printf "\n### dogpile, cold: 50 clients on each of two hosts at once,"
        . " medians of %d rounds\n\n", $self->{rounds};
    print "When the answers came, in ms after the origin's end: the median"
        . " client's and the\nlast one's.\n\n";

    printf "| %-12s | %13s | %7s | %7s | %7s | %7s | %6s |\n", 'protection',
        'origin asked', 'filling', '', 'other', '', '';
    printf "| %-12s | %13s | %7s | %7s | %7s | %7s | %6s |\n", '',
        'median (most)', 'host', 'last', 'host', 'last', 'errors';
    print '|', '-' x 14, map({ '|' . '-' x $_ } 15, 9, 9, 9, 9, 8), "|\n";

    my %median;

    for my $row (@rows) {
        my @rounds = @{ $row->{rounds} };
        my ($most) = sort { $b <=> $a } map { $_->{requests} } @rounds;
        my $errors = 0;

        $errors += $_->{errors} for @rounds;

        for my $field (qw/ requests filling filling_last other other_last /) {
            $median{$field} = Runs::median(map { $_->{$field} } @rounds);
        }

        printf "| %-12s | %13s | %7.1f | %7.1f | %7.1f | %7.1f | %6d |\n",
            $row->{name}, sprintf('%g (%d)', $median{requests}, $most),
            @median{qw/ filling filling_last other other_last /}, $errors;

        next if $row->{name} ne 'mcds';

        my @goals = (['cold, origin', 'requests at once', $most, 1],
            ['cold, filling host', 'ms after the origin', $median{filling_last},
                20],
            ['cold, other host', 'ms after the origin', $median{other_last},
                120]);

        $row->{verdict} = join '', map { sprintf "mcds: %s: %g %s, the goal is"
            . " at most %g: %s\n", $_->[0], sprintf('%.1f', $_->[2]), $_->[1],
            $_->[3], Goals::judge('dogpile', @$_) } @goals;
    }

    print "\n", map { $_->{verdict} // () } @rows;
}


1;
