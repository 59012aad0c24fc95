#!/usr/bin/perl

# Copyright (C) mcds authors

# An origin that sends 103 before its answer: clients that may get it do while
# their page is built, a refresh and those who wait do not care, and it is no
# part of the page.  Where nginx knows nothing of 103 it is no page either.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new()->needs('http_v2', 'curl');
my $knows = $t->nginx_version() >= 1029000;

my $m = $t->memcached('m');
my $hint = "HTTP/1.1 103 Early Hints\r\nLink: </s%u.css>; rel=preload\r\n"
    . "Cache-Control: no-store\r\nSet-Cookie: hint=1\r\nX-Hint: %u\r\n\r\n";
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my ($n) = $req->{path} =~ /(\d+)/;
    my $body = "answer $req->{n}\n$req->{head}\n";
    my @hints = map { $hint =~ s/%u/$_/gr } 1 .. $n;
    my $same = $req->{headers}{'if-none-match'};

    return { headers => ['X-Accel-Redirect' => "/inner/$n",
        'Content-Disposition' => 'inline'] }
        if $req->{path} =~ /accel/;

    return { raw => join '', @hints, "HTTP/1.1 304 Not Modified\r\n"
        . "X-First: new\r\nETag: \"$n\"\r\n\r\n" }
        if $same && $req->{path} =~ /other/ || $same && $same eq "\"$n\"";

    return { raw => join '', @hints,
        "HTTP/1.1 200 OK\r\nX-First: 1\r\nX-Second: 2\r\n",
        "ETag: \"" . ($req->{path} =~ /other/ ? 'o' : $n) . "\"\r\n",
        "Cache-Control: max-age=60\r\nContent-Length: "
        . length($body) . "\r\n\r\n$body" };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_h2c%% http2;

        mcds_counter       $here key=here:$uri;
        mcds_cache         on;
        mcds_cache_key     $uri;
        add_header         X-Cache $mcds_cache_status always;
        add_header         X-Here $here;
        proxy_http_version 1.1;
        EARLY

        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /bare/ {
            proxy_buffering off;
            proxy_pass      http://127.0.0.1:%%PORT_o%%;
        }
        location /asked/ {
            mcds_cache_revalidate on;
            mcds_cache_background_update off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /accel/ {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /none/ {
            OFF
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /any/ {
            mcds_cache_valid any 60s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi/ {
            mcds_cache  off;
            ssi         on;
            ssi_types   *;
            mcds_return '<!--# include virtual="/part1" -->';
        }
    }
}
EOT

$conf =~ s/EARLY/$knows ? 'early_hints 1;' : ''/e;
$conf =~ s/OFF/$knows ? 'early_hints 0;' : ''/e;

my $h = $t->nginx('h', $conf);
my $port = $h->port();


# all that a client gets, less the bodies

sub heads {
    my ($uri, @h) = @_;

    my $all = http_raw($port, "GET $uri HTTP/1.1\r\nHost: localhost\r\n"
        . join('', @h) . "Connection: close\r\n\r\n");

    return $all =~ s/answer .*//sr;
}


sub hints {
    return scalar(() = shift =~ m{^HTTP/\S+ 103}mg);
}


# an nginx before 1.29.0 takes it for the answer, as it does without mcds

if (!$knows) {
    for my $uri ('/page1', '/any/1') {
        heads($uri);
        like(heads($uri), qr/^X-Cache: MISS\r$/m, "$uri: not from the cache");

        # what is there says that this is no page

        is((page_decode(page_wait($m, $uri)) // { kind => -1 })->{kind}, 1,
            "$uri: no page is stored");
    }

    is($o->count(), 4, 'each was asked for');
    $t->done();
    exit;
}


# who may get them, and when

my $many = $t->nginx_version() >= 1029008 ? 3 : 1;

for my $uri ("/page$many", "/bare/$many") {
    my $all = heads($uri);

    is(hints($all), $many, "$uri: hints");
    like($all, qr{^Link: </s1\.css>; rel=preload\r$}m, "$uri: as they came");
    like($all, qr{\r\n\r\nHTTP/1\.1 200 OK\r\n.*X-Cache: MISS}s,
        "$uri: before the answer");
    unlike($all =~ s/.*(HTTP\S+ 200)/$1/sr, qr/Link|X-Hint|hint=1/,
        "$uri: not in it");

    ok(page_wait($m, $uri), "$uri: stored");
    my $page = page_decode($m->get("<>$uri"));
    unlike($page->{headers}, qr/Link|X-Hint|no-store|hint/i,
        "$uri: nothing of them");

    $all = heads($uri);
    like($all, qr/^X-Cache: HIT\r$/m, "$uri: a hit");
    is(hints($all), 0, "$uri: has none");

    # such as come before a refresh

    refresh_same($t, $m, $uri, "$uri, again", do {
        $m->delete("<>$uri");
        sub { $h->get($uri) }
    });
}

is(hints(heads('/none/1')), 0, 'not where they are off');
ok(page_wait($m, '/none/1'), 'the page is stored there');
is(hints(http_raw($port, "GET /old1 HTTP/1.0\r\n\r\n")), 0, 'not in HTTP/1.0');


# before an answer that is not the page: "not modified", of another page, or not
# to be stored

for my $uri ('/asked/1', '/asked/other/1') {
    heads($uri);
    page_wait($m, $uri);
    page_expire($m, $uri, 100_000);
    $o->mark();

    my $all = heads($uri);
    my $other = $uri =~ /other/;

    is(hints($all), $other ? 2 : 1, "$uri: hints before each answer");
    like($all, qr{X-Cache: @{[$other ? 'EXPIRED' : 'REVALIDATED']}\r},
        "$uri: and the page");
    is($o->count(), $other ? 2 : 1, "$uri: requests");
    like($all, qr/^X-First: @{[$other ? 1 : 'new']}\r$/m, "$uri: its headers");
    like(refresh_wait($m, $uri)->{headers}, qr/X-Second: 2/, "$uri: stored");
    is(hints(heads($uri)), 0, "$uri: a hit");
}

$o->set('/private1', { raw => $hint =~ s/%u/1/gr . "HTTP/1.1 200 OK\r\n"
    . "Cache-Control: private\r\nContent-Length: 7\r\n\r\nanswer " });

for my $h ([], ["If-None-Match: \"x\"\r\n"]) {
    my $all = heads('/private1', @$h);
    is(hints($all), 1, 'not to be stored: hints');
    like($all, qr/^X-Cache: MISS\r$/m, 'not to be stored: and the answer');
}

# nginx forgets at hints what X-Accel-Redirect has brought along

heads('/accel/1');
ok(page_wait($m, '/inner/1'), 'another location: stored');
like(page_decode($m->get('<>/inner/1'))->{headers},
    qr/X-First: 1\r\nX-Second: 2\r/, 'another location: with its headers');
unlike($m->get('<>/inner/1'), qr/inline/,
    'another location: its own ones');


# over HTTP/2

my @curl = ('-si', '--http2-prior-knowledge', '-H', 'Host: localhost');
my $h2c = 'http://127.0.0.1:' . $t->port('h2c');
my $all = $t->curl(@curl, "$h2c/two$many");

is(hints($all), $many, 'HTTP/2: hints');
like($all, qr{^HTTP/2 200.*^x-cache: MISS}sm, 'HTTP/2: and the answer');
ok(page_wait($m, "/two$many"), 'HTTP/2: stored');
is($t->curl(@curl, "$h2c/two$many") =~ /^x-cache: (\w+)/m && $1, 'HIT',
    'HTTP/2: a hit');


# those who wait get the page; an include is nothing to hint at

$o->hold_path('/wait1');
my @p = map { start_get($port, '/wait1') } 1 .. 5;
ok(wait_for(sub { ($m->get('here:/wait1') // 0) == 5 }), 'five are there');
$o->wait_requests(1, '/wait1');
$o->release('/wait1');
my @r = map { finish($_) } @p;
is(join(' ', sort map { $_->header('X-Cache') } @r), 'HIT HIT HIT HIT MISS',
    'one build for five');
is($o->count('/wait1'), 1, 'by one request');

is(hints(heads('/ssi/')), 0, 'no hints of an include');
ok(page_wait($m, '/part1'), 'which is stored');


# an answer that never comes behind its hints

my %lost = (raw => "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    abort => 45);

$o->set('/lost1', \%lost);
like(heads('/lost1'), qr{^HTTP/1\.1 103.*\r\n\r\nHTTP/1\.1 502}s,
    'hints and no answer');
ok(!defined $m->get('<>/lost1'), 'nothing is stored');

$o->set("/page$many", \%lost);
page_expire($m, "/page$many", 1000);
my $old = $h->get("/page$many");
is($old->header('X-Cache'), 'STALE', 'the same behind an old page');
ok(wait_for(sub { ($m->get("<>/page$many:lock") // '') =~ /^kept/ }),
    'has failed');
is(page_decode($m->get("<>/page$many"))->{body}, $old->body(), 'which stays');

$t->allow(qr/upstream prematurely closed|recv\(\) failed \(104/);
$t->done();
