#!/usr/bin/perl

# Copyright (C) mcds authors

# K09: pages that are asked for all the time and expire again and again.  Each
# time one request of two hosts with two workers each has a page refreshed, and
# nobody waits for that, as there is always an old one.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Chaos;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('nofile',
    'many pages are built at once');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Cache-Control' => 'max-age=1'], delay => 0.2,
             body => chaos_page($q, user => 'all') };
});

my @hosts = map { $t->nginx($_, <<'EOT') } 'one', 'two';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 10s; }
    add_header X-Cache  $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / {
            mcds_cache on;
            mcds_cache_background_update on;
            proxy_set_header X-Start $msec;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $seconds = $t->size(3, 60);
my @uris = map { "/page/" . 6 * $_ } 1 .. 100;

finish($_) for map { start_get($hosts[0]->port(), $_) } @uris;
page_wait($m, "<>http://localhost$_") or die "no page $_\n" for @uris;

my @crowds = map { chaos_crowd($t, ports => [map { $_->port() } @hosts],
    clients => 16, seconds => $seconds, seed => $_, abort => 0, pause => 0.02,
    limit => 30 * $t->slow(), next => sub { return { kind => 'page',
        uri => $uris[rand @uris], limit => 1e9, want => { user => 'all' } } })
} 1 .. 2;

my (%status, %count, @bad, @fail);

for my $crowd (@crowds) {
    my $seen = $crowd->wait() or do { fail('clients ended well'); next };
    $count{$_} += $seen->{count}{$_} for keys %{$seen->{count}};
    $status{$_} += $seen->{status}{page}{$_} for keys %{$seen->{status}{page}};
    push @bad, @{$seen->{bad}};
    push @fail, @{$seen->{fail}};
}

is(scalar @bad, 0, 'all pages are right') or diag(explain(\@bad));
is(scalar @fail, 0, 'all are answered') or diag(explain(\@fail));

# EXPIRED, MISS: the request was at the origin itself; others wait with those

is(join(' ', grep { !/^(?:HIT|STALE|UPDATING)$/ } sort keys %status), '',
    'nobody waits for the origin');

# refreshed while it was being refreshed, or when it had just been

my ($refreshes, @twice) = (0);

for my $uri (@uris) {
    # by the clock of nginx: the origin may read a request late

    my @r = sort { $a <=> $b } map { $_->{headers}{'x-start'} }
        $o->requests($uri);

    for my $i (1 .. $#r) {
        $refreshes++;
        push @twice, sprintf '%s: %.3f after %.3f', $uri, $r[$i], $r[$i - 1]
            if $r[$i] - $r[$i - 1] < 0.6;
    }
}

note("$count{all} requests, $refreshes refreshes, ", join ', ',
    map { "$_ $status{$_}" } sort keys %status);

cmp_ok($refreshes, '>', @uris * ($t->full() ? 20 : 1), 'pages have expired');
cmp_ok(scalar @twice, '<=', $refreshes / 1000, 'each time once')
    or diag(explain(\@twice));

$t->done();
