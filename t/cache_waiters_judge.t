#!/usr/bin/perl

# Copyright (C) mcds authors

# Requests that have waited for a page judge it as one that they have found.
# While a page that must not be shown is rebuilt, neither a HEAD nor a purge
# makes waiting requests show it, on the host that builds it and on another one.
# A HEAD does not keep the page from being renewed, and a purge keeps out what
# the origin was asked for before it.  No request waits longer than it may.

use warnings;
use strict;

use Test::More;
use Time::HiRes;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at single workers');
$t->needs('mcds vary');

my $m = $t->memcached('m', args => ['-I', '64k', '-o',
    'slab_chunk_max=65536']);

$t->write_file('key', 'a secret of some length');

# a page has the version that the origin is at when it is asked, and the
# lifetime that its request says

my $version = $t->write_file('version', 1);

sub origin {
    my ($o, $q) = @_;
    my ($path, $h) = @$q{qw/ path headers /};

    open my $f, '<', $version or die "$version: $!\n";
    my $v = <$f>;

    return { status => 500 } if $h->{'x-fail'};

    my $body = "version $v for " . ($h->{'x-a'} // 'all');

    return {
        headers => ['Cache-Control' => $h->{'x-control'}
            // 'max-age=60, must-revalidate', ETag => "\"$v\"",
            $path =~ /vary/ ? (Vary => 'X-A') : ()],
        body => $path =~ /large/ ? "$body " x 10000 : $body,
        $h->{'x-slow'} ? (parts => ['version ', ["$v for all", 2.5]]) : (),
        hold => $h->{'x-hold'},
    };
}

my $o = $t->origin('o', \&origin);

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool two {
        server 127.0.0.1:%%PORT_m%%;
        server 127.0.0.1:%%PORT_gone%%;
        distribution modula;
        timeout 1s;
    }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    add_header X-Time $request_time always;
    mcds_cache on;
    mcds_use main;
    mcds_purge_api method=PURGE;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /grace/ {
            mcds_cache_grace 5s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /signed/ {
            mcds_cache_hmac_key %%TMP%%/key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /tags/ {
            mcds_cache_tag $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /local/ {
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /gone/ {
            mcds_use two;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /control/ {
            mcds_cache_request_control on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /short/ {
            mcds_cache_lock_timeout 1500ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /last/ {
            mcds_cache_wait 1500ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_purge_api on; }
    }
}
EOT


my ($a, $b) = my @hosts = map { $t->nginx($_, $conf) } 'a', 'b';

sub purge { '/purge?key=http://localhost' . shift }

sub headers { return (headers => { 'X-A' => 1, @_ }) }

sub look {
    my ($r) = @_;
    return join ' ', map { $_ // 'none' } $r->header('X-Cache'),
        $r->header('X-Reason'), $r->body() =~ s/^(version \d).*/$1/sr;
}

sub version { $t->write_file('version', shift) }


# the item of the page, or of its variant

sub item {
    my ($uri) = @_;
    my $e = page_decode(page_wait($m, key($uri))) or die "no $uri\n";

    return key($uri) if $e->{kind} != 2;

    return sprintf '%s:vary:%016x:%s', key($uri), $e->{generation},
        unpack 'H*', substr $e->{body}, 0, 16;
}


# builds a page at a host, until the origin is told to answer

sub build {
    my ($host, $uri, @h) = @_;
    my $n = $o->count($uri);
    my $p = start_get($host->port(), $uri, headers('X-Hold' => 1, @h));

    $o->wait_requests($n + 1, $uri) or die "$uri is not asked for\n";

    return $p;
}


# version 1 has expired, and a host builds: what the origin has answered with is
# version 2, but is not sent yet

sub begin {
    my ($uri, $ago, @h) = @_;

    version(1);
    $a->get($uri, headers(@h));
    page_expire($m, item($uri), $ago);
    $o->mark();
    version(2);

    return build($a, $uri, @h);
}


# so many requests at both hosts that wait

sub waiters {
    my ($n, $uri, @h) = @_;
    my @p = map { start_get($hosts[$_ % 2]->port(), $uri, headers(@h)) }
        1 .. $n;

    $_->handled('/other', headers()) for @hosts;

    return @p;
}

sub is_all {
    my ($what, $want, @p) = @_;
    my %n;
    $n{look(finish($_))}++ for @p;
    is_deeply(\%n, { $want => scalar @p }, $what);
}

sub gets { scalar grep { $_->{method} eq 'GET' } $o->requests(shift) }


my @kinds = ('plain', 'vary', $t->has('mcds large') ? 'large' : ());
my @uris = map { my $place = $_; map { "/$place/$_" } @kinds }
    qw/ plain signed tags local grace /;

# of two servers one is gone, and the page is on the other one

push @uris, grep {
    $a->get($_, headers());
    wait_for(sub { defined $m->get(key($_)) }, 0.2);
} map { "/gone/$_" } 1 .. 6;

# past the grace a page is not shown either, without being told so by the origin

sub control {
    my ($uri) = @_;
    return $uri =~ /grace/ ? ('X-Control' => 'max-age=60') : ();
}


# a HEAD that says that the page has changed does not make it a page to be
# shown, and does not keep the new one out

for my $uri (@uris) {
    my @h = control($uri);
    my $p = begin($uri, 10_000, @h);
    my @p = waiters(6, $uri, @h);

    for my $host (@hosts, @hosts) {
        my $r = $host->get($uri, method => 'HEAD', headers(@h));
        is($r->header('ETag'), '"2"', "HEAD $uri: there is another version");
    }

    $_->handled('/other', headers()) for @hosts;
    $o->release($uri);
    finish($p);

    is_all("HEAD $uri: who has waited gets the new one",
        'HIT built version 2', @p);

    page_wait($m, item($uri));
    is(look($_->get($uri, headers(@h))), 'HIT fresh version 2',
        "HEAD $uri: it was stored") for @hosts;
    is(gets($uri), 1, "HEAD $uri: asked for once");
}


# a purge: who came before it may get what the origin was asked for before it,
# who came after it does not, and it is not stored

for my $uri (map { /gone/ ? $_ : "$_-purged" } @uris) {
    my @h = control($uri);
    my $p = begin($uri, 10_000, @h);
    my @p = waiters(6, $uri, @h);

    is($b->get($uri =~ /tags/ ? "/purge?tag=$uri" : purge($uri))->status(), 200,
        "purge $uri");
    version(3);
    my @late = waiters(6, $uri, @h);

    $o->release($uri);
    finish($p);

    my @r = map { look(finish($_)) } @p;
    is(scalar(grep { !/version [23]$/ } @r), 0,
        "purge $uri: not the old one") or diag(explain(\@r));

    @r = map { look(finish($_)) } @late;
    is(scalar(grep { !/^(?:HIT|EXPIRED|MISS) .* 3$/ && !($uri =~ /grace/
        && /^(?:STALE|UPDATING) purged/) } @r), 0,
        "purge $uri: then not as if nothing had been")
        or diag(explain(\@r));

    page_wait($m, item($uri));
    is(look($_->get($uri, headers(@h))), 'HIT fresh version 3',
        "purge $uri: it was stored") for @hosts;
    is(gets($uri), 2, "purge $uri: asked for once after it");
}


# a page that was built elsewhere and purged just then, and may be shown: it is

{
    my $uri = '/plain/shown';

    version(1);
    my $p = build($a, $uri);
    my @p = waiters(6, $uri);

    $m->set(key($uri), page_encode(key => key($uri), flags => 4,
        created => int(Time::HiRes::time() * 1000) - 9000,
        expire => int(Time::HiRes::time() * 1000) - 2000,
        body => 'version 0'));
    is_all('shown', 'UPDATING purged version 0', @p[0, 2, 4]);
    $o->release($uri);
    is_all('shown: where it was built', 'HIT built version 1', @p[1, 3, 5]);
    finish($p);
}


# what a request says: no-cache is not content with what the origin was asked
# for before, but with what it is asked for then, all together once

{
    my $uri = '/control/a';

    version(1);
    my $p = build($a, $uri);
    version(2);
    my @p = waiters(8, $uri, 'Cache-Control' => 'no-cache');
    my @q = waiters(4, $uri);
    my @f = waiters(4, $uri, 'Cache-Control' => 'min-fresh=100');
    $o->release($uri);
    finish($p);

    my @r = map { look(finish($_)) } @q;
    is(scalar(grep { !/^HIT built|^HIT fresh version 2/ } @r), 0,
        'others: what was built, or what has replaced it by then')
        or diag(explain(\@r));

    @r = map { look(finish($_)) } @p, @f;
    is(scalar(grep { !/version 2/ } @r), 0, 'no-cache, min-fresh: built anew')
        or diag(explain(\@r));
    cmp_ok(gets($uri), '<=', 4, 'no-cache, min-fresh: not one by one');
}


# a page that the request did not accept, and one that it has found since then
# and accepts: that one is shown when the origin fails

{
    my $uri = '/control/failed';
    my $now = int(Time::HiRes::time() * 1000);

    version(1);
    $a->get($uri, headers());
    page_expire($m, key($uri), 100_000);
    $o->mark();

    my $p = build($a, $uri);
    my $q = start_get($b->port(), $uri, headers(
        'Cache-Control' => 'max-age=30', 'X-Fail' => 1));

    $b->handled('/other', headers());
    $m->set(key($uri), page_encode(key => key($uri), flags => 0x40,
        created => $now - 9000, expire => $now - 2000, sie => 600,
        body => 'version 0'));

    # what is asked for after the next look at it, and is not the page

    my $gets = $m->stats()->{cmd_get};
    ok(wait_for(sub { $m->stats()->{cmd_get} > $gets + 2 }),
        'not accepted: there is another page');

    $p->close();
    is(look(finish($q)), 'STALE error version 0',
        'not accepted: the other one is, when the origin fails');
}


# a lifetime that is over when the body has come: who came within it gets it,
# and nobody builds for himself

{
    my $uri = '/plain/slow';
    my @h = ('X-Control' => 'max-age=2, must-revalidate', 'X-Slow' => 1);

    version(1);
    my $p = start_get($a->port(), $uri, headers(@h));
    $o->wait_requests(1, $uri);
    my @p = waiters(8, $uri, @h);
    finish($p);
    is_all('slow body', 'HIT built version 1', @p);
    is(gets($uri), 1, 'slow body: asked for once');
}


# whatever comes, the wait is no longer than is allowed

for my $c (['/short/a', '503 EXPIRED timeout', 0],
    ['/last/a', '200 STALE timeout', 'max-age=60'])
{
    my ($uri, $want, $control) = @$c;
    my @h = $control ? ('X-Control' => $control) : ();
    my $p = begin($uri, $control ? 100_000 : 10_000, @h);
    my @p = waiters(4, $uri, @h);
    my $end = Time::HiRes::time() + 2.5;

    while (Time::HiRes::time() < $end) {
        $b->get(purge($uri));
    }

    for my $r (map { finish($_) } @p) {
        is(join(' ', map { $_ // 'none' } $r->status(), $r->header('X-Cache'),
            $r->header('X-Reason')), $want, "$uri: has waited in vain");
        cmp_ok($r->header('X-Time'), '<', 2.5 * $t->slow(),
            "$uri: not for long");
    }

    $o->release($uri);
    finish($p);
}

$t->allow(qr/still being built|memcached|connect\(\) failed/);
$t->done();
