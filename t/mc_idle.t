#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached closes connections that were idle for a second: requests that come
# now and then see nothing of it.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m', args => ['-o', 'idle_timeout=1']);
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => "page of %u, " x 4000 . "end of %u\n" });

# pools of the same server, each with connections of its own

my $pools = $t->size(4, 50);
my ($conf, $places) = ('', '');

for my $i (1 .. $pools) {
    $conf .= <<"EOT";
    mcds_pool pool$i {
        server    127.0.0.1:%%PORT_m%%;
        timeout   5s;
        max_fails 1;
    }
EOT
    $places .= <<"EOT";
        location /pool$i/ {
            mcds_use pool$i;
            mcds_counter \$n key=n$i;
            mcds_cache on;
            mcds_cache_key page:\$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
EOT
}

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
$conf
    add_header X-Cache \$mcds_cache_status;
    add_header X-Number \$n;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
$places
    }
}
EOT

my @n = (0) x ($pools + 1);
my ($asked, %wrong) = (0);

sub ask {
    my ($i) = @_;

    my $res = $h->get("/pool$i/page");

    $asked++;
    $wrong{status}++ if $res->status() != 200;
    $wrong{body}++ if $res->body() !~ m{\Apage of /pool$i/.*end of \S+\n\z};
    $wrong{number}++ if ($res->header('X-Number') // 'none') ne ++$n[$i];
    $wrong{miss}++ if $res->header('X-Cache') ne 'HIT';
    $wrong{slow}++ if $res->time() > 1;

    $n[$i] = $res->header('X-Number') // $m->get("n$i");
}

# both workers have all of them

for my $i (1 .. $pools) {
    $h->get("/pool$i/page") for 1 .. 6;
    ok(wait_for(sub { defined $m->get("<>page:/pool$i/page") }), 'stored');
    $h->get("/pool$i/page") for 1 .. 20;
    $n[$i] = $m->get("n$i");
}


# all of them were closed

for my $round (1 .. $t->size(1, 20)) {
    $m->hang_up();
    ok(wait_for(sub { idle() == 0 }, 20), "round $round: all were closed");

    for my $i (1 .. $pools) {
        ask($i) for 1 .. 6;
    }
}

is_deeply(\%wrong, {}, "$asked requests after a pause: none saw it");


# just when they are being closed: what had left is lost with its connection;
# what only reads is asked again, a count is not, since it may have been done

my $total = $asked + $t->size(8, 10_000);

while ($asked < $total) {
    sleep 0.9 + rand 0.25;
    ask($_) for 1 .. $pools;
}

my $lost = delete $wrong{number} // 0;

cmp_ok($lost, '<=', 1 + $asked / 1000,
    "$asked requests: $lost counts met the end");
is($h->log_count(qr/is down/), 0, 'what was idle is no failure');
is_deeply(\%wrong, {}, 'and all were answered at once');

$t->done();


# the connections of nginx that are there

sub idle {
    sleep 0.05;

    return scalar grep { $_->{remote} == $m->port() && $_->{open} }
        Test::Mcds::Sockets::tcp();
}
