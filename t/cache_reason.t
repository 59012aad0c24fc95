#!/usr/bin/perl

# Copyright (C) mcds authors

# $mcds_cache_reason, $mcds_cache_ttl, $mcds_cache_lock_wait and the header
# Cache-Status of RFC 9211: one row for each way through the cache.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->allow(qr/too large|still being built|not stored/,
    qr/upstream|temporarily disabled|breaker|could not be built/);
$t->needs('mcds vary');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'answer %k' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool nowhere { server 127.0.0.1:%%PORT_nowhere%%; }
    mcds_use main;
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    add_header X-TTL $mcds_cache_ttl always;
    add_header X-Wait $mcds_cache_lock_wait always;
    log_format way '$request_uri $mcds_cache_status $mcds_cache_reason';
    access_log %%DIR%%/way.log way;
    mcds_cache on;
    mcds_cache_status_header on;
    mcds_cache_session_cookies sid;
    mcds_cache_bypass $arg_bypass;
    mcds_no_cache $arg_nocache $http_x_no_cache;
    mcds_cache_max_size 100k;
    mcds_purge_api method=PURGE;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /valid {
            mcds_cache_valid 200 404 1m;
            mcds_cache_revalidate on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /control {
            mcds_cache_request_control on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /nokey {
            mcds_cache_key $arg_none;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /down {
            mcds_cache nowhere;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /short {
            mcds_cache_lock_timeout 100ms;
            mcds_cache_wait 100ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /tags {
            mcds_cache_tag $upstream_http_x_tags;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /quiet {
            mcds_cache_status_header off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub cc { return { headers => ['Cache-Control' => @_] } }

# what is done before; the request; status, reason, Cache-Status

my $fill = sub { $h->get($_[0]); page_wait($m, key($_[0])) or die $_[0] };

sub expired {
    my ($ms, %more) = @_;
    return sub { $fill->($_[0]); page_expire($m, key($_[0]), $ms, %more) };
}

# a page with an ETag, and what a 304 says of it

sub confirmed {
    my ($control, $confirms) = @_;
    my $before = $control->[0] eq 'no-cache' ? $fill : expired(61500);
    my @etag = (ETag => '"a"');

    return sub {
        $o->set($_[0], { headers => [@etag, 'Cache-Control' => @$control] });
        $before->($_[0]);
        $o->set($_[0], { status => 304, body => '',
            headers => [@etag, @$confirms] });
    };
}

# the clock moves on by a millisecond at least, the unit of all times

sub a_moment {
    my $start = int(time() * 1000);
    wait_for(sub { int(time() * 1000) > $start + 1 });
}

sub answers { my %o = @_; return sub { $o->set($_[0], { %o }) } }

my @rows = (
    ['absent', undef, {}, 'MISS', 'absent',
        'fwd=uri-miss; fwd-status=200; stored; ttl=60; detail=absent'],
    ['fresh', expired(-58500), {}, 'HIT', 'fresh', 'hit; ttl=58; detail=fresh'],
    ['refresh', expired(1500), {}, 'STALE', 'stale',
        'hit; ttl=-2; detail=stale'],
    ['rebuild', expired(61500), {}, 'EXPIRED', 'stale',
        'fwd=stale; fwd-status=200; stored; ttl=60; detail=stale'],
    ['unusable', expired(1500, flags => 2), {}, 'EXPIRED', 'stale',
        'fwd=stale; fwd-status=200; stored; ttl=60; detail=stale'],
    ['purged', sub { $fill->($_[0]); $h->get($_[0], method => 'PURGE');
        a_moment() }, {}, 'STALE', 'purged', 'hit; ttl=-1; detail=purged'],
    ['deleted', sub { $m->set(key($_[0]), page_encode(key => key($_[0]),
        kind => 3, status => 0)) }, {}, 'MISS', 'purged',
        'fwd=uri-miss; fwd-status=200; stored; ttl=60; detail=purged'],
    ['marked', sub { $m->set(key($_[0]), page_encode(key => key($_[0]),
        kind => 1, status => 0)) }, {}, 'MISS', 'uncacheable',
        'fwd=uri-miss; fwd-status=200; stored; ttl=60; detail=uncacheable'],

    ['session', undef, { headers => { Cookie => 'sid=1' } }, 'BYPASS',
        'session', 'fwd=bypass; fwd-status=200; detail=session'],
    ['override', undef, { headers => { 'X-HTTP-Method-Override' => 'HEAD' } },
        'BYPASS', 'method-override',
        'fwd=bypass; fwd-status=200; detail=method-override'],
    ['bypass?bypass=1', undef, {}, 'BYPASS', 'bypass',
        'fwd=bypass; fwd-status=200; stored; ttl=60; detail=bypass'],
    ['nokey', undef, {}, 'BYPASS', 'key',
        'fwd=bypass; fwd-status=200; detail=key'],
    ['private', sub { $m->set(key($_[0]), page_encode(key => key($_[0]))) },
        { headers => { Authorization => 'x' } }, 'BYPASS', 'authorization',
        'fwd=bypass; fwd-status=200; detail=authorization'],
    ['method', undef, { method => 'DELETE' }, undef, 'method',
        'fwd=method; fwd-status=200; detail=method'],
    ['body', undef, { method => 'GET', body => 'x' }, undef, 'body',
        'fwd=bypass; fwd-status=200; detail=body'],
    ['down', undef, {}, 'MISS', 'memcached',
        'fwd=uri-miss; fwd-status=200; stored; ttl=60; detail=memcached'],

    (map { [$_->[0], answers(@$_[2 .. $#$_]), {}, 'MISS', $_->[1],
        'fwd=uri-miss; fwd-status=' . ({ @$_[2 .. $#$_] }->{status} // 200)
        . "; detail=$_->[1]"] }
        ['no-store', 'no-store', %{ cc('no-store') }],
        ['no-cache', 'no-cache', %{ cc('no-cache') }],
        ['private2', 'private', %{ cc('private') }],
        ['cookie', 'set-cookie', headers => ['Set-Cookie' => 'a=b']],
        ['no-life', 'no-lifetime', headers => []],
        ['old', 'expired', %{ cc('max-age=0') }],
        ['500', 'status', status => 500],
        ['malformed', 'malformed', %{ cc('max-age = 1') }],
        ['large', 'size', body => 'x' x 200000],
        ['tags/many', 'tags', headers => ['Cache-Control' => 'max-age=60',
            'X-Tags' => join ',', 1 .. 200]],
    ),
    ['rule?nocache=1', undef, {}, 'MISS', 'rule',
        'fwd=uri-miss; fwd-status=200; detail=rule'],
    ['authorization', undef, { headers => { Authorization => 'x' } }, 'MISS',
        'authorization', 'fwd=uri-miss; fwd-status=200; detail=authorization'],

    ['valid/304', sub { $o->set($_[0], { headers => [ETag => '"a"'] });
        expired(61500)->($_[0]); $o->set($_[0], { status => 304, body => '',
        headers => [ETag => '"a"'] }) }, {}, 'REVALIDATED', 'unchanged',
        'fwd=stale; fwd-status=304; stored; ttl=60; detail=unchanged'],
    ['valid/304-no-store', confirmed(['max-age=60'],
        ['Cache-Control' => 'no-store']), {}, 'REVALIDATED', 'no-store',
        'fwd=stale; fwd-status=304; ttl=-62; detail=no-store'],
    ['valid/304-rule', confirmed(['max-age=60'], []),
        { headers => { 'X-No-Cache' => 1 } }, 'REVALIDATED', 'rule',
        'fwd=stale; fwd-status=304; ttl=60; detail=rule'],
    ['valid/304-each-new', confirmed(['no-cache'], ['X-New' => 1]), {},
        'REVALIDATED', 'unchanged',
        'fwd=stale; fwd-status=304; stored; ttl=0; detail=unchanged'],
    ['error', sub { expired(61500)->($_[0]); $o->set($_[0],
        { status => 500 }) }, {}, 'STALE', 'error',
        'fwd=stale; fwd-status=500; ttl=-62; detail=error'],

    ['control', $fill, { headers => { 'Cache-Control' => 'no-cache' } },
        'BYPASS', 'request',
        'fwd=request; fwd-status=200; stored; ttl=60; detail=request'],
    ['vary', sub {
            $o->set($_[0], { headers => ['Cache-Control' => 'max-age=60',
                Vary => 'X-A'] });
            $fill->($_[0]);
        }, { headers => { 'X-A' => 1 } }, 'MISS', 'absent',
        'fwd=vary-miss; fwd-status=200; stored; ttl=60; detail=absent'],

    ['quiet', undef, {}, 'MISS', 'absent', undef],
    ['off', undef, {}, undef, undef, undef],
);

for (@rows) {
    my ($uri, $before, $args, $status, $reason, $header) = @$_;

    $uri = "/$uri";
    $before->($uri) if $before;

    my $r = $h->get($uri, %$args);
    is($r->header('X-Cache'), $status, "$uri: status");
    is($r->header('X-Reason'), $reason, "$uri: reason");

    # some seconds may have passed

    my $got = $r->header('Cache-Status') // '';
    my ($ttl) = ($header // '') =~ /ttl=(-?\d+)/;
    my $left = join '|', map { ($ttl // 60) - $_ } 0 .. 5 * $t->slow();
    $got =~ s/ttl=(?:$left)\b/ttl=$ttl/ if defined $ttl;
    is($got, defined $header ? "mcds; $header" : '', "$uri: Cache-Status");
    like($r->header('X-TTL') // '', defined $ttl ? qr/^(?:$left)$/
        : qr/^(?:$left|)$/, "$uri: ttl");
    $o->set($uri, undef);
}

# who waits

$o->hold_path('/wait');
my @p = map { start_get($h->port(), '/wait') } 1, 2;
$o->wait_requests(1, '/wait');

# both requests have come, so that one of them waits for the other

$h->handled('/quiet');
select undef, undef, undef, 0.1;
$o->release('/wait');
my @r = sort { $b->header('X-Cache') cmp $a->header('X-Cache') }
    map { finish($_) } @p;
is($r[1]->header('X-Reason'), 'built', 'waited for: reason');
like($r[1]->header('Cache-Status'),
    qr/^mcds; fwd=uri-miss; collapsed; ttl=(?:5\d|60); detail=built$/,
    'waited for: Cache-Status');
cmp_ok($r[1]->header('X-Wait'), '>=', 0.05, 'waited for: how long');
cmp_ok($r[1]->header('X-Wait'), '<', 10, 'waited for: no longer');
like($r[0]->header('X-Wait'), qr/^\d+\.\d{3}$/, 'who built has asked');

$o->hold_path('/short');
my $p = start_get($h->port(), '/short');
$o->wait_requests(1, '/short');
my $r = $h->get('/short');
is($r->status(), 503, 'waited in vain');
is($r->header('X-Reason'), 'timeout', 'waited in vain: reason');
is($r->header('Cache-Status'), 'mcds; detail=timeout',
    'waited in vain: Cache-Status');
$o->release('/short');
finish($p);

# requests that have waited are told at once that the origin has failed

$o->set('/failed', { status => 500 });
$o->hold_path('/failed');
$p = start_get($h->port(), '/failed');
$o->wait_requests(1, '/failed');
@p = map { start_get($h->port(), '/failed') } 1, 2;
$h->get('/quiet') for 1 .. 4;
$o->release('/failed');
is(finish($p)->status(), 500, 'origin failed: the request that has built');

for (map { finish($_) } @p) {
    is(join(' ', map { $_ // 'none' } $_->status(), $_->header('X-Cache'),
        $_->header('X-Reason')), '503 MISS error',
        'origin failed: requests that have waited');
    is($_->header('Cache-Status'), 'mcds; detail=error',
        'origin failed: Cache-Status');
}

# an answer that is cut short

$o->set('/cut', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'x' x 1000, truncate => 500 });
$h->get('/cut');
ok(wait_for(sub { $t->read_file('h/way.log') =~ m{^/cut MISS truncated$}m }),
    'cut short: in the access log') or diag($t->read_file('h/way.log'));

# what the origin says of itself stays

$o->set('/chain', { headers => ['Cache-Control' => 'max-age=60',
    'Cache-Status' => 'origin; hit'] });
$h->get('/chain');
page_wait($m, key('/chain'));
is_deeply([map { s/ttl=\d+/ttl/r } $h->get('/chain')->all('Cache-Status')],
    ['origin; hit', 'mcds; hit; ttl; detail=fresh'], 'a chain of caches');

$t->done();
