#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_writeback: what this host has counted is posted in batches
# until it is answered 2xx; each batch has a name, and is the same when it is
# sent again.  In the end what has arrived, each batch once, is what was
# counted, whatever happened to workers and to the one who is told.

use warnings;
use strict;

use Test::More;

use JSON::PP;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { status => 204 });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_zone %%ZONE%%;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s;
                     connect_timeout 5s; fail_timeout 100ms; }
    mcds_counter_writeback /save interval=%%INTERVAL%% batch=50;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name www.example.com;
        location / {
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location = /by {
            mcds_counter $n key=$arg_k by=$arg_n;
            mcds_return "$n";
        }
        location = /many {
            mcds_counter $n key=many;
            mcds_counter $d key=day period=1d;
            mcds_counter $a key=async async;
            mcds_counter $r key=answer statuses=any;
            mcds_counter $not key=not;
            mcds_counter_writeback $not off;
            mcds_counter $read key=read read;
            mcds_visitor_counter $v key=v visitor=x;
            mcds_return "$n";
        }
        location = /off {
            mcds_counter_writeback off;
            mcds_counter $n key=off;
            mcds_return "$n";
        }
        location = /beacon {
            mcds_counter_api prefix=b: count=on;
        }
        location = /begun {
            mcds_counter $n key=begun;
            mcds_counter_init $n /number timeout=60s;
            mcds_return "$n";
        }
        location = /number {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /other {
            mcds_counter_writeback /save/other?x=1 interval=100ms;
            mcds_counter $n key=other;
            mcds_return "$n";
        }
        location /save {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            proxy_read_timeout 10s;
        }
    }
}
EOT

my $h = $t->nginx('h', $conf =~ s/%%ZONE%%/8m/r =~ s/%%INTERVAL%%/200ms/r);


# what is posted

$h->get('/many') for 1 .. 3;
$h->get('/off');
$h->get('/by?k=by&n=5');
$h->get('/by?k=by&n=-2');
$h->get('/by?k=nothing&n=0');
is(http_post($h->port(), '/beacon?key=1', '')->status(), 200, 'a beacon');

ok(arrived(3 * 4 + 3 + 1), 'all has arrived') or diag(total());

wait_for(sub { my %now = sums(); $now{by} == 3 });

my %got = sums();
my ($day) = grep { /^day:\d+$/ } keys %got;

is_deeply(\%got, { many => 3, $day => 3, async => 3, answer => 3, by => 3,
    'b:1' => 1 }, 'what was counted, and nothing else');

my ($first) = $o->requests('/save');

is($first->{method}, 'POST', 'method');
is($first->{uri}, '/save', 'uri');
is($first->{headers}{'content-type'}, 'application/json', 'type');
like($first->{headers}{'x-mcds-batch'}, qr/^[0-9a-f]{32}-1$/, 'batch');
is($first->{headers}{'content-length'}, length $first->{body}, 'length');
is($o->most('/save'), 1, 'one at a time');

$h->get('/other') for 1 .. 4;
ok($o->wait_requests(1, '/save/other'), 'another location');
is(($o->requests('/save/other'))[0]{uri}, '/save/other?x=1', 'with arguments');

sleep 0.6;
my $n = $o->count(qr/save/);
sleep 0.6;
is($o->count(qr/save/), $n, 'nothing to tell, nothing is told');
is($h->get('/save')->status(), 404, 'internal');


# one worker at a time, though all have counted

$o->mark();
$o->set('/save', { status => 200, delay => 0.7 });
$t->load(ports => [$h], uri => '/slow', clients => 16, requests => 200)
    for 1 .. 2;
ok($o->wait_requests(1, '/save'), 'a slow answer');
$t->load(ports => [$h], uri => '/slow', clients => 16, requests => 200);
ok(arrived(600), 'all has arrived') or diag(total());
is($o->most('/save'), 1, 'one at a time');
$o->set('/save', undef);
$o->mark();


# batches; keys of all kinds, which wait behind the first post

my %want;

$o->hold_path('/save');

for my $i (1 .. 120) {
    my $key = "/x$i-" . 'y' x int rand 300;
    my $times = 1 + $i % 3;

    $h->get($key) for 1 .. $times;
    $want{$key} = $times;
}

my $total = 0;
my @odd = ('"', '\\', '<b>', "\x{e4}\x{f6}", "\x{20ac}", "\t");

for my $odd (@odd) {
    my $bytes = $odd;
    utf8::encode($bytes) if $odd =~ /[^\0-\x7f]/;
    $h->get('/' . $bytes =~ s/([^a-z])/sprintf '%%%02x', ord $1/ger);
    $want{"/$odd"} = 1;
}

$h->get('/%ff%fe');
$want{"/\x{fffd}\x{fffd}"} = 1;
$h->get('/' . 'z' x 990);
$want{'/' . 'z' x 990} = 1;
$total += $_ for values %want;

