package Peers;

# The servers that are compared, each an nginx of its own with one worker on
# the first core, or Varnish there, each tuned as its users would: connections
# to memcached are kept, logs are off.  memcached has one thread, on the last
# core.

use warnings;
use strict;

use Confs;
use IO::Socket::INET;
use POSIX ();
use Stage;
use Time::HiRes qw/ sleep /;
use Varnish;


my %sizes = ('1k' => 1024, '10k' => 10240, '100k' => 102400);
my @sizes = qw/ 1k 10k 100k /;

# what is loaded, by instance; "mcds" stands for this module
my %modules = (
    mcds => ['mcds'],
    different => ['mcds'],
    zipf => ['mcds'],
    'zipf-validated' => ['mcds'],
    'zipf-timed' => ['mcds'],
    (map { $_ => ['mcds'] } qw/ one-worker two-workers idle idle-return
        features pages /),
    memc => ['ngx_http_memc_module'],
    echo => ['ngx_http_echo_module', 'ngx_http_memc_module'],
    lua => ['ndk_http_module', 'ngx_http_lua_module'],
    srcache => ['ngx_http_memc_module', 'ngx_http_srcache_filter_module'],
);

# which instances are started together, the origin first, how many megabytes
# memcached has for them, and how many connections each of their workers
my %sets = (
    peers => {
        instances => [qw/ origin return mcds different memc echo lua cache
            memcached srcache varnish varnish-unpinned front /],
        memory => 256,
        connections => 4096,
    },
    zipf => {
        instances => [qw/ origin return zipf zipf-validated zipf-timed
            zipf-cache /],
        memory => 1024,
        connections => 4096,
    },
    scale => {
        instances => [qw/ origin one-worker two-workers idle idle-return
            features pages /],
        memory => 1024,
        connections => 4096 + ($ENV{SCALE_CLIENTS} || 9500),
    },
);

# workers of an instance that does not have one
my %workers = ('two-workers' => 2);

# different pages that are asked for by Zipf's law
my $zipf_pages = $ENV{ZIPF_PAGES} || 50_000;

# scenario: groups, instance, uri, what a right answer is: a length or a
# pattern, and of how many uris one is taken, if more than one is asked for: a
# number behind the uri; which codings the client accepts; the header that shows
# a counter; and how one of the uris is taken, if not at random: in turn, or by
# Zipf's law

