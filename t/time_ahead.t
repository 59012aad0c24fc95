#!/usr/bin/perl

# Copyright (C) mcds authors

# The pages of a host whose clock is, or was, minutes ahead: their age is not
# known, so a worker that has not seen the page before takes it for expired; one
# that has knows an age that the page does not exceed.  In no case a page is
# fresh for longer than it lives.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many',
    'each worker learns how clocks differ');
$t->needs('mcds vary');

my ($life, $ahead) = (60, 300);

my $m = $t->memcached('m');
my $m2 = $t->memcached('m2');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => "max-age=$life"
        . ($q->{path} =~ /must/ ? ', must-revalidate' : ''),
        $q->{path} =~ /vary/ ? (Vary => 'X-A') : ()], body => 'x' x 5000 };
});
my $clock = Test::Mcds::Clock->new($t, 1_700_000_000);

$t->write_file('key', 'a secret of some length');

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool other { server 127.0.0.1:%%PORT_m2%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache main;
        mcds_cache_key $uri;
        mcds_cache_background_update off;
        add_header X-Cache "$mcds_cache_status $mcds_cache_reason";
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /behind/ {
            mcds_cache_background_update 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /validated/ {
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /timed/ {
            mcds_cache_local timed=1s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /signed/ {
            mcds_cache_hmac_key %%TMP%%/key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /small/ {
            mcds_cache_compress gzip types=*;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /other/ {
            mcds_cache other;
            mcds_cache_key /plain/late;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOC

my ($a, $b, $c) = ($clock->nginx('a', $conf, offset => $ahead),
    $clock->nginx('b', $conf), $clock->nginx('c', $conf));

my $start = $clock->time_now();


# the page is 50 s old when it is looked at first

for my $kind ('plain', 'must', 'behind', 'validated', 'timed', 'signed',
    'small', 'vary')
{
    my $uri = "/$kind/late";

    $clock->put($start += 1000);
    my $r = $a->get($uri);
    page_wait($m, $uri);

    $clock->put($start + 50);
    my $late = $b->get($uri);

    unlike($late->header('X-Cache'), qr/HIT/, "$kind: not known, not fresh");

    # where it may, it is shown while it is built; no cache behind nginx takes
    # it for fresh

    if ($kind eq 'behind') {
        is($late->header('X-Cache'), 'STALE stale', "$kind: shown");
        cmp_ok($late->header('Age'), '>=', $life, "$kind: as old as it may be");
        ok($o->wait_requests(2, $uri), "$kind: and built");

    } else {
        # an update of the page before may come in between

        cmp_ok($late->header('X-Answer'), '>', $r->header('X-Answer'),
            "$kind: built");
    }

    # the one that was built is fresh for all whose clocks are right

    ok(wait_for(sub { $_->get($uri)->header('X-Cache') eq 'HIT fresh' }),
        "$kind: then fresh") for $b, $c;

    # the host that is ahead sees an old page, and builds another one, which is
    # made after what has been seen

    $clock->put($start + 55);
    my $n = $a->get($uri)->header('X-Answer');

    ok(wait_for(sub { $a->get($uri)->header('X-Cache') eq 'HIT fresh' }),
        "$kind: built by the host that is ahead");

    my $seen;
    ok(wait_for(sub {
        $seen = $b->get($uri);
        return $seen->header('X-Cache') eq 'HIT fresh'
            && $seen->header('X-Answer') >= $n;
    }), "$kind: fresh where another one was seen before");
    cmp_ok($seen->header('Age'), '<=', 6, "$kind: its age is about known");

    $clock->put($start + 120);
    unlike($b->get($uri)->header('X-Cache'), qr/HIT/,
        "$kind: and it has expired in time");
}

# what a host builds while its clock is ahead, and finds when that is right

for my $kind ('plain', 'validated', 'timed', 'vary') {
    my $uri = "/$kind/back";

    $clock->put($start += 1000);
    $c->get($uri);
    page_wait($m, $uri);
    is($c->get($uri)->header('X-Cache'), 'HIT fresh', "$kind: kept");

    $clock->put($start -= $ahead);

    my $r = $c->get($uri);

    unlike($r->header('X-Cache'), qr/HIT/, "$kind: set back, not fresh");
    ok(wait_for(sub { $c->get($uri)->header('X-Cache') eq 'HIT fresh' }),
        "$kind: set back, built");

    $start += $ahead;
}

# a page of another pool, under the same key, says nothing of this one

$clock->put($start += 1000);
$a->get('/plain/late');
$clock->put($start + 10);
page_wait($m, '/plain/late');
is($b->get('/other/late')->header('X-Cache'), 'MISS absent', 'another pool');
$b->get('/other/late');
$clock->put($start + 50);
unlike($b->get('/plain/late')->header('X-Cache'), qr/HIT/,
    'another pool: not known');

$t->done();
