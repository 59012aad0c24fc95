#!/usr/bin/perl

# Copyright (C) mcds authors

# A refresh lives apart from the client behind it, holds up nobody, outlives
# that client, a reload and QUIT, leaves the old page alone when it fails, and
# leaves nothing behind, however often it runs (H03, L02).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

my $large = "\n" . join '', map { sprintf "%09d\n", $_ } 1 .. 90000;

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        body => "answer $req->{n}" . ($req->{path} =~ /large/ ? $large : "\n"),
        ($req->{path} =~ /chunked/ ? (chunked => 1) : ()),
    };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { worker_connections 64; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    server {
        listen 127.0.0.1:%%PORT%% sndbuf=32k;
        mcds_cache         on;
        mcds_cache_key     $request_uri;
        mcds_cache_error_backoff 4s;
        add_header         X-Cache $mcds_cache_status;
        proxy_read_timeout 5s;
        proxy_http_version 1.1;
        proxy_set_header   Connection "";

        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }

        location /unbuffered/ {
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /files/ {
            proxy_buffers              4 4k;
            proxy_busy_buffers_size    4k;
            proxy_temp_file_write_size 4k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /memory/ {
            proxy_buffers            4 4k;
            proxy_busy_buffers_size  4k;
            proxy_max_temp_file_size 0;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /slow/ {
            proxy_read_timeout 100ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /refused/ { proxy_pass http://127.0.0.1:%%PORT_none%%; }

        location /stub { mcds_cache off; stub_status; }
    }
}
EOT

my $h = $t->nginx('h', $conf);
my $port = $h->port();
my $second = $t->slow();


sub expired {
    my ($uri, %o) = @_;
    $m->set("<>$uri", page_encode(key => "<>$uri", body => "old $uri\n",
        created => int(time() * 1000) - 62000,
        expire => int(time() * 1000) - 2000, %o));
}


sub status { ($_[0]->header('X-Cache') // 'none') . ' ' . $_[0]->body() }


# bodies of all kinds come whole

for my $uri ('/small', '/large', '/chunked', '/chunked/large',
    '/unbuffered/large', '/unbuffered/chunked/large', '/files/large',
    '/files/chunked/large', '/memory/large', '/memory/chunked/large')
{
    refresh_same($t, $m, $uri, $uri, sub { $h->get($uri) });
}


# the next answers on the connection do not wait for the refresh

$o->hold_path('/keep');
expired('/keep');
$h->get('/other');

my $c = $h->conn();
my $watch = $t->stopwatch();
is(status($c->get('/keep')), "STALE old /keep\n", 'keepalive: refreshed');
is(status($c->get('/keep')), "UPDATING old /keep\n", 'keepalive: the next');
like(status($c->get('/other')), qr/^HIT/, 'keepalive: and another page');
cmp_ok($watch->(), '<', $second, 'keepalive: at once');
ok($o->wait_requests(1, '/keep'), 'keepalive: while the refresh runs');
is($o->held('/keep'), 1, 'keepalive: and waits for the origin');
$o->release('/keep');
like(refresh_wait($m, '/keep')->{body}, qr/^answer/, 'keepalive: done');
like(status($c->get('/keep')), qr/^HIT answer/, 'keepalive: the new page');
$c->close();


# clients that leave: while the page is still being sent, and right away

expired('/left', body => "old$large");
$o->hold_path('/left');
$c = start_get($port, '/left');
ok($o->wait_requests(1, '/left'), 'reset: the origin is asked');
$c->reset();
ok(wait_for(sub { http_get($port, '/stub')->body() =~ /Writing: 1 / },
    5 * $second), 'reset: the client has gone');
is($o->held('/left'), 1, 'reset: the refresh has not');
$o->release('/left');
like(refresh_wait($m, '/left')->{body}, qr/^answer/, 'reset: stored');

for my $i (1 .. 10) {
    expired("/rst/$i");
    my $c = start_get($port, "/rst/$i");
    $i % 2 ? $c->reset() : $c->close();
}

for my $i (1 .. 10) {
    $h->get("/rst/$i");
    like((refresh_wait($m, "/rst/$i") // {})->{body}, qr/^answer/,
        "reset at once: refreshed, $i");
}


# answers that are none: the old page stays and the origin is left alone

my %bad = (
    '/status'        => { status => 502 },
    '/short'         => { body => 'new new', truncate => 4 },
    '/short/chunked' => { body => 'new new', chunked => 1, truncate => 3 },
    '/unbuffered/s'  => { body => 'new new', truncate => 4 },
    '/rst'           => { body => 'new ' x 100, abort => 300 },
    '/none'          => { abort => 0 },
    '/slow/1'        => { delay => 0.3 },
    '/refused/1'     => {},
);

for my $uri (sort keys %bad) {
    expired($uri);
    $o->set($uri, $bad{$uri});
    is(status($h->get($uri)), "STALE old $uri\n", "$uri: the old page");
}

ok($o->wait_requests(1, $_), "$_: the origin was asked")
    for grep { !/refused/ } sort keys %bad;
ok($h->wait_log(qr/timed out.*mcds refresh.*GET \/slow/), 'slow: timed out');
ok($h->wait_log(qr/refused.*mcds refresh.*GET \/refused/), 'refused: said so');

for my $uri (sort keys %bad) {
    my $n = $uri =~ /refused/ ? 0 : 1;
    my %said = map { status($h->get($uri)) => 1 } 1 .. 3;

    is(join(',', keys %said), "UPDATING old $uri\n", "$uri: and still");
    is($o->count($uri), $n, "$uri: not asked again");
    is(page_decode($m->get("<>$uri"))->{body}, "old $uri\n", "$uri: it stays");
}

$o->set($_, undef) for keys %bad;

ok(wait_for(sub {
    $h->get('/status')->header('X-Cache') =~ /^(?:STALE|HIT)/
}, 8 * $second), 'a later one tries again');
like(refresh_wait($m, '/status')->{body}, qr/^answer/, 'and succeeds');


# over and over: more than there are connections, were they not given back

my $total = $t->size(100, 10000);
my ($worker) = $h->workers();
my ($before, $stale, $built) = (undef, 0, 0);

for (my $done = 0; $done < $total; $done += 20) {
    expired("/row/$_") for 1 .. 20;
    $o->mark();
    my @r = many(20, sub { [$port, '/row/' . ($_[0] + 1)] }, concurrency => 5,
        timeout => 5 * $second);
    $stale += grep { status($_) =~ /^STALE old/ } @r;
    $before //= $h->fds($worker);

    for (1 .. 20) {
        last if !refresh_wait($m, "/row/$_", 5 * $second);
        $built++;
    }

    last if $built < $done + 20;
}

is($stale, $total, "$total refreshes in a row");
is($built, $total, 'all stored');
ok(wait_for(sub { $h->fds($worker) <= $before }), 'descriptors: no more')
    or diag($before, ' ', $h->fds($worker));


# reload and QUIT: the old worker ends its refresh first

$t->not_in('single', 'nginx cannot reload then');

for my $signal ('HUP', 'QUIT') {
    my $uri = "/$signal";

    expired($uri);
    $o->hold_path($uri);
    my %old = map { $_ => 1 } $h->workers();

    is(status($h->get($uri)), "STALE old $uri\n", "$signal: the old page");
    ok($o->wait_requests(1, $uri), "$signal: the refresh runs");

    $signal eq 'HUP' ? $h->reload() : $h->signal('QUIT');
    ok(wait_for(sub { grep { $old{$_} } $h->leaving() }, 5 * $second),
        "$signal: the worker waits for it");
    is(status($h->get($uri)), "UPDATING old $uri\n", 'HUP: the new one, too')
        if $signal eq 'HUP';

    $o->release($uri);
    like((refresh_wait($m, $uri) // {})->{body}, qr/^answer/,
        "$signal: stored");

    ok($signal eq 'HUP'
        ? wait_for(sub { !grep { $old{$_} } $h->children() }, 5 * $second)
        : $h->wait_exit(5 * $second), "$signal: and has left");
    ok(!defined $m->get("<>$uri:lock"), "$signal: no lock is left");
}

$t->done();
