#!/usr/bin/perl

# Copyright (C) mcds authors

# A request with Authorization, in each state that a page may be in, and while
# another request builds it: it gets the stored page if that is for all, and
# else asks the origin on its own; it takes no lock, starts no refresh and does
# not wait.  What the origin says is for all is stored, and a stale page that is
# for all is served when the origin fails.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $f = $t->fake('m');

# a request without credentials is held where a build is to go on

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $known = $q->{headers}{authorization};

    return { status => 503 } if $q->{path} =~ /fails/;

    return {
        headers => ['Cache-Control' => 'max-age=600'
            . ($q->{path} =~ /shared/ ? ', public' : '')],
        body => $known ? "for $known" : 'for all',
        hold => !$known && $q->{path} =~ /built/ ? 1 : 0,
    };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 20s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_early 100;
    mcds_cache_background_update 10m;
    mcds_cache_grace 1d;
    mcds_cache_lock_age 60s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

# a time before now in seconds, and other fields of the page; the response to a
# request with Authorization if the page is for all, and if it is not

my $own = 'BYPASS authorization for me';
my $unstored = 'MISS authorization for me';

my %states = (
    absent    => [undef, undef, 'MISS absent for me', $unstored],
    fresh     => [-600, {}, 'HIT fresh stored', $own],
    early     => [-600, { took => 4e9 }, 'HIT fresh stored', $own],
    update    => [1, {}, 'UPDATING stale stored', $own],
    grace     => [3600, {}, 'EXPIRED stale for me', $own],
    error     => [2 * 86400, { sie => 864000 }, 'EXPIRED stale for me', $own],
    expired   => [2 * 86400, {}, 'EXPIRED stale for me', $own],
    strict    => [1, { flags => 2 }, 'EXPIRED stale for me', $own],
    purged    => [1, { flags => 4 }, 'UPDATING purged stored', $own],
    deleted   => [-600, { kind => 3, body => '', status => 0 },
        'MISS purged for me', $unstored],
    unstored  => [-600, { kind => 1, body => '', status => 0 },
        'MISS uncacheable for me', $unstored],
);

# a build goes on where a request without Authorization starts one

my %builds = map { $_ => 1 } qw/ absent early update grace error expired
    strict purged deleted /;

# the response if the origin fails, for a page that is for all

my %failing = (
    update    => 'UPDATING stale stored',
    grace     => 'STALE error stored',
    error     => 'STALE error stored',
    expired   => 'EXPIRED status answer',
    strict    => 'EXPIRED status answer',
);

sub key { '<>' . shift }

sub put {
    my ($uri, $ago, $more) = @_;
    my $expire = int((time() - $ago) * 1000);

    $f->set(key($uri), page_encode(key => key($uri), body => 'stored',
        created => $expire - 3600_000, expire => $expire, %$more,
        flags => ($more->{flags} // 0) | ($uri =~ /shared/ ? 1 : 0)));
}

my $plain = '/plain';
ok(wait_for(sub { $h->get($plain)->header('X-Cache') eq 'HIT fresh' }),
    'another page');

for my $state (sort keys %states) {
    my ($ago, $more, @want) = @{$states{$state}};

    for my $of ('shared', 'others') {
        check($state, $of, $_, $ago, $more, $want[$of eq 'others'])
            for 'free', $builds{$state} ? 'built' : ();
    }
}

for my $state (sort keys %failing) {
    my ($ago, $more) = @{$states{$state}};

    for my $of ('shared', 'others') {
        my $uri = "/$of/fails/$state";
        my $want = $of eq 'shared' ? $failing{$state}
            : 'BYPASS authorization answer';

        put($uri, $ago, $more);

        my $r = $h->get($uri, headers => { Authorization => 'me' });

        is($r->header('X-Cache') . ' ' . ($r->body() =~ /^(\w+)/)[0], $want,
            "$uri: $want");
        is($r->status(), $want =~ /answer/ ? 503 : 200, "$uri: the status");
    }
}

sub check {
    my ($state, $of, $built, $ago, $more, $want) = @_;

    my $uri = "/$of/$built/$state";
    my $busy;

    put($uri, $ago, $more) if defined $ago;

    if ($built eq 'built') {
        $busy = start_get($h->port(), $uri);
        ok($o->wait_requests(1, $uri), "$uri: is being built");
    }

    $f->mark();
    $o->mark();

    my $r = $h->get($uri, headers => { Authorization => 'me' });

    is($r->header('X-Cache') . ' ' . $r->body(), $want, "$uri: $want");
    is($o->count($uri), $want =~ /for me/ ? 1 : 0, "$uri: the origin");

    # all commands of the request before were sent before the response to this

    is($h->get($plain)->header('X-Cache'), 'HIT fresh', "$uri: another page");
    is(join(' ', $f->commands(qr/^\w+ \Q@{[key($uri)]}\E:lock/)), '',
        "$uri: no lock");
    is(scalar(grep { !$_->{headers}{authorization} } $o->requests($uri)), 0,
        "$uri: no refresh");

    my $stored = $of eq 'shared' && $want =~ /for me/ ? 1 : 0;
    is($f->count(qr/^ms \Q@{[key($uri)]}\E /), $stored,
        "$uri: " . ($stored ? 'stored' : 'not stored'));

    return if !$busy;

    $o->release($uri);
    like(finish($busy)->body(), qr/^(?:for all|stored)$/, "$uri: the builder");
}

$t->done();
