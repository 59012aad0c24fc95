#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_status with the argument "memory": each memcached is asked how full it is
# and how much it has evicted, once a second by all workers together, and
# nothing else depends on its answer.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;
use Test::Mcds::Status;

my $t = Test::Mcds->new()
    ->allow(qr/memcached sent|(?:refused|timed out|is down after)/);

my $m = $t->memcached('m', memory => 2);

# what is not quite a memcached

my %script = (
    classic => sub { () },
    unknown => sub { "ERROR\r\n" },
    full => sub { "SERVER_ERROR out of memory writing stats\r\n" },
    words => sub { "STAT bytes many\r\nSTAT limit_maxbytes 64\r\n"
        . "STAT curr_items 18446744073709551616\r\nSTAT evictions\r\n"
        . "END\r\n" },
    pieces => sub { map { ($_, $_[0]->pause(0.001)) } unpack '(a7)*',
        "STAT bytes 5\r\nSTAT x\r\nSTAT limit_maxbytes 4294967296000\r\n"
        . "STAT curr_items 7\r\nSTAT evictions 3\r\nEND\r\n" },
    other => sub { "STAT bytes 1\r\nSTORED\r\n" },
    meta => sub { "HD\r\n" },
    silent => sub { $_[0]->stall() },
);

my @names = sort keys %script;
my $timeout = 1000 * $t->slow();
my %fake;

for my $name (@names) {
    $fake{$name} = $t->fake($name, sub {
        my ($fake, $c, $line) = @_;
        return $line eq 'stats' ? $script{$name}->($fake) : ();
    });
}

my @pools = map { "mcds_pool $_ { server 127.0.0.1:%%PORT_$_%%;"
    . ' timeout ' . ($_ eq 'silent' ? $timeout : 20_000) . 'ms; max_fails 5;'
    . ($_ eq 'classic' ? ' protocol classic;' : '') . ' }' } 'm', @names;
my @places = map { "location = /$_ { mcds_use $_; mcds_counter \$n$_ key=k;"
    . " mcds_return \$n$_; }" } 'm', @names;

local $" = "\n    ";

my $start = 1_700_000_000;
my $clock = Test::Mcds::Clock->new($t, $start);

my $h = $clock->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    @pools
    mcds_pool nobody { server 127.0.0.1:1; }
    mcds_pool two {
        server       127.0.0.1:%%PORT_m%%;
        server       127.0.0.1:%%PORT_words%% down;
        distribution ketama;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        @places
        location = /status { mcds_status; }
    }
}
EOT

# not unless it is asked for

for (@names) {
    is($h->get("/$_")->body(), 1, "$_: its counter");
    is(memory($_), undef, "$_: nothing is known");
    is($fake{$_}->count(qr/^stats/), 0, "$_ was not asked");
}

# what memcached says is there when it is asked for again

ask();
ok(wait_for(sub { memory('m') }, 10), 'memcached was asked');

my $memory = memory('m');
my $stats = $m->stats();

is_deeply([sort keys %$memory], [qw/ bytes evictions items limit time /],
    'its members');
is($memory->{limit}, $stats->{limit_maxbytes}, 'the limit');
is($memory->{limit}, 2 * 1024 * 1024, '... with which it was started');
is($memory->{evictions}, 0, 'no evictions');
is($memory->{bytes}, $stats->{bytes}, 'bytes');
is($memory->{items}, 0, 'items');
is($memory->{time}, $start, 'and when it said so');

# in pieces, with more or less than there should be

is_deeply(memory('pieces'), { time => $start, bytes => 5, items => 7,
    limit => 4294967296000, evictions => 3 }, 'in pieces')
    if wait_for(sub { memory('pieces') }, 10);
wait_for(sub { memory('words') }, 10);
is_deeply(memory('words'), { time => $start, bytes => 0, items => 0,
    limit => 64, evictions => 0 }, 'what is no number is not taken');

# who does not answer as memcached does

wait_for(sub { lost('other') && lost('meta') && lost('silent') }, 10);

is(memory($_), undef, "$_: nothing is known") for qw/ other meta silent unknown
    full classic nobody /;
is(lost($_), 1, "$_: the connection is closed") for qw/ other meta silent /;
is(lost($_), 0, "$_: the connection stays") for qw/ m unknown full words
    pieces /;
is($h->get("/$_")->body(), 2, "$_: its counter goes on") for @names;
is($fake{classic}->count(qr/^stats/), 0, 'a proxy is not asked');

# no more than that, of all workers

ask() for 1 .. 20;
is($fake{$_}->count(qr/^stats/), 1, "$_: once in a second")
    for qw/ other meta silent unknown full words pieces /;

$clock->put($start + 1);
ask() for 1 .. 20;
ok(wait_for(sub { $fake{words}->count(qr/^stats/) == 2 }, 10),
    'again in the next one');

# what does not know the command is left alone by each worker that has tried

$clock->put($start + $_), ask(), ask() for 2 .. 9;
cmp_ok($fake{unknown}->count(qr/^stats/), '<=', 2, 'unknown: once a worker');

# what could not answer is asked again

my $now = 9;
ok(wait_for(sub {
    $clock->put($start + ++$now), ask() if $now < 19;
    return $fake{full}->count(qr/^stats/) > 2;
}, 10), 'full: again');

# none of this is counted as an operation

my $server = server($h, 'words');

is(sum_of($server->{operations}), 2, 'operations are those of requests');
is(sum_of($server->{answers}) + sum_of($server->{errors}), 2,
    'all were answered');
is($server->{latency}{count}, 2, 'their latency');

# evictions, while it is full

for my $n (1 .. 60) {
    $m->set("fill:$n", 'x' x 100_000);
}

$clock->put($start + 20);
ok(asked('m', sub { $_[0]{evictions} > 0 }), 'evictions');
$stats = $m->stats();
$memory = memory('m');
is($memory->{evictions}, $stats->{evictions}, '... as many as there were');
is($memory->{items}, $stats->{curr_items}, '... and items that are left');
is(memory('two')->{limit}, $memory->{limit}, 'in each of its pools');
is($h->get('/m')->body() > 0, 1, 'the counter still counts');

# a server that is away, or off

# the answer to the last question has come

wait_for(sub {
    $memory = memory('m');
    return $memory->{time} == $clock->time_now();
}, 10);
$h->reload();
is_deeply(memory('m'), $memory, 'a reload keeps it');

my ($off) = grep { $_->{name} eq 'two' } @{status($h)->{pools}};
is($off->{servers}[1]{memory}, undef, 'a server that is off');

$m->stop();
$clock->put($start + 30);
ask() for 1 .. 5;
is_deeply(memory('m'), $memory, 'of one that is away the last one stays');

# other formats

ok(!grep({ !$_->count(qr/^version/) } values %fake), 'all were connected');
my $asked = $fake{words}->count(qr/^stats/);
$clock->put($start + 40);
$h->get("/status?format=$_&memory=1") for qw/ prometheus html /;
is($fake{words}->count(qr/^stats/), $asked, 'other formats do not ask');

$t->done();


sub memory { return server($h, $_[0])->{memory} }
sub lost { return sum_of(server($h, $_[0])->{connections}{lost}) }
sub ask { return status($h, '/status?memory=1') }


# the clock goes on until the sub is content

sub asked {
    my ($pool, $sub) = @_;

    my $now = $start + 20;

    return wait_for(sub {
        $clock->put(++$now);
        ask();
        return $sub->(memory($pool));
    }, 10);
}
