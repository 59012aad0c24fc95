#!/usr/bin/perl

# Copyright (C) mcds authors

# A clock that is set back: mcds_counter_top shows what is counted in slots that
# were over by the old clock.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

# in the middle of an hour, two hours ahead

my $now = int(time() / 3600) * 3600 + 1800;
my $clock = Test::Mcds::Clock->new($t, $now + 2 * 3600);

my $h = $clock->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_counter_top pages flush=100ms;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=$uri top=pages;
            mcds_return "$n";
        }
        location = /top.json { mcds_counter_api top=pages; }
    }
}
EOC

$h->get('/ahead');
ok(shows('/ahead'), 'two hours ahead: shown');

$clock->add(-2 * 3600);
$h->get('/back');
ok(shows('/back'), 'set back: shown')
    or diag($h->get('/top.json')->body());
unlike($h->get('/top.json')->body(), qr{"/ahead"},
    'set back: nothing of later hours');

# and ahead again, so that the hour is over a second time

$clock->add(3600);
$h->get('/on');
ok(shows('/on', '/back'), 'an hour later: both hours are shown');

$t->done();


sub shows {
    my @keys = @_;

    return wait_for(sub {
        my $body = $h->get('/top.json')->body();
        @keys == grep { $body =~ /"\Q$_\E"/ } @keys;
    }, 10);
}
