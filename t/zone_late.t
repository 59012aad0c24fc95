#!/usr/bin/perl

# Copyright (C) mcds authors

# Counters that a reload adds to a host whose mcds_zone is in use: copies of
# pages make room, and statistics that lie among them may leave no quarter in
# one piece.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many single', 'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', { body => 'p' x 3000,
    headers => ['Cache-Control' => 'max-age=600'] });

sub conf {
    my ($labels, $counter) = @_;

    my $text = join '', map { "location /label$_ { mcds_cache on;"
        . " mcds_cache_label label$_; return 200; }\n" } 1 .. $labels;

    return <<"EOT";
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; fail_timeout 100ms; }
    mcds_zone 1m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            mcds_cache_key \$uri;
            mcds_cache_local timed=60s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        $text
        $counter
    }
}
EOT
}

my $h = $t->nginx('h', conf(0, ''));

$h->get("/$_") for 1 .. 300;

# each reload puts statistics where the least recently used copy was

my $page = 0;

for my $n (1 .. 5) {
    $h->get('/' . (1 + $page++ % 300)) for 1 .. 45;
    $h->conf(conf(2 * $n, ''));
    ok($h->reload(wait_old => 1), "reload $n");
}

$h->conf(conf(10, 'location = /count { mcds_counter $n key=n;'
    . ' mcds_return 200 "$n"; }'));
ok($h->reload(wait_old => 1), 'a reload brings the first counter');
is($h->log_count(qr/too small to remember counters/), 0, 'there is room');

is($h->get('/count')->body(), 1, 'it counts');
$m->stop();
$h->get('/count') for 1 .. 3;
$m->restart();
ok(wait_for(sub { ($h->get('/count')->body() || 0) > 4 }),
    'what was counted without memcached is added');

$t->done();