my @scenarios = (
    ['return', 'counters latency log pages different zipf compress',
        'return', '/ok', qr/^ok$/],

    ['mcds-counter', 'counters latency', 'mcds', '/counter', qr/^\d+$/],
    ['mcds-counter-10-keys', 'counters', 'mcds', '/key/', qr/^\d+$/, 10],
    ['mcds-counter-100-keys', 'counters', 'mcds', '/key/', qr/^\d+$/, 100],
    ['mcds-six-hot', 'counters', 'mcds', '/six/', qr/^(?:\d+ ){5}\d+$/],
    ['mcds-six-1000-uris', 'counters', 'mcds', '/six/',
        qr/^(?:\d+ ){5}\d+$/, 1000],
    ['mcds-async', 'counters', 'mcds', '/async', qr/^\d+$/],
    ['mcds-visitors-1000', 'counters', 'mcds', '/visitor/', qr/^\d+$/, 1000],
    ['memc-incr', 'counters latency', 'memc', '/incr', qr/^\d+\s*$/],
    ['auth-request-memc', 'counters', 'echo', '/auth', qr/^ok$/],
    ['lua-incr', 'counters', 'lua', '/incr', qr/^\d+\s*$/],
    ['lua-six', 'counters', 'lua', '/six', qr/^(?:\d+\s+){6}$/],
    ['lua-six-in-turn', 'counters', 'lua', '/turn', qr/^(?:\d+\s+){6}$/],
    ['echo-memc', 'counters', 'echo', '/sub', qr/^n=\d+\s*$/],
    ['echo-memc-six', 'counters', 'echo', '/six', qr/^(?:\d+\s+){6}$/],

    # a line of about 100 bytes for each request

    ['no-log', 'log', 'mcds', '/log/none', qr/^ok$/],
    ['access-log', 'log', 'mcds', '/log/file', qr/^ok$/],
    ['access-log-buffer', 'log', 'mcds', '/log/buffer', qr/^ok$/],
    ['mcds-log', 'log', 'mcds', '/log/mcds', qr/^ok$/],

    (map { my ($name, $length) = ($_, $sizes{$_}); (
        ["return-$name", 'pages different'
            . ($name eq '100k' ? ' compress' : ''), 'return', "/$name",
            $length],
        ["mcds-$name", 'pages', 'mcds', "/page/$name", $length],
        ["mcds-validated-$name", 'pages', 'mcds', "/validated/$name",
            $length],
        ["mcds-timed-$name", 'pages', 'mcds', "/timed/$name", $length],
        ["proxy-cache-ofc-$name", 'pages', 'cache', "/ofc/$name", $length],
        ["srcache-memc-$name", 'pages', 'srcache', "/$name", $length],
        ["varnish-$name", 'pages', 'varnish', "/$name", $length],
        ["nginx-varnish-$name", 'pages', 'front', "/$name", $length],
    ) } @sizes),

    # once is enough; and Varnish whose threads need not take turns on one core

    ['proxy-cache-1k', 'pages', 'cache', '/plain/1k', 1024],

    # with a look at files in front, and behind an index

    ['mcds-try-1k', 'pages', 'mcds', '/try/1k', 1024],
    ['proxy-cache-try-1k', 'pages', 'cache', '/try/1k', 1024],
    ['mcds-index-1k', 'pages', 'mcds', '/index/', 1024],
    ['proxy-cache-index-1k', 'pages', 'cache', '/index/', 1024],
    ['memcached-pass-1k', 'pages', 'memcached', '/1k', 1024],
    ['varnish-unpinned-1k', 'pages', 'varnish-unpinned', '/1k', 1024],

    # text: stored as it is, or compressed

    ['off', 'compress', 'mcds', '/off/text', 102400],
    ['off-local', 'compress', 'mcds', '/off/local/text', 102400],
    ['off-gzip-each-time', 'compress', 'mcds', '/off/gzip/text', 102400, undef,
        'gzip'],
    (map { my $coding = $_; (
        [$coding, 'compress', 'mcds', "/$coding/text", 102400, undef, $coding],
        ["$coding-local", 'compress', 'mcds', "/$coding/local/text", 102400,
            undef, $coding],
        ["$coding-not-accepted", 'compress', 'mcds', "/$coding/text", 102400],
    ) } qw/ gzip zstd /),

    # many pages, of which hardly two requests at a time want the same

    ['mcds-1k-1000-pages', 'pages', 'mcds', '/many/', 1024, 1000],
    ['mcds-validated-1k-1000-pages', 'pages', 'mcds', '/many/validated/',
        1024, 1000],
    ['mcds-timed-1k-1000-pages', 'pages', 'mcds', '/many/timed/', 1024, 1000],
    ['proxy-cache-ofc-1k-1000-pages', 'pages', 'cache', '/many/', 1024, 1000],
    ['srcache-memc-1k-1000-pages', 'pages', 'srcache', '/many/', 1024, 1000],
    ['varnish-1k-1000-pages', 'pages', 'varnish', '/many/', 1024, 1000],
    ['nginx-varnish-1k-1000-pages', 'pages', 'front', '/many/', 1024, 1000],

    (map { my ($name, $length) = ($_, $sizes{$_}); (
        map { [@$_[0 .. 3], $length, 64, undef, $_->[4], 'turn'] } (
            ["mcds-$name-64-pages", 'different', 'different', "/page/$name/"],
            ["mcds-counter-$name-64-pages", 'different', 'different',
                "/counted/$name/", 'x-views'],
            ["mcds-validated-$name-64-pages", 'different', 'different',
                "/validated/$name/"],
            ["mcds-timed-$name-64-pages", 'different', 'different',
                "/timed/$name/"],
            ["proxy-cache-ofc-$name-64-pages", 'different', 'cache',
                "/pages/$name/"],
            ["srcache-memc-$name-64-pages", 'different', 'srcache',
                "/pages/$name/"],
            ["varnish-$name-64-pages", 'different', 'varnish',
                "/pages/$name/"],
        )
    ) } @sizes),

    (map { [$_->[0], 'zipf', $_->[1], '/', 10240, $zipf_pages, undef, undef,
        'zipf'] } (
        ['mcds-zipf', 'zipf'],
        ['mcds-validated-zipf', 'zipf-validated'],
        ['mcds-timed-zipf', 'zipf-timed'],
        ['proxy-cache-ofc-zipf', 'zipf-cache'],
    )),

    # the same by one worker and by two, beside idle clients, and with features
    # that these requests do not use

    (map { my $with = $_; (
        ["return-$with", 'scale', $with, '/ok', qr/^ok$/],
        ["page-$with", 'scale', $with, '/page/1', 1024],
        ["64-pages-$with", 'scale', $with, '/page/', 1024, 64, undef, undef,
            'turn'],
        ["counter-$with", 'scale', $with, '/key/1', qr/^\d+$/],
    ) } qw/ one-worker two-workers idle idle-return features /),

    ['small-pages', 'scale', 'pages', '/', 100, 64],
);


# Starts a set of instances.

