package Peers;

# The servers that are compared, each an nginx of its own with one worker on
# the first core, each tuned as its users would: connections to memcached are
# kept, logs are off.  memcached has one thread, on the last core.

use warnings;
use strict;

use IO::Socket::INET;
use POSIX ();
use Stage;
use Time::HiRes qw/ sleep /;


my %sizes = ('1k' => 1024, '10k' => 10240, '100k' => 102400);
my @sizes = qw/ 1k 10k 100k /;

# what is loaded, by instance; "mcds" stands for this module
my %modules = (
    mcds => ['mcds'],
    memc => ['ngx_http_memc_module'],
    echo => ['ngx_http_echo_module', 'ngx_http_memc_module'],
    lua => ['ndk_http_module', 'ngx_http_lua_module'],
    srcache => ['ngx_http_memc_module', 'ngx_http_srcache_filter_module'],
);

# scenario: groups, instance, uri, what a right answer is: a length or a
# pattern, and of how many uris one is taken at random, if more than one is
# asked for: a number behind the uri; and which codings the client accepts

my @scenarios = (
    ['return', 'counters latency log pages compress',
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
        ["return-$name", $name eq '100k' ? 'pages compress' : 'pages',
            'return', "/$name", $length],
        ["mcds-$name", 'pages', 'mcds', "/page/$name", $length],
        ["mcds-validated-$name", 'pages', 'mcds', "/validated/$name",
            $length],
        ["mcds-timed-$name", 'pages', 'mcds', "/timed/$name", $length],
        ["proxy-cache-ofc-$name", 'pages', 'cache', "/ofc/$name", $length],
        ["proxy-cache-$name", 'pages', 'cache', "/plain/$name", $length],
        ["memcached-pass-$name", 'pages', 'memcached', "/$name", $length],
        ["srcache-memc-$name", 'pages', 'srcache', "/$name", $length],
    ) } @sizes),

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
);


