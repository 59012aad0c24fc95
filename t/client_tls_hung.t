#!/usr/bin/perl

# Copyright (C) mcds authors

# Servers with TLS that hang: in the handshake, also over a unix socket, which
# is connected at once; and while much is being sent, when the connection is
# given up at once, with all that OpenSSL has of it.

use warnings;
use strict;

use IO::Socket::UNIX;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');
my $slow = $t->slow();

$t->needs('http_ssl', 'openssl', 'debug');

my ($crt, $key) = $t->cert('mc.local');
my $sock = $t->dir() . '/hung.sock';

my $deaf = IO::Socket::UNIX->new(Local => $sock, Listen => 16)
    or die "$sock: $!\n";

my $m = $t->memcached('tls', mute => 1, args => ['-Z', '-o',
    "ssl_chain_cert=$crt,ssl_key=$key"]);

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'x' x 900_000 });

my $timeout = 200 * $slow . 'ms';

my $h = $t->nginx('h', <<"EOT", log => 'debug');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool tls  { server 127.0.0.1:%%PORT_tls%%; ssl on; timeout $timeout;
                     max_fails 0; }
    mcds_pool unix { server unix:$sock; ssl on; timeout $timeout;
                     connect_timeout $timeout; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /unix {
            mcds_use     unix;
            mcds_counter \$n key=n;
            mcds_return  "<\$n>";
        }
        location / {
            mcds_cache tls;
            add_header X-Cache \$mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $watch = $t->stopwatch();
is($h->get('/unix')->body(), '<>', 'a handshake that is not answered');
cmp_ok($watch->(), '<', 0.2 * 5 * $slow, 'ends with connect_timeout');

# a worker that hardly runs has written little when it gives up

my ($failed, $full) = (0, 0);

for my $round (1 .. 20) {
    ok(wait_for(sub { $h->get('/warm')->header('X-Cache') eq 'HIT' }),
        "round $round: connected");
    $m->freeze();

    for my $again (1 .. 3) {
        $failed += grep { $_->status() != 200 } many(8,
            sub { [$h->port(), "/$round/$again/$_[0]"] });
    }

    ok(wait_for(sub { $h->log_count(qr/mcds close fd:\d+: timed out/)
        >= $round }), "round $round: connections were given up");
    $m->cont();

    $full = $h->log_has(qr/SSL_write: -1/);
    last if $full;
}

is($failed, 0, 'all are answered');
ok($full, 'while something was to be written');
ok($h->log_lacks(qr/SSL_shutdown: -1/), 'none waits for OpenSSL');

$t->done(leaks => 0);
