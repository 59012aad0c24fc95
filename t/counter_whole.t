#!/usr/bin/perl

# Copyright (C) mcds authors

# "Seen 306 times, 307 of them today": a total and the number of today are two
# counters, and memcached may lose one of them.  The host that makes a counter
# anew goes on from what it has seen of that one: the total may be smaller than
# today's number by what the other hosts have counted, and is never smaller than
# what this host has shown before, nor larger than what was counted.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my @m = map { $t->memcached("m$_") } 0, 1;

my ($a, $b) = map { $t->nginx($_, <<'EOT') } 'a', 'b';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server          127.0.0.1:%%PORT_m0%%;
        server          127.0.0.1:%%PORT_m1%%;
        distribution    ketama;
        timeout         5s;
        connect_timeout 5s;
        fail_timeout    100ms;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $views key=views:$uri;
            mcds_counter $today key=today:$uri period=20d;
            mcds_return "$views $today";
        }
    }
}
EOT

sub ask { return split / /, $_[0]->get($_[1])->body() }

# the server of a counter, by the item that is there

sub server {
    my ($re) = @_;
    my ($i) = grep { grep { /$re/ } $m[$_]->keys() } 0, 1;
    return $i;
}

# a page whose counters lie on one server, and one with two

my %page;

for (my $n = 1; keys %page < 2; $n++) {
    my $uri = "/p$n";

    $a->get($uri);

    my @at = (server(qr{^views:$uri$}), server(qr{^today:$uri:}));

    $page{$at[0] == $at[1] ? 'one' : 'two'} //= { uri => $uri, at => $at[0] };
}

for my $where (sort keys %page) {
    my ($uri, $m) = ($page{$where}{uri}, $m[$page{$where}{at}]);

    ask($a, $uri) for 1 .. 3;
    my ($seen) = ask($a, $uri);
    ask($b, $uri) for 1 .. 10;

    my ($views, $today) = ask($b, $uri);

    is($views, $seen + 11, "$where: counted");
    is($today, $views, "$where: all of them today");

    $m->kill9();
    $m->restart();

    # what was sent meanwhile is counted later

    my $sent = 0;

    ok(wait_for(sub {
        $sent++;
        ($views, $today) = ask($a, $uri);
        return length($views // '') && length($today // '');
    }), "$where: both are shown again");

    cmp_ok($views, '>', $seen, "$where: more than this host has shown");
    cmp_ok($views, '<=', $seen + 11 + $sent, "$where: not more than counted");
    cmp_ok($today, '<=', $seen + 11 + $sent, "$where: nor today");

    # on one server they were lost together, and made anew from one memory

    cmp_ok($views, '>=', $today, "$where: the whole is not smaller")
        if $where eq 'one';

    cmp_ok($today, '>', $seen + 11, "$where: that of today was not lost")
        if $where eq 'two';
}

$t->done();
