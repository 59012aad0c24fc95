#!/usr/bin/perl

# Copyright (C) mcds authors

# Pages with tags while a memcached is away.  A page needs no server but its
# own; a purge needs all of them, and says so.  Where memcached does not say
# whether a page was purged, the page is expired at the most: requests that
# wait for it take it as it was built, none queues for another build, and the
# reason names memcached, not a purge.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new()->not_in('two many', 'it fills each worker')
    ->allow(qr/is down after|timed out|refused|Connection reset|purge failed/,
    qr/closed|unavailable/);

my $n = 8;

my @m = map { $t->memcached($_) } 'm0' .. 'm2';

my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return $f->mode() eq 'lost' && $line =~ /^\w+ <mcds:/
        || $f->mode() eq 'uncounted' && $line =~ /^\w+ <mcds:purges/
        ? "SERVER_ERROR out of memory\r\n" : ();
});

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { body => "answer $req->{k}", headers => ['Cache-Tag' => 'a,b,c,d',
        'Cache-Control' => 'max-age=60'
            . ($req->{path} =~ /strict/ ? ', must-revalidate' : '')] };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m0%%;
        server 127.0.0.1:%%PORT_m1%%;
        server 127.0.0.1:%%PORT_m2%%;
        distribution ketama;
        timeout %%TIMEOUT%%ms;
        max_fails 2;
        %%SETTING%%;
        prefix "%%WAY%%:";
    }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; }
    mcds_use main;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_tag $upstream_http_cache_tag;
    mcds_cache_status_header on;
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /plain { mcds_cache_tag off;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /fake { mcds_cache fake;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /fake/plain { mcds_cache fake; mcds_cache_tag off;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /purge { mcds_cache off; mcds_purge_api on; }
    }
}
EOT

my $timeout = 1000 * $t->slow();
$conf =~ s/%%TIMEOUT%%/$timeout/;

my %ways = (alone => 'eject off', eject => 'eject on',
    replicas => 'replicas 2');

my %hosts = map {
    my $text = $conf =~ s/%%SETTING%%/$ways{$_}/r =~ s/%%WAY%%/$_/r;
    ($_ => [map { $t->nginx($_, $text) } "one$_", "two$_"])
} keys %ways;

sub status { $_[0]->get($_[1])->header('X-Cache') }

# a new uri whose page lies on the first server, or not

my $count = 0;

sub fresh_uri {
    my ($h, $way, $kind, $first) = @_;

    while (1) {
        my $uri = "/$kind-" . ++$count;
        my @home;

        $h->get($uri);
        wait_for(sub {
            @home = grep { defined $m[$_]->get("$way:<>$uri") } 0 .. $#m;
            return @home == ($way eq 'replicas' ? 2 : 1);
        }) or die $uri;

        return $uri if $first == ($home[0] == 0);
    }
}

# all of them wait: what was asked on the same connection later was answered

sub herd {
    my ($hosts, $uri, $plain) = @_;

    $o->hold_path($uri);

    my @p = map { start_get($hosts->[0]->port(), $uri) } 1 .. $n;
    push @p, map { start_get($hosts->[1]->port(), $uri) } 1 .. $n;

    for my $h (@$hosts) {
        $h->get($plain) for 1 .. 5;
    }

    $o->wait_requests(1, $uri);
    $o->release($uri);

    my @r = map { finish($_) } @p;
    my %n;
    $n{$_->header('X-Cache')}++ for @r;
    note("$uri: ", join ', ', map { "$n{$_} $_" } sort keys %n);

    is(scalar(grep { $_->status() == 200 } @r), 2 * $n, "$uri: all answered");
    is($o->count($uri), 1, "$uri: built once for all");
}

my %fault = (
    killed => [sub { $_[0]->kill9() }, sub { $_[0]->restart() }],
    hung => [sub { $_[0]->freeze() }, sub { $_[0]->cont() }],
);

for my $way (sort keys %ways) {
    my $hosts = $hosts{$way};
    my $h = $hosts->[0];

    for my $name (sort keys %fault) {
        my ($break, $mend) = @{$fault{$name}};
        my $what = "$name, $way";

        my ($plain, $old, $new, $strict) = map {
            fresh_uri($h, $way, $_, 0)
        } 'plain', 'old', 'new', 'strict';
        my $there = fresh_uri($h, $way, 'there', 1);

        for my $uri ($new, $strict) {
            $_->delete("$way:<>$uri") for @m;
        }

        $break->($m[0]);

        for my $h (@$hosts) {
            ok(wait_for(sub {
                $h->get($there);
                return $h->log_count(qr/is down after/);
            }), "$what: noticed");
        }

        # nothing is missing

        is(status($_, $old), 'HIT fresh', "$what: of before") for @$hosts;

        for my $uri ($new, $strict) {
            $o->mark();
            herd($hosts, $uri, $plain);
            ok(wait_for(sub { status($_, $uri) eq 'HIT fresh' }),
                "$what: $uri is stored") for @$hosts;
            is($o->count($uri), 1, 'as it was built');
        }

        # a purge reaches what there is

        is($h->get('/purge?tag=b&mode=delete')->status(), 503,
            "$what: a purge is not complete");

        for my $uri ($old, $new) {
            is(status($hosts->[1], $uri), 'MISS purged', "$what: $uri is gone");
        }

        # and the rest once that is back

        $mend->($m[0]);

        if ($name eq 'hung') {
            ok(wait_for(sub { defined $m[0]->get("$way:<>$there") }),
                'it is back with what it had');
        }

        ok(wait_for(sub {
            $h->get('/purge?tag=b&mode=delete')->status() == 200
        }), "$what: a purge is complete");

        for my $h (@$hosts) {
            my $answer;
            ok(wait_for(sub {
                $answer = $h->get($there);
                return $answer->header('X-Cache') =~ /fresh|purged|absent/;
            }), "$what: $there is asked for where it was");
            isnt($answer->body(), 'answer 1', 'and is another one');
        }
    }
}


# memcached does not say

my $hosts = $hosts{alone};
my ($h, $h2) = @$hosts;
my ($plain, $old) = ('/fake/plain', '/fake/old');

for my $uri ($plain, $old) {
    ok(wait_for(sub {
        2 == grep { status($_, $uri) eq 'HIT fresh' } @$hosts;
    }), "$uri: stored");
}

$f->tell('uncounted');

herd($hosts, $_, $plain) for '/fake/new', '/fake/strict';
is(status($_, '/fake/new'), 'HIT fresh', 'known by the records') for @$hosts;

$f->tell('lost');
$o->mark();

for my $uri ('/fake/lost/new', '/fake/lost/strict') {
    herd($hosts, $uri, $plain);
}

my $r = $h2->get('/fake/lost/new');
is($r->header('X-Cache'), 'STALE memcached', 'shown');
like($r->header('Cache-Status'), qr/; detail=memcached$/, 'and said');
ok($o->wait_requests(2, '/fake/lost/new'), 'and refreshed');
like(status($h, $old), qr/^(?:STALE|UPDATING) memcached/, 'also one of before');

$o->mark();
herd($hosts, '/fake/lost/strict', $plain);

my $tool = Test::Mcds::Tool->new($t, '-c', $h->dir() . '/nginx.conf');
my $json = $tool->json('--pool', 'fake', 'get', '--key', $old);
is($json->[0]{tags_state}, 'unknown', 'the tool does not know')
    or diag(explain($json));
is($json->[0]{state}, 'unknown', 'nor calls it deleted');

$f->tell('');

for my $uri ('/fake/lost/new', '/fake/lost/strict', $old) {
    for my $h (@$hosts) {
        ok(wait_for(sub { status($h, $uri) eq 'HIT fresh' }),
            "$uri is fresh once it does");
    }
}


# a host that has never known the number of purges has no number to store with
# a page: whether that was purged is not known later, either

$f->tell('lost');

my $new = $t->nginx('new', $conf =~ s/%%SETTING%%/eject off/r
    =~ s/%%WAY%%/alone/r);

is($new->get('/fake/never')->status(), 200, 'never: built');
ok(wait_for(sub { defined $f->get('<>/fake/never')
    && !defined $f->get('<>/fake/never:lock') }), 'never: stored');

$f->tell('');

is(status($h, '/fake/never'), 'STALE memcached', 'never: it may be purged');
ok(wait_for(sub { status($h, '/fake/never') eq 'HIT fresh' }),
    'never: but rebuilt');

$t->done();
