#!/usr/bin/perl

# Copyright (C) mcds authors

# More is offered to a server that stands still than max_pending lets wait: the
# rest is turned away at once and counted, the worker takes memory for what
# waits and for no more, and has it back when the server goes on (R06).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Memory;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

$t->leave('sanitizers have allocations of their own') if $t->watched();

my $m = $t->memcached('m');
my $o = $t->origin('o', { body => 'x' x 59_000,
    headers => ['Cache-Control' => 'max-age=600'] },
    paths => { '/begin' => { body => 7 } });

# it takes a page, and no more of those that are large

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if !length $f->mode() || $line !~ $f->mode();
    return ($f->hold(), $f->default($line, $value));
});

my ($most, $size) = (2000, 1024 * 1024);

my $h = $t->nginx('h', <<"EOT", memory => 1);
%%GLOBALS%%
worker_processes 1;
events { worker_connections 2048; }
http {
    %%HTTP%%
    mcds_pool many { server 127.0.0.1:%%PORT_m%%; max_pending $most;
                     timeout 60s; max_fails 0; }
    mcds_pool large { server 127.0.0.1:%%PORT_f%%; max_pending 4096 $size;
                      timeout 60s; max_fails 0; }
    large_client_header_buffers 4 16k;

    server {
        listen 127.0.0.1:%%PORT%%;
        location /many { mcds_use many; mcds_counter_api prefix=n: max=500; }
        location /seed {
            mcds_use     many;
            mcds_counter \$n key=seed;
            mcds_counter_init \$n /begin timeout=20ms;
            mcds_return  "\$n";
        }
        location /first {
            mcds_use     many;
            mcds_counter \$n key=seed;
            mcds_counter_init \$n /begin timeout=60s;
            mcds_return  "\$n";
        }
        location = /begin { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /large {
            mcds_cache     large;
            mcds_cache_key \$uri;
            add_header     X-Cache \$mcds_cache_status;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location /status { mcds_status; }
    }
}
EOT

my ($worker) = $h->workers();
my $memory = Test::Mcds::Memory->of($h, $worker);
my $clients = $t->size(40, 200);
my $start = time();

# connections and the like are there

like($h->get('/many?key=a')->body(), qr/^\{"a":0\}/, 'counters');
is($h->get('/large/0')->status(), 200, 'pages');
$memory->quiet();

my $was = $memory->now()->{bytes};
my $fds = $h->fds($worker);


# many small ones: 500 of each request

$m->freeze();

my @uris = map { my $i = $_; '/many?' . join '&',
    map { "key=$i.$_" } 1 .. 500 } 1 .. $clients;
my @wait = map { start_get($h->port(), $_) } @uris;

# who has none that waits is answered

my @r = map { finish($_, 20) } @wait[$most / 500 .. $#wait];
is(scalar(grep { has($_, 'null') } @r), @wait - $most / 500,
    'who is turned away is told so at once');

my $s = server($h, 'many');
is($s->{pending}, $most, 'as many wait as may');
is($s->{errors}{busy}, $clients * 500 - $most, 'all others are counted');

$memory->quiet();
my $grown = $memory->now()->{bytes} - $was;
note("$grown bytes for $most operations");
cmp_ok($grown, '<', $most * 1024 + 4 * 65536, 'memory for those that wait');

$m->cont();
@r = map { finish($_, 20) } @wait[0 .. $most / 500 - 1];
is(scalar(grep { has($_, 0) } @r), $most / 500, 'which are answered then');


# large values: pages that their clients have already

$f->tell('^ms <>/large/\d+ ');
$was = $memory->now()->{bytes};
@r = map { finish($_, 20) } map { start_get($h->port(), "/large/$_") }
    1 .. $clients;
is(scalar(grep { $_->status() == 200 } @r), $clients, 'pages: nobody waits');

ok(wait_for(sub {
    ($s = server($h, 'large'))->{pending} + $s->{errors}{busy} == $clients
}, 20), 'all are to be stored') or diag("$s->{pending} $s->{errors}{busy}");
cmp_ok($s->{pending} * 60_000, '<=', $size, 'as much waits as may');
cmp_ok($s->{pending} * 60_000, '>', $size * 0.8, 'and not much less');
is($s->{errors}{busy}, $clients - $s->{pending}, 'all others are counted');

my $waiting = $s->{pending};

$memory->quiet();
$grown = $memory->now()->{bytes} - $was;
note("$grown bytes for $waiting values");
cmp_ok($grown, '<', 2 * $size, 'memory for those that wait');

$f->tell('');
1 while $f->release();
ok(wait_for(sub { server($h, 'large')->{pending} == 0 }, 20),
    'they are stored then');
is(scalar(grep { defined $f->get("<>/large/$_") } 1 .. $clients), $waiting,
    'and are there');


# the number that a counter begins with is long in coming

my $counted = 2000;

# the first request asks for it, however slow the machine is: it waits longer

$o->hold_path('/begin');

my $first = start_get($h->port(), '/first');

ok(wait_for(sub { $o->held('/begin') }), 'the number is asked for');

$was = $memory->now()->{bytes};
is($t->load(port => $h->port(), uri => '/seed', clients => 50,
    requests => $counted)->{status}{200}, $counted, 'nobody waits for long');

$memory->quiet();
$grown = $memory->now()->{bytes} - $was;
note("$grown bytes for $counted counts");
cmp_ok($grown, '<', $counted * 64, 'memory for those that have waited');

$o->release('/begin');
ok(wait_for(sub { ($m->get('seed') // 0) == 8 + $counted }), 'all are counted')
    or diag($m->get('seed'));
like(finish($first)->body(), qr/^\d+$/, 'and it is told the number');


# and all is as it was

cmp_ok(time() - $start, '<', 60, 'nobody has waited for a timeout');
ok(wait_for(sub { $memory->now()->{bytes} - $was < 128 * 1024 }, 5),
    'the memory is given back') or diag($memory->now()->{bytes} - $was);
ok(wait_for(sub { $h->fds($worker) <= $fds + 2 }, 5), 'so are descriptors');
like($h->get('/many?key=a')->body(), qr/^\{"a":0\}/, 'it goes on');

$t->done();


# for all of its keys

sub has {
    my ($r, $value) = @_;
    return $r->status() == 200 && 500 == (() = $r->body() =~ /:$value\b/g);
}
