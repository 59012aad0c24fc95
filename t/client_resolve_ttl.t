#!/usr/bin/perl

# Copyright (C) mcds authors

# How long an address is believed: as the name server says, or as the resolver
# directive does.  A question without an answer holds up neither a reload nor
# the end.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Dns;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $m = $t->fake('m');
my ($hour, $valid, $none) = map {
    $t->forked('Test::Mcds::Dns', $_->[0], ttl => $_->[1])
} ['hour', 3600], ['valid', 3600], ['none', 0];

$_->names('localhost', '127.0.0.1') for $hour, $valid, $none;

host('hour');
host('valid', 'valid=1s');
my $h = host('none', 'ipv6=off');

ok(wait_for(sub { $valid->count('localhost') >= 2 }), 'valid=1s, asked again');
ok(wait_for(sub { $none->count('localhost') >= 2 }), 'no life, asked again');
is($hour->count('localhost'), 1, 'an hour of life, asked once');
is($hour->count('localhost', 28), 1, 'and for IPv6');
is($none->count('localhost', 28), 0, 'not with ipv6=off');

# questions under way, for 30 seconds

$none->tell('silent');
$none->mark();
ok(wait_for(sub { $none->count('localhost') }, 20 * $t->slow()),
    'asked, no answer');

my $watch = $t->stopwatch();
ok($h->reload(wait_old => 1), 'reload');
ok(wait_for(sub { $none->count('localhost') >= 2 }), 'the new worker asks');
is($h->get('/')->body, "1\n", 'and works');
ok($h->quit(), 'the end');
ok($watch->() < 10 * $t->slow(), 'nobody waits for the resolver');

# no resolver of http itself

my $own = $t->nginx('own', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server localhost:%%PORT_m%%;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        resolver 127.0.0.1:%%PORT_none%%;
        location / {
            mcds_counter $n;
            mcds_return "$n\n";
        }
    }
}
EOT

$none->mark();
is($own->get('/')->body, "1\n", 'with a resolver of the server only');
is($none->count('localhost'), 0, 'it is not asked');

# a name has to be known when nginx starts

like($t->conf_error(http => <<'EOT'), qr/host not found .*"nowhere\.invalid"/,
    resolver 127.0.0.1:%%PORT_none%%;
    mcds_pool main { server nowhere.invalid; }
EOT
    'a name that is not known at start is an error');

$t->done();


sub host {
    my ($name, @args) = @_;

    return $t->nginx("h_$name", <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    resolver 127.0.0.1:%%PORT_$name%% @args;
    mcds_pool main { server localhost:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter \$n key=$name;
            mcds_return "\$n\\n";
        }
    }
}
EOT
}
