#!/usr/bin/perl

# Copyright (C) mcds authors

# Zones of mcds_status: what four workers have counted is what clients and the
# origin have seen: words of $mcds_cache_status and $mcds_cache_reason, builds,
# stores, bytes, purges; and how caches are named.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->allow(qr/is not stored|too large/);

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;

    my $p = $req->{path};
    my @h = ('Cache-Control' => $p =~ /private/ ? 'private' : 'max-age=60');

    push @h, 'Set-Cookie' => 'a=b' if $p =~ /cookie/;

    return { headers => [ETag => '"1"', 'Cache-Control' => 'max-age=1'],
        status => $req->{headers}{'if-none-match'} ? 304 : 200,
        body => 'old' } if $p =~ /renew/;
    return { headers => \@h, status => $p =~ /404/ ? 404 : 200,
        body => 'page ' . 'x' x 1000 };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 4;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Status $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    mcds_cache on;
    mcds_cache_key $host$uri;
    mcds_cache_bypass $arg_bypass;
    mcds_cache_session_cookies sid;

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        server_name example.com;
        location /all/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /exact { proxy_pass http://127.0.0.1:%%PORT_o%%;
            if ($arg_x) { set $y 1; } }
        location ~ \.php$ { proxy_pass http://127.0.0.1:%%PORT_o%%;
            if ($arg_x) { set $y 1; } location ~ never { } }
        location /one { mcds_cache_label "sha\"red";
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /two { mcds_cache_label "sha\"red";
            limit_except GET { deny all; }
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /none { mcds_cache_label off;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /dry { mcds_cache_dry_run on;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /renew { mcds_cache_revalidate on; mcds_cache_grace 0;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /purge/ { mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /status { mcds_cache off; mcds_status; }
        location / { mcds_cache off; }
    }
    server {
        listen 127.0.0.1:%%PORT_two%%;
        location /all/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
    server {
        listen 127.0.0.1:%%PORT_two%%;
        server_name other.com;
        mcds_cache_label other;
        location / { location /in { } }
    }
}
EOT

is(join(', ', map { $_->{name} } @{status($h)->{caches}}),
    'example.com /all/, example.com = /exact, example.com ~ \.php$, '
    . 'example.com ~ never, sha"red, example.com /dry, example.com /renew, '
    . 'example.com /purge/, _, _ /all/, other', 'names of caches');
my $e = entry($h, 'caches', 'other');
is(sum_of($e->{requests}), 0, 'nothing so far');

# times of what has not been yet are zeros

my $text = $h->get('/status?format=prometheus')->body();

for (['build_time', 'build_seconds'], ['wait_time', 'wait_seconds']) {
    my ($name, $metric) = @$_;
    my %all = $text =~ /^(mcds_cache_${metric}_\w+\{cache="other".*\}) (.*)$/mg;

    is("$e->{$name}{count} $e->{$name}{sum_ms} "
        . sum_of($e->{$name}{le_ms}), '0 0 0', "$name, JSON");
    is(scalar(keys %all), 3 + keys %{$e->{$name}{le_ms}},
        "$name, Prometheus: all of it");
    is(sum_of(\%all), 0, 'are zeros');
}

# everything there is

my @kinds = map { "/all/$_" } 'a', 'b', 'c', 'private', 'cookie', '404', 'd';
my (%status, %reason);
my $n = $t->size(600, 5000);
my $hits = 0;

my @res = many($n, sub {
    my $i = shift;
    my $uri = $kinds[$i % @kinds];

    return [$h->port(), $uri, method => 'POST'] if $i % 11 == 3;
    return [$h->port(), "$uri?bypass=1"] if $i % 13 == 4;
    return [$h->port(), $uri, headers => { Cookie => 'sid=1' }]
        if $i % 17 == 5;
    return [$h->port(), $uri, method => 'HEAD'] if $i % 19 == 6;
    return [$h->port(), $uri];
}, concurrency => 16);

is(scalar(grep { $_->status() =~ /^(?:200|404)$/ } @res), $n, 'all answered');

for my $res (@res) {
    $status{lc($res->header('X-Status') || 'none')}++;
    $reason{$res->header('X-Reason')}++;
    $hits += length $res->body() if lc($res->header('X-Status') || '') eq 'hit';
}

# HEAD has no body, and some wait no longer for what they get

my $z = entry_of($h, 'caches', 'example.com /all/', sub {
    sum_of($_[0]{requests}) == $n
        && sum_of($_[0]{built}) == sum_of($_[0]{builds});
});

$status{$_} //= 0 for keys %{$z->{requests}};

is_deeply($z->{requests}, \%status, 'requests by status: '
    . join(' ', map { "$_ $status{$_}" } sort keys %status));
is_deeply($z->{reasons}, \%reason, 'requests by reason: '
    . join(' ', map { "$_ $reason{$_}" } sort keys %reason));
is($z->{origin}, $o->count(), "requests of the origin: $z->{origin}");
is($z->{bytes_served}, $hits, "bytes from the cache: $hits");
is($z->{builds}{refresh}, 0, 'no refreshes');
is($z->{build_time}{count}, sum_of($z->{builds}), 'each build has its time');
is_deeply($z->{not_stored}, { map { $_ => $reason{$_} } qw/ private
    set-cookie / }, 'what was not stored');
is($z->{built}{uncacheable} + $z->{built}{stored}, sum_of($z->{builds}),
    'what the builds ended with');
cmp_ok(sum_of($z->{stores}), '>=', $z->{built}{stored}, 'stores');

# caches with a name, and without

$h->get($_) for '/one/1', '/two/1', '/two/1', '/none/1', '/exact', '/a.php',
    '/exact?x=1', '/a.php?x=1';

$z = entry_of($h, 'caches', 'sha"red', sub { sum_of($_[0]{requests}) == 3 });
is_deeply([@{$z->{requests}}{qw/ miss hit /}], [2, 1], 'two have one zone');
is($z->{origin}, 2, 'and its requests');

for my $name ('= /exact', '~ \.php$') {
    $z = entry_of($h, 'caches', "example.com $name",
        sub { sum_of($_[0]{requests}) == 2 });
    is(sum_of($z->{requests}), 2, "$name, and those of its \"if\"");
}

# purges and refreshes

$h->get('/purge/1');
ok(wait_for(sub {
    my @keys = grep { m{/purge/1(?::lock)?$} } $m->keys();
    return @keys == 1 && $keys[0] !~ /:lock$/;
}), 'stored, and unlocked');
$h->get('/purge/1', method => 'PURGE');
is($h->get('/purge/1')->header('X-Reason'), 'purged', 'purged');

$z = entry_of($h, 'caches', 'example.com /purge/',
    sub { $_[0]{built}{stored} == 2 && $_[0]{purges}
        && sum_of($_[0]{requests}) == 2 });
is($z->{purges}, 1, 'a purge');
is(sum_of($z->{requests}), 2, 'which is no request of the cache');
is("$z->{builds}{fill} $z->{builds}{refresh}", '1 1', 'a refresh behind it');
is("$z->{requests}{miss} $z->{requests}{stale}", '1 1', 'for the one request');
is($z->{origin}, 2, 'the refresh asks the origin');
is($z->{bytes_served}, 1005, 'and the client has the old page');

# an old page that has not changed

$h->get('/renew');
ok(wait_for(sub { $h->get('/renew')->header('X-Status') ne 'HIT' }), 'expired');
$z = entry_of($h, 'caches', 'example.com /renew',
    sub { $_[0]{requests}{revalidated} && $_[0]{built}{stored} });
is($z->{requests}{revalidated}, 1, 'revalidated');
is("$z->{built}{stored} $z->{built}{renewed}", '1 1', 'renewed');
is($z->{reasons}{unchanged}, 1, 'unchanged');

# what would be

$h->get('/dry') for 1 .. 3;
$z = entry_of($h, 'caches', 'example.com /dry',
    sub { sum_of($_[0]{requests}) == 3 });
is("$z->{requests}{miss} $z->{requests}{hit_dry_run}", '1 2', 'a dry run');
is("$z->{origin} $z->{bytes_served}", '3 0', 'serves nothing');

$t->done();
