#!/usr/bin/perl

# Copyright (C) mcds authors

# A failing origin.  Nobody waits one behind the other: all who wait are told at
# once, on all hosts.  Behind an old page nobody sees the error, and for a while
# nobody tries again, on no host; that while doubles with each failure.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT tally /;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=1'] });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Worker $pid always;
    mcds_cache on;
    mcds_cache_error_backoff 1s 2s;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /pass/ {
            mcds_cache_lock_timeout 5s pass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off/ {
            mcds_cache_error_backoff off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

# the lock has been given back, which nobody waits for

sub unlocked {
    my ($uri) = @_;
    return wait_for(sub { ($m->get(key($uri) . ':lock') // '')
        !~ /^[0-9a-f]{32}(?: \d+)?$/ });
}

sub herd {
    my ($n, $uri) = @_;
    return map { start_get($hosts[$_ % 2]->port(), $uri) } 1 .. $n;
}

# a herd at a page whose only build fails

sub fails {
    my ($uri, $n, %answer) = @_;

    $o->set($uri, { status => 502, body => 'broken', %answer });
    $o->hold_path($uri);
    my @p = herd($n, $uri);
    $o->wait_requests(1, $uri);
    $_->handled('/other') for @hosts;
    my $watch = $t->stopwatch();
    $o->release($uri);
    my @r = map { finish($_) } @p;

    return ($watch->(), @r);
}


# nothing stored

my ($took, @r) = fails('/cold', 100);

is(tally(@r), '1 502 MISS, 99 503 MISS', 'cold: all are told');
is($o->count('/cold'), 1, 'cold: one origin request');
cmp_ok($took, '<', 1 * $t->slow(), 'cold: at once');
is(scalar(grep { ($_->header('Retry-After') // '') eq 1 } @r), 99,
    'cold: and when to come again');

# who comes then does not pay for that: it tries, and so on, one at a time

$o->mark();
$o->set('/cold', { status => 502, delay => 0.1 });
is(join(' ', map { unlocked('/cold'); $_->get('/cold')->status() }
    (@hosts) x 3), join(' ', (502) x 6), 'cold: the next one tries');
is($o->count('/cold'), 6, 'cold: each of them');

# a try lasts longer than the herd takes to come

$o->set('/cold', { status => 502, delay => 0.5 });
$o->mark();
@r = map { finish($_) } herd(40, '/cold');
is(scalar(grep { $_->status() =~ /^50[23]$/ } @r), 40, 'cold: another herd');
cmp_ok($o->count('/cold'), '<=', 4, 'cold: few of it try');
is($o->most('/cold'), 1, 'cold: one at a time');

$o->set('/cold', undef);
ok(wait_for(sub { $hosts[0]->get('/cold')->status() == 200 }, 3 * $t->slow()),
    'cold: well again');
ok(wait_for(sub { $hosts[1]->get('/cold')->status() == 200 }, 1 * $t->slow()),
    'cold: on both hosts');
ok(wait_for(sub { !defined $m->get(key('/cold') . ':lock') }, 5),
    'cold: no mark is left');


# behind an old page

$_->get('/old') for @hosts;
page_wait($m, key('/old'));
$o->set('/old', { status => 500, body => 'broken' });
sleep 1.1;
$o->mark();
my $start = time();
my ($bad, $all) = (0, 0);

while (time() - $start < $t->size(4.5, 20)) {
    for (@hosts) {
        my $r = $_->get('/old');
        $all++;
        $bad++ if $r->status() != 200;
    }
    sleep 0.01;
}

my $passed = time() - $start;
my $n = $o->count('/old');

is($bad, 0, 'old: nobody sees the error');
cmp_ok($n, '>=', 2, 'old: tried again');

# at 0, 1, 3, 5 ... seconds

cmp_ok($n, '<=', ($passed - 1) / 2 + 2, 'old: less and less often')
    or diag "$n in $passed s";
is($o->most('/old'), 1, 'old: one at a time');

$o->set('/old', undef);
ok(wait_for(sub { $_->get('/old'); $hosts[0]->get('/old')->body() !~ /broken/
    && $o->count('/old') > $n }, 5 * $t->slow()), 'old: tried again, and well')
    for $hosts[1];
ok(wait_for(sub { !defined $m->get(key('/old') . ':lock') }, 3),
    'old: no mark any more');


# a page that breaks off, a body that never was, a chunk that is none

for (['cut', truncate => 3, status => 200, length => 1000],
    ['reset', abort => 10],
    ['chunk', raw => "HTTP/1.1 200 OK\r\nCache-Control: max-age=9\r\n"
        . "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nno chunk\r\n"])
{
    my ($name, %answer) = @$_;
    my $uri = "/bad/$name";

    ($took, @r) = fails($uri, 20, %answer);
    is(scalar(grep { $_->status() == 503 } @r), 19, "$name: all are told");
    cmp_ok($took, '<', 1 * $t->slow(), "$name: at once");
    is($o->count($uri), 1, "$name: one origin request");
}


# let through, by choice

($took, @r) = fails('/pass/a', 10);
is(tally(@r), '10 502 MISS', 'pass: all ask the origin');


# no pause, by choice: one of each worker tries, those who wait there are told

($took, @r) = fails('/off/a', 40);
is(scalar(grep { $_->status() =~ /^50[23]$/ } @r), 40, 'off: all are told');
cmp_ok($o->count('/off/a'), '<=', 4, 'off: one try of each worker');
is($o->most('/off/a'), 1, 'off: one at a time');
$o->set('/off/a', undef);
is($hosts[0]->get('/off/a')->status(), 200, 'off: the next one tries');


# who builds goes away: that says nothing of the origin, and the next builds

$o->hold_path('/gone');
my $first = start_get($hosts[0]->port(), '/gone');
$o->wait_requests(1, '/gone');
my @p = herd(20, '/gone');
$_->handled('/other') for @hosts;
$first->close();
$o->wait_requests(2, '/gone');
$o->release('/gone');
is(scalar(grep { $_->status() == 200 } map { finish($_) } @p), 20,
    'gone: the others get the page');
is($o->count('/gone'), 2, 'gone: one more origin request');

$t->done();
