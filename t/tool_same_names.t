#!/usr/bin/perl

# Copyright (C) mcds authors

# A log, an array, and a key of visitors that two pools have by the same name:
# mcds takes the parameters of the pool that it uses, whichever directive comes
# first.  A list of "top" has one pool: another one has the defaults.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my %m = map { $_ => $t->memcached($_) } qw/ one two /;

my $conf = <<'EOC';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool one { server 127.0.0.1:%%PORT_one%%; }
    mcds_pool two { server 127.0.0.1:%%PORT_two%%; }
    mcds_use one;
    mcds_counter_top viewed window=1h pool=one;
    log_format f '$uri';
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_log live f chunk=5s;
        location /one {
            mcds_array_api list max=2;
            mcds_visitor_counter $online key=people window=60s slots=1;
        }
        location /two {
            mcds_use two;
            mcds_log live f chunk=7s;
            mcds_array_api list max=3;
            mcds_visitor_counter $online key=people window=90s slots=3;
        }
    }
}
EOC

my ($code, $output) = $t->conf_test($conf);
is($code, 0, 'nginx accepts them') or diag($output);

my $file = $t->dir() . '/conf_test/nginx.conf';
my $time = time();

for (['one', 5, 2, 60, 1], ['two', 7, 3, 90, 3]) {
    my ($pool, $chunk, $max, $window, $slots) = @$_;

    my $mcds = Test::Mcds::Tool->new($t, '-c', $file, '-p', $pool);

    is($mcds->run('log', 'write', 'live', 'a line', "--time=$time")->{code}, 0,
        "$pool: a line");
    is(join(' ', grep { /^live:\d+$/ } $m{$pool}->keys()),
        'live:' . int($time / $chunk), 'in its chunk');

    $mcds->run('array', 'push', 'list', 1 .. 5);
    is(scalar(@{$mcds->json('array', 'list', 'list')}), $max, 'an array');

    my $r = $mcds->json('visitors', 'people')->[0];
    is_deeply([@$r{qw/ window slots /}], [$window, $slots], 'visitors');
}

is(Test::Mcds::Tool->new($t, '-c', $file, '-p', $_->[0])
    ->json('top', 'viewed')->{window}, $_->[1], "top: $_->[0]")
    for ['one', 3600], ['two', 86400];

$t->done();
