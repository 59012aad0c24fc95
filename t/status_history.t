#!/usr/bin/perl

# Copyright (C) mcds authors

# The last hour of mcds_status: the sums of all workers at the beginning of each
# minute in which something was counted, from one configuration to the next.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=10000'] });
my $start = 1_700_000_040;           # a whole minute
my $clock = Test::Mcds::Clock->new($t, $start);

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_zone ZONE;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            mcds_cache_key $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /a/ {
            mcds_cache on;
            mcds_cache_label a;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /z/ {
            mcds_cache on;
            mcds_cache_label z;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /status { mcds_status; }
    }
}
EOC

my $h = $clock->nginx('h', $conf =~ s/ZONE/8m/r);

ok(!exists status()->{history}, 'not unless it is asked for');

# one page more each minute

for my $minute (0 .. 3) {
    $clock->put($start + 60 * $minute + 5);
    is($h->get("/$_")->status(), 200, "minute $minute, page $_")
        for 1 .. 1 + $minute;
    counted((1 + $minute) * (2 + $minute) / 2);
}

my @past = past();

is(join(' ', map { $_->{time} - $start } @past), '0 65 125 185',
    'a sample each minute');
is(join(' ', map { sum($_->{requests}) } @past), '0 1 3 6',
    'with the sums of before');
is(join(' ', map { $_->{origin} } @past), '0 1 2 3', 'requests of the origin');
is(join(' ', map { sum($_->{built}) } @past), '0 1 2 3', 'builds');
cmp_ok($past[3]{latency}{count}, '>', $past[2]{latency}{count}, 'latency');
is_deeply([sort keys %{$past[0]}],
    [qw/ built latency origin requests set time /], 'no more');

my $now = status();
is_deeply([sort keys %{$past[0]{requests}}],
    [sort keys %{$now->{caches}[0]{requests}}], 'the same members as now');

# a pause leaves no samples, and the sums as they were

$clock->put($start + 600);
$h->get('/1');
counted(11);
@past = past();
is(scalar @past, 5, 'ten minutes later');
is(sum($past[4]{requests}), 10, 'the sums of before the pause');

# one hour, and no more

for my $minute (11 .. 90) {
    $clock->put($start + 60 * $minute);
    $h->get('/1');
    counted($minute + 1);
}

@past = past();
is(scalar @past, 61, 'an hour');
is($past[0]{time} - $start, 30 * 60, 'its begin');
is($past[60]{time} - $start, 90 * 60, 'and end');

my $wrong = grep { $past[$_]{time} != $past[$_ - 1]{time} + 60
    || sum($past[$_]{requests}) != sum($past[$_ - 1]{requests}) + 1 } 1 .. 60;
is($wrong, 0, 'without a gap');

# a clock that goes back, and on

$clock->put($start + 60 * 89);
$h->get('/1');
counted(92);
@past = past();
cmp_ok(scalar @past, '<=', 61, 'back: no more');
is($past[-1]{time} - $start, 89 * 60, 'back: the last one');

# where there is no room

my $small = $clock->nginx('small', $conf =~ s/ZONE/64k/r);
$t->allow(qr/"mcds_zone" is too small/);
$small->get('/1');
is_deeply(decode_json($small->get('/status?history=1')->body())->{history},
    [], 'no room');

# the next configuration

$t->not_in('single', 'nginx cannot reload then');

@past = past();
$h->reload(wait_old => 1);
is_deeply([past()], \@past, 'a reload keeps them');

# sums without the cache /, and with it again: they cannot be compared

my $minute = 91;
my %set;

for my $without (1, 0, 0) {
    $h->conf(($without ? $conf =~ s/mcds_cache on;//r : $conf)
        =~ s/ZONE/8m/r)->reload(wait_old => 1);
    $clock->put($start + 60 * $minute++);
    $h->get('/a/1');
    ok(wait_for(sub { (past())[-1]{time} == $clock->time_now() }),
        'a sample after a reload');
    push @{$set{$without}}, (past())[-1];
}

is(scalar(grep { $_->{set} == $past[-1]{set} } @{$set{0}}), 2,
    'the same caches make the same set');
isnt($set{1}[0]{set}, $past[-1]{set}, 'others another one');
cmp_ok(sum($set{1}[0]{requests}), '<', sum($past[-1]{requests}),
    'whose sums are others');

$t->done();


sub status { return decode_json($h->get('/status' . ($_[0] // ''))->body()) }

sub past { return @{status('?history=1')->{history}} }

sub sum { my $n = 0; $n += $_ for values %{$_[0]}; return $n }


# workers have told what they know

sub counted {
    my ($n) = @_;

    wait_for(sub { sum(status()->{caches}[0]{requests}) == $n })
        or fail("$n requests");
}
