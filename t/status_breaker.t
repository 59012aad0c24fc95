#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_status and the log with a server that hangs: what waits, in how many
# workers the breaker is open and since when; one line at the level error for
# a host, and one when all have it back; nothing of a worker that was killed
# stays.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers')
    ->allow(qr/is down after 2 failures/)
    ->not_in('single one', 'two workers have breakers of their own');

my $f = $t->fake('m', sub {
    my ($f, $c, $line, $value) = @_;

    return ($f->hold('all'), $f->default($line, $value))
        if $f->mode() eq 'held' && $line =~ /^m[ag]/;
    return $f->stall() if $f->mode() eq 'hung' && $line =~ /^m[ag]/;
    return;
});

my $slow = $t->slow();
my $limit = 600 * $slow;

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        timeout      ${limit}ms;
        max_fails    2;
        fail_timeout 100ms;
    }
    mcds_pool patient {
        server       127.0.0.1:%%PORT_m%%;
        timeout      60s;
    }
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter \$n key=n;
            mcds_return "<\$n>";
        }
        location /long {
            mcds_use patient;
            mcds_counter \$n key=\$uri;
            mcds_return "<\$n>";
        }
        location = /status { mcds_status; }
    }
}
EOT

my @c = map { worker_conn($h, $_) } 0, 1;
my $connections = settled($h, 'main', 0,
    sub { $_[0]{connections}{open} == 0 })->{connections}{open};

is($connections, 0, 'nothing is open');

# it works

is($_->get('/')->body() =~ /^<\d+>$/, 1, 'well') for @c;

my $s = settled($h, 'main', 0, sub { $_[0]{connections}{open} == 2 });

is($s->{connections}{open}, 2, 'each worker has a connection');
is(breaker($s), 'closed 0 0', 'closed');

# it hangs, and each worker finds that out

$f->tell('hung');

my $began = time();

is(down($c[0]), 2, 'the first worker: two have waited');

$s = settled($h, 'main', 0, sub { $_[0]{breaker}{open_workers} == 1 });

is(breaker($s), 'open 1 1', 'open in one worker');
is($h->log_count(qr/\[error\].*is down after 2/), 1, 'told as an error');

is(down($c[1]), 2, 'the second worker: two have waited');

$s = settled($h, 'main', 0, sub { $_[0]{breaker}{open_workers} == 2 });

is(breaker($s), 'open 2 2', 'open in both');
cmp_ok($s->{breaker}{open_since}, '>=', $began - 1, 'since when');
cmp_ok($s->{breaker}{open_since}, '<=', time(), 'is not in the future');
cmp_ok($s->{breaker}{next_probe}, '>=', $began, 'when it is tried again');
cmp_ok($s->{breaker}{next_probe}, '<=', time() + 1, 'soon');
$s = settled($h, 'main', 0, sub { $_[0]{errors}{timeout} >= 4 });
is($s->{errors}{timeout}, 4, 'four have waited');
is($h->log_count(qr/\[error\].*is down after 2/), 1, 'no second error');
is($h->log_count(qr/\[info\].*is down after 2/), 1, 'but information');

# a worker is killed: its successor knows nothing

my $since = $s->{breaker}{open_since};

$h->kill_worker(1);
@c = map { worker_conn($h, $_) } 0, 1;

$s = settled($h, 'main', 0, sub { $_[0]{breaker}{open_workers} == 1 });

is($s->{breaker}{open_workers}, 1, 'killed: open in the other worker');
is(down($c[1]), 2, 'killed: the new one finds out');
$s = settled($h, 'main', 0, sub { $_[0]{breaker}{open_workers} == 2 });
is(breaker($s), 'open 2 3', 'killed: open in both');
is($h->log_count(qr/\[error\].*is down after 2/), 1, 'killed: no error more');
cmp_ok($s->{breaker}{probes}, '>=', 1, 'probes are counted')
    if wait_for(sub { server($h, 'main')->{breaker}{probes} }, 5);

# it is well again, which probes find out

$f->tell('');

$s = settled($h, 'main', 0, sub { $_[0]{breaker}{open_workers} == 0 });

is(breaker($s), 'closed 0 3', 'closed again');
ok(!defined $s->{breaker}{open_since}, 'since now');
is($h->log_count(qr/is up again/), 2, 'a line of each worker');
is($h->log_count(qr/\[notice\].*is up again/), 1, 'one of them is a notice');
like((grep { /is up again/ } split /\n/, $h->log())[1], qr/\[notice\]/,
    'the last one');

# the whole host once more

$f->tell('hung');
down($_) for @c;
settled($h, 'main', 0, sub { $_[0]{breaker}{open_workers} == 2 });
is($h->log_count(qr/\[error\].*is down after 2/), 2, 'the next time, too');

# both are killed while it is open: nobody can tell that it is over

$h->kill_worker($_) for $h->workers();
@c = map { worker_conn($h, $_) } 0, 1;
is(breaker(server($h, 'main')), 'closed 0 5', 'both killed: closed');
down($c[0]);
is($h->log_count(qr/\[error\].*is down after 2/), 3, 'both killed: told');
$f->tell('');
settled($h, 'main', 0, sub { $_[0]{breaker}{open_workers} == 0 });

# what waits

$f->tell('held');

my @wait = ($c[0], worker_conn($h, 0), worker_conn($h, 0), $c[1]);

$wait[$_]->request("/long/$_") for 0 .. $#wait;

$s = settled($h, 'patient', 0, sub { $_[0]{pending} == 4 });
is($s->{pending}, 4, 'pending');
is($s->{connections}{open}, 2, 'on two connections');
is($s->{operations}{incr}, 4, 'all are counted');
is(sum_of($s->{answers}), 0, 'none was answered');

# of a worker that is killed nothing stays

$h->kill_worker(worker_pid($h, 0));

$s = settled($h, 'patient', 0, sub { $_[0]{pending} < 4 });
is($s->{pending}, 1, 'killed: one is left');
is($s->{connections}{open}, 1, 'killed: on one connection');

$f->tell('');
$f->release('all');
$s = settled($h, 'patient', 0, sub { $_[0]{pending} == 0 });
is($s->{pending} . $s->{answers}{ok}, '01', 'the last one is answered');
is($s->{latency}{count}, 1, 'and timed');

$t->done();


# state, workers, openings

sub breaker {
    my ($s) = @_;
    return join ' ', @{$s->{breaker}}{qw/ state open_workers openings /};
}


# how many had to wait until the worker of a connection takes it for down

sub down {
    my ($c) = @_;
    my $waited = 0;

    for (1 .. 10) {
        my $n = $h->log_count(qr/is down after/);
        $c->get('/');
        $waited++;
        last if $h->log_count(qr/is down after/) > $n;
    }

    return $waited;
}
