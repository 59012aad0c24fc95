#!/usr/bin/perl

# Copyright (C) mcds authors

# What judges the histories of the long chaos run (t/jepsen/): each violation is
# seen, and what the documentation excuses is not one.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Jepsen::Check;

my $t = Test::Mcds->new(module => 0);

# times are seconds; lines of the crowd, of the origin, of the log and of faults

sub us { return join ' ', map { /^\d+\.\d+$/ ? int($_ * 1e6) : $_ } split / /,
    $_[0] }

sub found {
    my ($profile, %lines) = @_;

    my %file = (crowd => 'crowd.history', origin => 'origin.history',
        log => 'end.history', faults => 'faults');

    $lines{faults} = ["# profile $profile", @{$lines{faults} // []}];

    for my $what (keys %file) {
        $t->write_file($file{$what}, join '', map { us($_) . "\n" }
            @{$lines{$what} // []});
    }

    return join ' ', map { $_->{what} }
        Test::Mcds::Jepsen::Check->new($t->dir())->run();
}

sub check {
    my ($want, $name, @lines) = @_;
    is(found(@lines), $want, $name);
}

# pages: begin, end, host, client, kind, uri, status, cache, reason, verdict,
# version, n

my $page = 'P 10.0 10.1 0 1 k /r/k/1 200 HIT fresh ok 9.0 1';
my $purge = 'X 9.5 9.6 1 2 delete-key /r/k/1 200';

check('', 'a page', 'net', crowd => [$page]);
check('body', 'half a page', 'corrupt', crowd => [$page =~ s/ok/torn/r]);
check('age', 'an old page', 'net',
    crowd => [$page =~ s/ k / s /r =~ s/9\.0/1.0/r]);
check('', 'clocks that differ', 'net',
    crowd => [$page =~ s/ k / s /r =~ s/9\.0/3.0/r],
    faults => ['5.0 6.0 clock clock 0 * 3']);
check('purge', 'a page of before a purge', 'net', crowd => [$purge, $page]);
check('', 'a purge that was not done everywhere', 'net',
    crowd => [$purge =~ s/200$/503/r, $page]);
check('', 'a page that was asked for before', 'net',
    crowd => [$purge, $page =~ s/10\.0/9.55/r]);
check('', 'one that the origin was asked for later', 'net',
    crowd => [$purge, $page =~ s/9\.0/9.51/r]);
check('purge', 'a stale page that was deleted', 'net',
    crowd => [$purge, $page =~ s/HIT/STALE/r]);
check('', 'a stale page that was invalidated', 'net',
    crowd => [$purge =~ s/delete/invalidate/r, $page =~ s/HIT/STALE/r]);
check('purge', 'one server has lost the mark', 'all',
    crowd => [$purge, $page =~ s{9\.0}{9.4}r],
    faults => ['9.7 9.8 death kill * 0']);
check('', 'both of them have', 'all',
    crowd => [$purge, $page =~ s{9\.0}{9.4}r],
    faults => ['9.7 9.8 death kill * 0', '9.8 9.9 death flush * 1']);
check('', 'a copy, while memcached is away', 'net',
    crowd => [$purge, $page =~ s/10\.1 0/10.1 1/r],
    faults => ['9.7 9.8 net stall 1 * *:1']);

mkdir $t->dir() . '/h1';
$t->write_file('h1/error.log', 'the request no longer waits for memcached, '
    . 'client: 127.0.0.1, server: , request: "GET /r/k/1 HTTP/1.1"' . "\n");

check('', 'a copy, when memcached was too slow', 'net',
    crowd => [$purge, $page =~ s/10\.1 0/10.3 1/r]);
check('purge', 'a copy, although it was not', 'net',
    crowd => [$purge, $page =~ s/10\.1 0/10.2 1/r]);
check('purge', 'of another page', 'net',
    crowd => [map { s/k\/1/k\/2/r } $purge, $page =~ s/10\.1 0/10.3 1/r]);

check('', 'a timed copy', 'net', crowd => [
    'X 9.5 9.6 1 2 invalidate-tag /pt/k/1 200',
    $page =~ s/10\.1 0/10.1 2/r =~ s{/r/}{/pt/}r]);

# host 0 has built it while its memcached was away, as far as it knows

my $alone = 'P 9.0 10.2 0 3 k /r/k/1 200 MISS memcached ok 9.0 x';
my $built = $page =~ s/fresh/built/r;
my @death = (faults => ['8.0 8.1 death kill * 0']);

check('', 'a build without memcached, shared', 'death',
    crowd => [$purge, $alone, $built], @death);
check('purge', 'found later', 'death',
    crowd => [$purge, $alone, $page], @death);
check('purge', 'of another host', 'death',
    crowd => [$purge, $alone =~ s/10\.2 0/10.2 1/r, $built], @death);
check('purge', 'although memcached was there', 'death',
    crowd => [$purge, $alone, $built], faults => ['1.0 1.1 death kill * 0']);

# counters

my @n = map { "N $_.0 $_.1 0 1 plain /count/plain/0 200 $_" } 1 .. 4;

check('', 'numbers', 'net', crowd => \@n);
check('number', 'more than were sent', 'net',
    crowd => [@n[0 .. 2], $n[3] =~ s/4$/5/r]);
check('number number number', 'one twice', 'net',
    crowd => [@n[0 .. 2], $n[3] =~ s/4$/3/r]);
check('', 'a count whose answer was lost', 'net',
    crowd => [$n[0] =~ s/200 1/0 -/r, @n[1 .. 3]]);
check('', 'what others have shown is lost', 'death',
    crowd => [@n[0 .. 2], $n[3] =~ s/4$/2/r],
    faults => ['3.5 3.6 death kill * 0']);

# two servers, of which one dies: all of it is kept

check('twice twice', 'a count is lost', 'death',
    crowd => [map { s/plain/twice/gr } @n[0 .. 2], $n[3] =~ s/4$/2/r],
    faults => ['3.5 3.6 death kill * 0']);

# another one had died before, and had not got all of it yet

my @twice = map { s/plain/twice/gr } @n[0 .. 2], 'N 14.0 14.1 0 1 plain '
    . '/count/plain/0 200 2';

check('', 'both have lost it', 'death', crowd => \@twice,
    faults => ['0.8 0.9 death flush * 1', '13.5 13.6 death kill * 0']);
check('twice twice', 'it had, in a pause', 'death', crowd => \@twice,
    faults => ['0.2 0.3 death flush * 1', '13.5 13.6 death kill * 0']);
check('', 'a reload has ended the wait', 'death', crowd => \@twice,
    faults => ['0.2 0.3 death flush * 1', '5.0 5.1 host reload 0 *',
               '13.5 13.6 death kill * 0']);

my @n3 = map { s/plain/twice/gr } @n[0 .. 2];
my @both = ('4.0 4.1 death flush * 1', '4.2 4.3 death kill * 0');

check('', 'hosts find servers one after the other', 'death', crowd =>
    [@n3, 'N 5.0 5.1 0 1 twice /count/twice/0 200 3',
     'N 5.2 5.3 1 2 twice /count/twice/0 200 1'], faults => \@both);
check('twice', 'but soon', 'death', crowd =>
    [@n3, 'N 7.0 7.1 0 1 twice /count/twice/0 200 3',
     'N 7.2 7.3 1 2 twice /count/twice/0 200 1'], faults => \@both);

@twice = map { "N $_.0 $_.1 0 1 twice /count/twice/0 200 $_" } 1 .. 30;

check('', 'it lacks what was counted of late', 'death',
    crowd => [@twice, 'N 31.0 31.1 0 1 twice /count/twice/0 200 20'],
    faults => ['0.2 0.3 death flush * 1', '30.5 30.6 death kill * 0']);
check('twice twice', 'and no more', 'death',
    crowd => [@twice, 'N 31.0 31.1 0 1 twice /count/twice/0 200 16'],
    faults => ['0.2 0.3 death flush * 1', '30.5 30.6 death kill * 0']);

# locks: begin, end, host, client, op, uri, status, owner, got, token, ttl

my @l = ('L 1.0 1.1 0 1 acquire /locks/a 200 c1 c1 100 3',
    'L 4.2 4.3 0 2 acquire /locks/a 200 c2 c2 101 3');

check('', 'a lock after another', 'net', crowd => \@l);
check('lock', 'a lock that is held', 'net',
    crowd => [$l[0], $l[1] =~ s/4\.2 4\.3/3.0 3.5/r]);
check('', 'a lock that was released', 'net', crowd => [$l[0],
    'L 2.0 2.1 0 1 release /locks/a 204 c1 - 0 0',
    $l[1] =~ s/4\.2 4\.3/3.0 3.5/r]);
check('lock', 'a lock that was extended', 'net', crowd => [$l[0],
    'L 2.0 2.1 0 1 extend /locks/a 200 c1 c1 100 4', $l[1]]);
check('token', 'a token that falls', 'net',
    crowd => [$l[0], $l[1] =~ s/101/99/r]);
check('lock', 'two at the origin', 'net', origin => [
    'O 1.0 2.0 /locked/lock/1 5 whole', 'O 1.5 2.5 /locked/lock/1 6 whole']);

# the log, and the table

my $line = 'G 1.0 1.1 0 1 log /logged?id=a 200 a';

check('', 'a line', 'net', crowd => [$line], log => ['R 1-1-1 h a']);
check('log', 'a line twice', 'net', crowd => [$line],
    log => ['R 1-1-1 h a', 'R 1-1-2 h a']);
check('log', 'a line behind a later one', 'net',
    crowd => [$line, $line =~ s/=a 200 a/=b 200 b/r],
    log => ['R 2-1-2 h b', 'R 1-1-1 h a']);
check('log', 'no line', 'net', crowd => [$line]);
check('log', 'a line of nobody', 'net', log => ['R 1-1-1 h b']);

my @w = ('T 1.0 1.1 0 1 put /table/a 200 1', 'T 2.0 2.1 0 1 put /table/a 200 2',
    'T 3.0 3.1 0 2 get /table/a 200 2');

check('', 'what was written last', 'net', crowd => \@w);
check('table', 'what was written before', 'net',
    crowd => [@w[0, 1], $w[2] =~ s/2$/1/r]);
check('', 'what was written and not answered', 'net',
    crowd => [$w[0] =~ s/200/503/r, $w[1], $w[2] =~ s/2$/1/r]);
check('table', 'nothing', 'net', crowd => [@w[0, 1], $w[2] =~ s/200 2/404 -/r]);
check('', 'nothing, since it was lost', 'death',
    crowd => [@w[0, 1], $w[2] =~ s/200 2/404 -/r],
    faults => ['2.5 2.6 death flush * 1']);

$t->done();
