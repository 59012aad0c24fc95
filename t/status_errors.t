#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_status: every kind of error is counted as what it is, once for each
# operation, and so is each connection that was lost by it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker')
    ->allow(qr/memcached (?:sent|said)|is down after/,
    qr/does not speak the meta|too large|not a number|out of memory/,
    qr/server error|SSL_do_handshake/);

my %script = (
    not_numeric => sub { "CLIENT_ERROR cannot increment or decrement "
        . "non-numeric value\r\n" },
    too_large => sub { "SERVER_ERROR object too large for cache\r\n" },
    server_error => sub { "SERVER_ERROR out of memory storing object\r\n" },
    timeout => sub { $_[0]->stall() },
    closed => sub { $_[0]->fin() },
    reset => sub { $_[0]->rst() },
    protocol => sub { $_[0]->default($_[2]) =~ s/ O\w+/ O0/r },
    garbage => sub { "HTTP/1.1 400 Bad Request\r\n\r\n" },
);

my %fakes;

$fakes{$_} = fake($_) for keys %script;
$fakes{busy} = $t->fake('busy');
$fakes{refused} = $t->fake('refused', sub { "ERROR\r\n" });
$fakes{old} = $t->fake('old', version => '1.4.15');
$fakes{tls} = $t->fake('tls', sub { $_[0]->fin() });

my %extra = (busy => 'max_pending 1;', tls => 'ssl on;');

delete $extra{tls}, delete $fakes{tls} if !$t->has('http_ssl');

my $timeout = 1000 * ($t->valgrind() ? $t->slow() : 1) . 'ms';
my (@pools, @places);

for (sort keys %fakes, 'nobody') {
    push @pools, "mcds_pool $_ { server 127.0.0.1:%%PORT_$_%%; max_fails 0;"
        . ' timeout ' . ($_ eq 'timeout' ? $timeout : '20s')
        . '; connect_timeout 20s; ' . ($extra{$_} // '') . ' }';
    push @places, "location = /$_ { mcds_use $_; mcds_counter \$a key=a:$_;"
        . ' mcds_counter $b key=b; mcds_return "$a,$b"; }';
}

local $" = "\n    ";

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    @pools
    mcds_pool breaks {
        server       127.0.0.1:%%PORT_nobody%%;
        max_fails    2;
        fail_timeout 60s;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        @places
        location = /breaks { mcds_use breaks; mcds_counter \$a key=k;
            mcds_return "\$a"; }
        location = /status { mcds_status; }
    }
}
EOT

# the first of the two counters ends with it; the second one is answered, or
# ends with the connection

my @cases = (
    # pool         the errors             lost             answered
    [not_numeric  => { not_numeric => 1 },  {},                 1],
    [too_large    => { too_large => 1 },    {},                 1],
    [server_error => { server_error => 1 }, {},                 1],
    [timeout      => { timeout => 2 },      { timeout => 1 },   0],
    [closed       => { closed => 2 },       { closed => 1 },    0],
    [reset        => { closed => 2 },       { closed => 1 },    0],
    [protocol     => { protocol => 2 },     { protocol => 1 },  0],
    [garbage      => { protocol => 2 },     { protocol => 1 },  0],
    [busy         => { busy => 1 },         {},                 1],
    [nobody       => { closed => 2 },       { closed => 1 },    0],
    [refused      => { down => 2 },         { refused => 1 },   0],
    [old          => { down => 2 },         { refused => 1 },   0],
    [tls          => { tls => 2 },          { tls => 1 },       0],
);

for my $case (@cases) {
    my ($pool, $errors, $lost, $answered) = @$case;

    next if $pool eq 'tls' && !$fakes{tls};

    is($h->get("/$pool")->status(), 200, "$pool: answered");

    my $s = server($h, $pool);

    is(said($s->{errors}), said($errors), "$pool: errors");
    is(said($s->{connections}{lost}), said($lost), "$pool: connections lost");
    is($s->{operations}{incr}, 2, "$pool: operations");
    is($s->{answers}{ok}, $answered, "$pool: answered well");
    is($s->{pending}, 0, "$pool: nothing waits");
    is($s->{connections}{opened}, $pool eq 'nobody' ? 0 : 1, "$pool: opened");
    is($s->{connections}{open}, %$lost ? 0 : 1, "$pool: open");
    is($s->{latency}{count},
        $answered + sum_of($s->{errors},
            qw/ not_numeric too_large server_error /), "$pool: timed");
}

# the breaker: two that fail, others that are not even asked

$h->get('/breaks') for 1 .. 7;

my $s = server($h, 'breaks');

is(said($s->{errors}), 'closed 2, down 5', 'breaker: errors');
is(said($s->{connections}{lost}), 'closed 2', 'breaker: lost');
is($s->{breaker}{state}, 'open', 'breaker: open');
is($s->{breaker}{openings}, 1, 'breaker: once');

$t->done();


# "a 1, b 2" of what is not 0

sub said {
    my ($hash) = @_;
    return join ', ', map { "$_ $hash->{$_}" }
        grep { $hash->{$_} } sort keys %$hash;
}


sub fake {
    my ($name) = @_;

    return $t->fake($name, sub {
        my ($f, $c, $line, $value) = @_;

        return if $line !~ /^m\w a:/;
        return $script{$name}->(@_);
    });
}