sub new {
    my ($class, $stage, $root) = @_;

    my $cores = POSIX::sysconf(84);                    # _SC_NPROCESSORS_ONLN

    my $self = bless {
        stage => $stage,
        dir => $ENV{MODULES} // '/usr/lib/nginx/modules',
        mcds => $ENV{MCDS_MODULE} // "$root/build/ngx_http_mcds_module.so",
        last_core => ($cores // 1) > 1 ? 1 : 0,
        pids => [],
    }, $class;

    $self->start();

    return $self;
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
    my %left_out;

    my $pid = $stage->memcached('memcached', $port, memory => 256,
        before => [$self->on_last_core()], extra => ['-t', 1]);

    $self->{memcached} = { pid => $pid, port => $port };
    push @{ $self->{pids} }, $pid;

    for my $key (qw/ memc echo lua /, map { "six-$_" } 1 .. 6) {
        $self->store("counter-$key", '0');
    }

    $self->store("/$_", 'x' x $sizes{$_}) for @sizes;

    # the origin comes first
    for my $name (qw/ origin return mcds memc echo lua cache memcached
        srcache /)
    {
        my @missing = grep { $_ ne '' && !-e $_ }
            map { $self->module($_) } @{ $modules{$name} // [] };

        if (@missing) {
            $left_out{$name} = "@missing";
            next;
        }

        $self->instance($name);
    }

    for my $name (sort keys %left_out) {
        printf "left out: %s, %s is missing (make bench installs or"
            . " builds it)\n", $name, $left_out{$name};
    }
}


sub instance {
    my ($self, $name) = @_;

    my $stage = $self->{stage};
    my $port = $stage->port();
    my $load = join '', map { "load_module $_;\n" } grep { $_ ne '' }
        map { $self->module($_) } @{ $modules{$name} // [] };

    $self->{port}{$name} = $port;

    my $method = "conf_$name";
    my ($http, $server) = $self->$method();

    my $conf = <<"END";
${load}worker_processes 1;
worker_cpu_affinity 1;

events {
    worker_connections 4096;
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

    $self->{worker}{$name} = ($stage->workers($pid))[0];
    push @{ $self->{pids} }, $pid;
}


sub upstream_memcached {
    my ($self) = @_;

    return <<"END";
    upstream mc {
        server 127.0.0.1:$self->{memcached}{port};
        keepalive 512;
        keepalive_requests 1000000000;
        keepalive_timeout 600s;
    }
END
}


sub upstream_origin {
    my ($self) = @_;

    return <<"END";
    upstream origin {
        server 127.0.0.1:$self->{port}{origin};
        keepalive 16;
    }

    proxy_http_version 1.1;
    proxy_set_header Connection "";
END
}


sub conf_origin {
    my ($self) = @_;

    my $dir = $self->{stage}->dir() . '/www';

    mkdir $dir;
    chmod 0755, $dir;
    $self->{stage}->write_file("$dir/$_", 'x' x $sizes{$_}) for @sizes;
    $self->{stage}->write_file("$dir/text", text(102400));

    return ('', "        root $dir;\n"
        . "        location /many/ { return 200 \"" . 'x' x 1024 . "\"; }\n");
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


sub conf_return {
    my $kilobyte = 'x' x 1024;

    my $server = "        set \$kilobyte \"$kilobyte\";\n"
        . "        location = /ok { return 200 \"ok\"; }\n"
        . "        location = /1k { return 200 \"$kilobyte\"; }\n";

    for my $size (qw/ 10k 100k /) {
        $server .= "        location = /$size { return 200 \""
            . '$kilobyte' x ($sizes{$size} / 1024) . "\"; }\n";
    }

    return ('', $server);
}


sub conf_mcds {
    my ($self) = @_;

    my $http = $self->upstream_origin() . <<"END";
    mcds_pool main {
        server 127.0.0.1:$self->{memcached}{port};
    }
END

    my $text = '';

    for my $coding (qw/ off gzip zstd /) {
        for my $more ('', $coding eq 'off' ? 'gzip/' : (), 'local/') {
            my $how = $more eq 'gzip/' ? 'gzip on; gzip_types *;'
                : $more eq 'local/' ? 'mcds_cache_local validated;' : '';

            $text .= "        location /$coding/$more {\n"
                . "            mcds_cache on;\n"
                . "            mcds_cache_key \$uri;\n"
                . "            mcds_cache_valid 200 1h;\n"
                . "            mcds_cache_compress $coding;\n"
                . "            $how\n"
                . "            proxy_pass http://origin/;\n"
                . "        }\n\n";
        }
    }

    my $dir = $self->{stage}->dir();

    $text .= <<"END";
        location /log/ {
            location = /log/none { return 200 "ok\\n"; }
            location = /log/file {
                access_log $dir/file.log;
                return 200 "ok\\n";
            }
            location = /log/buffer {
                access_log $dir/buffer.log combined buffer=32k flush=150ms;
                return 200 "ok\\n";
            }
            location = /log/mcds {
                mcds_log bench combined;
                return 200 "ok\\n";
            }
        }

END

    return ($http, $text . <<'END');
        location = /counter {
            mcds_counter $views key=views;
            mcds_return 200 $views;
        }

        location /key/ {
            mcds_counter $views key=views:$uri;
            mcds_return 200 $views;
        }

        location /six/ {
            mcds_counter $a key=a:$uri;
            mcds_counter $b key=b:$uri;
            mcds_counter $c key=c:$uri;
            mcds_counter $d key=d:$uri;
            mcds_counter $e key=e:$uri;
            mcds_counter $f key=f:$uri;
            mcds_return 200 "$a $b $c $d $e $f";
        }

        location = /async {
            mcds_counter $views key=async mode=async;
            mcds_return 200 $views;
        }

        location /visitor/ {
            mcds_visitor_counter $online key=online visitor=$uri window=5m;
            mcds_return 200 $online;
        }

        location /page/ {
            mcds_cache on;
            mcds_cache_valid 200 1h;
            proxy_pass http://origin/;
        }

        location /validated/ {
            mcds_cache on;
            mcds_cache_valid 200 1h;
            mcds_cache_local validated;
            proxy_pass http://origin/;
        }

        location /timed/ {
            mcds_cache on;
            mcds_cache_valid 200 1h;
            mcds_cache_local timed;
            proxy_pass http://origin/;
        }

        location /many/ {
            mcds_cache on;
            mcds_cache_valid 200 1h;
            proxy_pass http://origin;
        }

        location /many/validated/ {
            mcds_cache on;
            mcds_cache_valid 200 1h;
            mcds_cache_local validated;
            proxy_pass http://origin;
        }

        location /many/timed/ {
            mcds_cache on;
            mcds_cache_valid 200 1h;
            mcds_cache_local timed;
            proxy_pass http://origin;
        }
END
}


sub conf_memc {
    my ($self) = @_;

    return ($self->upstream_memcached(), <<'END');
        location = /incr {
            set $memc_cmd incr;
            set $memc_key counter-memc;
            set $memc_value 1;
            memc_pass mc;
        }
END
}


sub conf_echo {
    my ($self) = @_;

    # auth_request drops the body: it counts, but cannot show the number
    return ($self->upstream_memcached(), <<'END');
        location = /incr {
            internal;
            set $memc_cmd incr;
            set $memc_key counter-echo;
            set $memc_value 1;
            memc_pass mc;
        }

        location = /sub {
            echo -n "n=";
            echo_subrequest GET /incr;
        }

        location = /auth {
            auth_request /incr;
            echo -n ok;
        }

        location = /incr-one {
            internal;
            set $memc_cmd incr;
            set $memc_key counter-six-$arg_n;
            set $memc_value 1;
            memc_pass mc;
        }

        location = /six {
            echo_subrequest GET /incr-one -q n=1;
            echo_subrequest GET /incr-one -q n=2;
            echo_subrequest GET /incr-one -q n=3;
            echo_subrequest GET /incr-one -q n=4;
            echo_subrequest GET /incr-one -q n=5;
            echo_subrequest GET /incr-one -q n=6;
        }
END
}


sub conf_lua {
    my ($self) = @_;

    # Debian has no lua-resty-memcached: the socket by hand costs less anyway
    my $count = sub { return <<"END" };
            content_by_lua_block {
                local s = ngx.socket.tcp()
                s:settimeout(1000)
                local ok, err = s:connect("127.0.0.1",
                                          $self->{memcached}{port})
                if not ok then return ngx.exit(502) end
$_[0]
                s:setkeepalive(600000, 512)
                ngx.header["Content-Length"] = #n
                ngx.print(n)
            }
END

    my $one = $count->(<<'END');
                s:send("incr counter-lua 1\r\n")
                local n = s:receive()
END

    my $six = $count->(<<'END');
                local t = {}
                for i = 1, 6 do
                    t[i] = "incr counter-six-" .. i .. " 1\r\n"
                end
                s:send(t)
                for i = 1, 6 do t[i] = s:receive() end
                local n = table.concat(t, " ") .. " "
END

    my $turn = $count->(<<'END');
                local t = {}
                for i = 1, 6 do
                    s:send("incr counter-six-" .. i .. " 1\r\n")
                    t[i] = s:receive()
                end
                local n = table.concat(t, " ") .. " "
END

    return ('', <<"END");
        location = /incr {
$one
        }

        location = /six {
$six
        }

        location = /turn {
$turn
        }
END
}


sub conf_cache {
    my ($self) = @_;

    my $http = $self->upstream_origin() . <<'END';
    proxy_cache_path @HOME@/pages levels=1:2 keys_zone=pages:10m
                     inactive=24h use_temp_path=off;
    proxy_cache pages;
    proxy_cache_key $uri;
    proxy_cache_valid 200 24h;
END

    return ($http, <<'END');
        location /plain/ {
            proxy_pass http://origin/;
        }

        location /ofc/ {
            open_file_cache max=100 inactive=1h;
            open_file_cache_valid 1h;
            proxy_pass http://origin/;
        }

        location /many/ {
            open_file_cache max=2000 inactive=1h;
            open_file_cache_valid 1h;
            proxy_pass http://origin;
        }
END
}


sub conf_memcached {
    my ($self) = @_;

    return ($self->upstream_memcached(), <<'END');
        set $memcached_key $uri;

        location = /1k {
            memcached_pass mc;
        }

        # the whole value in one buffer
        location / {
            memcached_buffer_size 128k;
            memcached_pass mc;
        }
END
}


sub conf_srcache {
    my ($self) = @_;

    return ($self->upstream_memcached() . $self->upstream_origin(), <<'END');
        location = /memc {
            internal;
            memc_connect_timeout 1s;
            memc_send_timeout 1s;
            memc_read_timeout 1s;
            memc_ignore_client_abort on;
            set $memc_key $query_string;
            set $memc_exptime 86400;
            memc_pass mc;
        }

        # the whole value in one buffer
        location = /memc-big {
            internal;
            memc_buffer_size 128k;
            memc_connect_timeout 1s;
            memc_send_timeout 1s;
            memc_read_timeout 1s;
            memc_ignore_client_abort on;
            set $memc_key $query_string;
            set $memc_exptime 86400;
            memc_pass mc;
        }

        location = /1k {
            set $key srcache:$uri;
            srcache_fetch GET /memc $key;
            srcache_store PUT /memc $key;
            proxy_pass http://origin;
        }

        location /many/ {
            set $key srcache:$uri;
            srcache_fetch GET /memc $key;
            srcache_store PUT /memc $key;
            proxy_pass http://origin;
        }

        location / {
            set $key srcache:$uri;
            srcache_fetch GET /memc-big $key;
            srcache_store PUT /memc-big $key;
            proxy_pass http://origin;
        }
END
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
        $_->[1] =~ /\b$group\b/ && $self->{worker}{ $_->[2] }
            && ($_->[0] eq 'return' || $_->[0] =~ /$only/)
    } @scenarios;
}


sub scenario {
    my ($self, $name) = @_;

    my ($found) = grep { $_->[0] eq $name } @scenarios;
    my (undef, undef, $instance, $uri, undef, $uris, $accepts) = @$found;

    return {
        name => $name,
        url => "http://127.0.0.1:$self->{port}{$instance}$uri",
        worker => $self->{worker}{$instance},
        memcached => $self->{memcached}{pid},
        uris => $uris,
        accepts => $accepts,
    };
}


# the bytes of the page of a scenario, whose key is its uri

sub stored {
    my ($self, $name) = @_;

    my ($found) = grep { $_->[0] eq $name } @scenarios;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $self->{memcached}{port}) or die "memcached: $!\n";

    print $s "mg $found->[3] s\r\n";

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


# each scenario answers rightly, on a hit too

sub check {
    my ($self) = @_;

    for my $scenario (@scenarios) {
        my ($name, undef, $instance, $uri, $want) = @$scenario;

        next if !$self->{worker}{$instance};

        my ($answer, $good);

        # three times at least, and what nobody waits for comes later

        for my $n (1 .. 20) {
            $answer = $self->{stage}->get($self->{port}{$instance}, $uri);

            # memc answers an incr with 201
            $good = $answer && $answer->{status} =~ /^20[01]$/
                && (ref $want ? $answer->{body} =~ $want
                              : length $answer->{body} == $want);

            last if $n >= 3 && $good;
            sleep 0.05 if $n >= 3;
        }

        next if $good;

        die "$name answers wrongly: "
            . ($answer ? "$answer->{status}, " . substr($answer->{body}, 0, 60)
                       : 'not at all')
            . "\n" . $self->{stage}->log_tail($instance);
    }
}


sub stop {
    my ($self) = @_;

    $self->{stage}->stop(@{ $self->{pids} });
}


1;
