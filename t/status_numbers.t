#!/usr/bin/perl

# Copyright (C) mcds authors

# Numbers of mcds_status that depend on each other: the buckets of a histogram
# for Prometheus have the numbers of the JSON, and the last one has all; a
# server that is down is tried again later than it went down.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/is down after|timed out/);

my $m = $t->memcached('m');
my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return $f->mode() eq 'hung' ? $f->stall() : ();
});

# builds that take times of several buckets

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=600'],
        delay => $q->{path} =~ /slow/ ? 0.3 : 0 };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_zone 8m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool hung { server 127.0.0.1:%%PORT_f%%; timeout 2s;
                     max_fails 1; fail_timeout 60s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_use main;
            mcds_cache on;
            mcds_cache_label pages;
            mcds_cache_key $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /n {
            mcds_use hung;
            mcds_counter $n key=n;
            mcds_return "<$n>";
        }
        location = /status { mcds_status; }
    }
}
EOT

my $builds = 6;

$h->get($_) for map { ("/fast$_", "/slow$_") } 1 .. $builds / 2;

my $e = entry_of($h, 'caches', 'pages',
    sub { $_[0]{build_time}{count} == $builds });

is($e->{build_time}{count}, $builds, 'all builds are there');

my $text = $h->get('/status?format=prometheus')->body();
my $of = 'cache="pages".*?';
my %buckets = $text
    =~ /^mcds_cache_build_seconds_bucket\{${of}le="(.*?)"\} (\d+)$/mg;
my ($count) = $text =~ /^mcds_cache_build_seconds_count\{$of\} (\d+)$/m;
my @bounds = sort { ($a eq '+Inf') <=> ($b eq '+Inf')
    || ($a eq '+Inf' ? 0 : $a <=> $b) } keys %buckets;
my $falls = grep { $buckets{$bounds[$_]} < $buckets{$bounds[$_ - 1]} }
    1 .. $#bounds;
my $sum = 0;

cmp_ok(scalar(@bounds), '>', 5, 'some buckets');
is($falls, 0, 'each has those of the ones before it');
is($buckets{'+Inf'}, $builds, 'the last one has all');
is($count, $builds, 'and so has the count');

for my $le (sort { $a <=> $b } grep { /^[\d.]+$/ }
    keys %{$e->{build_time}{le_ms}})
{
    my ($bound) = grep { $_ ne '+Inf' && abs($_ * 1000 - $le) < 1e-6 } @bounds;

    $sum = $e->{build_time}{le_ms}{$le};
    is($buckets{$bound // ''} // 'none', $sum, "up to $le ms, as the JSON")
        if defined $bound;
}


# a server that hangs

is($h->get('/n')->body(), '<1>', 'a server');
$f->tell('hung');
is($h->get('/n')->body(), '<>', 'hangs');
ok($h->wait_log(qr/is down after/), 'and is down');

my $b;

ok(wait_for(sub {
    $b = server($h, 'hung')->{breaker};
    return $b->{open_since} && $b->{next_probe};
}), 'which the status tells') or diag(explain($b));
cmp_ok($b->{next_probe}, '>', $b->{open_since}, 'it is tried again later');

$t->done();
