#!/usr/bin/perl

# Copyright (C) mcds authors

# replicas: a server that was away comes back with the pages of before.  It is
# not trusted: what lives on the other one decides, also that a page is gone,
# and the newest of them goes to both.  What the servers have is compared by a
# command that brings no page; only where it differs it is read from both.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my @m = map { $t->memcached("m$_") } 0 .. 1;
my @three = map { $t->memcached("t$_") } 0 .. 2;
my @old = map { $t->memcached("c$_") } 0 .. 1;
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @headers = ('Cache-Control' => 'max-age=600');

    push @headers, Vary => 'X-Lang' if $q->{path} =~ /vary/;

    return { headers => \@headers,
        body => "version $q->{k} of $q->{path} "
            . ($q->{path} =~ /large/ ? 'x' x 100_000 : '') . "\n" };
});

my @h = map { $t->nginx("h$_", <<'EOT', patience => 0) } 0 .. 1;
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_zone 8m;
    mcds_pool two {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution modula;
        replicas     2;
        timeout      2s;
        fail_timeout 200ms;
    }
    mcds_pool three {
        server       127.0.0.1:%%PORT_t0%%;
        server       127.0.0.1:%%PORT_t1%%;
        server       127.0.0.1:%%PORT_t2%%;
        distribution modula;
        replicas     3;
        timeout      5s;
    }
    mcds_pool classic {
        server       127.0.0.1:%%PORT_c0%%;
        server       127.0.0.1:%%PORT_c1%%;
        distribution modula;
        replicas     2;
        protocol     classic;
        timeout      5s;
    }
    add_header     X-Cache $mcds_cache_status;
    mcds_cache_key page:$uri;
    mcds_purge_api method=PURGE mode=delete;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache two;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /local/ {
            mcds_cache       two;
            mcds_cache_local validated;
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
        }
        location /post/ {
            mcds_cache     two;
            mcds_purge_api off;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location /three/ {
            mcds_cache three;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /classic/ {
            mcds_cache classic;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my %servers = (three => \@three, classic => \@old);

sub servers { return @{$servers{$_[0] =~ m!^/(\w+)/! ? $1 : ''} // \@m} }


# an item as it is: flags and value; put() stores it where it was

sub item {
    my ($m, $key) = @_;

    my ($len, $flags, $value) = $m->mc("mg $key v f")
        =~ /^VA (\d+) f(\d+)\r\n(.*)\r\n\z/s or return;

    return { flags => $flags, value => $value };
}

sub put {
    my ($m, $key, $item) = @_;
    my $len = length $item->{value};

    return $m->mc("ms $key $len F$item->{flags}", $item->{value}) =~ /^HD/;
}

sub same {
    my ($key, @m) = @_;
    my %seen;

    for my $m (@m) {
        my $item = item($m, $key);
        $seen{$item ? "$item->{flags} $item->{value}" : 'nothing'} = 1;
    }

    return keys %seen == 1;
}

sub get {
    my ($h, $uri, @more) = @_;
    my $r = $h->get($uri, @more);

    return ($r->header('X-Cache') // '') . ' '
        . ($r->body() =~ /^(version \d+)/)[0];
}

sub purge { return http_request($_[0]->port(), $_[1], method => 'PURGE') }


# a page is stored on all of its servers, then something happens to it, and one
# server has the page of before

my $n = 0;

sub case {
    my ($where, $away, $happens, $like, $name) = @_;
    my $uri = $where . $n++;
    my $key = "<>page:$uri";
    my @s = servers($uri);

    get($h[0], $uri);
    get($h[1], $uri);

    ok(wait_for(sub { @s == grep { item($_, $key) } @s }), "$name: is there");

    my $before = item($s[$away], $key);

    # times tell which page is newer, in milliseconds

    sleep(0.02);
    $happens->($uri, $key);

    ok(wait_for(sub { same($key, @s) }), "$name: all servers know it");
    ok(put($s[$away], $key, $before), "$name: one has it as it was");

    like(get($h[1], $uri), $like, "$name: is not used");
    ok(wait_for(sub { same($key, @s) }), "$name: all have the same then");
    unlike(get($h[0], $uri), qr/version 1/, "$name: nor later");
}

my %happens = (
    deleted => sub { purge($h[0], $_[0]) },
    rebuilt => sub {
        my ($uri, $key) = @_;

        purge($h[0], $uri);
        get($h[0], $uri);

        # the servers have the deletion alike before they have the page

        wait_for(sub {
            my @s = servers($uri);
            return @s == grep { /version 2/ }
                map { (item($_, $key) // {})->{value} // '' } @s;
        });
    },
    invalidated => sub { http_post($h[0]->port(), $_[0], 'x') },
);

my %like = (
    deleted => qr/^MISS version [23]$/,
    rebuilt => qr/^HIT version 2$/,
    invalidated => qr/version 3$/,
);

for my $what (sort keys %happens) {
    my @where = $what eq 'invalidated' ? ('/post/') : ('/', '/large/',
        '/local/', '/three/');

    for my $where (@where) {
        for my $away (0 .. servers($where) - 1) {
            case($where, $away, $happens{$what}, $like{$what},
                "$what, $where, server $away");
        }
    }
}


# one that does not tell how long an item lives: each reader compares

for my $away (0 .. 1) {
    my $uri = "/classic/$away";
    my $key = "<>page:$uri";

    get($h[0], $uri);
    wait_for(sub { 2 == grep { item($_, $key) } @old });

    my $before = item($old[$away], $key);

    sleep(0.02);
    purge($h[0], $uri);
    put($old[$away], $key, $before);

    unlike(get($h[1], $uri), qr/version 1/, "classic, server $away");
}


# of a page that varies the list of variants, and each variant

for my $away (0 .. 1) {
    my $uri = "/vary/$away";
    my @lang = map { [headers => { 'X-Lang' => $_ }] } qw/ en de /;

    get($h[0], $uri, @$_) for @lang;
    wait_for(sub {
        my @keys = map { scalar grep { /page:\Q$uri\E/ } $_->keys() } @m;
        return $keys[0] == 3 && $keys[1] == 3;
    }) or diag(join(' ', map { $_->keys() } @m));

    my %before = map { $_ => item($m[$away], $_) }
        grep { /page:\Q$uri\E/ } $m[$away]->keys();

    is(scalar keys %before, 3, "varies, server $away: a list, two variants");

    sleep(0.02);
    purge($h[0], $uri);
    put($m[$away], $_, $before{$_}) for keys %before;

    like(get($h[1], $uri, @$_), qr/^MISS version [34]$/,
        "varies, server $away: is not used") for @lang;
}


# a server is stopped, so that it has the page under the same CAS: a local copy
# of it, too, is asked about

for my $where ('/local/', '/') {
    my $uri = "${where}stopped";
    my $key = "<>page:$uri";

    for my $away (@m) {
        purge($h[0], $uri);
        get($_, $uri) for @h, @h;
        wait_for(sub { same($key, @m) });

        my ($was) = get($h[1], $uri) =~ /^HIT (.*)/;

        $away->freeze();
        is(purge($h[0], $uri)->status(), 503, "stopped, $where: 503");
        $away->cont();

        ok(wait_for(sub { $h[1]->get($uri)->status() == 200 }), 'is back');
        unlike(get($h[1], $uri), qr/$was$/,
            "stopped, $where: the page of before is not used");
    }
}

$t->allow(qr/purge failed|is down|timed out/);


# one that came back empty takes nothing from the other

{
    my $uri = '/empty';
    my $key = "<>page:$uri";

    get($h[0], $uri);
    wait_for(sub { 2 == grep { item($_, $key) } @m });

    for my $empty (@m) {
        my $item = item($empty, $key);

        $empty->delete($key);
        is(get($h[1], $uri), 'HIT version 1', 'one server is empty');
        put($empty, $key, $item);
    }
}


# all is well: one server brings the page, the other one a few bytes

{
    my $uri = '/large/well';
    my ($hits, %was, %is) = (50);

    get($h[0], $uri) for 1 .. 2;
    wait_for(sub { same("<>page:$uri", @m) });

    $was{$_} = $m[$_]->stats() for 0 .. 1;
    get($h[1], $uri) for 1 .. $hits;
    $is{$_} = $m[$_]->stats() for 0 .. 1;

    my ($few, $all) = sort { $a <=> $b }
        map { $is{$_}{bytes_written} - $was{$_}{bytes_written} } 0 .. 1;

    cmp_ok($all, '>', $hits * 100_000, 'one brings the page');
    cmp_ok($few, '<', $hits * 200 + 10_000, 'the other one does not');
    is($is{$_}{cmd_set}, $was{$_}{cmd_set}, 'and nothing is written')
        for 0 .. 1;
}


# who does not answer is not waited for when the other one has

for my $hung (@m) {
    my $uri = '/hung';

    purge($h[0], $uri);
    get($h[0], $uri);
    wait_for(sub {
        2 == grep { $_ && $_->{value} =~ /version/ }
            map { scalar item($_, "<>page:$uri") } @m;
    });

    $hung->freeze();

    my $watch = $t->stopwatch();

    like(get($h[1], $uri), qr/^HIT/, 'one server hangs: the other has it');
    cmp_ok($watch->(), '<', 1.9 * $t->slow(), 'in less than the timeout');

    $hung->cont();
    wait_for(sub { $h[1]->get($uri)->time() < 0.5 });
}


# the page is purged and built anew all the time, while many read it: both
# servers get each change one after the other, and that is no doubt about it

{
    my $uri = '/often';
    my ($purges, $stored) = (0, 0);

    get($h[0], $uri);

    my $load = $t->load(ports => [map { $_->port() } @h], uri => $uri,
        clients => 20, seconds => 4, background => 1);

    while (!$load->ended()) {
        $purges++ if purge($h[$purges % 2], $uri)->status() == 200;

        my $k = $o->count($uri);
        wait_for(sub { get($h[0], $uri) =~ /^HIT version \d+$/ }, 2);
        $stored++;
    }

    my $r = $load->wait();

    is($r->{status}{200}, $r->{requests}, "$r->{requests} requests");
    cmp_ok($o->count($uri), '<=', $purges + 1, 'one build for each purge')
        or diag("$purges purges");
}

$t->done();
