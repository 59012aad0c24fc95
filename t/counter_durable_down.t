#!/usr/bin/perl

# Copyright (C) mcds authors

# What is counted while a server cannot be reached is kept in the zone, also
# when workers are killed or replaced, and added once when the server is back.
# What was sent without an answer is never sent again.  The room is bounded,
# and what does not fit is logged.

use warnings;
use strict;

use Test::More;

use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('single',
    'what nginx knows ends with the process')
    ->not_in('many', 'it looks at few workers');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub { 100 });
my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if $line !~ /^ma / || !$f->mode();
    return ($f->hold('answer'), $f->default($line, $value))
        if $f->mode() eq 'hold';

    if ($f->mode() eq 'lost') {
        $f->default($line, $value);
        return $f->fin();
    }

    # random: one of thirty, done or not

    return if int rand 30;
    $f->default($line, $value) if int rand 2;
    return (sub { $f->fin() }, sub { $f->rst() }, sub { $f->stall() },
        sub { $f->deaf() })[rand 4]->();
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_zone %%ZONE%%;
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        fail_timeout 100ms;
    }
    mcds_pool fake {
        server 127.0.0.1:%%PORT_f%%;
        timeout 500ms;
        fail_timeout 100ms;
    }
    mcds_pool late {
        server 127.0.0.1:%%PORT_f%%;
        timeout 2s;
        connect_timeout 2s;
        fail_timeout 100ms;
    }
    mcds_use main;
    keepalive_requests 1000000;
    log_format number "$uri [$n]";
    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/numbers number;
        location / {
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location = /down {
            mcds_counter $n key=down by=-3;
            mcds_return "$n";
        }
        location = /by {
            mcds_counter $n key=$arg_k by=$arg_n;
            mcds_return "$n";
        }
        location = /async {
            mcds_counter $n key=async async=20ms;
            mcds_return "$n";
        }
        location = /window {
            mcds_counter $n key=window period=1d;
            mcds_return "$n";
        }
        location = /off {
            mcds_counter $n key=off;
            mcds_counter_durable $n off;
            mcds_counter_buffer $n off;
            mcds_return "$n";
        }
        location = /answer {
            mcds_counter $n key=answer statuses=any;
            mcds_return "$n";
        }
        location = /init {
            mcds_counter $n key=init:$arg_k;
            mcds_counter_init $n /number;
            mcds_counter_durable $n off;
            mcds_return "$n";
        }
        location = /number {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location ~ ^/fake/[xy]$ {
            mcds_use late;
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location /fake {
            mcds_use fake;
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
    }
}
EOT

my $h = $t->nginx('h', $conf =~ s/%%ZONE%%/8m/r);


# kept, and added once

my @uris = qw{ /a /async /window /answer };

# one worker gets the numbers of /async, and shows what it adds

my $c = $h->conn();

$c->get($_) for (@uris, '/off', '/init?k=1') x 2;
$m->set('down', 100);
ok(settled('async', 2), 'before');

down();
is($h->get($_)->body() =~ s/\d+//r, '', "$_: nobody waits for it")
    for (@uris, '/down', '/off', '/init?k=1', '/init?k=2') x 10;
my $body = $c->get('/async')->body();
sleep 0.2;
$h->asleep();
cmp_ok($body, '>', 2, "async: shows what it adds, $body");
$c->close();

$h->kill_worker($_) for $h->workers();
$h->get($_) for @uris;
ok($h->reload(wait_old => 1), 'reload');
$h->get($_) for @uris;

# workers find memcached and its items in one turn

$h->freeze();
$m->restart();
$m->set('down', 100);
$m->set('init:1', 500);
$h->cont();

ok(settled('/a', 2 + 10 + 2), '/a: added to what was known');
ok(settled('answer', 2 + 10 + 2), '/answer');
ok(settled('async', 2 + 11 + 2), '/async') or diag($m->get('async'));
ok(settled('down', 70), '/down');
ok(settled('init:1', 510), '/init: one that is there');
is(join(' ', map { $m->get($_) } grep { /^window/ } $m->keys()), 14,
    '/window');
is($m->get('off') // 'none', 'none', '/off: not kept');
is($m->get('init:2') // 'none', 'none',
    '/init: one that is not there begins with its number');

sleep 1.2;
is($m->get('/a'), 14, 'added once');
is($h->get('/a')->body(), 15, 'and counts on');
is($h->get('/init?k=2')->body(), 101, '/init: does');


# down while the location is asked for the number

$o->mark();
$o->hold_path('/number');
my $asked = start_get($h->port(), '/init?k=3');
ok($o->wait_requests(1, '/number'), '/init: asked');
down();
$h->get('/asked');
$o->release();
ok($h->wait_log(qr/no start for counter "init:3"/), '/init: not created');
finish($asked);
$m->restart();
ok(settled('/asked', 1), '/init: the server is back');
sleep 1.2;
is($m->get('init:3') // 'none', 'none', '/init: not created without a number');
is($h->get('/init?k=3')->body(), 101, '/init: begins with its number');


# killed behind a flush, with what is kept

down();
$h->get('/killed') for 1 .. 7;
$h->kill_worker($_) for $h->workers();
$m->restart();
ok(settled('/killed', 7), 'killed workers: added by others');


# more than the sum of a counter can be

my $huge = 1_000_000_000_000_000_000;
my $said = lost($h);

down();
$h->get("/by?k=huge&n=$huge") for 1 .. 6;
$h->get("/by?k=deep&n=-$huge") for 1 .. 6;
$h->get("/by?k=huge&n=-$huge") for 1 .. 2;
$h->get("/by?k=deep&n=$huge") for 1 .. 2;
many(12, sub { [$h->port(), "/by?k=both&n=$huge"] });

$h->freeze();
$m->restart();
$m->set('deep', 9 * $huge);
$h->cont();

ok(settled('huge', 2 * $huge), 'huge: added');
ok(settled('deep', 7 * $huge), 'huge: subtracted');
ok(wait_for(sub { $m->get('both') }), 'huge: added up in one turn');

my $kept = $m->get('both') / $huge;
cmp_ok($kept, '<=', 4, 'huge: no more than a sum can be');
ok(wait_for(sub { lost($h) - $said == (2 + 2 + 12 - $kept) * $huge }),
    'huge: what is lost is said') or diag(lost($h) - $said);


# sent, and the answer is lost

is($h->get('/fake/x')->body(), 1, 'an answer');
$f->mark();
$f->tell('lost');
is($h->get('/fake/x')->body(), '', 'a lost answer');
$f->tell('');
is($h->get('/fake/x')->body(), 3, 'was counted');
is($f->count(qr{^ma /fake/x}), 2, 'and is not sent again');

$f->tell('hold');
$f->mark();
my $p = start_get($h->port(), '/fake/y');
ok(wait_for(sub { $f->held('answer') }), 'a late answer');
is(finish($p)->body(), '', 'nobody waits for it');
$f->tell('');
$f->release('answer');
sleep 1.2;
is($f->count(qr{^ma /fake/y}), 1, 'and it is not sent again');


# random faults: between what was told and that with what was not

$f->tell('random');
my $load = $t->load(ports => [$h], uris => [map { "/fake/r$_" } 1 .. 3],
    clients => 16, requests => $t->size(4000, 100000));
$f->tell('');

is($load->{ok}, $load->{requests}, 'faults: all are answered');
ok(wait_for(sub { $h->get('/fake/z')->body() ne '' }), 'faults: over');
sleep 2.5;

for my $uri (map { "/fake/r$_" } 1 .. 3) {
    my ($acked, $unknown) = numbers($uri);
    my $n = $f->get($uri);

    cmp_ok($n, '>=', $acked, "$uri: $acked were told, $n are counted");
    cmp_ok($n, '<=', $acked + $unknown, "$uri: $unknown were not told");
}


# no room

my $tiny = $t->nginx('tiny', $conf =~ s/%%ZONE%%/64k/r);

down($tiny);
$t->load(ports => [$tiny], uris => [map { "/room$_" } 1 .. 500], clients => 8,
    requests => 1000);
ok($tiny->wait_log(qr/counts are lost, \d+: no room is left to keep them/),
    'no room: said');
$m->restart();
sleep 1.2;
ok(wait_for(sub { my $n = sum(); sleep 1.1; $n && $n == sum() }, 20),
    'no room: the others are added');

my $lost = lost($tiny);
is(sum() + $lost, 1000, "no room: $lost are lost and said");
cmp_ok($m->stats()->{curr_items}, '>', 50, 'no room: some were kept');


# nginx ends while they wait

down($tiny);
$tiny->get('/end') for 1 .. 5;
ok($tiny->quit(), 'quit without a server');
ok($tiny->log_has(qr/counts are lost, 5: nginx exits while they wait/),
    'says what is lost');

$t->allow(qr/memcached server .* is down/, qr/no start for counter/);
$t->done();


sub down {
    my ($host) = (@_, $h);

    $m->kill9();
    ok(wait_for(sub { $host->get('/off') for 1 .. 4;
        $host->get('/off')->body() eq '' }), 'a server is down');
}


sub settled {
    my ($key, $value) = @_;
    return wait_for(sub { ($m->get($key) // '') =~ /^$value *$/ }, 5)
        || diag("$key: " . ($m->get($key) // 'none')) && 0;
}


sub sum {
    my $sum = 0;
    $sum += $m->get($_) // 0 for grep { m{^/room} } $m->keys();
    return $sum;
}


sub lost {
    my ($host) = @_;
    my $sum = 0;
    $sum += $_ for map { /counts are lost, (\d+)/ ? $1 : () }
        $host->log_lines(qr/counts are lost/);
    return $sum;
}


# requests with a number, and without

sub numbers {
    my ($uri) = @_;
    my ($with, $without) = (0, 0);

    for ($t->read_file('h/numbers') =~ /^\Q$uri\E \[(\d+|-)\]$/mg) {
        $_ ne '-' ? $with++ : $without++;
    }

    return ($with, $without);
}
