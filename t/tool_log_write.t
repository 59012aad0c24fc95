#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds log write: lines of programs stand in the log of all hosts, among those
# of nginx, however many there are, in the place of the time that is given; and
# it says how many could not be written.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $n = $t->memcached('n');

my $a = $t->nginx('a', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        prefix p:;
        timeout 10s;
        connect_timeout 10s;
    }
    log_format line '$uri';
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_log live line chunk=20s chunks=6 max_chunk=4k;
        location /log { mcds_log off; mcds_log_api live; }
        location / { return 204; }
    }
}
EOC

my $mcds = Test::Mcds::Tool->new($t, '-c', $a->dir() . '/nginx.conf');

# what lies there, of a chunk

sub item { $m->get('p:live:' . int($_[0] / 20) . ($_[1] // '')) // '' }

sub text { $a->get('/log?format=text&' . $_[0])->body() }

# mcds has begun to read this one

my $fifo = $t->dir() . '/fifo';
system('mkfifo', $fifo) == 0 or die "mkfifo\n";


# a line, of a program and of nginx

my $r = $mcds->run('log', 'write', 'live', 'one', "t\xffwo", '--', '-n');

is($r->{code}, 0, 'written');
is($r->{out} . $r->{err}, '', 'without a word');

$a->get('/three');

my ($lines, $host);
ok(wait_for(sub { ($lines = text('limit=100')) =~ m{^/three$}m }),
    'nginx shows what has settled');
is($lines, "one t\xffwo -n\n/three\n", 'the line of the program, and its own');

chomp($host = `hostname`);
is_deeply([map { JSON::PP::decode_json($_)->{host} }
    split /\n/, $mcds->run('--json', 'log', 'read', 'live')->{out}],
    [lc $host, lc $host], 'both of this host');

is($mcds->run('log', 'read', 'live')->{out}, "one t\\xffwo -n\n/three\n",
    'mcds reads them');


# lines of standard input as they come

$r = $mcds->from($fifo)->start('log', 'write', 'live');

open my $in, '>', $fifo or die "fifo: $!\n";
$in->autoflush(1);

my $start = time();

sub there {
    my ($re) = @_;

    return wait_for(sub { join('', map { item($_), map { item(time(), ":$_") }
        1 .. 3 } $start, time()) =~ $re });
}

print $in "from input\n\nhalf";
ok(there(qr/from input/), 'written while there is more to come');
print $in " a line";
close $in;

is($r->wait(), 0, 'ends with its input');
ok(there(qr/half a line/), 'the last one needs no line feed');

$r = $mcds->from($fifo)->start('log', 'write', 'live');
open $in, '>', $fifo or die "fifo: $!\n";
$in->autoflush(1);
print $in "sync\n";
ok(there(qr/sync/), 'it reads');
print $in "last\nnot whole";
$r->kill('TERM');
is($r->wait(), 0, 'ends when it is told');
close $in;


# more than an item takes, and each line once

my $file = $t->write_file('many', join '', map { "many $_ " . 'x' x 30 . "\n" }
    1 .. 3000);
my $at = time() - 45;

$r = $mcds->from($file)->run('--json', 'log', 'write', 'live', '--time',
    sprintf '%.3f', $at);
is($r->{code}, 0, 'many lines');
is(JSON::PP::decode_json($r->{out})->{written}, 3000, 'how many is told');
ok(length(item($at)) > 4096, 'the chunk of that time is full');
ok(length(item($at, ':1')) > 0, 'and goes on in other items');
ok(item($at, ':size') > 3000 * 40, 'the size of all is counted');

my $range = sprintf 'first=%.3f&last=%.3f&limit=10000', $at - 1, $at + 1;
my @many = text($range) =~ /^many (\d+) x{30}$/mg;
is_deeply(\@many, [1 .. 3000], 'each line once, in order');

unlike(text('first=-5&limit=10000'), qr/^many/m, 'none at the time of writing');


# a time of its own

my $ago = sprintf '%.3f', time() - 60;

is($mcds->run('log', 'write', 'live', "--time=$ago", 'happened before')->{code},
    0, 'a time of its own');

($r) = grep { $_->{line} eq 'happened before' }
    map { JSON::PP::decode_json($_) } split /\n/, $mcds->run('--json', 'log',
    'read', 'live', '--since=90s', '--limit=10000')->{out};
ok($r && abs($r->{time} - $ago) < 0.0015, 'which is that of the line')
    or diag(explain($r));

for ([time() - 200, qr/too long ago, the log keeps 120 seconds/],
    [time() + 60, qr/in the future/], ['1x', qr/seconds since 1970/],
    [int(time()) . '.', qr/seconds since 1970/],
    ['-5', qr/seconds since 1970/], [0, qr/seconds since 1970/])
{
    my ($time, $re) = @$_;

    $r = $mcds->run('log', 'write', 'live', "--time=$time", 'never');
    is($r->{code}, 2, "--time=$time");
    like($r->{err}, $re, 'says why');
}


# what is no line

is($mcds->run('log', 'write', 'live', "a\nb")->{code}, 2, 'a line feed');
is($mcds->run('log', 'write', 'live', 'a', '--limit=1')->{code}, 2,
    'an option of another command');
is($mcds->run('log', 'read', 'live', '--time=1')->{code}, 2, 'and its own');
is($mcds->run('log', 'read', 'live', 'other')->{code}, 2, 'read has one name');

$r = $mcds->run('log', 'write', 'live', 'y' x 20000);
is($r->{code}, 1, 'too long');
like($r->{err}, qr/1 lines were truncated to 16384 bytes/, 'says so');
ok(wait_for(sub {
    return $mcds->run('log', 'read', 'live')->{out} =~ /y{16384}(?!y)/;
}), 'it is there, although longer than max_chunk');
is($mcds->run('log', 'write', 'live', '')->{code}, 0, 'an empty one');


# one of two servers dies

my $two = Test::Mcds::Tool->new($t, '--timeout', '300ms', '-s',
    join ',', map { '127.0.0.1:' . $_->port() } $m, $n);
my $now = sprintf '%.3f', time();

$two->run('log', 'write', "log$_", 'text', "--time=$now") for 1 .. 12;

my ($alive) = map { /^(log\d+):\d+$/ } $m->keys();
my ($dead) = map { /^(log\d+):\d+$/ } $n->keys();

$n->stop();

is($two->run('log', 'write', $alive, 'text', "--time=$now")->{code}, 0,
    'of the server that is up');
$r = $two->run('log', 'write', $dead, 'text', "--time=$now");
is($r->{code}, 3, 'of the one that is not');
like($r->{err}, qr/1 of 1 lines were lost/, 'how many are lost');

$t->done();
