#!/usr/bin/perl

# Copyright (C) mcds authors

# What was idle for a while is no other connection than one that was not: an
# operation on it has its own deadline, not that of "keepalive", and what comes
# after it opens the breaker.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1);

$t->not_in('two many', 'it looks at one worker');
my $slow = $t->slow();

# hung: says nothing; away: a proxy that takes connections and hangs up

my %fakes = map { $_ => $t->fake($_, sub {
    my ($f, $c, $line, $value) = @_;
    my $mode = $f->mode() // '';

    return $f->stall() if $mode eq 'hung';
    return $f->fin() if $mode eq 'away';
    return;
}) } qw/ hung away /;

my $timeout = 200 * $slow . 'ms';

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool hung { server 127.0.0.1:%%PORT_hung%%; timeout $timeout;
                     keepalive 60s; max_fails 0; }
    mcds_pool away { server 127.0.0.1:%%PORT_away%%; timeout $timeout;
                     max_fails 3; fail_timeout 60s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /hung {
            mcds_use     hung;
            mcds_counter \$n key=count;
            mcds_return  "<\$n>";
        }
        location /away {
            mcds_use     away;
            mcds_counter \$n key=count;
            mcds_return  "<\$n>";
        }
    }
}
EOT

for my $name (sort keys %fakes) {
    ok(wait_for(sub { $h->get("/$name")->body() =~ /^<\d+>$/ }),
        "$name: is there");
}

# the timer of that operation has come when there was none any more

sleep 0.5 * $slow;

$fakes{hung}->tell('hung');

my $r = $h->get('/hung');
is($r->body(), '<>', 'hung: does not answer');
cmp_ok($r->calm(), '<', 0.2 * 5 * $slow, 'hung: its deadline, not keepalive');

$fakes{away}->tell('away');
$fakes{away}->close_all();
ok(wait_for(sub { $fakes{away}->connections() == 0 }), 'away: closed');

my $before = $fakes{away}->opened_count();

is(scalar(grep { $h->get('/away')->body() ne '<>' } 1 .. 30), 0,
    'away: does not answer');
is($h->log_count(qr/pool "away" is down after 3 failures/), 1,
    'away: the breaker is open');
cmp_ok($fakes{away}->opened_count() - $before, '<=', 3 + 3,
    'away: connections until then, and probes');

$t->done();
