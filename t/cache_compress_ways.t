#!/usr/bin/perl

# Copyright (C) mcds authors

# Pages that are stored compressed go all the ways that pages go: old ones in
# the place of errors, renewed by a 304, dry runs, signatures, local copies,
# variants, waiting requests, parts of other pages; and broken ones do no harm.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

use IO::Compress::Gzip qw/ gzip /;
use IO::Uncompress::Gunzip qw/ gunzip /;

my $t = Test::Mcds->new();
$t->allow(qr/is not what its coding/, qr/is not signed/, qr/is not used/);

my $m = $t->memcached('m');

my $text = join '', map { "line $_ of a page\n" } 1 .. 2000;

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @headers = ('Cache-Control' => 'max-age=60', 'Content-Type' =>
        'text/html', ETag => '"e"', $q->{path} =~ /vary/
        ? (Vary => 'Accept-Encoding, X-Kind') : ());

    return { status => 304, headers => \@headers, body => '' }
        if $q->{headers}{'if-none-match'};
    return { headers => \@headers, body =>
        "<!--# include virtual=\"/inner\" -->$text" }
        if $q->{path} eq '/ssi/page';
    return { headers => \@headers, body => "$q->{k} $text" };
});

$t->write_file('hmac.key', 'a secret of sixteen bytes or more');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_compress gzip;
    mcds_cache_error_backoff off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /again/ {
            mcds_cache_revalidate on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /dry/ {
            mcds_cache_dry_run on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /signed/ {
            mcds_cache_hmac_key %%TMP%%/hmac.key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /local/ {
            mcds_cache_local timed=1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi/ {
            ssi on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /small/ {
            mcds_cache_max_size 64k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub get {
    my ($uri, $accept, %h) = @_;
    return $h->get($uri, headers => { %h, defined $accept
        ? ('Accept-Encoding' => $accept) : () });
}

sub shape {
    my ($r) = @_;
    my $coding = $r->header('Content-Encoding') // 'none';
    my $body = $r->body;
    gunzip(\$r->body, \$body) if $coding eq 'gzip';

    return join ' ', $r->status, $r->header('X-Cache'), $coding,
        $body =~ s/ ?\Q$text\E$// ? $body : 'wrong';
}

sub wait_stored {
    my ($uri) = @_;
    return page_decode(page_wait($m, $uri)) // die "no page $uri";
}


# expired: old at once, and when the origin fails

get('/a');
wait_stored('/a');
page_expire($m, '/a', 1000);
is(shape(get('/a', 'gzip')), '200 STALE gzip 1', 'stale');
ok(wait_for(sub { page_decode($m->get('<>/a'))->{body} ne '' &&
    shape(get('/a')) eq '200 HIT none 2' }), 'refreshed');
is(wait_stored('/a')->{coding}, 1, 'compressed again');

for my $accept ('gzip', 'none') {
    page_expire($m, '/a', 3000_000);
    $o->set('/a', { status => 500 });
    is(shape(get('/a', $accept)), "200 STALE $accept 2",
        "in the place of an error: $accept");
    wait_stored('/a');
}

$o->set('/a', undef);


# renewed by a 304

get('/again/a');
my $old = wait_stored('/again/a');

for my $accept ('gzip', 'none') {
    page_expire($m, '/again/a', 3000_000);
    is(shape(get('/again/a', $accept)), "200 REVALIDATED $accept 1",
        "renewed: $accept");
    my $e = wait_stored('/again/a');
    is_deeply([@$e{qw/ coding length body /}],
        [@$old{qw/ coding length body /}], "still compressed: $accept");
    is(shape(get('/again/a', $accept)), "200 HIT $accept 1",
        "and served: $accept");
}

page_expire($m, '/again/a', 3000_000);
is(get('/again/a', 'gzip', 'If-None-Match' => 'W/"e"')->status, 304,
    'renewed: a condition');


# a dry run serves none of it, and stores it

is(shape(get('/dry/a', 'gzip')), '200 MISS none 1', 'dry: a miss');
is(wait_stored('/dry/a')->{coding}, 1, 'dry: compressed');
is(shape(get('/dry/a', 'gzip')), '200 HIT_DRY_RUN none 2', 'dry: a hit');


# signed

get('/signed/a');
my $e = wait_stored('/signed/a');
is($e->{coding}, 1, 'signed: compressed');
is(shape(get('/signed/a', 'gzip')), '200 HIT gzip 1', 'signed: as it is');
is(shape(get('/signed/a')), '200 HIT none 1', 'signed: decoded');
$m->set('<>/signed/a', page_encode(%$e, length => $e->{length} + 1));
is(shape(get('/signed/a')), '200 MISS none 2', 'signed: the length, too');
wait_stored('/signed/a');


# local copies are as small

SKIP: {
    skip 'each worker has copies of its own', 2 if $t->workers(1) > 1;

    get('/local/a');
    wait_stored('/local/a');
    get('/local/a');
    ok(wait_for(sub { $m->delete('<>/local/a');
        shape(get('/local/a')) eq '200 HIT none 1' }), 'local: decoded');
    is(shape(get('/local/a', 'gzip')), '200 HIT gzip 1', 'local: as it is');
}


# variants, each by itself

for my $kind ($t->has('mcds vary') ? (1, 2) : ()) {
    my $r = get('/vary/a', 'gzip', 'X-Kind' => $kind);
    is(shape($r), "200 MISS none $kind", "variant $kind: a miss");
    ok(wait_for(sub { shape(get('/vary/a', 'gzip', 'X-Kind' => $kind))
        eq "200 HIT gzip $kind" }), "variant $kind: a hit");
}


# who waits for a page gets it as he accepts it

$o->hold_path('/wait');
my @waits = map { start_get($h->port, '/wait', headers => {
    'Accept-Encoding' => $_ % 2 ? 'gzip' : 'none' }) } 0 .. 5;
$o->wait_requests(1, '/wait');
$o->release('/wait');
my @shapes = sort map { shape(finish($_)) } @waits;
is(scalar(grep { /HIT none 1$/ } @shapes) + grep({ /MISS none 1$/ } @shapes)
    + grep({ /HIT gzip 1$/ } @shapes), 6, 'waiting: all are right');
cmp_ok(scalar(grep { /gzip/ } @shapes), '>=', 2, 'waiting: some as it is');
is($o->count('/wait'), 1, 'waiting: one request');


# in other pages

get('/ssi/page');
wait_stored($_) for '/inner', '/ssi/page';

for my $accept ('gzip', 'none') {
    my $r = get('/ssi/page', $accept);
    is($r->body, "1 $text$text", "SSI: $accept");
    is(join(' ', map { $r->header($_) // 'none' } qw/ X-Cache ETag
        Content-Encoding /), 'HIT none none', "SSI, headers: $accept");
}


# what others have written

sub put {
    my ($uri, %e) = @_;
    $m->set("<>$uri", page_encode(key => "<>$uri", headers =>
        "Content-Type: text/html\r\n", coding => 1, %e));
}

gzip(\"0 $text", \my $good);
gzip(\('x' x 10_000_000), \my $bomb);
my $length = length "0 $text";

put('/put', body => $good, length => $length);
is(shape(get('/put')), '200 HIT none 0', 'written by another');

for (['cut', substr($good, 0, -20), $length],
    ['not compressed', 'just some text', 14],
    ['something behind it', "${good}x", $length],
    ['too long', $good, $length - 1],
    ['too short', $good, $length + 1],
    ['a bomb', $bomb, $length])
{
    my ($name, $body, $said) = @$_;

    put('/put', body => $body, length => $said);
    my $r = get('/put');
    ok(!$r->complete, "$name: the answer does not end well");
    cmp_ok(length $r->body, '<=', $said, "$name: no more than was said");
    ok(wait_for(sub { !defined $m->get('<>/put') }), "$name: taken away");
    like(shape(get('/put')), qr/^200 MISS none \d+$/, "$name: built anew");
    wait_stored('/put');
}

put('/small/put', body => $bomb, length => 10_000_000);
is(shape(get('/small/put')), '200 MISS none 1', 'a bomb that says so');
wait_stored('/small/put');

$t->done();
