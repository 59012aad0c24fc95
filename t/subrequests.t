#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_cache wherever nginx runs a location on its own: SSI, auth_request,
# mirror, addition, error pages, named locations, internal redirects (H04).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Http2;

my $t = Test::Mcds->new()->needs('http_auth_request', 'http_addition',
    'http_v2');

my @fresh = (headers => ['Content-Type' => 'text/html',
    'Cache-Control' => 'max-age=60']);
my $include = sub { join '', map { "<!--# include virtual=\"$_\" -->" } @_ };

my $m = $t->memcached('m');
my $o = $t->origin('o', { @fresh, body => "<%u %k>" }, paths => {
    '/page/frags' => { body => $include->('/frag/1', '/frag/2', '/frag/1') },
    '/page/nested' => { body => $include->('/frag/in', '/frag/3') },
    '/frag/in' => { body => '[' . $include->('/frag/4') . ']' },
    '/page/set' => { body => join '', map {
        "<!--# include virtual=\"/frag/set\" set=\"$_\" -->"
        . "<!--# echo var=\"$_\" encoding=\"none\" -->" } qw/ a b / },
    '/page/large' => { body => $include->('/frag/large', '/frag/large') },
    '/frag/large' => { body => 'x' x 200000 },
    '/self/large' => { body => 'x' x 200000 },
    '/page/bad' => { body => $include->('/frag/bad', '/frag/5') },
    '/frag/bad' => { status => 500 },
    '/auth/no' => { status => 403 },
    '/down/1' => { status => 500 },
    '/down/2' => { status => 500 },
    '/app/lost' => { status => 404 },
    '/accel' => { headers => ['X-Accel-Redirect' => '/target/1'] },
});

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    mcds_cache              on;
    mcds_cache_lock_timeout 8s;
    mcds_counter            $n key=n:$request_uri;

    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_h2%% http2;
        add_header X-Cache $mcds_cache_status;

        location /page/ { ssi on; proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /frag/ { ssi on; proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /frag/set { proxy_pass http://127.0.0.1:%%PORT_o%%; }

        location /closed/ {
            auth_request /auth/no;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }
        location /open/ {
            auth_request /auth/yes;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }
        location /auth/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }

        location /both/ {
            mirror     /copy;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /each/ {
            mcds_cache off;
            mirror     /copy;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /copy { proxy_pass http://127.0.0.1:%%PORT_o%%; }

        location /added/ {
            addition_types  text/html;
            add_before_body /frag/head;
            add_after_body  /frag/tail;
            proxy_pass      http://127.0.0.1:%%PORT_o%%;
        }

        location /self/ {
            addition_types  text/html;
            add_before_body /self/large;
            proxy_pass      http://127.0.0.1:%%PORT_o%%;
        }

        location /app/ {
            proxy_intercept_errors on;
            error_page 404         /error/404;
            proxy_pass             http://127.0.0.1:%%PORT_o%%;
        }
        location /members/ {
            error_page 403 /error/403;
            if ($http_x_stranger) { return 403; }
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /down/ {
            proxy_intercept_errors on;
            error_page 500         =200 /frag/down;
            proxy_pass             http://127.0.0.1:%%PORT_o%%;
        }
        location /error/ {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /try/ { try_files /no/such/file @named; }
        location /try-uncached/ {
            mcds_cache off;
            try_files  /no/such/file @named;
        }
        location /front/ {
            root       %%TMP%%/none;
            error_page 404 = @named;
            log_not_found off;
        }
        location @named {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /accel { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /target/ {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /after/ {
            post_action /copy;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $slow = $t->slow();


# SSI

bodies('SSI', '/page/frags', '</frag/1 1></frag/2 1></frag/1 1>');
is($o->count('/frag/1'), 1, 'SSI: twice the same fragment, one build');
bodies('SSI in SSI', '/page/nested', '[</frag/4 1>]</frag/3 1>');
bodies('SSI: set', '/page/set', '</frag/set 1></frag/set 1>');
bodies('SSI: large', '/page/large', 'x' x 400000);

my $bad = $a->get('/page/bad');
like($bad->body(), qr/<\/frag\/5 1>$/, 'SSI: a broken fragment hurts no other');
is($o->count('/frag/bad'), 1, 'SSI: and was asked for');

is($m->get('n:/page/frags'), 3, 'counted once each time, with its fragments');
is($m->get('n:/frag/1'), undef, 'and they are not');


# a herd on a page of cold fragments

$o->set('/page/herd', { body => $include->(map { "/frag/h$_" } 1 .. 3) });
$o->hold_path("/frag/h$_") for 1 .. 3;
my @herd = map { start_get($a->port(), '/page/herd') } 1 .. 40;
$o->wait_requests(1, "/frag/h$_", 5 * $slow) for 1 .. 3;
$o->release("/frag/h$_") for reverse 1 .. 3;

is(scalar(grep { $_->body() eq '</frag/h1 1></frag/h2 1></frag/h3 1>' }
    map { finish($_) } @herd), 40, 'a herd on three cold fragments');
is_deeply([map { $o->count("/frag/h$_") } 1 .. 3], [1, 1, 1],
    'each is built once');


# clients that leave while fragments are built, or wait for another's

for my $way (qw/ fin rst h2 /) {
    $o->set("/page/$way", { body => $include->("/frag/by-$way", '/frag/1') });
    $o->hold_path("/frag/by-$way");

    my $h = Test::Mcds::Http2->new($t->port('h2'));
    my @gone = map { $way eq 'h2' ? $h->request("/page/$way")
        : start_get($a->port(), "/page/$way") } 1 .. 20;

    $o->wait_requests(1, "/frag/by-$way", 5 * $slow);
    my $stays = start_get($a->port(), "/page/$way");

    for my $c (@gone) {
        $way eq 'h2' ? $h->rst($c) : $way eq 'fin' ? $c->close() : $c->reset();
    }

    ok($way ne 'h2' || $h->ping(5 * $slow), "$way: they leave");
    $o->release("/frag/by-$way");
    like(finish($stays, 5 * $slow)->body(),
        qr/^<\/frag\/by-$way \d+><\/frag\/1 1>$/, "$way: who stays has it all");
    $h->close();

    $o->mark();
    my $next = $a->get("/page/$way")->body();
    ok($next =~ /^<\/frag\/by-$way \d+></ && $o->count("/frag/by-$way") == 0,
        "$way: and it is stored");
}


# access by subrequest

for my $i (1 .. 3) {
    is($a->get("/closed/$i")->status(), 403, 'auth_request: refused');
    is($a->get("/open/$i")->status(), 200, 'auth_request: admitted');
}

is($o->count('/auth/no'), 3, 'auth_request: a refusal is not stored');
is($o->count(qr/^\/closed/), 0, 'auth_request: nothing behind it was asked');
is($m->get('n:/closed/1'), undef, 'nor counted');


# a copy for another server

bodies('mirror', '/both/1', '</both/1 1>');
ok(wait_for(sub { $o->count('/copy') >= 1 }), 'mirror: the copy was sent');
is($o->count('/both/1'), 1, 'mirror: the page is cached');

$a->get('/copy');
ok(wait_for(sub { $a->get('/copy')->header('X-Cache') eq 'HIT' }),
    'mirror: the copy is also a page');
$o->mark();
$a->get("/each/$_") for 1 .. 3;
ok($o->wait_requests(3, '/copy', 5), 'mirror: each copy is sent all the same');


# a text in front and one behind

bodies('addition', '/added/1', '</frag/head 1></added/1 1></frag/tail 1>');
bodies('addition: again', '/added/2',
    '</frag/head 1></added/2 1></frag/tail 1>');

# a part that is the page itself does not wait for it: this could not end then,
# as its body goes on only when the part has come

bodies('addition: of the page itself', '/self/large', 'x' x 400000);


# error pages

for my $i (1 .. 3) {
    my $r = $a->get('/app/lost');
    is($r->status() . $r->body(), "404</error/404 $i>", 'an error page');
}

# an error page for all, whatever they ask for

for my $case ([1], [2, 'Range' => 'bytes=0-']) {
    my ($n, @headers) = @$case;
    my $r = $a->get("/down/$n", headers => \@headers);

    like(($r->status() =~ /^20[06]$/ ? 'page ' : $r->status()) . $r->body(),
        qr{^page </frag/down \d>$}, "error page of a failure, @headers");
}

bodies('a page for some', '/members/1', '</members/1 1>');
my $r = $a->get('/members/1', headers => { 'X-Stranger' => 1 });
is($r->status() . $r->body(), '403</error/403 1>', 'and not for others');


# named locations

bodies('try_files', '/try/1', '</try/1 1>');
bodies('try_files, cached there only', '/try-uncached/1',
    '</try-uncached/1 1>');
bodies('error_page', '/front/1', '</front/1 1>');


# X-Accel-Redirect

SKIP: {
    skip('no mcds vary', 3) if !$t->has('mcds vary');
    bodies('X-Accel-Redirect', '/accel', '</target/1 1>');
}


# after the end

bodies('post_action', '/after/1', '</after/1 1>');


# all of it again, old: a refresh of each

$o->mark();
$m->flush();
my @uris = qw{ /page/frags /page/nested /page/set /added/1 /try/1 /front/1
    /both/1 };
$o->set('*', { headers => ['Content-Type' => 'text/html',
    'Cache-Control' => 'max-age=1'] });
$a->get($_) for @uris;
sleep 1.1;

my @r = many(20 * @uris, sub { [$a->port(), $uris[$_[0] % @uris]] });
is(scalar(grep { $_->status() == 200 && $_->complete() } @r), @r,
    'a herd on all of it, when it is old');

for ('/frag/1', '/frag/4', '/page/frags', '/try/1', '/front/1') {
    ok($o->wait_requests(2, $_), "refreshed: $_");
    is($o->most($_), 1, "one at a time: $_");
}

$t->done();


# three times the same body, from as many requests to the origin

sub bodies {
    my ($name, $uri, $body) = @_;

    for my $i (1 .. 3) {
        my $r = $a->get($uri, timeout => 5 * $slow);
        my $got = $r->body();

        ok($r->status() == 200 && $got eq $body, "$name: body $i")
            or diag(substr($got, 0, 300), ' ', $r->error() // $r->status());
    }
}
