#!/usr/bin/perl

# Copyright (C) mcds authors

# eject on: a purge while the server of the page is down reaches the one that
# stands in for it, and says that this is not all: the page is there again when
# its server is.  Pages of the other servers are purged as ever, and so are
# those of a server that the configuration keeps down.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');
$t->needs('mcds vary');

my @m = map { $t->memcached("m$_") } 0, 1;
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=600',
        $q->{path} =~ /vary/ ? (Vary => 'X-A') : ()] };
});

$t->write_file('key', 'a secret of some length');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution ketama;
        eject        on;
        timeout      1s;
        fail_timeout 300ms;
    }
    mcds_pool kept {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%% down;
        distribution ketama;
        eject        on;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache           main;
        mcds_use             main;
        mcds_cache_key       $uri;
        add_header           X-Cache $mcds_cache_status;
        location / {
            mcds_purge_api method=PURGE;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location /delete/ {
            mcds_purge_api method=PURGE mode=delete;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location /refresh/ {
            mcds_purge_api method=PURGE mode=refresh;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location /signed/ {
            mcds_cache_hmac_key %%TMP%%/key;
            mcds_purge_api      method=PURGE;
            proxy_pass          http://127.0.0.1:%%PORT_o%%;
        }
        location /local/ {
            mcds_cache_local validated;
            mcds_purge_api   method=PURGE;
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
        }
        location /kept/ {
            mcds_cache     kept;
            mcds_purge_api method=PURGE;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge {
            mcds_purge_api on;
        }
    }
}
EOT

sub purge {
    my ($uri) = @_;

    return $uri =~ /key/ ? $h->get("/purge?key=$uri")->status()
        : $h->get($uri, method => 'PURGE')->status();
}

# one page of each kind on each of the servers

my %where;

for my $kind ('plain', 'delete', 'refresh', 'signed', 'local', 'vary', 'key') {
    for (my $n = 1; keys %{$where{$kind}} < 2; $n++) {
        my $uri = "/$kind/$n";

        my $i;
        wait_for(sub {
            $h->get($uri);
            ($i) = grep { $m[$_]->get("<>$uri") } 0, 1;
            return defined $i;
        }) or die "$uri is not stored\n";

        $where{$kind}{$i} = $uri;
    }
}

my @kept = map { "/kept/$_" } 1 .. 20;

for my $uri (@kept) {
    $h->get($uri);
    wait_for(sub { $m[0]->get("<>$uri") });
}

is(scalar(grep { purge($_) == 200 } @kept), 20, 'a server that is always down');

# a server that hangs

$m[1]->freeze();

ok(wait_for(sub {
    $h->get($where{plain}{1});
    $h->log_has(qr/:\d+" of pool "main" is down after/);
}), 'a server is down');

for my $kind (sort keys %where) {
    is(purge($where{$kind}{0}), 200, "$kind: on a server that is up");
    is(purge($where{$kind}{1}), 503, "$kind: on a server that is down");

    $h->get($where{$kind}{1});
    ok(wait_for(sub { $m[0]->get("<>$where{$kind}{1}") }), "$kind: elsewhere");
    is(purge($where{$kind}{1}), 503, "$kind: there is one elsewhere");
}

# and goes on

$m[1]->cont();

ok(wait_for(sub { $h->log_has(qr/is up again/) }), 'the server is back');

for my $kind (sort keys %where) {
    my $old = $h->get($where{$kind}{1});

    is($old->header('X-Cache'), 'HIT', "$kind: the page is back");
    is(purge($where{$kind}{1}), 200, "$kind: purged");

    # with mode=refresh it is built already

    my $r = $h->get($where{$kind}{1});

    ok($r->header('X-Cache') ne 'HIT'
        || $r->header('X-Answer') > $old->header('X-Answer'),
        "$kind: and not there any more");
}

$t->done();
