#!/usr/bin/perl

# Copyright (C) mcds authors

# RFC 9111, 4.4: an unsafe request that has succeeded takes away the page of
# its URI, on all hosts; those that Location and Content-Location of the answer
# name on the same host expire.  mcds_cache_invalidate says otherwise.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m = $t->memcached('m');
my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return if $line !~ /^mg \S+ .*k/ || $f->mode ne 'hold';
    return ($f->hold('mg'), $f->default($line));
});

# a POST and the like is answered as its arguments say

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Cache-Control' => 'max-age=600'
            . ($q->{uri} =~ /must/ ? ', must-revalidate' : ''),
            $q->{uri} =~ /vary/ ? (Vary => 'X-A') : ()],
        body => "answer $q->{n}" . ($q->{uri} =~ /parts/ ? '.' x 90000 : '') }
        if $q->{method} eq 'GET';

    my %h = map { split /=/, $_, 2 } split /;/, $q->{headers}{'x-answer'} // '';
    my $status = delete $h{status} // 200;
    my $body = 'done' x (delete $h{times} // 1);

    return { status => $status, headers => [%h], body => $body };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    keepalive_requests 10000;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool held { server 127.0.0.1:%%PORT_f%%; timeout 20s; }
    mcds_use main;
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        error_page 418 = @elsewhere;
        location / {
            proxy_redirect off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off/ {
            mcds_cache_invalidate off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /stale/ {
            mcds_cache_invalidate stale;
            mcds_cache_tag $arg_tag;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            location /stale/inner/ {
                proxy_redirect off;
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
        }
        location /if/ {
            mcds_cache_invalidate on if=$http_x_token;
            proxy_redirect off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            location /if/inner/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
            location /if/on/ {
                mcds_cache_invalidate on;
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
            location /if/answer/ {
                mcds_cache_invalidate stale if=$upstream_http_x_changed;
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
            location /if/from/ {
                mcds_cache_key from$uri;
                rewrite ^/if/from(/.*)$ /m$1 last;
            }
        }
        location /login/ {
            mcds_cache_session_cookies sid;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /key/ {
            mcds_cache_key $host$uri|$arg_a|$request_uri;
            proxy_redirect off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /same/ {
            mcds_cache_key same$arg_x$is_args;
            proxy_redirect off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /page/ {
            error_page 500 =200 /sorry;
            proxy_intercept_errors on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /held/ {
            mcds_use held;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /held/unbuffered/ {
            mcds_use held;
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /held/own/ {
            mcds_use held;
            mcds_return 201 done;
        }
        location /held/empty/ {
            mcds_use held;
            mcds_return 204;
        }
        location = /sorry { return 200 sorry; }
        location @elsewhere { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /missing/ { return 418; }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'a', 'b';

# the default key has the Host header, which is the same for both here

sub get {
    my ($host, $uri) = @_;
    return $host->get($uri, host => 'site:81');
}

sub key { "<>http://site:81" . shift }

sub fill {
    my ($uri, $key) = @_;

    get($hosts[0], $uri);
    page_wait($m, $key // key($uri)) or die "$uri is not stored\n";
}

# 1 if the page of $uri is gone for both hosts after a request, 0 if it is still
# a hit, else its status

sub gone {
    my ($uri, $method, $target, $answer, %o) = @_;

    fill($uri, $o{key});

    my $r = $hosts[0]->get($target // $uri, method => $method, body => 'x',
        host => 'site:81', headers => { $answer ? ('X-Answer' => $answer) : (),
        %{$o{headers} // {}} });

    my $status = get($hosts[1], $uri)->header('X-Cache');

    return $status eq 'MISS' ? 1 : $status eq 'HIT' ? 0 : $status;
}

# methods

is(gone("/m/$_", $_), 1, "$_: gone") for qw/ POST PUT DELETE PATCH MKCOL
    BREW /;
is(gone("/m/$_", $_), 0, "$_: stays") for qw/ OPTIONS /;
fill('/m/head');
$hosts[0]->get('/m/head', method => 'HEAD', host => 'site:81');
is(get($hosts[1], '/m/head')->header('X-Cache'), 'HIT', 'HEAD: stays');

# statuses

is(gone("/s/$_", 'POST', undef, "status=$_"), 1, "$_: gone")
    for 200, 201, 202, 204, 302, 303, 304;
is(gone("/s/$_", 'POST', undef, "status=$_"), 0, "$_: stays")
    for 400, 403, 404, 409, 500, 502, 503;
is(gone('/page/a', 'POST', undef, 'status=500'), 0,
    'an error with a page of its own: stays');
is(gone('/page/b', 'POST'), 1, 'no error there: gone');
is(gone('/missing/a', 'POST'), 0, 'what an error_page answers: stays');

# the very page

fill('/t/one');
fill('/t/one?a');
is(gone('/t/other', 'POST', '/t/one?a'), 0, 'another page stays');
is(get($hosts[1], '/t/one')->header('X-Cache'), 'HIT', 'that without ?a, too');
is(get($hosts[1], '/t/one?a')->header('X-Cache'), 'MISS', 'that one is gone');

# what the answer names

my @named = (
    ['/l/1', 'Location=/l/1', 'STALE', 'Location'],
    ['/l/2', 'Content-Location=/l/2', 'STALE', 'Content-Location'],
    ['/l/3', 'Location=http://site:81/l/3', 'STALE', 'with the host'],
    ['/l/4', 'Location=//site:81/l/4', 'STALE', 'without the scheme'],
    ['/l/5?b=c', 'Location=/l/5?b=c', 'STALE', 'with arguments'],
    ['/l/6', 'Location=/l/6#there', 'STALE', 'with a fragment'],
    ['/l/7', 'location=http://SITE:81/l/7', 'STALE', 'in another case'],
    ['/l/8', 'status=303;Location=/l/8', 'STALE', 'of a redirect'],
    ['/l/9', 'Location=http://other/l/9', 0, 'of another host'],
    ['/l/a', 'Location=http://site:82/l/a', 0, 'of another port'],
    ['/l/b', 'Location=https://site:81/l/b', 0, 'of another scheme'],
    ['/l/c', 'Location=http://site:811/l/c', 0, 'of a longer port'],
    ['/l/d', 'Location=http://site:81', 0, 'of the front page'],
    ['/', 'Location=http://site:81', 'STALE', 'without a path'],
    ['/?b=c', 'Location=//site:81?b=c#d', 'STALE', 'with arguments alone'],
    ['/?b=d', 'Location=http://site:81?b=c', 0, 'with other arguments alone'],
    ['/?b=e', 'Location=?b=e', 0, 'without a host and a path'],
    ['/l/e', 'status=500;Location=/l/e', 0, 'after an error'],
    ['/l/f', 'Location=', 0, 'empty'],
);

for (@named) {
    my ($uri, $answer, $gone, $name) = @$_;
    is(gone($uri, 'POST', '/l/post', $answer), $gone, "$name: "
        . ($gone ? 'expires' : 'stays'));
}

is(gone('/key/%41?a=1', 'POST', '/key/x', 'Location=/key/%41?a=1',
    key => '<>site/key/A|1|/key/%41?a=1'), 'STALE',
    'a key of variables: expires');
is(gone('/key/x?a=1', 'POST', undef, undef,
    key => '<>site/key/x|1|/key/x?a=1'), 1,
    'a key of variables, its own: gone');

# who may not see the page may take it away

is(gone('/login/a', 'POST', undef, undef, headers => { Cookie => 'sid=1' }), 1,
    'with a session: gone');
is(gone('/off/a', 'POST'), 0, 'off: stays');

# the answer names the page of the request itself

is(gone('/l/self', 'POST', undef, "$_=/l/self"), 1, "$_, of itself: gone")
    for 'Location', 'Content-Location';

# all visitors but one get the old page at once, and soon the new one

fill('/front');
$o->hold_path('/front');
$hosts[0]->get('/m/login', method => 'POST', body => 'x', host => 'site:81',
    headers => { 'X-Answer' => 'status=302;Location=/front' });
my @front = map { get($_, '/front') } (@hosts) x 4;
is(join(' ', map { $_->header('X-Cache') } @front),
    'STALE' . ' UPDATING' x 7, 'the front page of a login: one refresh');
is(scalar(grep { $_->body() eq $front[0]->body() } @front), 8,
    'behind the old page');
$o->release('/front');
ok(wait_for(sub { get($hosts[1], '/front')->header('X-Cache') eq 'HIT' }),
    'then the new one');
is(get($hosts[0], '/front')->header('X-Cache'), 'HIT', 'on all hosts');
is($o->count('/front'), 2, 'which was built once');

is(gone('/l/must', 'POST', '/l/post', 'Location=/l/must'), 'EXPIRED',
    'must-revalidate: the old page is not shown');
is(gone('/l/parts', 'POST', '/l/post', 'Location=/l/parts'), 'STALE',
    'a page in parts');

# each variant

my @vary = map { { host => 'site:81', headers => { 'X-A' => $_ } } } 1, 2;
$hosts[0]->get('/l/vary', %$_) for @vary;
ok(wait_for(sub { 2 == grep { $hosts[1]->get('/l/vary', %$_)
    ->header('X-Cache') eq 'HIT' } @vary }), 'variants');
$hosts[0]->get('/l/post', method => 'POST', body => 'x', host => 'site:81',
    headers => { 'X-Answer' => 'Location=/l/vary' });
is($hosts[1]->get('/l/vary', %$_)->header('X-Cache'), 'STALE',
    'variants: each expires') for @vary;

# stale: that of the request, too

is(gone('/stale/a', 'POST'), 'STALE', 'stale: expires');
is(gone('/stale/inner/a', 'POST'), 'STALE', 'stale: of the level above');
is(gone('/stale/b', 'POST', undef, 'status=500'), 0,
    'stale: stays after an error');
is(gone('/stale/must', 'POST'), 'EXPIRED', 'stale, must-revalidate: not shown');
is(gone('/stale/parts', 'POST'), 'STALE', 'stale: a page in parts');
is(gone('/stale/tag?tag=t', 'POST'), 'STALE', 'stale: a page with tags');

# unsafe requests that come while the page is built, each time: what was built
# is stored nevertheless, as a page that has expired, and nobody waits for long

for my $uri ('/l/often', '/l/cold', '/l/parts/often') {
    if ($uri ne '/l/cold') {
        fill($uri);
        page_expire($m, key($uri), 3000);
    }

    for my $i (1 .. 3) {
        my $old = (page_decode($m->get(key($uri))) // {})->{body} // '';

        $o->hold_path($uri);
        my $p = start_get($hosts[0]->port(), $uri, host => 'site:81');
        wait_for(sub { $o->held($uri) }) or die "$uri is not built\n";
        $hosts[1]->get('/m/login', method => 'POST', body => 'x',
            host => 'site:81', headers => { 'X-Answer' => "Location=$uri" });
        $o->release($uri);
        is(finish($p)->header('X-Cache'),
            $uri eq '/l/cold' && $i == 1 ? 'MISS' : 'STALE',
            "$uri, $i: before");

        ok(wait_for(sub {
            my $e = page_decode($m->get(key($uri)));
            return !defined($m->get(key($uri) . ':lock'))
                && $e && $e->{body} ne $old && $e->{flags} & 4;
        }, 5), "$uri, $i: the new page is stored, expired")
            or diag explain page_decode($m->get(key($uri)));

        # it would take the place of one that is a second older

        page_expire($m, key($uri), 3000);
    }

    is(get($hosts[1], $uri)->header('X-Cache'), 'STALE', "$uri: then stale");
    ok(wait_for(sub { get($hosts[1], $uri)->header('X-Cache') eq 'HIT' }, 5),
        "$uri: and new");
}

# after a deletion nothing of before is stored, whatever expires later

$o->hold_path('/same/a');
my $before = start_get($hosts[0]->port(), '/same/a', host => 'site:81');
wait_for(sub { $o->held('/same/a') }) or die "not built\n";
$hosts[1]->get('/same/b', method => 'POST', body => 'x', host => 'site:81');
$hosts[1]->get('/same/post?x', method => 'POST', body => 'x',
    host => 'site:81', headers => { 'X-Answer' => 'Location=/same/c' });
$o->release('/same/a');
finish($before);
wait_for(sub { !defined $m->get('<>same:lock') });
is(page_decode($m->get('<>same'))->{kind}, 3,
    'deleted, and expired after that: nothing of before is stored');

# if=: which requests

my %token = (headers => { 'X-Token' => 'x' });
is(gone('/if/a', 'POST'), 0, 'if: empty, stays');
is(gone('/if/b', 'POST', undef, undef, headers => { 'X-Token' => 0 }), 0,
    'if: 0, stays');
is(gone('/if/c', 'POST', undef, undef, %token), 1, 'if: gone');
is(gone('/if/d', 'POST', '/if/post', 'Location=/if/d'), 0,
    'if: empty, Location: stays');
is(gone('/if/e', 'POST', '/if/post', 'Location=/if/e', %token), 'STALE',
    'if: Location expires');
is(gone('/if/inner/a', 'POST'), 0, 'if: of the level above, stays');
is(gone('/if/inner/b', 'POST', undef, undef, %token), 1,
    'if: of the level above, gone');
is(gone('/if/on/a', 'POST'), 1, 'on without if: gone');
is(gone('/if/answer/a', 'POST'), 0, 'if, of the answer: stays');
is(gone('/if/answer/b', 'POST', undef, 'X-Changed=1'), 'STALE',
    'if, of the answer: expires');
is(gone('/if/from/a', 'POST'), 1,
    'if: of the location that was asked, not of the one that answers');

# the client that has changed it sees the change, each time

my $c = $hosts[0]->conn();
my $old = 0;

for (1 .. $t->size(100, 2000)) {
    $c->get('/often', host => 'site:81');
    $c->get('/often', host => 'site:81', method => 'POST', body => 'x');
    my $n = $o->count();
    $old++ if $c->get('/often', host => 'site:81')->header('X-Cache') ne 'MISS';
}

is($old, 0, 'at once');

# an answer that was under way does not bring it back

fill('/late');
page_expire($m, key('/late'), 100_000);
$o->hold_path('/late');
my $p = start_get($hosts[0]->port(), '/late', host => 'site:81');
$o->wait_requests(2, '/late');
wait_for(sub { $o->held('/late') });
my $q = start_get($hosts[1]->port(), '/late', host => 'site:81',
    method => 'POST', body => 'x');
$o->wait_requests(3, '/late');
$o->let('/late', 2);
finish($_) for $p, $q;
$o->release('/late');
wait_for(sub { !defined $m->get(key('/late') . ':lock') });
isnt((page_decode($m->get(key('/late'))) // { kind => -1 })->{kind}, 0,
    'a build that began before does not bring it back');

# the answer waits until the page is gone

my @ways = (['/held/a', 'done'], ['/held/b', 'done' x 100000, 'times=100000'],
    ['/held/unbuffered/a', 'done'], ['/held/c', '', 'status=204'],
    ['/held/unbuffered/b', 'done' x 100000, 'times=100000'],
    ['/held/d', 'done', 'status=303;Location=/held/d2'],
    ['/held/e', '', 'status=304'], ['/held/own/a', 'done'],
    ['/held/empty/a', '']);

for (@ways) {
    my ($uri, $body, $answer) = @$_;
    my $name = $answer ? "$uri, $answer" =~ s/;.*//r : $uri;

    $f->tell('hold');
    my $c = $hosts[0]->conn();
    $c->request($uri, method => 'POST', body => 'x', host => 'site:81',
        headers => { $answer ? ('X-Answer' => $answer) : () });
    ok(wait_for(sub { $f->held('mg') }, 5), "$name: asked");
    is($c->slurp(0.02), '', "$name: nothing is sent");
    $f->release('mg');

    if ($answer && $answer =~ /Location/) {
        ok(wait_for(sub { $f->held('mg') }, 5), "$name: asked twice");
        is($c->slurp(0.02), '', "$name: nothing is sent");
        $f->release('mg');
    }

    $f->tell('');
    my $r = $c->response();
    ok($r->body eq $body, "$name: then the body");
    is($c->get('/m/after', host => 'site:81')->status, 200,
        "$name: the connection is used on");
}

# a client that leaves meanwhile

$f->tell('hold');
for my $how (qw/ close reset /) {
    my $p = start_get($hosts[0]->port(), "/held/$how", method => 'POST',
        body => 'x', host => 'site:81');
    wait_for(sub { $f->held('mg') }, 5);
    $p->$how();
    $f->release('mg');
}
$f->tell('');
is($hosts[0]->get('/held/x', host => 'site:81')->status, 200,
    'a client that leaves is forgotten');

# memcached does not answer: the client is not made to wait

$m->stop();
my $r = $hosts[0]->get('/m/x', method => 'POST', body => 'x',
    host => 'site:81');
is($r->body, 'done', 'memcached is down: the answer all the same');

# the directive

my @conf = (http => 'mcds_pool m { server 127.0.0.1; }', location =>);

for (['yes', 'must be "on", "stale" or "off"'],
    ['on if', 'invalid parameter "if" in "mcds_cache_invalidate"'],
    ['on if=', 'invalid parameter "if="'],
    ['on stale', 'invalid parameter "stale"'],
    ['on if=$nothing', 'unknown "nothing" variable'],
    ['on if=$uri if=$uri', 'duplicate parameter "if=$uri"'],
    ['off if=$uri', 'takes no further parameter'],
    ['on; mcds_cache_invalidate off', 'is duplicate'])
{
    my ($words, $error) = @$_;
    like($t->conf_error(@conf, "mcds_cache on; mcds_cache_invalidate $words;"),
        qr/\Q$error\E/, "mcds_cache_invalidate $words");
}

$t->allow(qr/mcds|memcached/);
$t->done();
