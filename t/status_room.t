#!/usr/bin/perl

# Copyright (C) mcds authors

# Statistics and local copies share mcds_zone.  Copies take all that is left
# over, and make room when a reload brings more locations and workers.
# Statistics of locations take no more than a quarter, then those of names that
# are gone make room; hot keys are counted even then, and copies kept.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker')
    ->allow(qr/"mcds_zone" is too small for statistics/);

my $m = $t->memcached('m');
my $o = $t->origin('o', { body => 'p' x 3000,
    headers => ['Cache-Control' => 'max-age=600'] });

my $warning = qr/too small for statistics of all caches: (\d+) of (\d+) are/;

sub conf {
    my ($workers, @locations) = @_;

    my $text = join '', map { "location $_ { mcds_cache on; mcds_cache_key"
        . " \$uri; mcds_cache_local timed=60s;"
        . " proxy_pass http://127.0.0.1:%%PORT_o%%; }\n" } @locations;

    return <<"EOT";
%%GLOBALS%%
worker_processes $workers;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_zone 1m;
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name a;
        $text
        location = /status { mcds_status; }
    }
}
EOT
}

my $h = $t->nginx('h', conf(1, '/p'));

# what a zone has counted

sub hits {
    my ($name, $n) = @_;

    return entry_of($h, 'caches', $name,
        sub { $_[0]{requests}{hit} == $n })->{requests}{hit};
}

sub hot { map { $_->{key} } @{status($h)->{hot}{pages}} }


# more copies than there is room for

$h->get("/p/$_") for 1 .. 400;
$h->get('/p/400');

is(hits('a /p', 1), 1, 'copies are there');

my $asked = $m->stats()->{cmd_get};

$h->get('/p/400') for 1 .. 10;
is($m->stats()->{cmd_get}, $asked, 'and memcached is not asked');

# names and workers are added

$t->not_in('single', 'nginx cannot reload then');

my @more = map { "/$_" } qw/ p q r s t u v w /;

$h->conf(conf(3, @more))->reload(wait_old => 1);

for my $location (@more) {
    $h->get($location) for 1 .. 3;

    my $n = $location eq '/p' ? 13 : 2;
    is(hits("a $location", $n), $n, "$location has statistics");
}

is($h->log_count($warning), 0, 'nothing goes without');
is(scalar(grep { !$_->{statistics} } map { @{$_->{servers}} }
    @{status($h)->{pools}}), 0, 'servers neither');

# new names with each reload: those of before make room

for my $n (1 .. 5) {
    $h->conf(conf(1, map { "/$n/$_" } 1 .. 60))->reload(wait_old => 1);
    $h->get("/$n/60") for 1 .. 3;
    is(hits("a /$n/60", 2), 2, "new names, $n times");
}

is($h->log_count($warning), 0, 'with statistics, all of them');

# more names than a quarter has room for

$h->conf(conf(1, map { "/many/$_" } 1 .. 400))->reload(wait_old => 1);

my ($missing, $all) = $h->log() =~ $warning;

is($all, 400, 'too many names');
cmp_ok($missing, '>', 400 - 1024 * 1024 / 4 / 1024, "$missing without");
cmp_ok($missing, '<', 390, 'not all of them');

$h->get("/many/400/$_") for 1 .. 50;

# the last page is answered before memcached has it, and so before its copy

wait_for(sub {
    $asked = $m->stats()->{cmd_get};
    $h->get('/many/400/50');
    return $m->stats()->{cmd_get} == $asked;
});

$h->get('/many/400/50') for 1 .. 10;
is($m->stats()->{cmd_get}, $asked, 'there are copies');

ok(wait_for(sub { grep { $_ eq '<a>/many/400/50' } hot() }), 'and hot keys');

# new names that nginx refuses after it has read them: those that run stay

$t->allow(qr/no\/such\/socket/);
$h->get('/many/1') for 1 .. 3;
is(hits('a /many/1', 2), 2, 'a name that has statistics');

my $generation = status($h)->{generation};
my $other = conf(1, map { "/other/$_" } 1 .. 400)
    =~ s/listen/listen unix:%%DIR%%\/no\/such\/socket; listen/r;

ok(!$h->conf($other)->reload(), "refused, $_") for 1 .. 3;
$h->get('/many/1');
is(hits('a /many/1', 3), 3, 'it keeps them');

ok($h->conf(conf(1, map { "/many/$_" } 1 .. 400))->reload(wait_old => 1),
    'and over the next reload');
$h->get('/many/1');
is(hits('a /many/1', 4), 4, 'as well');
is(status($h)->{generation}, $generation + 1, 'which is the next one');

# what a worker needs for that

for (['128k', 1], ['148k', 0]) {
    my ($size, $small) = @$_;
    my ($code, $output) = $t->conf_test(main => 'error_log stderr warn;',
        http => "mcds_zone $size; mcds_pool main { server 127.0.0.1:1; }",
        location => 'mcds_counter $n; mcds_status;');

    is(scalar(() = $output =~ /for the hottest keys of all workers: 1 of 1 /g),
        $small, "mcds_zone $size") or diag($output);
}

$t->done();
