#!/usr/bin/perl

# Copyright (C) mcds authors

# A build ends when its origin does: neither a client that does not read, nor
# the page that it is a part of, holds up those who wait for it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $large = 'x' x 900_000;
my @long = ('Cache-Control' => 'max-age=60');
my @cut = (headers => [@long], body => $large, truncate => 850_000);

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => [@long], body => $large }, paths => {
    '/cut' => { @cut },
    '/direct/cut' => { @cut },
    '/chunked/cut' => { @cut, chunked => 1 },
    '/ssi/main' => { body => '<!--# include virtual="/ssi/cut" -->'
        . '<!--# include virtual="/ssi/slow" -->',
        headers => ['Content-Type' => 'text/html'] },
    '/ssi/cut' => { headers => [@long], body => 'f' x 5000, truncate => 3000 },
    '/ssi/slow' => { headers => [], body => 'slow' },
    '/none' => { headers => [], body => '' },
    map { $_ => { headers => [@long], body => $large, chunked => 1 } }
        '/file/chunked', '/short/chunked',
});

# the first host is the one that is held up

my @h = map { $t->nginx($_, <<'EOT') } 'one', 'two';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_error_backoff off;
    proxy_http_version 1.1;
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=8k;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /direct/ {
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /file/ {
            proxy_max_temp_file_size 0;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /short/ {
            proxy_max_temp_file_size 64k;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi/ {
            ssi on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub unlocked {
    my ($uri) = @_;
    return wait_for(sub { !defined $m->get(key($uri) . ':lock') });
}

sub answered {
    my ($uri) = @_;
    return grep { $_->{end} } $o->requests($uri);
}

my ($r, @p);


# the origin breaks off: who has waited is told, and the next one builds

for my $uri ('/cut', '/direct/cut', '/chunked/cut') {
    $o->hold_path($uri);

    my $slow = $h[0]->conn();
    $slow->request($uri);
    $o->wait_requests(1, $uri);
    $o->set($uri, { truncate => undef });

    # both have looked for the page, and not found it; the one that looks again
    # and again comes last.  A later answer of memcached tells that they wait

    @p = map {
        my $misses = $m->stats()->{get_misses};
        my $p = start_get($_->port(), $uri);
        wait_for(sub { $m->stats()->{get_misses} > $misses });
        $_->get('/none');
        $p;
    } @h;

    $o->release($uri);

    my @r = map { finish($_, 4 * $t->slow()) } @p;

    is($r[0]->status(), 503, "$uri: who waits there is told at once");
    ok($r[1]->complete() && $r[1]->body() eq $large,
        "$uri: another host gets the page, whole");
    is($o->count($uri), 2, "$uri: it has built it");
    ok(page_wait($m, key($uri)), "$uri: stored, and no lock is left");

    $r = $slow->response();
    ok(!$r->complete(), "$uri: cut for the slow one");
    $slow->close();
}


# and if nobody has waited, the lock is free for who comes next

$o->set('/cut', { @cut });
$m->delete(key('/cut'));
$o->mark();

my $slow = $h[0]->conn();
$slow->request('/cut');
ok(wait_for(sub { answered('/cut') }), 'cut: nobody waits');
ok(unlocked('/cut'), 'cut: no lock');
ok(!defined $m->get(key('/cut')), 'cut: no page');
$slow->close();


# a part of a page, whose other parts take their time

$o->hold_path('/ssi/slow');
my $main = start_get($h[0]->port(), '/ssi/main');
ok($o->wait_requests(1, '/ssi/slow')
    && wait_for(sub { answered('/ssi/cut') }),
    'part: cut, while another is awaited');
ok(unlocked('/ssi/cut'), 'part: no lock');
$o->set('/ssi/cut', { truncate => undef });

for my $h (@h) {
    $r = $h->get('/ssi/cut', timeout => 4 * $t->slow());
    is($r->body(), 'f' x 5000, 'part: ' . $h->name() . ' gets it whole');
}

is($o->count('/ssi/cut'), 2, 'part: built once more');
$o->release('/ssi/slow');
$r = finish($main);
like($r->body(), qr/^f{0,3000}(?:slow)?$/, 'part: the first page has the rest');


# without a temporary file, or with one that is full, nginx reads no faster than
# the client

for my $uri ('/file/a', '/file/chunked', '/short/a', '/short/chunked') {
    $slow = $h[0]->conn();
    $slow->request($uri);
    $o->wait_requests(1, $uri);

    for my $h (@h) {
        $r = $h->get($uri, timeout => 4 * $t->slow());
        ok($r->complete() && $r->body() eq $large,
            "$uri: " . $h->name() . ' gets it whole');
    }

    is($o->count($uri), 1, "$uri: of one answer");
    ok(page_wait($m, key($uri)), "$uri: stored");
    $r = $slow->response();
    ok($r->complete() && $r->body() eq $large, "$uri: so does the slow one");
    $slow->close();
}

$t->done();
