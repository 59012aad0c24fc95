#!/usr/bin/perl

# Copyright (C) mcds authors

# Which pages are shown when they have expired.  With "mcds_cache_grace off"
# just those of which the response says so, whatever happens: the origin is
# slow or fails, memcached keeps a note of that, a request waits, or asks with
# HEAD.  Without it the grace bounds all, another one where the origin has given
# the lifetime.

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
    add_header X-Old $mcds_cache_age always;
    mcds_cache on;
    mcds_cache_error_backoff 30s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /off/ {
            mcds_cache_grace off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /valid/ {
            mcds_cache_valid 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /hour/ {
            mcds_cache_grace 1h origin=5s;
            mcds_cache_valid 1m;

            # both are inherited

            location ~ ^/hour/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        }
        location /long/ {
            mcds_cache_background_update on;
            mcds_cache_grace 2h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /errors/ {
            mcds_cache_background_update off;
            mcds_cache_use_stale off;
            mcds_cache_wait 30s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /wait/ {
            mcds_cache_background_update off;
            mcds_cache_wait 1s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';
my @life = ('Cache-Control' => 'max-age=60');

sub which {
    my ($r) = @_;
    return join ' ', $r->status(), $r->header('X-Cache') // '-',
        $r->body() =~ /^(page)/ ? $1 : ();
}

# a page that has expired so long ago, and its origin

sub expired {
    my ($uri, $ms, %answer) = @_;

    $o->set($uri, \%answer);
    $hosts[0]->get($uri);
    page_wait($m, key($uri));
    page_expire($m, key($uri), $ms);
    $o->set($uri);
    $o->mark();
}

sub herd {
    my ($n, $uri, @more) = @_;
    return map { start_get($hosts[$_ % 2]->port(), $uri, @more) } 1 .. $n;
}

sub old { return grep { ($_->header('X-Cache') // '')
    =~ /^(?:STALE|UPDATING)/ } @_ }


# where the origin has said nothing, and where it has

for my $case (
    ['/off/no', '', 1, 'EXPIRED'],
    ['/off/swr', ', stale-while-revalidate=60', 50_000, 'STALE'],
    ['/off/swr-over', ', stale-while-revalidate=60', 61_000, 'EXPIRED'],
    ['/origin', '', 50_000, 'STALE'],
    ['/origin-wait', '', 61_000, 'EXPIRED'],
    ['/long/in', '', 7_100_000, 'STALE'],
    ['/long/over', '', 7_300_000, 'EXPIRED'],
    ['/long/swr', ', stale-while-revalidate=9000', 8_000_000, 'STALE'])
{
    my ($uri, $more, $ms, $status) = @$case;

    expired($uri, $ms, headers => ['Cache-Control' => "max-age=60$more"]);
    is(which($hosts[0]->get($uri)), "200 $status page", "$uri: GET");
}

# a failing origin: how long each kind of lifetime lasts

for my $case (
    ['/origin/in', 3500, \@life, '200 STALE page'],
    ['/origin/over', 3700, \@life, '503 EXPIRED'],
    ['/valid/in', 86_000, ['X-Nothing' => 1], '200 STALE page'],
    ['/valid/over', 87_000, ['X-Nothing' => 1], '503 EXPIRED'],
    ['/valid/origin', 3700, \@life, '503 EXPIRED'],
    ['/hour/valid', 3500, ['X-Nothing' => 1], '200 STALE page'],
    ['/hour/valid-over', 3700, ['X-Nothing' => 1], '503 EXPIRED'],
    ['/hour/origin', 6, \@life, '503 EXPIRED'],
    ['/off/sie', 3700, ['Cache-Control' => 'max-age=60, stale-if-error=4000'],
        '200 STALE page'],
    ['/off/sie-over', 3700, ['Cache-Control' => 'max-age=60, '
        . 'stale-if-error=3600'], '503 EXPIRED'],
    ['/off/none', 1, \@life, '503 EXPIRED'])
{
    my ($uri, $secs, $headers, $expected) = @$case;

    expired($uri, $secs * 1000, headers => $headers);
    $o->set($uri, { status => 503, body => 'broken' });
    is(which($hosts[0]->get($uri)), $expected, "$uri: the origin fails");
}


# "off": a herd at a page whose origin is slow, then fails; nobody is given the
# old page, one request at a time tries, and there is no pause for the next one

for my $way ('off', 'errors') {
    my $uri = "/$way/herd";

    expired($uri, 1000);
    $o->set($uri, { status => 503, body => 'broken' });
    $o->hold_path($uri);

    my @p = herd(20, $uri);

    $o->wait_requests(1, $uri);
    $_->handled('/other') for @hosts;
    is($o->count($uri), 1, "$way: one request tries");
    $o->release($uri);

    my @r = map { finish($_) } @p;

    is(scalar(old(@r)), 0, "$way: nobody gets the old page");
    is(scalar(grep { $_->status() == 503 } @r), 20,
        "$way: all get the failure");
    is(scalar(grep { $_->body() !~ /broken/ && !$_->header('Retry-After') }
        @r), 0, "$way: or are told when to try again");

    $o->mark();
    $o->hold_path($uri);
    @p = herd(10, $uri);
    ok($o->wait_requests(1, $uri), "$way: the next request tries again");
    $_->handled('/other') for @hosts;
    is($o->count($uri), 1, "$way: one at a time");
    $o->set($uri);
    $o->release($uri);
    is(scalar(grep { $_->status() == 503 } map { finish($_) } @p), 10,
        "$way: which fails");

    like(which($hosts[1]->get($uri)), qr/^200 EXPIRED page/,
        "$way: the one after that builds");
}


# a refresh behind the page has failed, and then the page may not be shown any
# longer: the pause does not hold for those who have nothing to show

my $uri = '/off/pause';

expired($uri, 1000, headers => ['Cache-Control' =>
    'max-age=60, stale-while-revalidate=600']);
$o->set($uri, { status => 503, body => 'broken' });
is(which($hosts[0]->get($uri)), '200 STALE page', 'pause: the old page');
ok(wait_for(sub { ($m->get(key($uri) . ':lock') // '') =~ /^kept/ }),
    'pause: its refresh has failed');
is(which($hosts[$_]->get($uri)), '200 UPDATING page', "pause: still shown, $_")
    for 0, 1;
is($o->count($uri), 1, 'pause: nobody tries');

page_expire($m, key($uri), 700_000);
$o->set($uri);
$o->hold_path($uri);

my @p = herd(10, $uri);

ok($o->wait_requests(2, $uri), 'pause: over for a page that must not be shown');
$_->handled('/other') for @hosts;
is($o->count($uri), 2, 'pause: one request tries');
$o->release($uri);
is(scalar(grep { which($_) =~ /^200 (?:EXPIRED|HIT|MISS) page/ }
    map { finish($_) } @p), 10, 'pause: all get the new page');


# who waits is shown the old page within the grace, and only then

$uri = '/wait/in';
expired($uri, 61_000);
$o->hold_path($uri);
my $first = start_get($hosts[0]->port(), $uri);
$o->wait_requests(1, $uri);
is(which($hosts[1]->get($uri)), '200 STALE page', 'waiting: the old page');
$o->release($uri);
is(which(finish($first)), '200 EXPIRED page', 'waiting: the new one');


# where stale-if-error has ended, the grace gives nothing to those who wait, nor
# to HEAD, while the origin fails

$uri = '/wait/sie';
expired($uri, 61_000, headers => ['Cache-Control' =>
    'max-age=60, stale-if-error=1']);
$o->set($uri, { status => 503, body => 'broken' });
$o->hold_path($uri);
@p = herd(4, $uri);
$o->wait_requests(1, $uri);
$_->handled('/other') for @hosts;
$o->release($uri);
is(scalar(grep { $_->status() == 503 } map { finish($_) } @p), 4,
    'stale-if-error is over: all get the failure');
is($hosts[0]->get($uri, method => 'HEAD')->status(), 503,
    'stale-if-error is over: HEAD, too');


# HEAD is told what GET would be

for my $case (
    ['/head/behind', 50_000, 'STALE', 'page 1'],
    ['/head/wait', 61_000, 'EXPIRED', 'HIT'],
    ['/off/head', 1_000, 'EXPIRED', 'MISS'])
{
    my ($uri, $ms, $status, $then) = @$case;

    expired($uri, $ms, headers => [@life, 'X-Which' => 'old']);
    $o->set($uri, { headers => [@life, 'X-Which' => 'new'],
        body => 'page new' });

    my $r = $hosts[0]->get($uri, method => 'HEAD');

    is($r->header('X-Which'), $status eq 'STALE' ? 'old' : 'new',
        "HEAD: $uri");
    ok($o->wait_requests(1, $uri), "HEAD: $uri: the origin is asked");
}

$uri = '/head/wait';
ok(wait_for(sub { which($hosts[1]->get($uri)) eq '200 HIT page' }),
    'HEAD: has had the page built');
is($o->count($uri), 0, 'HEAD: GET asks no more');

expired('/head/fails', 61_000, headers => [@life, 'X-Which' => 'old']);
$o->set('/head/fails', { status => 500 });
is($hosts[0]->get('/head/fails', method => 'HEAD')->header('X-Which'), 'old',
    'HEAD: the old page of an origin that fails');
expired('/off/fails', 1000, headers => [@life, 'X-Which' => 'old']);
$o->set('/off/fails', { status => 500 });
is($hosts[0]->get('/off/fails', method => 'HEAD')->status(), 500,
    'HEAD: the failure, where GET gets it');


# what a user can get wrong

for my $case (
    ['sometimes', 'invalid value "sometimes" in "mcds_cache_grace", '
        . 'it must be "on", "off" or a time'],
    ['1h 2h', 'invalid parameter "2h" in "mcds_cache_grace"'],
    ['on origin=1h', '"mcds_cache_grace" directive "on" takes no further '
        . 'parameter'],
    ['1h origin=x', 'invalid value "origin=x" in "mcds_cache_grace", it must '
        . 'be a time'],
    ['1h; mcds_cache_grace 2h', '"mcds_cache_grace" directive is duplicate'])
{
    my ($value, $error) = @$case;
    my $bad = $conf
        =~ s/mcds_cache on;/mcds_cache on; mcds_cache_grace $value;/r;

    like($t->conf_error($bad), qr/\[emerg\] .*\Q$error\E in .*:\d+$/m, $value);
}

$t->done();
