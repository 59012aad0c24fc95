#!/usr/bin/perl

# Copyright (C) mcds authors

# Many contend for one lock on two hosts; the origin is the witness: never two
# are inside, and the numbers of owners rise.  Nobody starves while others come
# and go.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::History;

# the checker can fail

my @good = ({ start => 1, end => 2, token => 7 },
    { start => 2, end => 4, token => 8 },
    { start => 5, end => 6, token => 11 });

is(join('; ', lock_problems(@good)), '', 'checker: good ones');

for my $row (
    [{ start => 3, end => 3.5, token => 9 }, 'begins before 8 has ended'],
    [{ start => 0, end => 9, token => 6 }, '7 begins before 6 has ended'],
    [{ start => 7, end => 8, token => 11 }, '11 comes after 11'],
    [{ start => 7, end => 8, token => 10 }, '10 comes after 11'],
    [{ start => 7, end => 8 }, 'has the number ""'],
) {
    like(join('; ', lock_problems(@good, $row->[0])), qr/\Q$row->[1]/,
        "checker: $row->[1]");
}


my $t = Test::Mcds->new();

my $m = $t->memcached('m');

# some are inside for a while, most are not

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;

    return { body => "done\n", $req->{n} % 10 ? () : (delay => 0.005) };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }

    upstream o {
        server 127.0.0.1:%%PORT_o%%;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        keepalive_requests 100000;

        location / {
            mcds_lock        $uri wait=10m;
            proxy_set_header X-Token $mcds_lock_token;
            proxy_pass       http://o;
        }
    }
}
EOC

my @h = map { $t->nginx($_, $conf) } qw/ a b /;
my @ports = map { $_->port() } @h;


# 100 clients

my $n = $t->size(300, 10000);
my $got = $t->load(ports => [@ports], uri => '/one', clients => 100,
    requests => $n, expect => 'done', timeout => 200);

is($got->{ok}, $n, "all of $n had their turn");
diag(sprintf '%d a second, p50 %d ms, p99 %d ms, max %d ms',
    $got->{per_second}, $got->{p50}, $got->{p99}, $got->{max})
    if $t->full();

my @problems = lock_problems(holds('/one'));

is(scalar(holds('/one')), $n, 'the witness saw all of them');
is(@problems, 0, 'never two, and the numbers rise')
    or diag(join "\n", splice @problems, 0, 10);
ok(wait_for(sub { !defined $m->get('/one') }), 'it is free at the end');


# one waits on one host, again and again, while others come and go on the
# other one

my $stop = $t->dir() . '/stop';
my $wait = aside(sub {
    my %n;

    while (!-e $stop) {
        $n{$_->status()}++ for many(200,
            sub { [$ports[0], '/fair'] }, concurrency => 20, timeout => 200);
    }

    return %n;
});

$o->wait_requests(50, '/fair');

my @r;

for (1 .. 5) {
    push @r, http_get($ports[1], '/fair?b', timeout => 200);
    last if $r[-1]->status() != 200;
}

$t->write_file('stop', '');

my %others = $wait->();
my @held = holds('/fair');
my @places = grep { $held[$_]{uri} =~ /\?b$/ } 0 .. $#held;

is(join(' ', map { $_->status() } @r), '200 200 200 200 200',
    'nobody starves');
is(join(' ', keys %others), 200, 'nor do the others');
cmp_ok($places[-1], '<', $#held, 'while the others came and went');
@problems = lock_problems(@held);
is(@problems, 0, 'never two, and the numbers rise')
    or diag(join "\n", splice @problems, 0, 10);

$t->done();


sub holds {
    my ($path) = @_;

    return map { { start => $_->{start}, end => $_->{end}, uri => $_->{uri},
        token => $_->{headers}{'x-token'} } } $o->requests($path);
}
