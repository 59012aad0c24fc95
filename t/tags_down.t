#!/usr/bin/perl

# Copyright (C) mcds authors

# One of several memcached is away, on which something lies that pages with
# tags ask for: what it would have said of them is not known, and so they are
# expired at the most.  Requests that wait for such a page take it as it was
# built, none queues for another build, and the reason names memcached, not a
# purge.

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
        eject %%EJECT%%;
        prefix "%%EJECT%%:";
    }
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
        location = /purge { mcds_cache off; mcds_cache_purge on; }
    }
}
EOT

my $timeout = 300 * $t->slow();
$conf =~ s/%%TIMEOUT%%/$timeout/;

my %hosts = map {
    my $text = $conf =~ s/%%EJECT%%/$_/gr;
    ($_ => [map { $t->nginx($_, $text) } "one$_", "two$_"])
} 'off', 'on';

# which server has an item

sub home {
    my ($key) = @_;

    my ($m) = grep { defined $_->get($key) } @m;
    return $m;
}

# a new uri, neither whose page nor its lock lies on that server

my $count = 0;

sub elsewhere {
    my ($h, $prefix, $m, $kind) = @_;

    while (1) {
        my $uri = "/$kind-" . ++$count;
        $h->get("/plain$uri");
        my $home;
        wait_for(sub { $home = home("$prefix:<>/plain$uri") });
        return "/plain$uri" if $home != $m && $kind eq 'plain';

        # the name alone chooses: that of a page with tags is asked for

        next if $kind eq 'plain';
        $h->get($uri);
        wait_for(sub { $home = home("$prefix:<>$uri") });
        $_->delete("$prefix:<>$uri") for @m;
        $o->mark();
        return $uri if $home != $m;
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
    return @r;
}

my %fault = (
    killed => [sub { $_[0]->kill9() }, sub { $_[0]->restart() }],
    hung => [sub { $_[0]->freeze() }, sub { $_[0]->cont() }],
);

for my $eject ('off', 'on') {
    for my $name (sort keys %fault) {
        my ($break, $mend) = @{$fault{$name}};
        my $hosts = $hosts{$eject};
        my ($h, $h2) = @$hosts;
        my $what = "$name, eject $eject";

        $_->get('/first') for @$hosts;
        my $m;
        ok(wait_for(sub { $m = home("$eject:<mcds:purges") }), 'its server');

        my $plain = elsewhere($h, $eject, $m, 'plain');
        my ($new, $strict, $old) = map { elsewhere($h, $eject, $m, $_) }
            'new', 'strict', 'old';

        for my $uri ($plain, $old) {
            ok(wait_for(sub {
                2 == grep { $_->get($uri)->header('X-Cache') eq 'HIT fresh' }
                    @$hosts;
            }), "$uri: stored");
        }

        $break->($m);

        # until each host knows

        for my $h (@$hosts) {
            ok(wait_for(sub {
                $h->get($_) for $old, $plain;
                return $h->log_count(qr/is down after/);
            }), "$what: noticed");
        }

        $o->mark();

        for my $uri ($new, $strict) {
            herd($hosts, $uri, $plain);
            cmp_ok($o->count($uri), '<=', 2, "$what: $uri is built for all");
        }

        # what was built is there, and is no worse than one that has expired

        my $r = $h2->get($new);
        is($r->header('X-Cache'), 'STALE memcached', "$what: shown");
        like($r->header('Cache-Status'), qr/detail=memcached/, 'and said');
        ok($o->wait_requests(2, $new), 'and refreshed');

        $r = $h->get($old);
        like($r->header('X-Cache'), qr/^(?:STALE|UPDATING) memcached/,
            "$what: a page of before is shown");

        herd($hosts, $strict, $plain);
        cmp_ok($o->count($strict), '<=', 4, "$what: once more");

        # as the tool sees it

        my $tool = Test::Mcds::Tool->new($t, '-c', $h->dir() . '/nginx.conf',
            '--timeout', '1s');
        my $json = $tool->json('get', '--key', $new);
        is($json->[0]{tags_state}, 'unknown', "$what: the tool does not know")
            or diag(explain($json));
        is($json->[0]{state}, 'unknown', 'nor calls it deleted');

        $mend->($m);

        for my $uri ($new, $strict, $old) {
            for my $h (@$hosts) {
                ok(wait_for(sub {
                    $h->get($uri)->header('X-Cache') eq 'HIT fresh';
                }), "$what: $uri is fresh once it is back");
            }
        }
    }
}

$t->done();
