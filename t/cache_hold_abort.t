#!/usr/bin/perl

# Copyright (C) mcds authors

# A response is held back for its store, and the client leaves unnoticed because
# of "proxy_ignore_client_abort": when the store is given up, the first write to
# the client fails and ends the request once.

use warnings;
use strict;

use IO::Select;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
$t->needs('mcds large');

my $size = 12 * 1024 * 1024;

my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return if $line !~ /^ms .*held\d(?!:lock)/;
    return $f->hold('store');
});
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => 'x' x $size });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 6s; }
    mcds_cache_key $uri;
    mcds_cache_max_size 64m;
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=16k;
        location / {
            mcds_cache main;
            mcds_cache_lock off;
            proxy_ignore_client_abort on;
            proxy_buffering off;
            proxy_buffer_size 64k;
            proxy_buffers 4 64k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /pid { mcds_return 200 $pid; }
    }
}
EOT

my $pid = $h->get('/pid')->body();
my $select = IO::Select->new();
my (%c, %got);

for my $uri (qw{ /held1 /held2 /held3 }) {
    $c{$uri} = $h->conn();
    $c{$uri}->request($uri);
    $select->add([$c{$uri}{sock}, $uri]);
}

# the clients get a part, and leave when no more comes

while (my @ready = $select->can_read(1)) {
    for (@ready) {
        my ($sock, $uri) = @$_;
        my $n = sysread($sock, my $buf, 1_000_000);
        $select->remove($_) if !$n;
        $got{$uri} += $n // 0;
    }
}

for my $uri (sort keys %c) {
    cmp_ok($got{$uri}, '<', $size, "$uri: a part is held back");
    $c{$uri}->reset();
}

for my $uri (sort keys %c) {
    ok(wait_for(sub { $h->access_log() =~ /GET \Q$uri / }, 20),
        "$uri: the request ends");
}

is($h->get('/pid')->body(), $pid, 'the worker lives');

$t->done();
