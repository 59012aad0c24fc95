#!/usr/bin/perl

# Copyright (C) mcds authors

# A large page is compressed, and decompressed, in many turns of the event
# loop, wherever it comes from and however fast, so that nobody waits for it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');

my $text = join '', map { "line $_ of a page\n" } 1 .. 200_000;
my $small = substr $text, 0, 200_000;

mkdir $t->dir() . '/www';
chmod 0755, $t->dir() . '/www';
$t->write_file('www/page', $text);
$t->write_file('www/small', $small);

my $b = $t->nginx('b', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=4m;
        default_type text/plain;
        root %%TMP%%/www;
    }
}
EOT

my $h = $t->nginx('h', <<'EOT', loop => !$t->watched());
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    default_type text/plain;
    mcds_cache on;
    mcds_cache_valid 1h;
    mcds_cache_key $uri;
    mcds_cache_compress gzip;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /proxy/ { proxy_pass http://127.0.0.1:%%PORT_b%%/; }
        location /buffers/ {
            proxy_buffers 64 64k;
            proxy_busy_buffers_size 1m;
            proxy_max_temp_file_size 0;
            proxy_pass http://127.0.0.1:%%PORT_b%%/;
        }
    }
}
EOT

# the worker's turns while something is done

sub turns {
    my ($do) = @_;

    # all that is done is tried where turns cannot be counted

    return $do->(), 1000 if $t->watched();

    $h->loop_begin();
    $do->();
    return $h->loop()->{turns};
}

for my $way (qw/ proxy buffers /) {
    for (['page', $text], ['small', $small]) {
        my ($name, $want) = @$_;
        my $uri = "/$way/$name";
        my $least = length($want) / 65536;
        my ($r, $turns);

        $turns = turns(sub { $r = $h->get($uri) });
        ok($r->body eq $want, "$uri: a miss");
        cmp_ok($turns, '>=', $least, "$uri: compressed in turns");

        my $e = page_decode(page_wait($m, $uri));
        is("$e->{coding} $e->{length}", '1 ' . length $want, "$uri: stored");

        $turns = turns(sub { $r = $h->get($uri) });
        ok($r->body eq $want && $r->header('X-Cache') eq 'HIT',
            "$uri: a hit");
        cmp_ok($turns, '>=', length($want) / 262144,
            "$uri: decompressed in turns");

        # behind an old page

        page_expire($m, $uri, 1000);
        $turns = turns(sub {
            is($h->get($uri, headers => { 'Accept-Encoding' => 'gzip' })
                ->header('X-Cache'), 'STALE', "$uri: old");
            ok(wait_for(sub { page_decode($m->get("<>$uri"))->{expire}
                > $e->{expire} - 60_000 }, 20), "$uri: refreshed");
        });
        cmp_ok($turns, '>=', $least, "$uri: by a refresh, too");
        ok($h->get($uri)->body eq $want, "$uri: is the same");
    }
}

ok(!$h->log_has(qr/temporary file/), 'nothing went to a file');

$t->done();
