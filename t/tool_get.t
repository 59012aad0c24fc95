#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds get shows what the module has stored: of the pages of a host, on the
# server that has them, with all that is known about them; plain, split,
# compressed, varying, signed and tagged ones, and those that are none.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m1 = $t->memcached('m1');
my $m2 = $t->memcached('m2');

my $large = join '', map { chr(40 + 80 * rand) } 1 .. 2_500_000;
my $text = 'compress me ' x 1000;

my $o = $t->origin('o', { headers => ['Cache-Control' =>
    'max-age=60, stale-while-revalidate=7', 'X-Evil' => "\x9b31mred"],
    body => "answer %k\n" }, paths => {
    '/large' => { headers => ['Cache-Control' => 'max-age=60'],
        body => $large },
    '/text' => { headers => ['Cache-Control' => 'max-age=60',
        'Content-Type' => 'text/html'], body => $text },
    '/vary' => { headers => ['Cache-Control' => 'max-age=60',
        Vary => 'X-A'], body => 'varies' },
    '/private' => { headers => ['Cache-Control' => 'private'] },
    '/broken' => { status => 500, headers => ['Cache-Control' =>
        'max-age=0'] },
    '/tagged' => { headers => ['Cache-Control' => 'max-age=60',
        'X-Tags' => 'news,top'] },
});

$t->write_file('pools-a.conf', <<"EOT");
mcds_pool main {
    server 127.0.0.1:@{[$m1->port()]};
    server 127.0.0.1:@{[$m2->port()]} weight=2;
    distribution ketama;
    prefix       "x:";
    timeout      10s;
    connect_timeout 10s;
}
EOT

$t->write_file('a.key', "a key of the right length\n");

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    include %%DIR%%/../pools-*.conf;   # "{ comments are no blocks
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache on;
        mcds_cache_compress gzip;
        mcds_cache_error_backoff 30s;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /tagged {
            mcds_cache_tag $upstream_http_x_tags;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /signed {
            mcds_cache_hmac_key %%TMP%%/a.key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        if ($host = "no;{") { return 404; }
    }
}
EOT

my $mcds = Test::Mcds::Tool->new($t, '-c', $a->dir() . '/nginx.conf');

sub url { 'http://localhost' . shift }
sub name { '<>' . url(shift) }


# a plain page

$a->get("/plain$_") for 1 .. 32;

ok(wait_for(sub {
    32 == grep { $_->{state} eq 'fresh' && $_->{lock}{state} eq 'free' }
        @{$mcds->json('get', map { url("/plain$_") } 1 .. 32)};
}, 10), 'all of them are asked for at once, and fresh');

my $list = $mcds->json('get', map { url("/plain$_") } 1 .. 32);

