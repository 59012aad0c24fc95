#!/usr/bin/perl

# Copyright (C) mcds authors

# Made-up values of a header that a page varies on, from two hosts: the page
# goes on being shielded and cached for everybody else.  A visitor who comes
# after the flood has a HIT behind one MISS at most; while it goes on, requests
# that are alike ask the origin once, and variants that are asked for all the
# time stay, or come back at once.  A purge reaches them all, and memcached does
# not fill.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my @m = map { $t->memcached($_, args => ['-I', '64k', '-o',
    'slab_chunk_max=65536']) } 'm', 'n';
my $m = $m[0];

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $ua = $q->{headers}{'user-agent'} // 'none';
    return {
        headers => ['Cache-Control' => $q->{path} =~ /private/ ? 'private'
            : 'max-age=600', Vary => 'User-Agent'],
        body => $q->{path} =~ /large/ ? "for $ua " x 20000 : "for $ua ",
    };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool two {
        server 127.0.0.1:%%PORT_m%%;
        server 127.0.0.1:%%PORT_n%%;
        distribution modula;
        timeout 1s;
    }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    mcds_cache on;
    mcds_use main;
    mcds_purge_api method=PURGE;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /two/ {
            mcds_use two;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOC

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

my $n = 0;

sub host { $hosts[$n++ % 2] }

sub agent { (headers => { 'User-Agent' => shift }) }

sub look {
    my ($uri, $ua) = @_;
    my $r = host()->get($uri, agent($ua));
    return $r->body() =~ /^(?:for \Q$ua\E )+$/ ? $r->header('X-Cache')
        : 'another body';
}

# made-up agents, each once

my $junk = 0;

sub flood {
    my ($uri, $count, $concurrency) = @_;
    my @r = many($count, sub {
        return [host()->port(), $uri, agent('junk' . $junk++)];
    }, concurrency => $concurrency // 1);
    return scalar grep { $_->status() != 200 || $_->body() !~ /^for junk/ } @r;
}

sub listed {
    my $e = page_decode($m->get(key(shift))) or return 0;
    return length($e->{body}) / 16;
}

sub stored {
    my ($uri) = @_;
    my $n = 0;

    # what has made room goes within seconds

    for my $m (@m) {
        $n += grep { /\Q$uri\E:vary:\w+:\w{32}(?::|$)/ && !/:lock/
            && ($m->ttl($_) // 0) == -1 } $m->keys();
    }

    return $n;
}


# 40, then 1000, then a visitor

for my $c (['/a', 40, 1], ['/b', 40, 1], ['/b', 1000, 20], ['/large', 60, 5],
    ['/two/a', 100, 5])
{
    my ($uri, $count, $concurrency) = @$c;

    next if $uri eq '/large' && !$t->has('mcds large');

    my $what = "$uri, $count values";

    is(flood($uri, $count, $concurrency), 0, "$what: all are answered");
    like(look($uri, 'visitor'), qr/^(?:MISS|HIT)$/, "$what: a visitor");
    is(look($uri, 'visitor'), 'HIT', "$what: and then a HIT") for 1 .. 4;
    is(listed($uri), 32, "$what: the list is full") if $uri !~ /two/;

    my $items = $uri =~ /large/ ? 7 : 1;
    my $stays;

    wait_for(sub { ($stays = stored($uri)) <= 40 * $items }, 10);
    cmp_ok($stays, '<=', 40 * $items, "$what: memcached does not fill");
}


# while the flood goes on: the shield holds for a value that is not listed

for my $round (1 .. $t->size(3, 20)) {
    my $uri = '/b';
    my $ua = "herd $round";

    $o->mark();
    $o->hold_path($uri);
    my @p = map { start_get(host()->port(), $uri, agent($ua)) } 1 .. 20;
    my @q = map { start_get(host()->port(), $uri, agent('junk' . $junk++)) }
        1 .. 20;
    $o->wait_requests(21, $uri);
    $_->get('/other', agent('a')) for (@hosts) x 4;
    is(scalar(grep { $_->{headers}{'user-agent'} eq $ua } $o->requests($uri)),
        1, "herd $round: one asks");
    $o->release($uri);
    is(scalar(grep { finish($_)->body() ne "for $ua " } @p), 0,
        "herd $round: all get it");
    finish($_) for @q;
    is(scalar(grep { $_->{headers}{'user-agent'} eq $ua } $o->requests($uri)),
        1, "herd $round: no more");
}


# ... and for what cannot be stored there is a mark

{
    my $uri = '/private';

    flood($uri, 40);
    $o->mark();
    $o->hold_path($uri);
    my @p = map { start_get(host()->port(), $uri, agent('same')) } 1 .. 20;
    ok(wait_for(sub { $o->held($uri) == 20 }), 'not stored: nobody waits');
    $o->release($uri);
    finish($_) for @p;
}


# those who come all the time

{
    my $uri = '/hot';
    my %n;

    for my $ua ('hot 1', 'hot 2') {
        look($uri, $ua);
        wait_for(sub { look($uri, $ua) eq 'HIT' });
    }

    for (1 .. $t->size(150, 3000)) {
        flood($uri, 1);
        $n{look($uri, $_)}++ for ('hot 1') x 4, ('hot 2') x 4;
    }

    note(explain(\%n));
    is($n{'another body'}, undef, 'hot: all are right');
    cmp_ok($n{MISS} // 0, '<', $n{HIT} / 50, 'hot: they stay');
}


# a hit costs two reads, of the list and of the page, and one more when the list
# has changed

{
    my $uri = '/cost';
    my $h = $t->nginx('three', $conf =~ s/processes 2/processes 1/r,
        mode => 0);
    my @gets;

    look($uri, 'visitor');
    wait_for(sub { look($uri, 'visitor') eq 'HIT' });
    $h->get($uri, agent('visitor'));

    for my $change (0, 1, 0, 1) {

        if ($change) {
            my $before = $m->get(key($uri));
            flood($uri, 1);
            wait_for(sub { $m->get(key($uri)) ne $before });
        }

        my $before = $m->stats()->{cmd_get};
        my $r = $h->get($uri, agent('visitor'));
        push @gets, $m->stats()->{cmd_get} - $before;
        is($r->header('X-Cache'), 'HIT', 'a hit');
    }

    is("@gets", '2 3 2 3', 'reads of a hit');
}


# a purge of the page reaches all variants, listed or not

{
    my $uri = '/purged';

    flood($uri, 50);
    look($uri, 'visitor');
    is(look($uri, 'visitor'), 'HIT', 'purge: there');
    my $before = page_decode($m->get(key($uri)));
    is(host()->get($uri, method => 'PURGE')->status(), 200, 'purged');
    my $e = page_decode($m->get(key($uri)));
    is($e->{generation}, $before->{generation}, 'purge: the same list');
    like(look($uri, 'visitor'), qr/^(?:STALE|UPDATING)$/, 'purge: stale');
    is(scalar(grep { !/^(?:STALE|UPDATING|MISS)$/ } map { look($uri, $_) }
        map { 'junk' . ($junk - $_) } 1 .. 50), 0, 'purge: all are');

    # in flight, and the list makes room meanwhile

    $o->hold_path($uri);
    $o->mark();
    my $p = start_get(host()->port(), $uri, agent('flight'));
    $o->wait_requests(1, $uri);
    host()->get($uri, method => 'PURGE');
    $o->release($uri);
    finish($p);
    flood($uri, 10);
    like(look($uri, 'flight'), qr/^(?:STALE|UPDATING|MISS)$/,
        'purge: what was asked for before it is not fresh');

    host()->get($uri, method => 'POST', body => '');
    is(look($uri, 'visitor'), 'MISS', 'deleted: none is found');
}


# one memcached of two goes away, and the one that is left

if ($t->has('mcds local')) {
    my $uri = '/two/b';

    flood($uri, 40, 5);
    $m[1]->stop();
    is(flood($uri, 100, 10), 0, 'one of two is gone: all are answered');

    for my $ua (map { "gone $_" } 1 .. 4) {
        $o->mark();
        $o->hold_path($uri);
        my @p = map { start_get(host()->port(), $uri, agent($ua)) } 1 .. 20;
        $o->wait_requests(1, $uri);
        $_->get('/other', agent('a')) for (@hosts) x 8;
        cmp_ok($o->held($uri), '<=', 2, "$ua: each host asks once at most");
        $o->release($uri);
        finish($_) for @p;
        cmp_ok($o->count($uri), '<=', 2, "$ua: and no more");
    }
}

$t->allow(qr/memcached|connect\(\) failed/);
$t->done();
