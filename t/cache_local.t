#!/usr/bin/perl

# Copyright (C) mcds authors

# Copies of the host.  Validated: memcached is asked for each hit, but for no
# body, and what another host has stored or purged is seen at once.  Timed: it
# is not asked for a while.  Without memcached they go on being served, and what
# is built then is kept, too.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $f = $t->fake('f', sub { });
my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => {
        '/short' => { headers => ['Cache-Control' => 'max-age=2'] },
        '/v/short' => { headers => ['Cache-Control' => 'max-age=2'] },
        '/v/large' => { body => 'large %n ' . 'x' x 300_000,
                        headers => ['Cache-Control' => 'max-age=60'] },
    });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes %%WORKERS%%;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_mc%%; timeout 20s; }
    mcds_zone 2m;
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /v/ {
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /t/ {
            mcds_cache_local timed=400ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub host {
    my ($name, $mc, $workers) = @_;
    my $c = $conf =~ s/%%PORT_mc%%/$mc->port()/er
                  =~ s/%%WORKERS%%/$workers/r;
    return $t->nginx($name, $c);
}

sub status {
    my ($r) = @_;
    return ($r->header('X-Cache') // $r->status()) . ' '
        . ($r->body() =~ /(\d+)/ ? $1 : 'none');
}


# what is sent, with one worker

my $h = host('one', $f, 1);

is(status($h->get('/v/a')), 'MISS 1', 'built');
ok(wait_for(sub { defined $f->get(key('/v/a')) }), 'stored');
ok(wait_for(sub { status($h->get('/v/a')) eq 'HIT 1' }), 'kept');
$f->mark();
is(status($h->get('/v/a')), 'HIT 1', 'validated');
my @c = grep { !/ mn/ } $f->commands(qr/^/);
is(scalar(@c), 1, 'by one command') or diag explain \@c;
like($c[0], qr/^mg \S+ (?:(?! v).)*$/, 'without the value');

is(status($h->get('/t/a')), 'MISS 2', 'timed: built');
ok(wait_for(sub { defined $f->get(key('/t/a')) }), 'timed: stored');
ok(wait_for(sub { sleep 0.1;
    status($h->get('/t/a')) eq 'HIT 2' }), 'timed: kept');
sleep 0.45;
my $start = time();
$h->get('/t/a');
$f->mark();
my @r = map { status($h->get('/t/a')) } 1 .. 5;
is(join(' ', @r), 'HIT 2' . ' HIT 2' x 4, 'timed: hits');
cmp_ok($f->count(qr/^mg/), '<=', int((time() - $start) / 0.4),
    'timed: memcached is not asked');
sleep 0.45;
$f->mark();
is(status($h->get('/t/a')), 'HIT 2', 'timed: hit later');
is($f->count(qr/^mg/), 1, 'timed: it is asked then');
is(scalar(grep { / v/ } $f->commands(qr/^mg/)), 0, 'timed: for no value');

# a page that another has put there

my $e = $f->get(key('/v/a'));
my $new = page_encode(%{page_decode($e)}, body => "other 77\n", total => 9);
$f->set(key('/v/a'), $new);
is(status($h->get('/v/a')), 'HIT 77', 'validated: the new one at once');
is(status($h->get('/v/a')), 'HIT 77', 'validated: and again');

$f->delete(key('/v/a'));
is(status($h->get('/v/a')), 'MISS 3', 'validated: deleted, gone at once');


# two hosts, two workers each

my @h = map { host($_, $m, 2) } 'two', 'three';

$_->get('/v/b') for (@h) x 4;
page_wait($m, key('/v/b'));
my ($n) = status($h[0]->get('/v/b')) =~ /(\d+)/;

my $ok = 0;
for (1 .. $t->size(20, 200)) {
    $_->get('/v/b') for (@h) x 3;
    $m->delete(key('/v/b'));
    my @s = map { [split / /, status($_->get('/v/b'))] } (@h) x 4;
    $ok++ if !grep { $_->[1] <= $n } @s;
    $n = $s[0][1];
}
is($ok, $t->size(20, 200), 'deleted: no worker shows it any more');

$h[0]->get('/v/large');
page_wait($m, key('/v/large'));
is(length($_->get('/v/large')->body()) > 300_000, 1, 'large: whole')
    for (@h) x 3;


# memcached dies

$_->get('/v/short') for (@h) x 8;
$_->get('/short') for (@h) x 2;
$_->get('/v/b') for (@h) x 8;
sleep 0.05;
$_->get('/v/b') for (@h) x 8;
$o->mark();
$m->kill9();
my @s = map { $_->get('/v/b') } (@h) x 30;
is(scalar(grep { $_->status() == 200 && $_->header('X-Cache') eq 'HIT' } @s),
    60, 'dead: copies are served');
is($o->count('/v/b'), 0, 'dead: the origin is not asked');
$_->get('/short') for (@h) x 3;
is($o->count('/short'), 6, 'dead: where there are none, it is');

# the page expires meanwhile: rebuilt, and kept

sleep 2.1;
$_->get('/v/short') for (@h) x 20;
ok(wait_for(sub { $_->get('/v/short')->header('X-Cache') eq 'HIT'
    || return 0 for (@h) x 6; 1 }, 3 * $t->slow()), 'dead: rebuilt and kept')
    or diag join ' ', map { status($_->get('/v/short')) } (@h) x 6;

# after a reload the zone has them for new workers

SKIP: {
    skip 'nginx cannot reload then', 2 if $t->mode() eq 'single';

    $o->mark();
    $h[0]->reload(wait_old => 1);
    @s = map { $h[0]->get('/v/b') } 1 .. 20;
    is(scalar(grep { $_->header('X-Cache') eq 'HIT' } @s), 20,
        'dead, reloaded: copies are served');
    is($o->count('/v/b'), 0, 'dead, reloaded: the origin is not asked');
}

# and back: what memcached says counts

$m->restart();
ok(wait_for(sub {
    $_->get('/v/b') for (@h) x 4;
    return defined $m->get(key('/v/b'));
}, 15 * $t->slow()), 'back: built anew');
ok(wait_for(sub { status($_->get('/v/b')) =~ /^HIT/ || return 0
    for (@h) x 4; 1 }, 5), 'back: hits');


# more than fits, the least recently used go

my $bad = 0;
for my $i (1 .. $t->size(40, 400)) {
    my $uri = "/v/many/$i";
    $o->set($uri, { body => "page of $uri " . 'y' x 150_000 });
    $h[1]->get($uri);
}

for (1 .. 2) {
    for my $i (1 .. $t->size(40, 400)) {
        my $r = $h[1]->get("/v/many/$i");
        $bad++ if $r->status() != 200
            || index($r->body(), "page of /v/many/$i ") != 0
            || length($r->body()) < 150_000;
    }
}

is($bad, 0, 'more than fits: all the right pages');

# one that is used all the time stays, and is not asked for

{
    my $h = host('lru', $f, 1);
    my $last = 24;

    my $local = sub {
        $f->mark();
        my $r = $h->get("/v/lru/$_[0]");
        return join ' ', $r->header('X-Cache'),
            $f->count(qr/^mg (?!.*:lock).* v/) ? 'memcached' : 'local';
    };

    for my $i (0 .. $last) {
        my $uri = "/v/lru/$i";

        $o->set($uri, { body => "page of $uri " . 'z' x 150_000 });
        ok(wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' }),
            "lru: page $i") if $h->get($uri)->header('X-Cache') ne 'HIT';
        $local->($i);
        $local->(0);
    }

    is($local->(0), 'HIT local', 'lru: the one that was used again and again');
    is($local->($last), 'HIT local', 'lru: the last one');
    is($local->(1), 'HIT memcached', 'lru: the least recently used one went');
    is($local->(1), 'HIT local', 'lru: and is kept again');
}

$t->done();
