#!/usr/bin/perl

# Copyright (C) mcds authors

# replicas and clocks: what is on two servers is compared by times, of hosts
# whose clocks may differ by up to a second.  A purge is newer than the page
# that it purges, though that is of a host whose clock is ahead.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my @m = map { $t->memcached("m$_") } 0 .. 1;
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @headers = ('Cache-Control' => 'max-age=600');

    push @headers, Vary => 'X-Lang' if $q->{path} =~ /vary/;

    return { headers => \@headers, body => "version $q->{k}\n" };
});

my $clock = Test::Mcds::Clock->new($t, 1_700_000_000);

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool two {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution modula;
        replicas     2;
    }
    mcds_use       two;
    mcds_cache     on;
    mcds_cache_key page:$uri;
    add_header     X-Cache $mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_purge_api method=PURGE mode=delete;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location /old/ {
            mcds_purge_api method=PURGE mode=invalidate;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location /post/ {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOC

my $right = $clock->nginx('right', $conf);
my %ahead = map { $_ => $clock->nginx('ahead' . $_ * 1000, $conf,
    offset => $_) } 0.2, 0.9;

my $n = 0;

for my $offset (sort keys %ahead) {
    for my $away (0, 1) {
        purged($offset, $away, $_) for '/', '/vary/', '/old/', '/post/';
    }
}

$t->done();


sub purged {
    my ($offset, $away, $where) = @_;

    my $uri = $where . 'p' . $n++;
    my $key = "<>page:$uri";
    my $name = "$where, $offset s ahead, server $away";

    $ahead{$offset}->get($uri);
    ok(wait_for(sub { 2 == grep { item($_, $key) } @m }), "$name: is there");

    my $before = item($m[$away], $key);

    $clock->add(0.01);

    if ($where eq '/post/') {
        http_post($right->port(), $uri, 'x');

    } else {
        is(http_request($right->port(), $uri, method => 'PURGE')->status(),
            200, "$name: is purged");
    }

    ok(wait_for(sub {
        my @now = map { (item($_, $key) // {})->{value} // '' } @m;
        return $now[0] eq $now[1] && $now[0] ne $before->{value};
    }), "$name: both servers know it");

    my $len = length $before->{value};

    like($m[$away]->mc("ms $key $len F$before->{flags}", $before->{value}),
        qr/^HD/, "$name: one has it as it was");

    my $r = $right->get($uri);

    isnt($r->header('X-Cache'), 'HIT', "$name: is not used");
    ok(wait_for(sub {
        my $r = $right->get($uri);
        return $r->body() !~ /version 1$/ && $r->header('X-Cache') eq 'HIT';
    }), "$name: and built anew");
}


sub item {
    my ($m, $key) = @_;

    my ($len, $flags, $value) = $m->mc("mg $key v f")
        =~ /^VA (\d+) f(\d+)\r\n(.*)\r\n\z/s or return;

    return { flags => $flags, value => $value };
}
