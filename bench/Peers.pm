package Peers;

# The servers that are compared, each an nginx of its own with one worker on
# the first core, each tuned as its users would: connections to memcached are
# kept, logs are off.  memcached has one thread, on the last core.

use warnings;
use strict;

use IO::Socket::INET;
use POSIX ();
use Stage;


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

# scenario: group, instance, uri, what a right answer is: a length or a
# pattern, and a script of wrk's if not the plain one

my @scenarios = (
    ['return', 'counters pages', 'return', '/ok', qr/^ok$/],

    ['mcds-counter', 'counters', 'mcds', '/counter', qr/^\d+$/],
    ['mcds-counter-100-keys', 'counters', 'mcds', '/key/1', qr/^\d+$/,
        'keys.lua'],
    ['memc-incr', 'counters', 'memc', '/incr', qr/^\d+\s*$/],
    ['auth-request-memc', 'counters', 'echo', '/auth', qr/^ok$/],
    ['lua-incr', 'counters', 'lua', '/incr', qr/^\d+\s*$/],
    ['echo-memc', 'counters', 'echo', '/sub', qr/^n=\d+\s*$/],

    map { my ($name, $length) = ($_, $sizes{$_}); (
        ["return-$name", 'pages', 'return', "/$name", $length],
        ["mcds-$name", 'pages', 'mcds', "/page/$name", $length],
        ["proxy-cache-ofc-$name", 'pages', 'cache', "/ofc/$name", $length],
        ["proxy-cache-$name", 'pages', 'cache', "/plain/$name", $length],
        ["memcached-pass-$name", 'pages', 'memcached', "/$name", $length],
        ["srcache-memc-$name", 'pages', 'srcache', "/$name", $length],
    ) } @sizes
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

    for my $key (qw/ memc echo lua /) {
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

    return ('', "        root $dir;\n");
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

    return ($http, <<'END');
        location = /counter {
            mcds_counter $views key=views;
            mcds_return 200 $views;
        }

        location /key/ {
            mcds_counter $views key=views:$uri;
            mcds_return 200 $views;
        }

        location /page/ {
            mcds_cache on;
            mcds_cache_valid 200 1h;
            proxy_pass http://origin/;
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
END
}


sub conf_lua {
    my ($self) = @_;

    # Debian has no lua-resty-memcached: the socket by hand costs less anyway
    return ('', <<"END");
        location = /incr {
            content_by_lua_block {
                local s = ngx.socket.tcp()
                s:settimeout(1000)
                local ok, err = s:connect("127.0.0.1",
                                          $self->{memcached}{port})
                if not ok then return ngx.exit(502) end
                s:send("incr counter-lua 1\\r\\n")
                local n = s:receive()
                s:setkeepalive(600000, 512)
                ngx.header["Content-Length"] = #n
                ngx.print(n)
            }
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
    my (undef, undef, $instance, $uri, undef, $script) = @$found;

    return {
        name => $name,
        url => "http://127.0.0.1:$self->{port}{$instance}$uri",
        worker => $self->{worker}{$instance},
        memcached => $self->{memcached}{pid},
        script => $script // 'report.lua',
    };
}


# each scenario answers rightly, on a hit too

sub check {
    my ($self) = @_;

    for my $scenario (@scenarios) {
        my ($name, undef, $instance, $uri, $want) = @$scenario;

        next if !$self->{worker}{$instance};

        my $answer;

        for (1 .. 3) {
            $answer = $self->{stage}->get($self->{port}{$instance}, $uri);
        }

        # memc answers an incr with 201
        my $good = $answer && $answer->{status} =~ /^20[01]$/
            && (ref $want ? $answer->{body} =~ $want
                          : length $answer->{body} == $want);

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
