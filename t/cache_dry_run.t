#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_cache_dry_run: pages are looked up and stored, nobody waits, and every
# client gets what the origin says; the status tells what would have been.
# mcds_cache_uncacheable: how long a mark stays.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60',
    ETag => '"e"'], body => 'answer %k' });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    mcds_cache on;
    mcds_cache_dry_run DRY;
    mcds_cache_uncacheable 3s;
    mcds_cache_status_header on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache_revalidate on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /early {
            mcds_cache_early 100;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /paused {
            mcds_cache_grace         1h;
            mcds_cache_use_stale     http_500;
            mcds_cache_error_backoff 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /kept {
            mcds_cache_grace     1h;
            mcds_cache_use_stale http_403 http_404 http_500;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $h = $t->nginx('h', $conf =~ s/DRY/on/r);
my $wet = $t->nginx('wet', $conf =~ s/DRY/off/r);

sub status { join ' ', $_[0]->header('X-Cache') // 'none', $_[0]->body() }

is(status($h->get('/a')), 'MISS answer 1', 'the first is a miss');
ok(page_wait($m, key('/a')), 'and stored');
my $r = $h->get('/a');
is(status($r), 'HIT_DRY_RUN answer 2', 'a hit that is not served');
like($r->header('Cache-Status'), qr/^mcds; fwd=bypass; /, 'but bypassed');
is(status($wet->get('/a')), 'HIT answer 1', 'it is there');
is($h->get('/a')->header('Age'), undef, 'no sign of a cache');

# an old page is rebuilt by whom it would be shown to

page_expire($m, key('/a'), 1000);
is(status($h->get('/a')), 'STALE_DRY_RUN answer 4', 'stale');
ok(wait_for(sub { page_decode(page_wait($m, key('/a')))->{body}
    eq 'answer 4' }), 'its answer is stored');
is($o->count('/a'), 4, 'nothing else was asked');

page_expire($m, key('/a'), 61000);
is(status($h->get('/a')), 'EXPIRED answer 5', 'expired');
is(($o->requests('/a'))[4]->{headers}{'if-none-match'}, undef,
    'the origin is not asked whether it is the same');

page_wait($m, key('/a'));
page_expire($m, key('/a'), 61000);
$o->set('/a', { status => 500, body => 'error' });
is($h->get('/a')->status(), 500, 'an error is shown');
$o->set('/a', undef);

# an error that the page would replace is shown, and does not replace the page

for my $status (403, 404, 500, 410) {
    for my $age (1, 61) {
        my $uri = "/kept/$status/$age";

        $h->get($uri);
        page_wait($m, key($uri));
        page_expire($m, key($uri), 1000 * $age);
        $o->set($uri, { status => $status, body => 'error',
            headers => ['Cache-Control' => 'no-store'] });

        my $page = $m->get(key($uri));
        my $shown = $h->get($uri);

        is($shown->status() . ' ' . $shown->body(), "$status error",
            "$status: it is shown");
        is($shown->header('X-Cache'), $age == 1 ? 'STALE_DRY_RUN' : 'EXPIRED',
            "$age s after the page has expired");

        if ($status == 410) {
            ok(wait_for(sub { page_wait($m, key($uri)) ne $page }),
                'it replaces the page');
            next;
        }

        is(page_wait($m, key($uri)), $page, 'the page stays');
        like(status($wet->get($uri)), qr/^(?:STALE|UPDATING) answer 1$/,
            'and can be served');
    }
}

# after a failed build, the stale page would be served without another build

$h->get('/paused');
page_wait($m, key('/paused'));
page_expire($m, key('/paused'), 61000);
$o->set('/paused', { status => 500, body => 'error' });
is(status($h->get('/paused')), 'EXPIRED error', 'the failed build');
$r = $h->get('/paused');
is(status($r), 'STALE_DRY_RUN error', 'back-off: stale');
is($r->header('X-Reason'), 'backoff', 'back-off: why');
is(status($wet->get('/paused')), 'STALE answer 1', 'back-off: so it is');

# a page that is built again before it expires is a hit

$h->get('/early');

ok(wait_for(sub {
    my $e = page_decode(page_wait($m, key('/early')));

    return 1 if $e->{body} ne 'answer 1';

    $m->set(key('/early'), page_encode(%$e, took => 3_600_000));
    $r = $h->get('/early');

    return 0;
}), 'early: built');
like(status($r), qr/^HIT_DRY_RUN /, 'early: a hit');

# conditional requests and ranges are the client's

$r = $h->get('/r', headers => { Range => 'bytes=0-2' });
is(($o->requests('/r'))[0]->{headers}{range} // ($o->requests('/r'))[1]
    ->{headers}{range}, 'bytes=0-2', 'the origin gets the range');

# nobody waits

$o->hold_path('/w');
my @p = map { start_get($h->port(), '/w') } 1 .. 3;
ok($o->wait_requests(3, '/w'), 'all are at the origin');
$o->release('/w');
is_deeply([sort map { finish($_)->header('X-Cache') } @p],
    [qw/ HIT_DRY_RUN HIT_DRY_RUN MISS /], 'two of them would have waited');

# the mark

$o->set('/m', { headers => ['Cache-Control' => 'no-store'] });
$h->get('/m');
ok(page_wait($m, key('/m')), 'a mark');
is(page_decode($m->get(key('/m')))->{kind}, 1, 'it is one');
ttl_between($m, key('/m'), 0, 3, 'and stays as long as told');

like($t->conf_error(location => 'mcds_cache_uncacheable 0;'),
    qr/"0" in "mcds_cache_uncacheable", it must be 1s to 30d/,
    'not at all');

$t->done();
