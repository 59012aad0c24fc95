#!/usr/bin/perl

# Copyright (C) mcds authors

# Zones of mcds_status over the life of nginx: L04, generations of workers
# share the memory while it is reloaded under load, nothing is lost or counted
# twice, and no address of a process is in there; a worker is killed; locations
# are renamed; there are more caches than memory.

use warnings;
use strict;

use Config;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('many',
    'workers need room in mcds_zone')
    ->allow(qr/"mcds_zone" is too small for statistics/)
    ->not_in('single', 'nginx cannot reload then');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

sub conf {
    my ($size, @locations) = @_;

    my $text = join '', map { "location $_ { mcds_cache on; mcds_cache_key"
        . " \$uri; mcds_counter \$n key=n;"
        . " proxy_pass http://127.0.0.1:%%PORT_o%%; }\n" } @locations;

    return <<"EOT";
%%GLOBALS%%
worker_processes 2;
events { }
http {
    log_format way '\$uri \$mcds_cache_status';
    %%HTTP%%
    access_log %%DIR%%/way.log way;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_zone $size;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        server_name a;
        $text
        location = /status { mcds_status; access_log off; }
    }
}
EOT
}

my $h = $t->nginx('h', conf('1m', '/p', '/q'));

# by status, as in the log, which is written when requests end

sub logged {
    my ($uri) = @_;

    my %n;
    my $text = $t->read_file('h/way.log');

    $n{lc $1 || 'none'}++ while $text =~ /^$uri (\w*)$/mg;

    return \%n;
}

sub same {
    my ($name) = @_;

    my ($log, $z, $n);

    wait_for(sub {
        $log = logged('/p');
        $z = { map { $_->{name} => $_ } @{status($h)->{caches}} }->{'a /p'};
        $n = (grep { $_->{name} eq '$n' } @{status($h)->{counters}})[0];
        return sum_of($z->{requests}) == sum_of($log);
    });

    my %got = map { $z->{requests}{$_} ? ($_ => $z->{requests}{$_}) : () }
        keys %{$z->{requests}};

    is_deeply(\%got, $log, "$name: requests");
    is($z->{origin}, $o->count('/p'), "$name: of the origin");
    is(sum_of($z->{requests}), sum_of($z->{reasons}), "$name: reasons");

    return $n->{operations}{count};
}

# ten reloads under load; one request lasts for all of them

$o->hold_path('/q');
my $slow = start_get($h->port(), '/q');
$o->wait_requests(1, '/q');

my $load = $t->load(port => $h, uri => '/p', clients => 8, rate => 100,
    seconds => $t->size(3, 20), background => 1);

my ($generations, $n) = (0, 0);

for (1 .. 10) {
    $h->reload();
    $generations = keys %{{ map { $_ => 1 } $h->workers(), $h->leaving() }};
}

cmp_ok($generations, '>', $t->workers(2),
    "$generations workers have one memory");
cmp_ok($load->wait()->{requests}, '>', 100, 'under load');

$o->release('/q');
is(finish($slow)->status(), 200, 'the oldest finishes');
ok(wait_for(sub { !$h->leaving() }), 'and leaves');

$n = same('ten reloads');
is($n, sum_of(logged('/p')) + 1, 'of the counter');
is(entry($h, 'caches', 'a /q')->{requests}{miss}, 1, 'of the oldest one');
is(status($h)->{generation}, 11, 'generations');

# addresses: there are such of the memory itself, and none of a heap

my (@zone, @heaps);

for my $pid ($h->pid(), $h->workers()) {
    open my $fh, '<', "/proc/$pid/maps" or die "maps: $!\n";

    while (<$fh>) {
        no warnings qw/ portable /;
        my ($from, $to) = map { hex } /^(\w+)-(\w+) / or next;
        @zone = ($from, $to) if /rw-s/ && $to - $from == 1 << 20;
        push @heaps, [$from, $to] if /\[heap\]/;
    }
}

# that of the address sanitizer

push @heaps, map { [6 * $_, 6.25 * $_] } 1 << 44 if !@heaps;

my ($worker) = $h->workers();

open my $mem, '<:raw', "/proc/$worker/mem" or die "mem: $!\n";
seek $mem, $zone[0], 0;
read $mem, my $bytes, $zone[1] - $zone[0];
close $mem;

my @words = unpack $Config{ptrsize} == 8 ? 'Q*' : 'L*', $bytes;
my $own = grep { $_ >= $zone[0] && $_ < $zone[1] } @words;
my @strange;

for my $heap (@heaps) {
    push @strange, grep { $_ >= $heap->[0] && $_ < $heap->[1] } @words;
}

cmp_ok($own, '>', 20, "$own addresses of its own");
cmp_ok(scalar @heaps, '>', 0, 'heaps');
is(scalar @strange, 0, 'no address of a heap');

# a worker is killed, with and without something to tell

$h->kill_worker(0);
same('killed');

my $before = sum_of(entry($h, 'caches', 'a /p')->{requests});
my @c = map { $h->conn() } 1 .. 8;
$_->get('/p') for @c;
$h->kill_worker(1);
$_->close() for @c;

# who answers adds what it has before

status($h) for 1 .. 16;

my $after = sum_of(entry($h, 'caches', 'a /p')->{requests});
cmp_ok($after, '<=', $before + 8, "killed at once: $before, then $after of 8");
cmp_ok($after, '>=', $before, 'and none of before is lost');

# another name, and back

$h->conf(conf('1m', '/r', '/q'))->reload(wait_old => 1);
$h->get('/r');
is(sum_of(entry_of($h, 'caches', 'a /r', sub {
    sum_of($_[0]{requests}) })->{requests}), 1, 'renamed: from the beginning');
ok(!entry($h, 'caches', 'a /p'), 'without the old name');

$h->conf(conf('1m', '/p', '/q'))->reload(wait_old => 1);
is(sum_of(entry($h, 'caches', 'a /p')->{requests}), $after, 'and back');

# names that change with each reload find room

my @with;

for my $i (1 .. 4) {
    $h->conf(conf('2m', map { "/$i/$_" } 1 .. 120))->reload(wait_old => 1);
    push @with, scalar grep { $_->{statistics} } @{status($h)->{caches}};
}

is("@with", '120 120 120 120', 'other names each time');

# more caches than memory

my @many = map { "/many/$_" } 1 .. 300;
my $warning = qr/\[warn\].*small for statistics of all caches: (\d+) of 300/;

$h->conf(conf('256k', @many))->reload(wait_old => 1);

my ($without) = $h->log() =~ $warning;
my @caches = @{status($h)->{caches}};

cmp_ok($without, '>', 100, "256k: $without caches go without");
is($h->log_count($warning), 1, 'one line says so');
is(scalar(grep { !$_->{statistics} } @caches), $without, 'as many as it said');
is($h->get("/many/$_")->status(), 200, "$_ works") for 1, 300;
is(sum_of(entry_of($h, 'caches', 'a /many/1', sub {
    sum_of($_[0]{requests}) })->{requests}), 1, 'the first one counts');

# all have room in what is there without mcds_zone

$h->conf(conf('1m', @many) =~ s/mcds_zone 1m;//r)->reload(wait_old => 1);
is(scalar(grep { !$_->{statistics} } @{status($h)->{caches}}), 0,
    'all of them have room in 8m');

$t->done();