$o->release('/save');
ok(arrived($total), 'many keys') or diag(total());
%got = sums();
is_deeply({ map { $_ => $got{$_} } grep { m{^/} } keys %got }, \%want,
    'all kinds of keys');
cmp_ok((sort { $b <=> $a } map { scalar @{decode_json($_->{body})} }
    $o->requests('/save'))[0], '==', 50, 'batches of 50 at most');

$h->get('/' . 'z' x 1100);
ok($h->wait_log(qr/counts are lost, 1: no room .* longer than 1024/),
    'too long a key: said');


# whoever is told says no, or nothing

for my $how ({ status => 500 }, { status => 404 }, { abort => 0 }) {
    my $name = $how->{status} // 'aborted';

    $o->set('/save', $how);
    $o->mark();
    $h->get("/no$name") for 1 .. 3;
    ok($o->wait_requests(1, '/save'), "$name: asked");
    $h->get("/no$name");
    ok($o->wait_requests(3, '/save'), "$name: again");

    my @r = $o->requests('/save');
    my %bodies = map { $_->{body} => 1 } @r;
    my %batches = map { $_->{headers}{'x-mcds-batch'} => 1 } @r;

    is(scalar keys %bodies, 1, "$name: the same again");
    is(scalar keys %batches, 1, "$name: under the same name");

    $o->set('/save', undef);
    ok(arrived(4), "$name: all has arrived in the end") or diag(total());
}

is($h->log_count(qr/"mcds_counter_writeback \/save" answered 500/), 1,
    'said once');
is($h->log_count(qr/"mcds_counter_writeback \/save" is answered again/), 3,
    'and that it is over');


# a batch whose answer is lost comes again; a batch under way when its worker
# is killed, too

$t->not_in('single', 'what nginx knows ends with the process');

$o->mark();
$o->hold_path('/save');
$h->get('/held') for 1 .. 5;
ok(wait_for(sub { $o->held('/save') }), 'a batch is under way');
$h->get('/held') for 1 .. 5;
$h->kill_worker($_) for $h->workers();
ok($o->wait_requests(2, '/save'), 'killed: it comes again');
my @r = $o->requests('/save');
is($r[1]{headers}{'x-mcds-batch'}, $r[0]{headers}{'x-mcds-batch'},
    'under the same name');
is($r[1]{body}, $r[0]{body}, 'the same');
$o->release('/save');
ok(arrived(10), 'and the rest') or diag(total());


# under load, with workers killed and replaced, and the other end down

$o->mark();
my $sent = 0;

for my $round (1 .. $t->size(6, 40)) {
    my $load = $t->load(ports => [$h], uris => [map { "/load$_" } 1 .. 20],
        clients => 8, requests => 2000, background => 1);

    sleep 0.05 + rand 0.2;

    if ($round % 3 == 0) {
        $o->set('/save', { status => 503 });
        sleep 0.3;
        $o->set('/save', undef);

    } elsif ($round % 3 == 1) {
        $h->reload(wait_old => 1);

    } else {
        $h->kill_worker($_) for $h->workers();
    }

    my $r = $load->wait();
    $sent += $r->{ok};
}

# a request may be counted and its client not be answered, when it is killed

ok(arrived($sent), "load: $sent") or diag(total());
sleep 1;
my $sum = total();
cmp_ok($sum, '<=', $sent + 8 * $t->size(6, 40), "load: no more than that");
my $counted = 0;
$counted += $m->get("/load$_") for 1 .. 20;
cmp_ok(abs($sum - $counted), '<=', 8 * $t->size(6, 40), 'as in memcached');


# memcached is down: what was viewed is posted all the same

