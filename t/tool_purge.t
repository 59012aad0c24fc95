#!/usr/bin/perl

# Copyright (C) mcds authors

# What mcds purges two hosts see at once, as if one of them had done it: by
# URL, key, tag and host, all variants, signed pages; it may be shown while it
# is rebuilt, or not, with --delete.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m1 = $t->memcached('m1');
my $m2 = $t->memcached('m2');

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return {
        headers => ['Cache-Control' => 'max-age=600, '
            . 'stale-while-revalidate=600',
            $q->{uri} =~ /vary/ ? (Vary => 'X-A') : (),
            $q->{uri} =~ m{^/tags/(\w+)} ? ('X-Tags' => $1) : ()],
        body => "$q->{uri} $q->{k}",
    };
});

$t->write_file('a.key', 'a key of the right length');
$t->write_file('b.key', 'another of the right length');

my ($a, $b) = map { $t->nginx($_, <<'EOT') } 'a', 'b';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m1%%;
        server 127.0.0.1:%%PORT_m2%%;
        distribution ketama;
        prefix p:;
        timeout 10s;
        connect_timeout 10s;
    }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /tags/ {
            mcds_cache_tag $upstream_http_x_tags;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /signed/ {
            mcds_cache_hmac_key %%TMP%%/a.key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /other/ {
            mcds_cache_hmac_key %%TMP%%/b.key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /key/ {
            mcds_cache_key "my $uri";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $mcds = Test::Mcds::Tool->new($t, '-c', $a->dir() . '/nginx.conf');

sub url { 'http://localhost' . shift }


# both hosts have it: the second one finds what the first one has stored

sub fill {
    my ($uri, %o) = @_;

    $a->get($uri, %o);

    return wait_for(sub {
        $b->get($uri, %o)->header('X-Cache') eq 'HIT';
    }, 10);
}


# what a host says, while a rebuild would be held at the origin

sub seen {
    my ($h, $uri, %o) = @_;

    my $r = $h->get($uri, %o);

    return join ' ', $r->header('X-Cache'), $r->header('X-Reason');
}


# by URL

my @uris = map { "/page/$_?q=$_" } 1 .. 6;

ok(!(grep { !fill($_) } @uris), 'pages on both servers');
$o->hold_path('*');

my $r = $mcds->run('purge', map { url($_) } @uris);

is($r->{code}, 0, 'purged');

for my $h ($a, $b) {
    is(scalar(grep { seen($h, $_) =~ /^(?:STALE|UPDATING) / } @uris), 6,
        'a host shows all of them while they are rebuilt');
}

my %seen = map { (split)[1] => 1 } map { seen($_, $uris[0]) } $a, $b;

is_deeply([sort keys %seen], ['purged'], 'and says why');
ok(wait_for(sub { 6 == $o->count(qr{^/page}) - 6 }, 10)
    || diag($o->count(qr{^/page})), 'each is rebuilt once');

$o->release('*');

for my $uri (@uris[0, 5]) {
    ok(wait_for(sub { $a->get($uri)->header('X-Cache') eq 'HIT'
        && $a->get($uri)->body =~ / 2$/ }, 10), 'then the new one is there');
}


# to be gone, and what is not there

$r = $mcds->run('purge', '--delete', url($uris[0]));
is($r->{code}, 0, 'deleted');
is(seen($b, $uris[0]) =~ /^MISS/ ? 1 : seen($b, $uris[0]), 1, 'a miss');

$r = $mcds->json('purge', url('/nothing'), url($uris[1]));
is($r->[0]{found} ? 1 : 0, 0, 'there was nothing');
is($r->[1]{found} ? 1 : 0, 1, 'the other one was there');
is($mcds->run('purge', url('/nothing'))->{code}, 1, 'exit code of nothing');


# a key that is no URL

ok(fill('/key/1'), 'a page with a key of its own');
is($mcds->run('purge', '--delete', '--key', 'my /key/1')->{code}, 0,
    'is purged by it');
like(seen($b, '/key/1'), qr/^MISS/, 'and gone');


# variants

ok(fill('/vary', headers => { 'X-A' => $_ }), "variant $_") for 1 .. 3;

$r = $mcds->json('purge', url('/vary'))->[0];
ok($r->{found} && $r->{variants}, 'a page that varies');

$o->hold_path('*');
is(scalar(grep { seen($b, '/vary', headers => { 'X-A' => $_ })
    =~ /^(?:STALE|UPDATING) / } 1 .. 3), 3, 'all variants are stale');
$o->release('*');


# tags and hosts

ok(fill("/tags/$_"), "page of tag $_") for qw/ red blue green /;

is($mcds->run('purge', '--delete', '--tag', 'red', '--tag', 'blue')->{code},
    0, 'two tags');
is(scalar(grep { seen($b, "/tags/$_") =~ /^MISS/ } qw/ red blue /), 2,
    'their pages are gone');
like(seen($b, '/tags/green'), qr/^HIT/, 'the other one is not');

ok(fill("/tags/red"), 'again');
is($mcds->run('purge', '--delete', '--host', 'LocalHost')->{code}, 0,
    'a host');
is(scalar(grep { seen($b, "/tags/$_") =~ /^MISS/ } qw/ red green /), 2,
    'all of its pages are gone');

ok(fill('/tags/red'), 'again');
is($mcds->run('purge', '--all')->{code}, 0, 'all');
$o->hold_path('*');
like(seen($a, '/tags/red'), qr/^(?:STALE|UPDATING) /, 'stale');
$o->release('*');


# a page that is signed stays signed, with its key, and shown

ok(fill('/signed/1') && fill('/other/1'), 'signed pages');
is($mcds->run('purge', url('/signed/1'), url('/other/1'))->{code}, 0,
    'purged');
$o->hold_path('*');
like(seen($b, "$_/1"), qr/^(?:STALE|UPDATING) /,
    "$_ is shown while it is rebuilt") for '/signed', '/other';
$o->release('*');


# a pool without a server that is in use

my $none = Test::Mcds::Tool->new($t, '-c', $t->write_file('down.conf',
    "events { }\nhttp { mcds_pool main { server 127.0.0.1:1 down; } }\n"));

$r = $none->run('--json', 'purge', url('/'), '--tag', 'red', '--all');

is($r->{code}, 3, 'no server');
unlike($r->{err}, qr/out of memory/, 'which is not for want of memory');

my $list = eval { JSON::PP::decode_json($r->{out}) } // [];

is_deeply([map { [$_->{tag}, $_->{all} ? 1 : 0, $_->{purged} ? 1 : 0] } @$list],
    [[undef, 0, 0], ['red', 0, 0], [undef, 1, 0]], 'the result of each')
    or diag($r->{out}, $r->{err});
is(scalar(grep { $_->{error} } @$list), 3, 'with the reason');

$t->done();
