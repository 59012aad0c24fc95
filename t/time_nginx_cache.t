#!/usr/bin/perl

# Copyright (C) mcds authors

# Below mcds_cache there may be a cache of nginx, such as proxy_cache.  A
# response that has been there for some time is stored for the rest of the
# lifetime that the origin gave it, and has the Age.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $begin = 1_700_000_000;
my ($date, $until) = ('Tue, 14 Nov 2023 22:13:20 GMT',
    'Tue, 14 Nov 2023 22:15:00 GMT');

my %lifetime = (
    control => ['Cache-Control' => 'max-age=100'],
    aged => ['Cache-Control' => 'max-age=100', Age => 20],
    accel => ['X-Accel-Expires' => 100],
    at => ['X-Accel-Expires' => '@' . ($begin + 100)],
    expires => [Expires => $until],
    dated => [Expires => $until, Date => $date],
    none => [],
);

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($kind) = $q->{path} =~ m{([a-z]+)$};
    return { headers => $lifetime{$kind // ''}
        // ['Cache-Control' => 'max-age=100', ETag => '"e"'],
        status => $q->{headers}{'if-none-match'} ? 304 : 200 };
});

my $clock = Test::Mcds::Clock->new($t, $begin);

my $h = $clock->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    proxy_cache_path %%TMP%%/cache keys_zone=c:1m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason";

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache_key         $uri;
        proxy_cache            c;
        proxy_cache_key        $arg_of;
        proxy_cache_valid      200 10m;
        proxy_cache_revalidate on;

        location / {
            mcds_cache       on;
            mcds_cache_valid 200 100s;
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
        }
        location /warm/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /stay/ {
            mcds_cache                   on;
            mcds_cache_background_update off;
            proxy_ignore_headers         Cache-Control;
            proxy_pass                   http://127.0.0.1:%%PORT_o%%;
        }
        location /long/ {
            proxy_ignore_headers Cache-Control;
            proxy_pass           http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# the seconds for which a stored page is fresh from now on; the lock of its
# build is released when it is stored

sub rest {
    my ($uri) = @_;
    my $page = page_wait($m, $uri) or return 'not stored';

    wait_for(sub { !defined $m->get("<>$uri:lock") }) or return 'locked';
    $page = page_wait($m, $uri);

    return sprintf "%.0f", page_decode($page)->{expire} / 1000
        - $clock->time_now();
}


$h->get("/warm/$_?of=$_") for sort(keys %lifetime), 'again';
$h->get('/long/old?of=old');
$h->get('/stay/on?of=stay');
my $page = page_wait($m, '/stay/on');

$clock->add(70);

for my $kind (sort keys %lifetime) {
    is($h->get("/$kind?of=$kind")->header('X-Cache'), 'MISS absent',
        "$kind: from the cache of nginx");
    is(rest("/$kind"), $kind eq 'none' ? 100 : $kind eq 'aged' ? 10 : 30,
        "$kind: fresh for the rest of its lifetime");
    is($h->get("/$kind?of=$kind")->header('Age'), $kind eq 'aged' ? 90 : 70,
        "$kind: its age");
    is($o->count("/$kind"), 0, "$kind: the origin is not asked");
}


# what has just come from the origin, or is confirmed by it, has all of it

$h->get('/new?of=new');
is(rest('/new'), 100, 'a new response has the whole lifetime');

$clock->add(40);

$h->get('/again?of=again');
is(($o->requests('/again'))[-1]{headers}{'if-none-match'}, '"e"',
    'proxy_cache_revalidate: the origin is asked');
is(rest('/again'), 100, 'and what it confirms has the whole lifetime');


# what is kept there for longer than the origin allows

is($h->get('/old?of=old')->header('X-Cache'), 'MISS expired',
    'a response that has expired is not stored');
is($o->count('/old'), 0, 'though nginx still has it');

is($h->get('/stay/on?of=stay')->header('X-Cache'), 'EXPIRED expired',
    'a page, when its response has expired there');
ok(wait_for(sub { !defined $m->get('<>/stay/on:lock') }), 'unlocked again');
is($m->get('<>/stay/on'), $page, 'stays until there is a newer one');
is($o->count('/stay/on'), 1, 'for which the origin is not asked yet');

$clock->add(600);

is($h->get('/stay/on?of=stay')->header('X-Cache'), 'EXPIRED stale',
    'then it is built');
is(rest('/stay/on'), 100, 'with the whole lifetime');

$t->done();
