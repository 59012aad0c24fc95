#!/usr/bin/perl

# Copyright (C) mcds authors

# An entry in nginx's table of request headers that has no field, as
# "Proxy-Connection" has in nginx 1.31, is no field for mcds either: neither a
# request that builds a page nor a refresh follows it, and all the fields that
# nginx does have are right in both.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        body    => "answer $req->{n}\n$req->{head}\n",
    };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache         on;
        mcds_cache_key     $request_uri;
        add_header         X-Cache $mcds_cache_status always;
        proxy_http_version 1.1;
        proxy_set_header   Connection "";

        # nginx has parsed these: host, agent, referer and two lists
        proxy_set_header   X-Vars "$host|$http_user_agent|$http_referer";
        proxy_set_header   X-Lists "$http_cookie|$proxy_add_x_forwarded_for";

        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

my $h = $t->nginx('h', $conf, table => 1);
my ($worker) = $h->workers();
my @headers = ('User-Agent' => 'agent', 'Cookie' => 'a=1', 'Referer' => '/r',
    'TE' => 'trailers', 'Keep-Alive' => 'one', 'X-Forwarded-For' => '9.9.9.9',
    'Cookie' => 'b=2', 'TE' => 'x', 'X-Forwarded-For' => '8.8.8.8',
    'Keep-Alive' => 'two', 'Proxy-Connection' => 'keep-alive');

my $body = refresh_same($t, $m, '/all', 'all headers', sub {
    $h->get('/all', headers => [@headers]);
});

like($body, qr/^X-Vars: localhost\|agent\|\/r\r$/mi, 'fields');
like($body, qr/^X-Lists: a=1; b=2\|9\.9\.9\.9, 8\.8\.8\.8, 127\.0\.0\.1\r$/mi,
    'lists');
unlike($body, qr/^(?:TE|Keep-Alive|Proxy-Connection):/mi, 'left out');

refresh_same($t, $m, '/none', 'no header', sub { $h->get('/none') });

is_deeply([$h->workers()], [$worker], 'the worker that was there');

# a field that mcds does not know

{
    local %ENV = (%ENV, MCDS_TABLE_ODD => 8,
        LD_PRELOAD => join ' ', $t->preload('table'), $ENV{LD_PRELOAD} // ());

    my ($code, $output) = $t->conf_test($conf);

    is($code, 0, 'nginx -t with a field that mcds does not know');
    like($output, qr/\[warn\] .*mcds does not know .* "Expect"/,
        'a warning names it');
    unlike($output, qr/\[warn\] .*\[warn\] /s, 'and no other one');
}

$t->done();
