#!/usr/bin/perl

# Copyright (C) mcds authors

# With "protocol classic" counters are exact, visitors are counted and a page is
# built once for two hosts, in memcached, in the store yrmcds, and behind the
# proxy nutcracker.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Stores;

my $t = Test::Mcds->new();

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;

    my $uri = $req->{uri};

    return {
        headers => ['Cache-Control' => 'max-age=100'],
        body => $uri =~ /large/
            ? substr join('', map { "$uri $_\n" } 1 .. 200000), 0, 3_000_000
            : "page $req->{n} of $uri\n" . 'x' x 70000 . "end\n",
    };
});

my %start = (
    memcached => sub { $t->memcached('memcached') },
    yrmcds => sub { Test::Mcds::Stores::yrmcds($t, 'yrmcds') },
    nutcracker => sub {
        Test::Mcds::Stores::nutcracker($t, 'nutcracker',
            map { $t->memcached($_) } qw/ first second /);
    },
);

for my $name (qw/ memcached yrmcds nutcracker /) {
    subtest $name => sub {
        plan skip_all => "no $name" if $name ne 'memcached'
            && !Test::Mcds::Stores::installed($name =~ s/(?<=yrmcds)$/d/r);
        store($name, $start{$name}->());
    };
}

$t->done();


sub store {
    my ($name, $store) = @_;

    my $conf = <<"EOT";
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server   127.0.0.1:%%PORT_$name%%;
        protocol classic;
        timeout  10s;
    }
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /count {
            mcds_counter \$views key=views:\$arg_k;
            add_header X-Views \$views;
            mcds_return "number \$views\\n";
        }
        location /visit {
            mcds_visitor_counter \$online key=site visitor=\$arg_v
                                 window=2s slots=1 interpolate=off;
            mcds_return "online \$online\\n";
        }
        location / {
            mcds_cache on;
            mcds_cache_key \$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache \$mcds_cache_status;
        }
    }
}
EOT

    my @hosts = map { $t->nginx("$name.$_", $conf) } qw/ a b /;

    counters($store, @hosts);
    pages($name, $store, @hosts);
    large("/large/$name", $store, @hosts) if $t->has('mcds large');
    visitors(@hosts);

    $_->quit() for @hosts;
}


# many clients begin at once with counters that are not there

sub counters {
    my ($store, @hosts) = @_;

    my $requests = $t->size(3000, 100000);
    my @keys = map { "k$_" } 1 .. 20;

    my $result = $t->load(ports => \@hosts, clients => 32,
        uris => [map { "/count?k=$_" } @keys], requests => $requests,
        expect => 'number ');

    is($result->{ok}, $requests, 'all are answered');
    is($result->{errors} + $result->{wrong}, 0, 'without an error');

    my $sum = 0;
    $sum += ($store->get("views:$_") // 0) =~ s/ +$//r for @keys;

    is($sum, $requests, 'the counters are exact');

    # each number once

    my @numbers = map { $_->header('X-Views') // 'none' }
        many(400, sub { [$hosts[$_[0] % 2]->port(), '/count?k=own'] });

    is_deeply([sort { $a <=> $b } @numbers], [1 .. 400], 'own numbers');

    $store->set('views:text', 'nonsense');
    is($hosts[0]->get('/count?k=text')->body(), "number \n", 'no number');
    is($store->get('views:text'), 'nonsense', 'is left alone');
}


sub pages {
    my ($name, $store, @hosts) = @_;

    my $uri = "/$name";

    $o->hold_path($uri);
    my @waiting = map { start_get($hosts[$_ % 2]->port(), $uri) } 1 .. 40;
    ok(wait_for(sub { $o->held($uri) }), 'one builds');

    like($store->get("<>$uri:lock") // '', qr/^[0-9a-f]{32}(?: \d+)?$/,
        'with a lock');

    $o->release($uri);

    my @pages = map { finish($_) } @waiting;

    is(scalar(grep { $_->status() == 200 && $_->body() =~ /end\n\z/
        && length $_->body() > 70000 } @pages), 40, 'all get the page');
    is($o->count($uri), 1, 'one build for two hosts');

    my $n = $pages[0]->body() =~ /^page (\d+)/ ? $1 : '';

    for my $host (@hosts, @hosts) {
        my $r = $host->get($uri);

        is($r->header('X-Cache'), 'HIT', 'stored');
        ok($r->body() =~ /\Apage $n of/, 'the page');
    }

    is($o->count($uri), 1, 'and never again');
    ok(wait_for(sub { !defined $store->get("<>$uri:lock") }),
        'no lock is left');
}


# one that takes several items

sub large {
    my ($uri, $store, @hosts) = @_;

    my $body = $hosts[0]->get($uri)->body();

    is(length $body, 3_000_000, 'a large page');
    ok(wait_for(sub { defined $store->get("<>$uri") }), 'is stored');
    is($hosts[1]->get($uri)->header('X-Cache'), 'HIT', 'for all hosts');
    ok($hosts[1]->get($uri)->body() eq $body, 'byte by byte');
    is($o->count($uri), 1, 'once');
}


sub visitors {
    my (@hosts) = @_;

    # in the slot that follows theirs they are seen

    my $seen = wait_for(sub {
        $hosts[$_ % 2]->get("/visit?v=" . $_ % 7) for 1 .. 14;
        $hosts[0]->get('/visit?v=0')->body() eq "online 7\n";
    }, 8);

    ok($seen, 'seven visitors of two hosts');
}
