#!/usr/bin/perl

# Copyright (C) mcds authors

# A worker that exits serves long requests, and logs a line at the end of each:
# it tries again when memcached has failed for a moment, however long ago it
# began to exit; and if it has given up, the next line makes it try again.

use warnings;
use strict;

use IO::Socket::INET;
use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Log qw/ lines /;

my $t = Test::Mcds->new()->not_in('single two many',
    'it looks at one worker, which exits');

my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;

    return "SERVER_ERROR out of memory\r\n"
        if ($f->mode() // '') eq 'full' && $line =~ /^ms log:/;
    return;
});

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; }
    log_format n '$arg_n';
    server {
        listen 127.0.0.1:%%PORT%%;
        client_header_timeout 60s;
        location = /n { mcds_log log n chunk=1h chunks=2; return 204; }
        location = /log { mcds_log_api log; }
    }
}
EOC

# the time for which a worker that exits tries, and an interval between attempts

my $try = 3;
my $pause = 0.5;

# requests whose headers are not complete until the test sends their last line

my %conn;

for my $n (1 .. 4) {
    $conn{$n} = IO::Socket::INET->new(Proto => 'tcp',
        PeerAddr => '127.0.0.1:' . $h->port()) or die "connect: $!\n";
    syswrite $conn{$n}, "GET /n?n=$n HTTP/1.1\r\nHost: localhost\r\n";
}

# the worker has accepted them once it has answered a later connection

is($h->get('/n?n=0')->status(), 204, 'a request');
ok(wait_for(sub { shown() eq '0' }, 10), 'its line is written');

ok($h->reload(), 'reload');
ok(wait_for(sub { $h->leaving() == 1 }, 10),
    'the worker serves four requests, and exits');

ended(1);
ok(wait_for(sub { shown() eq '0 1' }, 10), 'it writes the line of one');

# its first attempts were long ago when memcached fails

pass_time($try + $pause);
$f->tell('full');
$f->mark();
ended(2);
ok(wait_for(sub { $f->count(qr/^ms log:/) }, 10), 'memcached refuses the next');
$f->tell('');
ok(wait_for(sub { shown() eq '0 1 2' }, 10), 'which is written a moment later')
    or diag(shown());

# it fails for longer than the worker tries

$f->tell('full');
$f->mark();
ended(3);
ok(wait_for(sub { $f->count(qr/^ms log:/) > $try }, 10),
    'the worker tries again');
pass_time($try + $pause);
$f->tell('');
is(shown(), '0 1 2', 'until it gives up') or diag(shown());

ended(4);
ok(wait_for(sub { shown() eq '0 1 2 3 4' }, 10), 'but not for the next request')
    or diag(shown());

ok(wait_for(sub { !$h->leaving() }), 'the worker ends');
ok(!$h->log_has(qr/has lost/), 'and has lost no line');

$t->done();


# lets the worker read the end of the request, and answer it

sub ended {
    my ($n) = @_;

    syswrite $conn{$n}, "\r\n";
    sysread $conn{$n}, my $answer, 4096;
    like($answer, qr{^HTTP/1\S+ 204}, "answer to $n");
    close $conn{$n};
}


sub shown { return join ' ', sort(lines($h, '/log')) }


sub pass_time {
    my ($seconds) = @_;

    my $end = time() + $seconds;

    wait_for(sub { time() > $end }, 2 * $seconds);
}
