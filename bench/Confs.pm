package Confs;

# How the peers' nginx are configured, each as its users would: connections
# are kept, what a page needs of buffers is there.

use warnings;
use strict;


# What stands in http, and what in server, of the peer of this name.  It is told
# the ports of memcached, origin and varnish, the dir in which it finds the
# origin's pages and leaves its logs, and how many files it may open.

sub of {
    my ($name, %with) = @_;

    $name =~ tr/-/_/;

    return map { s{\@WWW\@}{$with{dir}/www}gr }
        __PACKAGE__->can("conf_$name")->(%with);
}


sub upstream_memcached {
    my (%with) = @_;

    return <<"END";
    upstream mc {
        server 127.0.0.1:$with{memcached};
        keepalive 512;
        keepalive_requests 1000000000;
        keepalive_timeout 600s;
    }
END
}


sub upstream_origin {
    my (%with) = @_;

    return <<"END";
    upstream origin {
        server 127.0.0.1:$with{origin};
        keepalive 16;
    }

    proxy_http_version 1.1;
    proxy_set_header Connection "";
END
}


# Each request makes the log two bytes longer: that is how it is known whether a
# page came from a cache.

sub conf_origin {
    my (%with) = @_;

    my ($kilobyte, $small) = map { 'x' x $_ } 1024, 100;

    return ("    log_format one x;\n", <<"END");
        access_log $with{dir}/asked.log one;
        root $with{dir}/www;

        location /many/ {
            return 200 "$kilobyte";
        }

        # any number of pages of each size

        location ~ ^/pages/(1k|10k|100k)/ {
            alias $with{dir}/www/\$1;
        }

        location /small/ {
            return 200 "$small";
        }
END
}


sub conf_return {
    my $kilobyte = 'x' x 1024;

    my $server = "        set \$kilobyte \"$kilobyte\";\n"
        . "        location = /ok { return 200 \"ok\"; }\n"
        . "        location = /1k { return 200 \"$kilobyte\"; }\n";

    for my $n (10, 100) {
        $server .= "        location = /${n}k { return 200 \""
            . '$kilobyte' x $n . "\"; }\n";
    }

    return ('', $server);
}


