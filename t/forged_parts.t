#!/usr/bin/perl

# Copyright (C) mcds authors

# An item that claims more parts than a page can have is no page, to the workers
# and to the tool; and with mcds_cache_hmac_key nothing that an unsigned item
# names is asked for, touched or deleted: not by a request, a range, a HEAD or
# a POST, nor by a purge, nor when the page is replaced.  As many parts as are
# allowed are dropped without a pause of the event loop.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Tool;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/is not used|is not signed/);
$t->needs('mcds large');

$t->needs('http_ssl');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60',
    ETag => '"new"', 'Accept-Ranges' => 'bytes'], body => 'origin' });

$t->write_file('secret.key', 'a key of the right length');

my $h = $t->nginx('h', <<'EOT', loop => !$t->watched());
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_purge_api method=PURGE mode=delete;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /signed/ {
            mcds_cache_hmac_key %%TMP%%/secret.key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /soft/ {
            mcds_cache_hmac_key %%TMP%%/secret.key;
            mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $mcds = Test::Mcds::Tool->new($t, '-c', $h->dir() . '/nginx.conf');

# none of the parts is there, so that whatever asks for one misses it

sub missed {
    my $s = $m->stats();
    my $n = 0;
    $n += $s->{$_} // 0 for qw/ get_misses touch_misses delete_misses /;
    return $n;
}

sub forge {
    my ($key, $parts) = @_;

    $key = "<>$key";
    $m->set($key, page_encode(key => $key, body => 'x', parts => $parts,
        part => 1, total => 1 + $parts, generation => 7,
        headers => "ETag: \"old\"\r\nAccept-Ranges: bytes\r\n"))
        or die 'not stored';
}

# what memcached was asked for that is not there, beside locks and the like

sub asked {
    my ($name, $run, $most) = @_;
    my $before = missed();

    $run->();

    # a purge reads behind all that was asked before it

    $h->get('/last', method => 'PURGE');

    my $n = missed() - $before;
    cmp_ok($n, '<=', $most, "$name: asks for nothing else") or diag($n);
}

my %ways = (
    GET => sub { $h->get($_[0]) },
    range => sub { $h->get($_[0], headers => [Range => 'bytes=0-0']) },
    HEAD => sub { $h->get($_[0], method => 'HEAD') },
    POST => sub { $h->get($_[0], method => 'POST', body => 'x') },
    PURGE => sub { $h->get($_[0], method => 'PURGE') },
);

# 4097 are one too many; nobody writes that many

for my $n (4097, 50_000) {
    for my $way (sort keys %ways) {
        my $uri = "/$way/$n";

        forge($uri, $n);
        asked("$n parts: $way", sub { $ways{$way}->($uri) }, 8);
    }

    forge('/tool', $n);
    asked("$n parts: the tool", sub {
        $mcds->run('get', '--key=/tool');
    }, 8);
}

# as many as there may be, not signed

for my $where ('signed', 'soft') {
    for my $way (sort keys %ways) {
        my $uri = "/$where/$way";

        forge($uri, 4096);
        asked("not signed: $way, $where", sub { $ways{$way}->($uri) }, 8);
    }
}

# what is stored in the place of one that is not signed leaves its parts

forge('/signed/replaced', 4096);
asked('not signed: replaced', sub {
    $h->get('/signed/replaced');
    ok(wait_for(sub { page_decode($m->get('<>/signed/replaced'))->{body}
        eq 'origin' }), 'not signed: it is replaced');
    is($h->get('/signed/replaced')->header('X-Cache'), 'HIT', 'and served');
}, 8);

is($h->get('/signed/GET', method => 'PURGE')->status(), 200,
    'a signed page is found by a purge');
forge('/signed/none', 1);
is($h->get('/signed/none', method => 'PURGE')->status(), 404,
    'one that is not signed is none');

# without a key all of them are dropped, which takes no long turn

for my $way ('POST', 'PURGE') {
    my $loop;

    for my $try (1 .. 3) {
        forge("/most/$way", 4096);
        $h->loop_begin() if !$t->watched();
        is($ways{$way}->("/most/$way")->status(), 200, "4096 parts: $way");
        $h->get('/last', method => 'PURGE');
        $loop = $t->watched() ? { longest => 0 } : $h->loop();
        last if $loop->{longest} < 20;
    }

    note(sprintf '4096 parts: %s: %.2f ms', $way, $loop->{longest});
    cmp_ok($loop->{longest}, '<', 20, "4096 parts: $way: no pause");
}

$t->done();