$o->mark();
$m->kill9();
$h->get('/down') for 1 .. 9;
ok(arrived(9), 'without memcached');
$m->restart();
ok(wait_for(sub { ($m->get('/down') // 0) == 9 }), 'and counted later');


# a location that is asked for the number of a counter is not told of a count
# before it has answered, since the number would have it, too

$o->set('/number', { status => 200, body => '5' });
$o->hold_path('/number');

my @begun = map { start_get($h->port(), '/begun') } 1 .. 3;
my $gone = start_get($h->port(), '/begun');

$o->wait_requests(1, '/number');
$gone->reset();

for (1 .. 2) {
    $o->mark();
    $h->get('/many');
    ok(wait_for(sub { my %s = sums(); $s{many} }, 15),
        'begun: others are posted');
    my %sums = sums();
    is($sums{begun}, undef, 'begun: one that waits for its number is not');
}

$o->mark();
$o->release('/number');

my %shown = map { finish($_)->body() => 1 } @begun;

is(scalar(grep { /^[6-9]\z/ } keys %shown), 3, 'begun: each has its number');
ok(wait_for(sub { my %s = sums(); ($s{begun} // 0) == 4 }, 15),
    'begun: and is then');
is($m->get('begun'), 9, 'begun: also that of a client who has gone');


# at the end

my $last = $t->nginx('last',
    $conf =~ s/%%ZONE%%/8m/r =~ s/%%INTERVAL%%/1h/r);

$o->mark();
$last->get("/last$_") for 1 .. 130;
sleep 0.7;
is($o->count(), 0, 'an hour is not over');

# nginx gives new workers 100 ms before it ends the old ones; if no new worker
# runs by then, as on a busy machine, an old one posts all

my $reloaded;

for my $try (1 .. 5) {
    $reloaded = $last->reload(wait_old => 1) or last;
    last if $o->count() == 0;
    $o->mark();
    $last->get("/last$_") for 1 .. 130;
}

ok($reloaded, 'reload');
is($o->count(), 0, 'a reload does not post');
$last->get('/last1');
my $watch = $t->stopwatch();
ok($last->quit(), 'quit');
cmp_ok($watch->(), '<', 3 * $t->slow(), 'soon');
is(total(), 131, 'all is posted then');

$last->up();
$o->mark();
$o->set('/save', { status => 500 });
$last->get('/last') for 1 .. 3;
$watch = $t->stopwatch();
ok($last->quit(), 'quit, and nobody listens');
cmp_ok($watch->(), '<', 8 * $t->slow(), 'does not wait for ever');
ok($last->log_has(qr/counts are lost, 3: nginx exits before they were posted/),
    'says what is lost');

# what was for a URI that the configuration has no more

$last->up();
$last->get('/last') for 1 .. 3;
$last->conf($conf =~ s/%%ZONE%%/8m/r =~ s/%%INTERVAL%%/1h/r
    =~ s{mcds_counter_writeback\s+/save}{mcds_counter_writeback /other}r);
ok($last->reload(), 'another one');
ok($last->quit(), 'quit after that');
ok($last->log_has(qr/counts are lost, 3: the configuration no longer has/),
    'and what is lost is said, too');
$last->conf($conf =~ s/%%ZONE%%/8m/r =~ s/%%INTERVAL%%/1h/r);

$o->set('/save', undef);

if ($t->full()) {
    $last->up();
    $o->hold_path('/save');
    $last->get('/last') for 1 .. 3;
    $watch = $t->stopwatch();
    ok($last->quit(), 'quit, and there is no answer');
    cmp_ok($watch->(), '<', 8 * $t->slow(), 'nor for that');
    $o->release('/save');
}


# more than the sum of a counter can be

my $big = $t->nginx('big', $conf =~ s/%%ZONE%%/8m/r =~ s/%%INTERVAL%%/200ms/r);

$o->mark();
$o->set('/save', { status => 500 });
$big->get('/by?k=big&n=1000000000000000000') for 1 .. 6;
$big->get('/by?k=low&n=-1000000000000000000') for 1 .. 6;
ok($big->wait_log(qr/counts are lost, [1-4]0{18}: no room is left/),
    'big: what does not fit is lost, and said');
$o->set('/save', undef);
my %big;
ok(wait_for(sub { %big = sums();
    ($big{big} // 0) == 4_000_000_000_000_000_000
        && ($big{low} // 0) == -4_000_000_000_000_000_000 }, 20),
    'big: the rest is posted') or diag(join ' ', %big);


# no room: early, and what is lost is said

my $tiny = $t->nginx('tiny',
    $conf =~ s/%%ZONE%%/64k/r =~ s/%%INTERVAL%%/1h/r);

$o->mark();
$tiny->get("/tiny$_") for 1 .. 52;
ok($o->wait_requests(1, '/save'), 'crowded: posted before the time');
$o->set('/save', { status => 500 });
$tiny->get("/tiny$_") for 100 .. 300;
ok($tiny->wait_log(qr/counts are lost, \d+: no room is left/), 'full: said');
$o->set('/save', undef);
my %tiny;
ok(wait_for(sub { %tiny = sums(); my ($lost) = lost($tiny);
    $tiny->get('/tiny0');
    grep { m{^/tiny[12]..$} } keys %tiny }, 10), 'and the rest is posted');

$t->allow(qr/memcached server .* is down/);
$t->done();


# batches that were answered well, each once

sub batches {
    my %batch;

    for my $r ($o->requests(qr{^/save$})) {
        my $name = $r->{headers}{'x-mcds-batch'};

        is($batch{$name}{body}, $r->{body}, "$name is the same")
            if $batch{$name} && $batch{$name}{body} ne $r->{body};

        $batch{$name} = $r;
    }

    return values %batch;
}


sub sums {
    my %sum;

    for my $r (batches()) {
        $sum{$_->{key}} += $_->{delta} for @{decode_json($r->{body})};
    }

    return %sum;
}


sub total {
    my %sum = sums();
    my $sum = 0;
    $sum += $_ for values %sum;
    return $sum;
}


sub arrived {
    my ($n) = @_;
    return wait_for(sub { total() >= $n }, 15);
}


sub lost {
    my ($host) = @_;
    return map { /counts are lost, (\d+)/ ? $1 : () }
        $host->log_lines(qr/counts are lost/);
}
