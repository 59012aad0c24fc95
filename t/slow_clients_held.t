#!/usr/bin/perl

# Copyright (C) mcds authors

# Slow clients hold as much as a worker keeps for them, and memcached does not
# answer: a response that is held back for its store goes on when the store is
# given up.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Slow;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');
$t->needs('mcds large');

my $mb = 1024 * 1024;
my $body = 'x' x (7 * $mb);

my $m = $t->memcached('m', memory => 256);
my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return if ($f->mode() // '') eq 'answer' || $line !~ /^ms .*held(?!:lock)/;
    return $f->hold('store');
});
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => $body });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 10s; }
    mcds_pool other { server 127.0.0.1:%%PORT_f%%; timeout 60s; }
    mcds_cache_key $uri;
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=16k;
        send_timeout 1h;
        location / {
            mcds_cache main;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /status { mcds_status; }
    }
    server {
        listen 127.0.0.1:%%PORT_fast%%;
        location / {
            mcds_cache other;
            proxy_buffering off;
            proxy_buffer_size 64k;
            proxy_buffers 4 64k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# each of them holds memory for a second at most

my @slow;

ok(wait_for(sub {
    push @slow, slow($h->port(), '/large/' . @slow) for 1 .. 10;
    return wait_for(sub { status($h)->{memory}{unsent} > 64 * $mb - 32768 },
        0.5);
}, 20 * $t->slow()), 'slow clients hold the memory');

my $r = http_get($t->port('fast'), '/held', timeout => 30);

cmp_ok($f->held('store'), '>', 0, 'memcached does not answer');
ok($r->complete() && $r->body() eq $body, 'another client gets its response');

close $_->[0] for @slow;
$f->tell('answer');
$f->close_all();

$t->done();