my %by = map { $_ => [] } map { $_->port() } $m1, $m2;
push @{$by{$_->{server} =~ s/.*://r}}, $_->{memcached_key} for @$list;

for my $m ($m1, $m2) {
    my %there = map { $_ => 1 } $m->keys();

    ok(@{$by{$m->port()}} > 0, 'a server has some of the pages');
    is(scalar(grep { !$there{$_} } @{$by{$m->port()}}), 0,
        'all that mcds says it has');
}

my ($p) = @$list;

is($p->{memcached_key}, 'x:' . name('/plain1'), 'memcached key');
is($p->{key}, url('/plain1'), 'key');
ok(exists $p->{site} && !defined $p->{site}, 'no site');
is($p->{status}, 200, 'status');
is($p->{stale_while_revalidate}, 7, 'stale-while-revalidate');
is($p->{stale_if_error}, undef, 'no stale-if-error');
ok($p->{expires_in} > 30 && $p->{expires_in} <= 60, 'expires');
is($p->{length}, length("answer 1\n"), 'length');
is($p->{lock}{state}, 'free', 'nobody builds it');
is($p->{signature}, 'none', 'not signed');
ok((grep { ($_->{'Cache-Control'} // '') =~ /max-age=60/ }
    @{$p->{headers}}), 'its headers');
is($mcds->run('get', '--body', url('/plain1'))->{out},
    $a->get('/plain1')->body, 'its body');

my ($q) = $list->[1];
my ($on) = grep { $q->{server} eq '127.0.0.1:' . $_->port() } $m1, $m2;

$on->set($q->{memcached_key}, page_encode(%{
    page_decode($on->get($q->{memcached_key})) }, flags => 107,
    format => 3));
is(join(' ', @{$mcds->json('get', url('/plain2'))->[0]{flags}}),
    'shared revalidate validate no-grace absolute', 'flags');

my $r = $mcds->run('get', 'HTTP://LocalHost/plain1#top');

is($r->{code}, 0, 'scheme and host in upper case');
like($r->{out}, qr/^state +fresh$/m, 'for people');
unlike($r->{out}, qr/[^\n\x20-\x7e]/, 'a terminal gets no control characters');


# what is not there, and what is no page

$r = $mcds->run('get', url('/nothing'));

is($r->{code}, 1, 'not found');
like($r->{out}, qr/^state +missing$/m, 'it says so');

$_->set('x:' . name('/foreign'), "\e]0;x\a\x9b1mforeign") for $m1, $m2;
$r = $mcds->run('get', url('/foreign'));

is($r->{code}, 1, 'no page');
like($r->{out}, qr/^state +not a page$/m, 'it says so, too');
unlike($r->{out}, qr/[^\n\x20-\x7e]/, 'whatever it holds');


# in parts, in a coding, in variants, with tags, signed

if ($t->has('mcds large')) {
    ok($a->get('/large')->body eq $large, 'a large page');
    ok(wait_for(sub { ($mcds->json('get', url('/large'))->[0]{state} // '')
        eq 'fresh' }, 10), 'is stored');

    $p = $mcds->json('get', url('/large'))->[0];
    cmp_ok($p->{parts}, '>', 1, 'in parts');
    is($p->{parts_valid}, $p->{parts}, 'which are all there');
    ok($mcds->run('get', '--body', url('/large'))->{out} eq $large, 'its body');

    my ($lost) = grep { /:part:.*:1$/ } $m1->keys(), $m2->keys();
    $_->delete($lost) for $m1, $m2;

    $p = $mcds->json('get', url('/large'))->[0];
    is($p->{parts_valid}, $p->{parts} - 1, 'one part is lost');
    is($mcds->run('get', '--body', url('/large'))->{code}, 1, 'no body then');

    $_->set($lost, 'MCDP and what does not belong there') for $m1, $m2;
    is($mcds->json('get', url('/large'))->[0]{parts_valid}, $p->{parts} - 1,
        'or it is broken');
}

$a->get('/text');
ok(wait_for(sub { ($mcds->json('get', url('/text'))->[0]{coding} // '')
    eq 'gzip' }, 10), 'a compressed page');

$p = $mcds->json('get', url('/text'))->[0];
is($p->{length}, length($text), 'length without the coding');
cmp_ok($p->{stored_length}, '<', length($text), 'and with it');
ok($mcds->run('get', '--body', url('/text'))->{out} eq $text, 'decoded');

# each is stored before the next one is asked for

my $variants;

for my $n (1 .. 3) {
    $a->get('/vary', headers => { 'X-A' => $n });
    $variants = wait_for(sub {
        $n == grep { $_->{state} eq 'fresh' }
            @{$mcds->json('get', url('/vary'))->[0]{variants} // []};
    }, 10);
}

ok($variants, 'three variants');
is($mcds->json('get', url('/vary'))->[0]{vary}, 'x-a', 'by this header');

$p = $mcds->json('get', '--header', 'X-A:  2', url('/vary'))->[0]{variants};
is(scalar(@$p), 1, 'one of them');
is($p->[0]{state}, 'fresh', 'is found by the header of a request');
is($mcds->run('get', '--body', '--header', 'x-a: 2', url('/vary'))->{out},
    'varies', 'and so is its body');
is($mcds->run('get', '--body', url('/vary'))->{code}, 1,
    'without the header there is none');

# a purge changes the list alone

my $variant = $p->[0]{key};

is($mcds->run('purge', url('/vary'))->{code}, 0, 'its variants are purged');

$p = $mcds->json('get', url('/vary'))->[0]{variants};
is(join(' ', map { $_->{state} } @$p), join(' ', ('invalidated') x 3),
    'all of them are seen as such');
is(scalar(grep { $_->{expires_in} <= 0 } @$p), 3, 'and have expired');

$p = $mcds->json('get', '--key', $variant)->[0];
is($p->{state}, 'invalidated', 'one by its key');

$a->get('/vary', headers => { 'X-A' => 2 });
ok(wait_for(sub {
    join(' ', sort map { $_->{state} }
        @{$mcds->json('get', url('/vary'))->[0]{variants}})
        eq 'fresh invalidated invalidated';
}, 10), 'one is built again');
is($mcds->json('get', '--key', $variant)->[0]{state}, 'fresh', 'this one');

# a list says when it was purged where a page says how old it was

for (1 .. 2) {
    is($mcds->run('purge', url('/vary'))->{code}, 0, 'its variants are purged');
}

cmp_ok($mcds->json('get', url('/vary'))->[0]{age}, '<', 60,
    'it is not older for it');

$a->get('/tagged');
ok(wait_for(sub { ($mcds->json('get', url('/tagged'))->[0]{tags_state} // '')
    eq 'valid' }, 10), 'a page with tags');
is_deeply([sort @{$mcds->json('get', url('/tagged'))->[0]{tags}}],
    [qw/ all host:localhost tag:news tag:top /], 'these tags');

$a->get('/signed');
ok(wait_for(sub { ($mcds->json('get', url('/signed'))->[0]{signature} // '')
    eq 'valid' }, 10), 'signed, with the key of the configuration');

$t->write_file('b.key', "b key of the right length\n");
is($mcds->json('get', '--hmac-key-file', $t->dir() . '/b.key',
    url('/signed'))->[0]{signature}, 'wrong', 'but not with another');


# stale, and from a host whose clock is ahead

my $stored = 'x:' . name('/plain1');
my ($has) = grep { defined $_->get($stored) } $m1, $m2;
my $e = page_decode($has->get($stored));
my $now = $e->{created};

$has->set($stored, page_encode(%$e, expire => $now - 1000));
is($mcds->json('get', url('/plain1'))->[0]{state}, 'stale', 'stale');

$has->set($stored, page_encode(%$e, created => $now + 3600_000,
    expire => $now + 3660_000));
$p = $mcds->json('get', url('/plain1'))->[0];
ok(($p->{clock_ahead} // 0) > 3000, 'by an hour');


# not to be stored, failed, being built

$a->get('/private');
ok(wait_for(sub { ($mcds->json('get', url('/private'))->[0]{state} // '')
    eq 'uncacheable' }, 10), 'hit-for-miss');

# the first ones last a second, which a busy machine needs to start the tool

ok(wait_for(sub {
    $a->get('/broken');
    return ($mcds->json('get', url('/broken'))->[0]{lock}{state} // '')
        eq 'backoff';
}, 30), 'back-off');

$o->hold_path('/slow');
my $w = start_get($a->port(), '/slow', host => 'localhost');
$o->wait_requests(1, '/slow');
is($mcds->json('get', url('/slow'))->[0]{lock}{state}, 'held',
    'somebody builds it');
$o->release('/slow');
finish($w);

# the pool is in a file of its own, where the harness does not look for ports

$t->done(keep => ['m1', 'm2']);
