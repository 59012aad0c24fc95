#!/usr/bin/perl

# Copyright (C) mcds authors

# Pages that vary, RFC 9111, 4.1: whoever asks gets the variant of his own
# request, on two hosts; lists, several lines, "*", values that mean the same,
# and a Vary that changes between answers.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();
$t->needs('mcds large', 'mcds vary');

my $m = $t->memcached('m');

# the answer tells what it was made of

my %vary = (
    '/one' => ['X-A'],
    '/two' => ['X-A, X-B'],
    '/lines' => ['X-A', ' x-b ,,X-A'],
    '/hidden' => ['X-A'],
    '/star' => ['*'],
    '/list-star' => ['X-A, *'],
    '/star-line' => ['X-A', '*'],
    '/bad' => ['X A'],
    '/many' => [join ',', map { "x-$_" } 1 .. 17],
    '/language' => ['Accept-Language'],
    '/empty' => [''],
    '/range' => ['Range, X-A'],
    '/ignored' => ['X-A'],
    '/large' => ['X-A'],
);

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $h = $q->{headers};
    my $vary = $vary{$q->{path}};

    if ($q->{path} =~ m{^/change}) {
        $vary = [$h->{'x-vary'} // 'X-A'];
    }

    my $body = join ' ', $q->{uri},
        map { $_ . '=' . ($h->{$_} // 'none') } qw/ x-a x-b accept-language /;

    return {
        headers => ['Cache-Control' => 'max-age=60',
            map { (Vary => $_) } grep { $_ ne 'none' } @{$vary || []}],
        body => $q->{path} eq '/large' ? "$body " x 60000 : $body,
    };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /hidden {
            proxy_hide_header Vary;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ignored {
            mcds_ignore_headers Vary;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /bypass {
            mcds_cache_bypass $http_x_bypass;
            proxy_pass http://127.0.0.1:%%PORT_o%%/one;
        }
        location /nolock {
            mcds_cache_lock off;
            proxy_pass http://127.0.0.1:%%PORT_o%%/one;
        }
    }
}
EOC

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';
my $n = 0;

sub get {
    my ($uri, %h) = @_;
    return $hosts[$n++ % 2]->get($uri, headers => \%h);
}

sub shows {
    my ($r, $cache, $body, $what) = @_;
    is(join(' ', $r->header('X-Cache') // 'none', $r->body), "$cache $body",
        $what);
}

sub list {
    my ($uri) = @_;
    page_wait($m, key($uri));
    return page_decode($m->get(key($uri)));
}

sub names { return substr $_[0]{ext}, 6 }

# a list that is there is stored again behind the answer

sub names_of {
    my ($uri, $want) = @_;
    wait_for(sub { names(list($uri)) eq $want });
    return names(list($uri));
}


# one name: a variant for each value, the absent one included

for my $v ('1', '2', undef, '') {
    my %h = defined $v ? ('X-A' => $v) : ();
    my $show = defined $v ? $v : 'none';
    my $body = "/one x-a=$show x-b=none accept-language=none";

    shows(get('/one', %h), 'MISS', $body, "one: $show");
    page_wait($m, key('/one'));
    shows(get('/one', %h), 'HIT', $body, "one: $show again") for 1 .. 4;
}

my $e = list('/one');
is($e->{kind}, 2, 'one: a list is stored');
is(names($e), 'x-a', 'one: its name');
is(length($e->{body}), 64, 'one: it has four variants');
is($o->count('/one'), 4, 'one: each was asked for once');
is($hosts[0]->get('/one', headers => { 'X-A' => 1, 'X-B' => 5 })
    ->header('X-Cache'), 'HIT', 'one: other headers do not matter');
is(http_head($hosts[0]->port(), '/one', headers => { 'X-A' => 1 })
    ->header('X-Cache'), 'HIT', 'one: HEAD');
is($hosts[0]->get('/one', headers => { 'X-A' => 1, Range => 'bytes=0-3' })
    ->body(), '/one', 'one: a range');


# several names, in one line or in several

for my $uri ('/two', '/lines') {
    my @values = map { my $a = $_; map { [$a, $_] } 1 .. 3 } 1 .. 3;

    for my $round ('MISS', 'HIT', 'HIT') {
        for my $v (@values) {
            shows(get($uri, 'X-A' => $v->[0], 'X-B' => $v->[1]), $round,
                "$uri x-a=$v->[0] x-b=$v->[1] accept-language=none",
                "$uri: @$v $round");
            list($uri);
        }
    }

    is(names(list($uri)), 'x-a,x-b', "$uri: its names");
    is($o->count($uri), 9, "$uri: nine variants");
}


# what means the same

get('/language', 'Accept-Language' => 'de, en;q=0.5');
list('/language');
is(get('/language', 'Accept-Language' => $_)->header('X-Cache'), 'HIT',
    "language: $_") for 'de, en;q=0.5', 'de,en;q=0.5', " de ,\ten;q=0.5",
    'DE, en;Q=0.5', 'de, EN ; q=0.5';
is(get('/language', 'Accept-Language' => ['de', 'en;q=0.5'])
    ->header('X-Cache'), 'HIT', 'language: two lines');
is(get('/language', 'Accept-Language' => 'en;q=0.5, de')
    ->header('X-Cache'), 'MISS', 'language: another order');


# a Vary that the client does not see counts, too

get('/hidden', 'X-A' => 1);
list('/hidden');
like(get('/hidden', 'X-A' => 2)->body, qr/x-a=2/, 'hidden');
is(get('/hidden', 'X-A' => 1)->header('Vary'), undef, 'hidden: not sent');


# nothing is found by these

for my $uri (qw{ /star /list-star /star-line /bad /many }) {
    get($uri, 'X-A' => 1) for 1 .. 2;
    my $r = get($uri, 'X-A' => 2);
    like($r->body, qr/x-a=2/, "$uri: the right one");
    is($r->header('X-Cache'), 'MISS', "$uri: not stored");
    is(page_decode($m->get(key($uri)))->{kind}, 1, "$uri: nobody waits");
}

# no name, and one that no origin sees

get('/empty');
is(list('/empty')->{kind}, 0, 'empty: a page as any');
get('/range', 'X-A' => 1);
list('/range');
is(get('/range', 'X-A' => 1, Range => 'bytes=0-3')->header('X-Cache'), 'HIT',
    'range: is not passed on, and makes no variant');
is(get('/range', 'X-A' => 2, Range => 'bytes=0-3')->status, 206,
    'range: of a variant that is built behind');
is(get('/range', 'X-A' => 2)->header('X-Cache'), 'HIT', 'range: is stored');

# by choice

get('/ignored', 'X-A' => 1);
is(list('/ignored')->{kind}, 0, 'ignored: one page');
like(get('/ignored', 'X-A' => 2)->body, qr/x-a=1/, 'ignored: for all');


# a Vary that changes between answers: more names, fewer, others, none

sub change {
    my ($vary, $a, $b, $cache, $expire) = @_;

    if ($expire) {
        for my $key (grep { /change:vary/ && !/:lock/ } $m->keys()) {
            page_expire($m, $key, 100_000, swr => 0);
        }
    }

    shows(get('/change', 'X-A' => $a, 'X-B' => $b, 'X-Vary' => $vary), $cache,
        "/change x-a=$a x-b=$b accept-language=none",
        "change: $vary, $a $b, $cache");
    list('/change');
}

change('X-A', 1, 1, 'MISS');
change('X-A', 2, 1, 'MISS');
change('X-A', 1, 1, 'HIT');
change('X-A, X-B', 1, 2, 'EXPIRED', 1);
is(names_of('/change', 'x-a,x-b'), 'x-a,x-b', 'change: both names');
change('X-B', 2, 1, 'MISS');
change('X-B', 2, 1, 'HIT');
change('X-B', 1, 2, 'HIT');
change('X-B', 1, 1, 'MISS');
change('none', 1, 2, 'EXPIRED', 1);
change('none', 1, 2, 'HIT');
change('X-A', 2, 2, 'MISS');
is(names_of('/change', 'x-a,x-b'), 'x-a,x-b', 'change: names stay');

# from a page without to one with, and the list gone

get('/change2', 'X-Vary' => 'none', 'X-A' => 1);
is(list('/change2')->{kind}, 0, 'change: none');
page_expire($m, key('/change2'), 100_000, swr => 0);
like(get('/change2', 'X-A' => 2)->body, qr/x-a=2/, 'change: now one');
ok(wait_for(sub { list('/change2')->{kind} == 2 }),
    'change: a list in the place of the page');
like(get('/change2', 'X-A' => 3)->body, qr/x-a=3/, 'change: right');
is(get('/change2', 'X-A' => 2)->header('X-Cache'), 'HIT', 'change: stored');

$m->delete(key('/change2'));
is(get('/change2', 'X-A' => 2)->header('X-Cache'), 'MISS',
    'deleted: at once, on this host');
list('/change2');
$m->delete(key('/change2'));
is(get('/change2', 'X-A' => 2)->header('X-Cache'), 'MISS',
    'deleted: at once, on the other');
list('/change2');
is(get('/change2', 'X-A' => 3)->header('X-Cache'), 'MISS',
    'deleted: with all variants');


# the ways around the lock

$m->flush();
for my $uri ('/bypass', '/nolock') {
    for my $round (1, 2) {
        for my $v (1 .. 3) {
            like(get($uri, 'X-A' => $v)->body, qr/^.one x-a=$v /,
                "$uri: $v, $round");
            list($uri);
        }
    }
}
is(get('/bypass', 'X-A' => 1, 'X-Bypass' => 1)->header('X-Cache'), 'BYPASS',
    'bypassed');
list('/bypass');
is(get('/bypass', 'X-A' => $_)->header('X-Cache'), 'HIT',
    "bypassed: $_ is still there") for 1 .. 3;


# bodies in parts

for my $v (1, 2) {
    my $r = get('/large', 'X-A' => $v);
    like($r->body, qr/^.large x-a=$v /, "large: $v");
    cmp_ok(length($r->body), '>', 2_000_000, "large: $v, all");
    list('/large');
    is(get('/large', 'X-A' => $v)->body, $r->body, "large: $v, from parts");
}
is($o->count('/large'), 2, 'large: stored');

$t->done();
