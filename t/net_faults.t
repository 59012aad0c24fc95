#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached on another machine, and a network between that is down, silent,
# slow, or loses, doubles and mixes packets: nobody sees an error or a page of
# somebody else, nobody waits for longer than the deadlines, and when the
# network is well memcached is used again.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Wire;

my $why = Test::Mcds::Wire->enter();
plan(skip_all => $why) if $why;

my $t = Test::Mcds->new(calm => 1);
my $m = Test::Mcds::Wire->start($t, 'far');
my $far = $m->address();

my $timeout = 200 * $t->slow();

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => "page of %u, " x 1000 . "end of %u\n" });

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server          $far:%%PORT_far%%;
        timeout         ${timeout}ms;
        connect_timeout ${timeout}ms;
        fail_timeout    300ms;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter \$n key=n:\$uri;
            mcds_cache on;
            mcds_cache_key page:\$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache \$mcds_cache_status;
            add_header X-Number \$n;
        }
    }
}
EOT

my @uris = map { "/page$_" } 1 .. 6;
my %base = map { $uris[$_] => ($_ + 1) * 1000000 } 0 .. $#uris;
my $seconds = $t->size(0.6, 10);

$m->set("n:$_", $base{$_}) for @uris;

sub works {
    for my $uri (@uris) {
        my $res = $h->get($uri);
        return 0 if $res->header('X-Cache') ne 'HIT'
            || !defined $res->header('X-Number');
    }

    return 1;
}

ok(wait_for(sub { works() }), 'it works');

for my $fault ($m->faults()) {
    my ($name) = @$fault;

    my $load = $t->load(port => $h->port(), uris => \@uris, clients => 20,
        rate => 10, seconds => $seconds + 0.4, expect => 'end of /',
        background => 1);

    sleep 0.2;
    $m->break($fault);

    my $end = time() + $seconds;
    my (%wrong, $numbers, $asked);

    while (time() < $end) {
        my $uri = $uris[rand @uris];
        my $res = $h->get($uri);
        my $n = $res->header('X-Number');

        $asked++;
        $wrong{status}++ if $res->status() != 200;
        $wrong{body}++ if $res->body() !~ /\Apage of $uri, .*of $uri\n\z/s;
        $wrong{number}++ if defined $n
            && ($n <= $base{$uri} || $n >= $base{$uri} + 1000000);

        # V6: two steps, each of which may wait for one deadline

        $wrong{slow}++ if $res->calm() * 1000 > $timeout * 2.8;
        $numbers++ if defined $n;
        sleep 0.005;
    }

    is_deeply(\%wrong, {}, "$name: $asked requests, "
        . ($numbers // 0) . ' with a number');

    my $r = $load->wait();

    is($r->{ok}, $r->{requests}, "$name: load: all answered");
    is($r->{wrong} + $r->{errors}, 0, "$name: load: with their page");

    $m->mend($fault);

    ok(wait_for(sub { works() }, 5 * $t->slow()), "$name: works again");
}

$t->done();