sub conf_mcds {
    my (%with) = @_;

    my $http = upstream_origin(%with) . <<"END";
    mcds_pool main {
        server 127.0.0.1:$with{memcached};
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

    $text .= <<"END";
        location /log/ {
            location = /log/none { return 200 "ok\\n"; }
            location = /log/file {
                access_log $with{dir}/file.log;
                return 200 "ok\\n";
            }
            location = /log/buffer {
                access_log $with{dir}/buffer.log combined buffer=32k
                           flush=150ms;
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
            mcds_counter $views key=async async;
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

        # what PHP sites have: a look at files first, and a page behind it

        location /try/ {
            root @WWW@;
            mcds_cache on;
            mcds_cache_valid 200 1h;
            try_files $uri $uri/ @try;
        }

        location @try {
            mcds_cache on;
            mcds_cache_valid 200 1h;
            rewrite ^/try(/.*)$ $1 break;
            proxy_pass http://origin;
        }

        location /index/ {
            root @WWW@;
            mcds_cache on;
            mcds_cache_valid 200 1h;
            index page;
        }

        location = /index/page {
            mcds_cache on;
            mcds_cache_valid 200 1h;
            proxy_pass http://origin/1k;
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


# 64 pages of each size, and room for all the copies of them

sub conf_different {
    my (%with) = @_;

    my $http = upstream_origin(%with) . <<"END";
    mcds_zone 32m;

    mcds_pool main {
        server 127.0.0.1:$with{memcached};
    }

    mcds_cache_valid 200 1h;
END

    return ($http, <<'END');
        location /page/ {
            mcds_cache on;
            proxy_pass http://origin/pages/;
        }

        location /validated/ {
            mcds_cache on;
            mcds_cache_local validated;
            proxy_pass http://origin/pages/;
        }

        location /timed/ {
            mcds_cache on;
            mcds_cache_local timed;
            proxy_pass http://origin/pages/;
        }

        # the page stays as it is, a header shows the number

        location /counted/ {
            mcds_counter $views key=views:$uri;
            add_header X-Views $views;
            mcds_cache on;
            proxy_pass http://origin/pages/;
        }
END
}


# pages of 10 KB of which the first is asked for most, and a zone that has room
# for some of them

sub conf_zipf { return zipf('', @_) }
sub conf_zipf_validated { return zipf('mcds_cache_local validated;', @_) }
sub conf_zipf_timed { return zipf('mcds_cache_local timed;', @_) }


sub zipf {
    my ($local, %with) = @_;

    my $http = upstream_origin(%with) . <<"END";
    mcds_zone 64m;

    mcds_pool main {
        server 127.0.0.1:$with{memcached};
    }
END

    return ($http, <<"END");
        location / {
            mcds_cache on;
            mcds_cache_key \$uri;
            mcds_cache_valid 200 24h;
            $local
            proxy_pass http://origin/pages/10k/;
        }
END
}


sub conf_zipf_cache {
    my (%with) = @_;

    my $files = $with{files} >= 20_000 ? 15_000 : int($with{files} * 3 / 4);

    return (upstream_origin(%with) . <<'END', <<"END");
    proxy_cache_path @HOME@/pages levels=1:2 keys_zone=pages:32m
                     inactive=24h use_temp_path=off;
END
        location / {
            proxy_cache pages;
            proxy_cache_key \$uri;
            proxy_cache_valid 200 24h;
            open_file_cache max=$files inactive=1h;
            open_file_cache_valid 1h;
            proxy_pass http://origin/pages/10k/;
        }
END
}


# a page, many pages and a counter, and nothing else

sub conf_one_worker { return plain(@_) }
sub conf_two_workers { return plain(@_) }
sub conf_idle { return plain(@_) }
sub conf_idle_return { return plain(@_) }


sub plain {
    my (%with) = @_;

    my $http = upstream_origin(%with) . <<"END";
    mcds_pool main {
        server 127.0.0.1:$with{memcached};
    }
END

    return ($http, <<'END');
        location = /ok {
            return 200 "ok";
        }

        location /page/ {
            mcds_cache on;
            mcds_cache_key $uri;
            mcds_cache_valid 200 24h;
            proxy_pass http://origin/pages/1k/;
        }

        location /key/ {
            mcds_counter $views key=views:$uri;
            mcds_return 200 $views;
        }
END
}


# the same, with features that none of these requests uses

sub conf_features {
    my (%with) = @_;

    my ($http, $server) = plain(%with);

    return ($http . <<'END', $server . <<'END');

    map $uri $unused {
        default "";
    }

    mcds_log requests combined if=$unused;
END

        mcds_table_lookup $banned bans $unused;

        location = /status {
            mcds_status;
        }

        location = /bans {
            mcds_table_api bans;
        }

        location = /log {
            mcds_log_api requests;
        }
END
}


# any number of small pages

sub conf_pages {
    my (%with) = @_;

    my ($http) = plain(%with);

    return ($http, <<'END');
        location / {
            mcds_cache on;
            mcds_cache_valid 200 24h;
            proxy_pass http://origin/small/;
        }

        location = /status {
            mcds_status;
        }
END
}


sub conf_memc {
    my (%with) = @_;

    return (upstream_memcached(%with), <<'END');
        location = /incr {
            set $memc_cmd incr;
            set $memc_key counter-memc;
            set $memc_value 1;
            memc_pass mc;
        }
END
}


sub conf_echo {
    my (%with) = @_;

    # auth_request drops the body: it counts, but cannot show the number
    return (upstream_memcached(%with), <<'END');
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
    my (%with) = @_;

    # Debian has no lua-resty-memcached: the socket by hand costs less anyway
    my $count = sub { return <<"END" };
            content_by_lua_block {
                local s = ngx.socket.tcp()
                s:settimeout(1000)
                local ok, err = s:connect("127.0.0.1",
                                          $with{memcached})
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
    my (%with) = @_;

    my $http = upstream_origin(%with) . <<'END';
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

        # what PHP sites have: a look at files first, and a page behind it

        location /try/ {
            root @WWW@;
            try_files $uri $uri/ @try;
        }

        location @try {
            rewrite ^/try(/.*)$ $1 break;
            proxy_pass http://origin;
        }

        location /index/ {
            root @WWW@;
            index page;
        }

        location = /index/page {
            proxy_pass http://origin/1k;
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

        location /pages/ {
            open_file_cache max=2000 inactive=1h;
            open_file_cache_valid 1h;
            proxy_pass http://origin;
        }
END
}


sub conf_memcached {
    my (%with) = @_;

    return (upstream_memcached(%with), <<'END');
        location / {
            set $memcached_key $uri;
            memcached_pass mc;
        }
END
}


sub conf_srcache {
    my (%with) = @_;

    return (upstream_memcached(%with) . upstream_origin(%with), <<'END');
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

        location /pages/1k/ {
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


# what speaks TLS and HTTP/2 before Varnish

sub conf_front {
    my (%with) = @_;

    return (<<"END", <<'END');
    upstream varnish {
        server 127.0.0.1:$with{varnish};
        keepalive 512;
        keepalive_requests 1000000000;
        keepalive_timeout 300s;
    }

    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host \$host;
END
        location / {
            proxy_buffer_size 16k;
            proxy_buffers 16 16k;
            proxy_pass http://varnish;
        }
END
}


1;
