#!/usr/bin/perl

# Copyright (C) mcds authors

# RFC 9111, 5.2.2.4: with mcds_cache_revalidate a page that no-cache stands in
# is stored if it has a strong ETag, and each request asks the origin about it
# on its own.  No request is given what another one has been told.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m = $t->memcached('m');

my $date = 'Mon, 02 Nov 2020 00:00:00 GMT';
my $large = join '', map { sprintf "%07d\n", $_ } 1 .. 200_000;

# which version of a page there is, for the origin, a process of its own

sub version { return $t->read_file('version' . $_[0] =~ tr{/}{_}r) || 1 }

sub change {
    my ($uri, $v) = @_;
    $t->write_file('version' . $uri =~ tr{/}{_}r, $v);
}

# /weak, /modified, /cookie ...: how the answer differs from the plain one

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $in = $q->{headers};
    my ($kind) = $q->{path} =~ m{([a-z]+)[^/]*$};
    my $v = version($q->{path});
    my $who = $kind eq 'personal' ? $in->{cookie} // ''
        : $kind eq 'vary' ? $in->{'x-a'} // '' : '';
    my $etag = qq{"$v$who"};
    my @h = ('Cache-Control' => $kind eq 'public' ? 'no-cache, public'
        : $kind eq 'error' ? 'no-cache, stale-if-error=600'
        : $kind eq 'names' ? 'max-age=60, no-cache="x-a"' : 'no-cache');

    push @h, ETag => $kind eq 'weak' ? "W/$etag" : $etag
        unless $kind eq 'modified';
    push @h, 'Last-Modified' => $date if $kind =~ /^(?:modified|both)/;
    push @h, 'Set-Cookie' => 'a=b' if $kind eq 'cookie';
    push @h, Vary => 'X-A' if $kind eq 'vary';
    push @h, 'X-Version' => $v;

    return { status => 503 } if $v eq 'down';
    return { status => 304, headers => ['Cache-Control' => 'max-age=60'] }
        if $v eq 'fresh';
    return { status => 304, headers => [ETag => '"other"'] }
        if $v eq 'other' && $in->{'if-none-match'};
    shift @h, shift @h if $q->{path} =~ /hidden/ && $in->{'if-none-match'};
    return { status => 304, headers => \@h }
        if $kind ne 'deaf' && ($in->{'if-none-match'} // '') eq $etag;
    return { headers => \@h, parts => ['page ', [$v, 4]] }
        if $kind eq 'slow';
    return { headers => \@h, body => $kind eq 'large' ? $large
        : $kind eq 'chunks' ? [$large] : "page $v$who" };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_pool gone { server 127.0.0.1:%%PORT_gone%%; }
    mcds_use main;
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    proxy_hide_header X-Answer;
    mcds_cache on;
    mcds_cache_revalidate on;
    mcds_cache_lock_timeout 30s;
    mcds_cache_session_cookies sid;
    mcds_cache_use_stale error http_503;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /off/ {
            mcds_cache_revalidate off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /timed/ {
            mcds_cache_local timed;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /hidden/ {
            mcds_cache_valid 10m;
            proxy_hide_header Cache-Control;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /compress/ {
            mcds_cache_compress gzip min_length=1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /control/ {
            mcds_cache_request_control on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /gone/ {
            mcds_use gone;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /tags/ {
            mcds_cache_tag a;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_cache off; mcds_purge_api on; }
        location /ssi {
            ssi on;
            ssi_types text/plain;
            mcds_cache off;
            return 200 '<!--# include virtual="/plain/ssi" -->.';
        }
    }
}
EOC

my ($h, $g) = map { $t->nginx($_, $conf) } 'one', 'two';

sub which {
    my ($r) = @_;
    return join ' ', $r->status(), $r->header('X-Cache') // '-',
        $r->body() =~ /^(page .+)$/ ? $1 : length $r->body();
}

sub get { my ($uri, @h) = @_; return which($h->get($uri, headers => \@h)) }

# what the origin was sent: the ETag asked about, and the other condition

sub asked {
    my ($uri) = @_;
    return join ', ', map {
        join ' ', map { $_ // '-' }
            @{ $_->{headers} }{qw/ if-none-match if-modified-since /}
    } $o->requests($uri);
}

# until what lies under the key of the page is of that kind: 0 a page, 1 a mark

sub stored {
    my ($uri, $kind) = @_;
    return wait_for(sub {
        my $e = page_decode($m->get(key($uri)));
        return $e && $e->{kind} == $kind && $e;
    });
}


# each request asks

for my $uri ('/plain', '/both', '/names', '/timed/plain', '/compress/plain') {
    is(get($uri), '200 MISS page 1', "$uri: built");

    my $e = stored($uri, 0);
    is($e->{flags} & 34, 34, "$uri: stored, to be validated");
    cmp_ok($e->{expire}, '<=', time() * 1000, "$uri: not fresh");

    my $sets = $m->stats()->{cmd_set};

    for my $n (2, 3) {
        my $r = $h->get($uri);
        is(which($r), '200 REVALIDATED page 1', "$uri: validated");
        is($r->header('Age'), 0, "$uri: just now");
        is($r->header('X-Version'), 1, "$uri: with its headers");
    }

    is(which($g->get($uri)), '200 REVALIDATED page 1', "$uri: the other host");
    is(asked($uri), '- -' . ', "1" -' x 3, "$uri: by its ETag alone");
    is($m->stats()->{cmd_set}, $sets, "$uri: nothing is written for that");

    change($uri, 2);
    is(get($uri), '200 EXPIRED page 2', "$uri: another page");
    is(get($uri), '200 REVALIDATED page 2', "$uri: which is stored");
    is(which($g->get($uri)), '200 REVALIDATED page 2', "$uri: for all");
}

is(get('/plain'), '200 REVALIDATED page 2', 'as before');
is($h->get('/plain')->header('X-Reason'), 'unchanged', 'and why');


# requests at the same time: each asks, and none waits for another

$o->hold_path('/plain');
$o->mark();
my @p = map { start_get(($h, $g)[$_ % 2]->port(), '/plain') } 1 .. 6;
ok($o->wait_requests(6, '/plain'), 'at once: each asks');
$o->release('/plain');
is(scalar(grep { which(finish($_)) eq '200 REVALIDATED page 2' } @p), 6,
    'at once: each is given the page');

# when there is none yet, those who have waited for the first ask, too

$o->hold_path('/plain/cold');
@p = map { start_get(($h, $g)[$_ % 2]->port(), '/plain/cold') } 1 .. 6;
ok($o->wait_requests(1, '/plain/cold'), 'cold: one builds');
get('/other');
$o->release('/plain/cold', 1);
ok($o->wait_requests(6, '/plain/cold'), 'cold: then each asks');
$o->release('/plain/cold');

my %seen;
$seen{which(finish($_))}++ for @p;
is_deeply(\%seen, { '200 MISS page 1' => 1, '200 REVALIDATED page 1' => 5 },
    'cold: about the page that was built');

# even those who have come while its body did: each asks at once, also where
# memcached has not taken the page

for my $uri ('/slow', '/gone/slow') {
    my $p = start_get($h->port(), $uri);
    ok($o->wait_requests(1, $uri), "$uri: one builds");
    get('/other') for 1 .. 4;
    $o->hold_path($uri);
    @p = map { start_get($h->port(), $uri) } 1 .. 4;
    get('/other') for 1 .. 4;
    is(which(finish($p)), '200 MISS page 1', "$uri: built");
    ok($o->wait_requests(5, $uri), "$uri: then each asks");
    $o->release($uri);
    is(which(finish($_)), '200 REVALIDATED page 1', "$uri: and is answered")
        for @p;
}


# what is for one client does not reach another

for my $n (1, 2) {
    for my $who ('a', 'b') {
        like(get('/personal', Cookie => "user=$who"), qr/ page 1user=$who$/,
            "personal: $who, $n");
    }
}

is(get('/vary', 'X-A' => $_), "200 MISS page 1$_", "variant $_: built")
    for 1, 2;
is(get('/vary', 'X-A' => $_), "200 REVALIDATED page 1$_", "variant $_")
    for 1, 2;

is(get('/plain', Cookie => 'sid=1'), '200 BYPASS page 2', 'a session');

get('/auth', Authorization => 'Basic YTph');
is(get('/auth'), '200 MISS page 1', 'Authorization: not stored');
get('/public', Authorization => 'Basic YTph');
is(get('/public'), '200 REVALIDATED page 1', 'Authorization, public: stored');
is(get('/public', Authorization => 'Basic YTph'), '200 EXPIRED page 1',
    'Authorization: the origin answers');


# what is not stored

for my $uri ('/weak', '/modified', '/cookie', '/off/plain') {
    is(get($uri), '200 MISS page 1', "$uri: built");
    ok(stored($uri, 1), "$uri: not stored");
    is(get($uri), '200 MISS page 1', "$uri: built again");
    is(asked($uri), '- -, - -', "$uri: without conditions");
}

# of a body in parts no 304 could be answered

for my $uri ('/large', '/chunks', '/compress/large') {
    my $want = '200 MISS ' . length $large;
    is(get($uri), $want, "$uri: whole") for 1, 2;
    ok(stored($uri, 1), "$uri: not stored");
}


# an origin that does not answer 304: nothing is written again and again

get('/deaf');
my $e = stored('/deaf', 0);
is(get('/deaf'), '200 EXPIRED page 1', 'never 304: the new page') for 1, 2;
is(page_decode($m->get(key('/deaf')))->{generation}, $e->{generation},
    'never 304: the stored one stays');
change('/deaf', 2);
is(get('/deaf'), '200 EXPIRED page 2', 'never 304: another one');
ok(wait_for(sub {
    page_decode($m->get(key('/deaf')))->{body} eq 'page 2'
}), 'never 304: is stored');

# one that answers it of another page

get('/plain/other');
stored('/plain/other', 0);
change('/plain/other', 'other');
is(get('/plain/other'), '200 EXPIRED page other', 'a 304 of another page');
is(asked('/plain/other'), '- -, "1" -, - -', 'a 304 of another: asked again');

# and one that fails: the page is not shown

for my $uri ('/plain/down', '/error') {
    get($uri);
    stored($uri, 0);
    change($uri, 'down');
    is($h->get($uri)->status(), 503, "$uri: the failure");
    change($uri, 1);
    is(get($uri), '200 REVALIDATED page 1', "$uri: and the page again");
}


# a request that has conditions of its own, or wants a part or no body

get('/plain/own');
stored('/plain/own', 0);
is($h->get('/plain/own', headers => ['If-None-Match' => '"1"'])->status(), 304,
    'a condition: the answer of the origin');
is(asked('/plain/own'), '- -, "1" -', 'a condition: asked once');
is(which($h->get('/plain/own', headers => [Range => 'bytes=0-1'])),
    '200 EXPIRED page 1', 'a range: the answer of the origin');
my $head = $h->get('/plain/own', method => 'HEAD');
is($head->status() . $head->header('X-Version'), '2001',
    'HEAD: the answer of the origin');
is(get('/plain/own'), '200 REVALIDATED page 1', 'the page has stayed');

for my $c (['If-None-Match' => '"1"', 304], ['Range' => 'bytes=0-1', 206]) {
    my $uri = "/plain/cold$c->[2]";
    is($h->get($uri, headers => [@$c[0, 1]])->status(), $c->[2],
        "$c->[0], and no page: answered");
    is($o->count($uri), 1, "$c->[0], and no page: the origin is asked once");
    is(get($uri), '200 MISS page 1', "$c->[0], and no page: the next builds");
    is(get($uri), '200 REVALIDATED page 1', "$c->[0], and no page: stored");
}

get('/control/plain');
stored('/control/plain', 0);
is($h->get('/control/plain', headers =>
    ['Cache-Control' => 'only-if-cached'])->status(), 504, 'only-if-cached');


# the origin says more than that it is the same

get('/plain/fresh');
stored('/plain/fresh', 0);
change('/plain/fresh', 'fresh');
is(get('/plain/fresh'), '200 REVALIDATED page 1', 'it gets a lifetime');
is(get('/plain/fresh'), '200 HIT page 1', 'and is fresh');
is($o->count('/plain/fresh'), 2, 'the origin is not asked any more');

# a 304 need not repeat what the location hides, and so does not store

get('/hidden/plain');
stored('/hidden/plain', 0);
is(get('/hidden/plain'), '200 REVALIDATED page 1', 'no-cache is hidden')
    for 1, 2;
is(asked('/hidden/plain'), '- -, "1" -, "1" -', 'no-cache is hidden: asked');


# who asks for no stored page asks as all do, and waits for no other request

$o->hold_path('/control/plain');
$o->mark();
@p = map { start_get($h->port(), '/control/plain',
    headers => ['Cache-Control' => 'no-cache']) } 1 .. 4;
ok($o->wait_requests(4, '/control/plain'), 'a reload: each asks');
$o->release('/control/plain');
is(scalar(grep { which(finish($_)) eq '200 REVALIDATED page 1' } @p), 4,
    'a reload: each is given the page');


# after a purge of its tag

my $tag = '/tags/plain';
get($tag);
stored($tag, 0);
is($h->get('/purge?tag=a')->status(), 200, 'purged by tag');
my $sets = $m->stats()->{cmd_set};
is(get($tag), '200 REVALIDATED page 1', 'purged by tag: validated');
ok(wait_for(sub { $m->stats()->{cmd_set} > $sets }),
    'purged by tag: and good again');
$sets = $m->stats()->{cmd_set};
is(get($tag), '200 REVALIDATED page 1', 'purged by tag: validated as before');
is($m->stats()->{cmd_set}, $sets, 'purged by tag: nothing more is written');

is($h->get('/ssi')->body(), 'page 1.', 'a part of a page') for 1, 2;
is(asked('/plain/ssi'), '- -, "1" -', 'a part of a page: validated');

$t->allow(qr{refused|is down});
$t->done();
