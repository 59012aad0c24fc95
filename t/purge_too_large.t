#!/usr/bin/perl

# Copyright (C) mcds authors

# A memcached that refuses a value because it is too large, or has no memory for
# it, removes what was there: it may be the mark of a purge, without which a
# build of before would find its place free.  A length that is not known to be
# taken is tried elsewhere, and where that does not help the mark is set again.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->allow(qr/too large|takes no items/);

my $m = $t->memcached('m', memory => 128, args => ['-I', '512k']);

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $version = $q->{headers}{'x-version'} // 'new';
    my ($size) = $q->{path} =~ /(\d+)k/;
    return { headers => ['Cache-Control' => 'max-age=60'],
        body => "$version " . 'x' x ($size * 1024) };
});

my $conf = <<'EOT';
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
        location / {
            mcds_cache_bypass $http_x_bypass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_purge_api on; }
    }
}
EOT

my ($h, $other) = map { $t->nginx($_, $conf) } 'one', 'two';

sub url { 'http://localhost' . shift }
sub key { '<>' . url(shift) }
sub page { page_decode($m->get(key(shift))) // {} }
sub version { (split / /, $_[0]->body() // '')[0] }

# sizes that the worker does not know to be too large, then knows; whether the
# page was there before or not

my $large = $t->has('mcds large');

for my $size (200, $large ? (400, 700, 700) : ()) {
    for my $there (0, 1) {
        my $uri = "/${size}k/" . ++$t->{n};
        my $case = $size . 'k, ' . ($there ? 'there' : 'not there');

        if ($there) {
            $h->get($uri);
            page_wait($m, key($uri));
        }

        # asked for before the purge, and answered after it; a bypass has no
        # lock, so that others are not held up by it

        $o->mark();
        $o->hold_path($uri);
        my $early = start_get($h->port(), $uri, headers => {
            'X-Version' => 'old', 'X-Bypass' => 1 });
        $o->wait_requests(1, $uri);
        $other->get("/purge?mode=delete&key=" . url($uri));
        is(page($uri)->{kind}, 3, "$case: purged");

        $o->release($uri);
        is(version(finish($early)), 'old', "$case: the old one arrives");

        # for as long as it may take to be stored

        ok(!wait_for(sub { (page($uri)->{kind} // 0) != 3 }, 0.2),
            "$case: the mark is still there");

        for my $host ($h, $other) {
            is(version($host->get($uri)), 'new', "$case: nobody gets it");
        }
        ok(wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' }),
            "$case: the new one is stored");
        cmp_ok(page($uri)->{parts}, $size > 250 ? '>' : '==', 0,
            "$case: as it fits");
    }
}


# memcached takes less than it did: what it has removed is marked again

if ($large) {
    my $uri = '/240k/less';

    ok(wait_for(sub { $h->get("/240k/before")->header('X-Cache') eq 'HIT' }),
        'less: 240k are taken');
    is(page('/240k/before')->{parts}, 0, 'less: as a whole');

    $m->{args} = ['-I', '128k', '-o', 'slab_chunk_max=65536'];
    $m->restart();
    ok(wait_for(sub { $h->get('/1k/back')->header('X-Cache') eq 'HIT' },
        10 * $t->slow()), 'less: memcached is back');

    $o->hold_path($uri);
    my $early = start_get($h->port(), $uri, headers => {
        'X-Version' => 'old', 'X-Bypass' => 1 });
    $o->wait_requests(1, $uri);
    $other->get("/purge?mode=delete&key=" . url($uri));
    $o->release($uri);
    is(version(finish($early)), 'old', 'less: the old one arrives');

    ok(wait_for(sub { $m->stats()->{store_too_large} >= 1
        && (page($uri)->{kind} // 0) == 3 }), 'less: a mark is there again');
    is(version($other->get($uri)), 'new', 'less: and nobody gets it');
    ok(wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT'
        && $other->get($uri)->header('X-Cache') eq 'HIT' }), 'less: stored');
    is(version($h->get($uri)), 'new', 'less: the new one');
    cmp_ok(page($uri)->{parts}, '>', 0, 'less: in parts');
}

$t->done();
