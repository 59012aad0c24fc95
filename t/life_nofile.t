#!/usr/bin/perl

# Copyright (C) mcds authors

# A worker that has no descriptors left answers without memcached, with what it
# has, and all works again as soon as it has some (L08).

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->allow(
    qr/(?:socket|accept4|accept|open)\(.*failed \(24: Too many open files\)/);

$t->leave('valgrind has a limit of its own') if $t->valgrind();

my $slow = $t->slow();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
worker_rlimit_nofile 64;
events { worker_connections 256; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s;
                     connect_timeout 5s; fail_timeout 1s; }
    mcds_cache_key $uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /count { mcds_counter $n key=$uri; mcds_return "<$n>"; }
        location /async { mcds_counter $n key=$uri async=1ms;
                          mcds_return "<$n>"; }
        location /lock  { mcds_lock $uri; mcds_return "locked"; }
        location /look  { mcds_table_lookup $v table $uri none;
                          mcds_return "<$v>"; }
        location /array { mcds_array_api array; }
        location / {
            mcds_cache on;
            mcds_cache_local timed=60s;
            add_header X-Cache $mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# the first connection to memcached is still to be made, or it is there

for my $when ('before', 'after') {
    my $h = $t->nginx($when, $conf, mode => 0);
    my ($worker) = $h->workers();

    if ($when eq 'after') {
        is($h->get('/page')->status(), 200, "$when: a page");
        is($h->get('/count')->body(), '<1>', "$when: a counter");
    }

    # each of these has a descriptor, the last ones none

    my @clients;

    while (!$h->log_has(qr/accept4?\(\) failed \(24/)) {
        push @clients, conn($h->port());
        last if @clients == 200;
        wait_for(sub { $h->fds($worker) >= 64 }, 0.05) if @clients > 40;
    }

    cmp_ok(scalar @clients, '<', 200, "$when: there are no descriptors left");

    my %answer = map { $_->[0] => $clients[$_->[1]]->get($_->[0]) }
        ['/count', 0], ['/async', 1], ['/lock', 2], ['/look', 3],
        ['/array', 4], ['/page', 5], ['/new', 6];
    my $there = $when eq 'after';

    is($answer{'/count'}->body(), $there ? '<2>' : '<>', "$when: a counter");
    is($answer{'/async'}->status(), 200, "$when: one that nobody waits for");
    is($answer{'/lock'}->status(), $there ? 200 : 503, "$when: a lock");
    is($answer{'/look'}->body(), '<none>', "$when: an element of a table");
    is($answer{'/array'}->status(), $there ? 200 : 503, "$when: an array");
    is($answer{'/page'}->header('X-Cache'), 'HIT', "$when: a page that it has")
        if $there;
    like($answer{'/new'}->status(), qr/^(?:200|500|502)$/,
        "$when: another one if there is a descriptor for the origin");

    $_->close() for @clients;

    ok(wait_for(sub { $h->get('/count')->body() =~ /<\d+>/ }, 10 * $slow),
        "$when: then it counts");
    is($h->get('/lock')->status(), 200, "$when: has locks");
    is($h->get('/array')->status(), 200, "$when: and arrays");
    ok(wait_for(sub { ($h->get('/new')->header('X-Cache') // '') eq 'HIT' },
        10 * $slow), "$when: and pages");
    is(($h->workers())[0], $worker, "$when: in the same worker");

    $h->quit();
    $m->delete($_) for qw{ /count <>/page <>/new };
}

$t->done();
