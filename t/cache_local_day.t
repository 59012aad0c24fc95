#!/usr/bin/perl

# Copyright (C) mcds authors

# A copy of a page in the memory of a host, while memcached is away: a worker
# that takes it does not make it younger, memcached that confirms it does.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;

my $t = Test::Mcds->new()->not_in('single', 'nginx cannot reload then');
$t->needs('mcds local');

my $m = $t->memcached('m');
my $clock = Test::Mcds::Clock->new($t, 1_700_000_000);

my %built;
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=864000'],
        body => 'page ' . ++$built{$q->{uri}} };
});

my $h = $clock->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 2s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache       on;
            mcds_cache_key   $uri;
            mcds_cache_local validated;
            add_header       X-Cache $mcds_cache_status;
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $uri ('/asked', '/left') {
    is(ask($uri), 'MISS page 1', "$uri: built");
    ok(wait_for(sub { defined $m->get("<>$uri")
        && !defined $m->get("<>$uri:lock") }), "$uri: stored");
}

# a worker without copies of its own, each 20 hours

later();
is(ask('/asked'), 'HIT page 1', 'after 20 hours memcached confirms a copy');

$m->stop();
$t->allow(qr/mcds/);

later();
is(ask('/asked'), 'HIT page 1', 'after 20 more, and without memcached');
is(ask('/left'), 'MISS page 2', 'a copy of 40 hours is not used');

later();
is(ask('/asked'), 'MISS page 2', 'nor is one that only workers have taken');

$t->done();


sub later {
    $clock->pass(20 * 3600);
    $h->reload(wait_old => 1);
}


sub ask {
    my ($uri) = @_;
    my $r = $h->get($uri);
    return ($r->header('X-Cache') // 'none') . ' ' . $r->body();
}
