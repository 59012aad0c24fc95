#!/usr/bin/perl

# Copyright (C) mcds authors

# How often a server that is down is probed: each second while it refuses
# connections, so that one that is started again is used again at once; less
# and less often while it hangs.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use JSON::PP qw/ decode_json /;
use Test::Mcds;
use Time::HiRes qw/ sleep time /;

my $t = Test::Mcds->new();

my $gone = $t->memcached('m');
my $hung = $t->memcached('s');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool gone {
        server          127.0.0.1:%%PORT_m%%;
        timeout         2s;
        connect_timeout 2s;
        max_fails       1;
    }
    mcds_pool hung {
        server    127.0.0.1:%%PORT_s%%;
        timeout   100ms;
        max_fails 1;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /gone {
            mcds_use     gone;
            mcds_counter $n key=count;
            mcds_return  "<$n>\n";
        }
        location /hung {
            mcds_use     hung;
            mcds_counter $n key=count;
            mcds_return  "<$n>\n";
        }
        location /status {
            mcds_status;
        }
    }
}
EOT

ok(wait_for(sub { $h->get('/gone')->body =~ /^<\d+>$/ }), 'well');
ok(wait_for(sub { $h->get('/hung')->body =~ /^<\d+>$/ }), 'well, too');

$gone->kill9();
$hung->freeze();

ok(wait_for(sub { $h->get('/hung'); state('hung') eq 'open' }), 'one hangs');
ok(wait_for(sub { $h->get('/gone'); state('gone') eq 'open' }), 'one is gone');

# 1 s each, and 1 s, 2 s, 4 s: by far enough of a difference

ok(wait_for(sub { probes('gone') >= 5 }, 20), 'probes of who refuses');
cmp_ok(probes('hung'), '<=', 3, 'fewer of who is silent');

$gone->restart();

my $watch = $t->stopwatch();

ok(wait_for(sub { $h->get('/gone')->body =~ /^<\d+>$/ }), 'is used again');
cmp_ok($watch->(), '<', 2 * $t->slow(), 'soon');

$hung->cont();

$t->done();


sub breaker {
    my ($name) = @_;

    my $status = decode_json($h->get('/status')->body);
    my ($pool) = grep { $_->{name} eq $name } @{ $status->{pools} };

    return $pool->{servers}[0]{breaker};
}


sub state { return breaker(@_)->{state} }


sub probes { return breaker(@_)->{probes} }
