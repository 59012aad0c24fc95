#!/usr/bin/perl

# Copyright (C) mcds authors

# What an origin says of a page that has expired.  An answer that is for nobody
# else takes the page's place: nobody gets the old one from then on, and nobody
# waits.  An answer that is about one request goes to its client only, and the
# page stays.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'page %k' });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 1024; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_lock_timeout 60s;
    mcds_cache_lock_age 60s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /wait/ {
            mcds_cache_background_update off;
            mcds_cache_wait 30s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /shown/ {
            mcds_cache_background_update off;
            mcds_cache_wait 30s;
            proxy_intercept_errors on;
            error_page 403 404 429 = /error;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /error { internal; return 200 shown; }
        location /rule/ {
            mcds_no_cache $http_x_no;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /asked/ {
            mcds_cache_revalidate on;
            mcds_no_cache $http_x_no;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

sub which {
    my ($r) = @_;
    return join ' ', $r->status(), $r->header('X-Cache') // '-',
        $r->body() =~ /^(page \d+|shown)/ ? $1 : 'other';
}

# a page of each host that has expired, and its origin

sub expired {
    my ($uri) = @_;

    $o->set($uri);
    $hosts[0]->get($uri);
    page_wait($m, key($uri));
    $_->get($uri) for @hosts;
    page_expire($m, key($uri), 1000);
    $o->mark();
}

sub herd {
    my ($n, $uri, @more) = @_;
    return map { start_get($hosts[$_ % 2]->port(), $uri, @more) } 1 .. $n;
}

# 1: a mark; nothing else is stored but pages, which are of kind 0

sub marked {
    my ($uri) = @_;

    return wait_for(sub {
        my $item = $m->get(key($uri));
        my $entry = defined $item ? page_decode($item) : undef;
        return $entry && $entry->{kind} == 1;
    });
}

my @life = ('Cache-Control' => 'max-age=60');
my %withdrawn = (
    (map { $_ => { status => $_, headers => [] } } 401, 403, 404, 410, 451),
    cookie => { headers => [@life, 'Set-Cookie' => 'a=b'] },
    private => { headers => ['Cache-Control' => 'private, max-age=60'] },
    'no-store' => { headers => ['Cache-Control' => 'no-store'] },
    lifeless => { headers => ['X-Nothing' => 1] },
);

my $many = $t->size(20, 200);

for my $name (sort keys %withdrawn) {
    my $answer = { body => 'other', %{ $withdrawn{$name} } };
    my $status = $answer->{status} // 200;

    # behind the old page, which is shown until the origin has answered

    my $uri = "/behind/$name";

    expired($uri);
    $o->set($uri, $answer);
    $o->hold_path($uri);

    my @r = map { finish($_) } herd($many, $uri);

    is(scalar(grep { which($_) =~ /^200 (?:STALE|UPDATING) page 1$/ } @r),
        $many, "$name: the old page before the answer");
    $o->wait_requests(1, $uri);
    is($o->count($uri), 1, "$name: one request");

    $o->release($uri);
    ok(marked($uri), "$name: a mark takes the place of the page");

    $o->hold_path($uri);
    my @p = herd($many, $uri);
    ok($o->wait_requests($many + 1, $uri),
        "$name: nobody waits for another one");
    $o->release($uri);
    is(scalar(grep { which($_) eq "$status MISS other" }
        map { finish($_) } @p), $many, "$name: nobody gets the old page");

    # the first answer that can be stored ends it

    $o->set($uri);
    is(which($hosts[0]->get($uri)) =~ s/\d+$//r, '200 MISS page ',
        "$name: a page again");
    ok(wait_for(sub { $hosts[1]->get($uri)->header('X-Cache') eq 'HIT' }),
        "$name: for all");

    # in the place of the old page, for which all wait

    $uri = "/wait/$name";

    expired($uri);
    $o->set($uri, $answer);
    $o->hold_path($uri);
    @p = herd($many, $uri);
    $o->wait_requests(1, $uri);
    $_->get('/other') for (@hosts) x 4;
    $o->release($uri);
    @r = map { finish($_) } @p;
    is(scalar(grep { which($_) =~ /^$status \w+ other$/ } @r), $many,
        "$name: all who wait get the new answer");
}

for my $status (403, 404) {
    my $uri = "/shown/$status";

    expired($uri);
    $o->set($uri, { status => $status, headers => [] });
    $o->hold_path($uri);
    my @p = herd(10, $uri);
    $o->wait_requests(1, $uri);
    $o->release($uri);
    is(scalar(grep { which($_) =~ /^200 \w+ shown$/ } map { finish($_) } @p),
        10, "$status: its error page for all");
    ok(marked($uri), "$status: and a mark");
}


# what is about one request

my @about = (400, 405, 406, 408, 411 .. 417, 421, 425, 426, 428, 429, 431);

for my $status (@about) {
    my $uri = "/wait/$status";

    expired($uri);
    $o->set($uri, { status => $status });
    is($hosts[0]->get($uri)->status(), $status, "$status: goes to its client");
    $o->set($uri);
    like(which($hosts[1]->get($uri)), qr/^200 EXPIRED page/,
        "$status: the next one builds");
}

my $uri = '/shown/429';

expired($uri);
$o->set($uri, { status => 429 });
is(which($hosts[0]->get($uri)), '200 EXPIRED shown', '429: its error page');
$o->set($uri);
like(which($hosts[1]->get($uri)), qr/^200 EXPIRED page/,
    '429: and no more than that');

$uri = '/rule/1';
expired($uri);
is(which($hosts[0]->get($uri, headers => ['X-No' => 1])), '200 STALE page 1',
    'mcds_no_cache: the old page');
ok($o->wait_requests(1, $uri), 'mcds_no_cache: the origin is asked');
ok(wait_for(sub { !defined $m->get(key($uri) . ':lock') }),
    'mcds_no_cache: and has answered');
is(page_decode($m->get(key($uri)))->{kind}, 0, 'mcds_no_cache: the page stays');
like(which($hosts[1]->get($uri)), qr/^200 STALE page 1/,
    'mcds_no_cache: the next one refreshes');

# where there is no page: one request that is disliked costs the others nothing

$uri = '/new/1';
$o->set($uri, { status => 400 });
$o->hold_path($uri);
my @p = herd(1, $uri);
$o->wait_requests(1, $uri);
push @p, herd(20, $uri);
$_->get('/other') for (@hosts) x 4;
$o->set($uri);
$o->let($uri);
$o->wait_requests(2, $uri);
$_->get('/other') for (@hosts) x 4;
$o->release($uri);

my @r = map { finish($_) } @p;

is($r[0]->status(), 400, 'no page: one request is bad');
is(scalar(grep { which($_) =~ /^200 \w+ page/ } @r[1 .. 20]), 20,
    'no page: the others get it');
is($o->count($uri), 2, 'no page: another one was built');

# all are bad: they do not wait one after the other

$uri = '/new/2';
$o->set($uri, { status => 400 });
$o->hold_path($uri);
@p = herd(20, $uri);
$o->wait_requests(1, $uri);
$_->get('/other') for (@hosts) x 4;
$o->let($uri);
ok($o->wait_requests(2, $uri), 'no page: another one tries');
$o->let($uri);
ok($o->wait_requests(20, $uri), 'no page: then nobody waits for another one');
$o->release($uri);
is(scalar(grep { $_->status() == 400 } map { finish($_) } @p), 20,
    'no page: all are told that they are bad');


# a site that sets a cookie on the first visit keeps its cache

$uri = '/first/1';
expired($uri);
$o->set($uri, { headers => [@life, 'Set-Cookie' => 'visit=1'],
    body => 'new' });
is(which($hosts[0]->get($uri)), '200 STALE page 1', 'a first visit');
ok(marked($uri), '... sets a cookie');
$o->set($uri);
like(which($hosts[0]->get($uri, headers => [Cookie => 'visit=1'])),
    qr/^200 MISS page/, 'another visit');
ok(wait_for(sub { $hosts[1]->get($uri)->header('X-Cache') eq 'HIT' }),
    '... makes the page for all');


# a cookie beside "not modified" is for its client, and the page is fresh again

$o->set('/asked/1', { headers => [@life, ETag => '"1"'], body => 'page 1' });
$hosts[0]->get('/asked/1');
page_wait($m, key('/asked/1'));
page_expire($m, key('/asked/1'), 100_000);
$o->set('/asked/1', { status => 304, headers => [@life, ETag => '"1"',
    'Set-Cookie' => 'a=b'] });
$o->mark();

my $r = $hosts[0]->get('/asked/1');

is(which($r), '200 REVALIDATED page 1', '304 with a cookie: unchanged');
is($r->header('Set-Cookie'), 'a=b', '304 with a cookie: for its client');
ok(wait_for(sub { $hosts[1]->get('/asked/1')->header('X-Cache') eq 'HIT' }),
    '304 with a cookie: fresh for others');
is($hosts[1]->get('/asked/1')->header('Set-Cookie'), undef,
    '304 with a cookie: which do not get that');


# nor does a 304 renew the page for a request whose answer is not to be stored

page_expire($m, key('/asked/1'), 100_000);
is(which($hosts[0]->get('/asked/1', headers => ['X-No' => 1])),
    '200 REVALIDATED page 1', 'mcds_no_cache: not modified');
is(which($hosts[1]->get('/asked/1')), '200 REVALIDATED page 1',
    'mcds_no_cache: the next one asks again');

$t->done();