sub new {
    my ($class, $stage, $root, $set) = @_;

    my $cores = POSIX::sysconf(84);                    # _SC_NPROCESSORS_ONLN

    my $self = bless {
        stage => $stage,
        dir => $ENV{MODULES} // '/usr/lib/nginx/modules',
        mcds => $ENV{MCDS_MODULE} // "$root/build/ngx_http_mcds_module.so",
        last_core => ($cores // 1) - 1,
        files => files(),
        set => $set,
        pids => [],
    }, $class;

    $self->start();

    return $self;
}


# how many files a process may have open, as far as anything here needs them

sub files {
    my $hard = `sh -c 'ulimit -Hn'`;

    return $hard =~ /^(\d+)/ && $1 < 65536 ? $1 : 65536;
}


sub port {
    my ($self, $instance) = @_;
    return $self->{port}{$instance};
}


sub workers {
    my ($self, $instance) = @_;
    return @{ $self->{servers}{$instance} };
}


sub set {
    my ($self) = @_;
    return $self->{set};
}


# a command's start on the core that the clients share with memcached

sub on_last_core {
    my ($self) = @_;
    return ('taskset', '-c', $self->{last_core});
}


sub module {
    my ($self, $name) = @_;
    return $name eq 'mcds' ? $self->{mcds} : "$self->{dir}/$name.so";
}


sub start {
    my ($self) = @_;

    my $stage = $self->{stage};
    my $port = $stage->port();
    my $set = $sets{ $self->{set} };
    my $pid = $stage->memcached('memcached', $port, memory => $set->{memory},
        before => [$self->on_last_core()], extra => ['-t', 1]);

    $self->{memcached} = { pid => $pid, port => $port };
    push @{ $self->{pids} }, $pid;

    for my $key (qw/ memc echo lua /, map { "six-$_" } 1 .. 6) {
        $self->store("counter-$key", '0');
    }

    $self->store('/1k', 'x' x 1024);
    $self->www();

    for my $name (@{ $set->{instances} }) {
        my @missing = grep { $_ ne '' && !-e $_ }
            map { $self->module($_) } @{ $modules{$name} // [] };

        push @missing, 'varnishd'
            if $name =~ /^(?:varnish|front)/ && !program('varnishd');

        if (@missing) {
            printf "left out: %s, %s is missing (make bench installs or"
                . " builds it)\n", $name, "@missing";
            next;
        }

        if ($name =~ /^varnish/) {
            $self->varnish($name,
                $name eq 'varnish' ? ('taskset', '-c', 0) : ());
            next;
        }

        $self->instance($name);
        push @{ $self->{servers}{front} }, @{ $self->{servers}{varnish} }
            if $name eq 'front';
    }
}


sub instance {
    my ($self, $name) = @_;

    my $stage = $self->{stage};
    my $port = $stage->port();
    my $set = $sets{ $self->{set} };
    my $load = join '', map { "load_module $_;\n" } grep { $_ ne '' }
        map { $self->module($_) } @{ $modules{$name} // [] };

    $self->{port}{$name} = $port;

    my ($http, $server) = Confs::of($name, dir => $stage->dir(),
        memcached => $self->{memcached}{port}, files => $self->{files},
        origin => $self->{port}{origin}, varnish => $self->{port}{varnish});

    my $workers = $workers{$name} // 1;
    my $cores = $workers == 1 ? '1' : $self->{last_core} ? '01 10' : '1 1';
    my $conf = <<"END";
${load}worker_processes $workers;
worker_cpu_affinity $cores;
worker_rlimit_nofile $self->{files};

events {
    worker_connections $set->{connections};
}

http {
    sendfile on;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    default_type text/plain;

$http
    server {
        listen 127.0.0.1:$port backlog=1024;

$server
    }
}
END

    my $pid = $stage->nginx($name, $port, $conf);

    $self->{servers}{$name} = [$stage->workers($pid)];

    while (@{ $self->{servers}{$name} } < $workers) {
        sleep 0.02;
        $self->{servers}{$name} = [$stage->workers($pid)];
    }

    push @{ $self->{pids} }, $pid;
}


sub varnish {
    my ($self, $name, @before) = @_;

    my $stage = $self->{stage};
    my $port = $self->{port}{$name} = $stage->port();

    my $pid = Varnish::start($stage, $name, $port, $self->{port}{origin},
        ttl => '1h', grace => '1h', before => \@before);

    $self->{servers}{$name} = [Varnish::processes($pid)];
    push @{ $self->{pids} }, $pid;
}


# the pages of the origin

sub www {
    my ($self) = @_;

    my $stage = $self->{stage};
    my $dir = $stage->dir() . '/www';

    mkdir $dir;
    chmod 0755, $dir;
    $stage->write_file("$dir/$_", 'x' x $sizes{$_}) for @sizes;
    $stage->write_file("$dir/text", text(102400));

    # only its name is looked at

    mkdir "$dir/index";
    chmod 0755, "$dir/index";
    $stage->write_file("$dir/index/page", '');
}


# words as often as they are in a text, in elements as a page has them

sub text {
    my ($length) = @_;

    srand(1);

    my @words = map { join '', map { chr 97 + int(26 * rand() ** 1.5) }
        1 .. 2 + rand 8 } 1 .. 2000;
    my $text = '';

    while (length $text < $length) {
        $text .= "<div class=\"item\"><a href=\"/item/" . int(rand 10000)
            . '.html">' . join(' ', map { $words[2000 * rand() ** 3] }
            1 .. 5 + rand 30) . "</a></div>\n";
    }

    return substr $text, 0, $length;
}


sub store {
    my ($self, $key, $value) = @_;

    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $self->{memcached}{port}) or die "memcached: $!\n";

    printf $s "set %s 0 0 %d\r\n%s\r\n", $key, length $value, $value;

    die "memcached does not store\n" if (<$s> // '') ne "STORED\r\n";
}


# the names of a group's scenarios, of those that can run

sub scenarios {
    my ($self, $group) = @_;

    my $only = $ENV{ONLY} // '.';

    return map { $_->[0] } grep {
        $_->[1] =~ /\b$group\b/ && $self->{servers}{ $_->[2] }
            && ($_->[0] eq 'return' || $_->[0] =~ /$only/)
    } @scenarios;
}


sub row {
    my ($self, $name) = @_;

    my ($found) = grep { $_->[0] eq $name } @scenarios;

    return $found;
}


sub scenario {
    my ($self, $name) = @_;

    my (undef, undef, $instance, $uri, undef, $uris, $accepts, undef, $law) =
        @{ $self->row($name) };

    return {
        name => $name,
        url => "http://127.0.0.1:$self->{port}{$instance}$uri",
        servers => $self->{servers}{$instance},
        memcached => $self->{memcached}{pid},
        uris => $uris,
        accepts => $accepts,
        law => $law // 'random',
    };
}


# the bytes of the page of a scenario, whose name is its uri behind its site

sub stored {
    my ($self, $name) = @_;

    my $uri = $self->row($name)->[3];
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $self->{memcached}{port}) or die "memcached: $!\n";

    print $s "mg <>$uri s\r\n";

    return (<$s> // '') =~ /^HD s(\d+)/ ? $1 : 0;
}


# what memcached has done so far

sub operations {
    my ($self) = @_;

    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $self->{memcached}{port}) or die "memcached: $!\n";
    my $sum = 0;

    print $s "stats\r\n";

    while (defined(my $line = <$s>)) {
        last if $line =~ /^END/;
        $sum += $1 if $line =~ /^STAT\ (?:cmd_(?:get|set|touch)
            |(?:incr|decr|delete)_(?:hits|misses)) \s (\d+)/x;
    }

    return $sum;
}


# how often the origin has been asked so far

sub asked {
    my ($self) = @_;
    return (-s $self->{stage}->dir() . '/asked.log') / 2;
}


# Each of these scenarios answers rightly, and without the origin from some
# request on: up to 64 of its uris, if it has many.

sub check {
    my ($self, @names) = @_;

    for my $name (grep { !$self->{checked}{$_}++ } @names) {
        my ($uri, $uris) = @{ $self->row($name) }[3, 5];
        my @uris = map { "$uri$_" } ($uris // 1) == 1 ? '' :
            $uris <= 64 ? 1 .. $uris
            : map { int(1 + $_ * ($uris - 1) / 63) } 0 .. 63;
        my $wrong;

        # three times at least, and what nobody waits for comes later

        for my $n (1 .. 20) {
            my $before = $self->asked();

            ($wrong) = map { $self->wrong($name, $_) // () } @uris;

            my $asked = $self->asked() - $before;

            $wrong //= "has asked the origin $asked times for "
                . @uris . ' pages that were there' if $asked;
            last if $n >= 3 && !$wrong;
            sleep 0.05 if $n >= 3;
        }

        die "$name $wrong\n" . $self->{stage}->log_tail($self->row($name)->[2])
            if $wrong;
    }
}


# why an answer is not right

sub wrong {
    my ($self, $name, $uri) = @_;

    my (undef, undef, $instance, undef, $want, undef, undef, $shows) =
        @{ $self->row($name) };
    my $answer = $self->{stage}->get($self->{port}{$instance}, $uri);

    # memc answers an incr with 201

    return if $answer && $answer->{status} =~ /^20[01]$/
        && (ref $want ? $answer->{body} =~ $want
                      : length $answer->{body} == $want)
        && (!$shows || ($answer->{headers}{$shows} // '') =~ /^[1-9]\d*$/);

    return "answers wrongly to $uri: " . ($answer
        ? "$answer->{status}, " . substr($answer->{body}, 0, 60)
        : 'not at all');
}


sub stop {
    my ($self) = @_;

    $self->{stage}->stop(@{ $self->{pids} });
}


1;
