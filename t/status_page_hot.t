#!/usr/bin/perl

# Copyright (C) mcds authors

# The hottest keys of mcds_status: those of all workers together, in the right
# order and proportion, whatever bytes they have, also after a reload.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new();
my $workers = $t->workers(4);

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 4;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_zone 16m;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location /p/ {
            mcds_cache on;
            mcds_cache_key $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /n/ {
            mcds_counter $n key=n:$uri;
            mcds_return "$n";
        }
        location = /late {
            mcds_counter $l key=late:$arg_k statuses=any;
            return 204;
        }
        location = /v {
            mcds_visitor_counter $v key=online visitor=$arg_u window=10s
                                 slots=10 interpolate=off;
            mcds_return "$v";
        }
        location = /status { mcds_status; }
    }
}
EOC

is_deeply(status($h)->{hot}, { pages => [], counters => [],
    visitors => [] }, 'none at first');

# each key comes twice as often as the next one

my @uris = map { my $n = $_; ("/p/$n") x (16 >> $n) } 1 .. 4;

$t->load(port => $h->port(), uris => \@uris, clients => 32, requests => 3000);
$t->load(port => $h->port(), uri => '/n/x', clients => 32, requests => 200);

# (what a worker has not told yet may lack of one more than of others)

my $pages = hot('pages', sub {
    3 == grep { $_ > 1.6 && $_ < 2.5 } shares($_[0]);
});

is(join(' ', map { $_->{key} } @$pages), '<>/p/1 <>/p/2 <>/p/3 <>/p/4',
    'pages');

for (shares($pages)) {
    ok($_ > 1.6 && $_ < 2.5, "a share is right: $_");
}

my $counters = hot('counters', sub { @{$_[0]} == 1 });
is($counters->[0]{key}, 'n:/n/x', 'counters are apart');
cmp_ok($counters->[0]{rate}, '<=', 200, 'no more than there were');

# with the numbers that were seen last, of all workers

$counters = hot('counters', sub { ($_[0][0]{value} // 0) == 200 });
is($counters->[0]{value}, 200, 'the number of a counter');
cmp_ok(abs($counters->[0]{seen} - time), '<', 60, 'when it was seen');
ok(!exists $pages->[0]{value}, 'a page has none');

$h->get("/v?u=$_") for 1 .. 3;

my $visitors = hot('visitors', sub {
    $h->get('/v?u=1');
    ($_[0][0]{value} // 0) == 3;
});
is_deeply([map { "$_->{key} $_->{value}" } @$visitors], ['online 3'],
    'the number of visitors');

# what a worker has is seen by all others

for my $n (0 .. 3) {
    my $c = worker_conn($h, $n % $workers);
    $c->get("/p/w$n") for 1 .. 1 + $n;
    $c->get("/late?k=$n");
}

for my $n (0 .. 3) {
    my $c = worker_conn($h, $n % $workers);

    ok(wait_for(sub {
        my $hot = JSON::PP->new->decode($c->get('/status')->body())->{hot};

        return 'w0w1w2w3' eq keys_of($hot->{pages}, qr{^<>/p/(w.)})
            && '0123' eq keys_of($hot->{counters}, qr/^late:(.)/);
    }), "worker $n knows the keys of all");
}

# any bytes

my %texts = (
    '%3C/script%3E%3Cscript%3Ealert(1)%3C/script%3E'
        => '</script><script>alert(1)</script>',
    '%22%5C%27%26' => '"\\\'&',
    'a%0Ab%07%1B%7F' => "a\nb\x07\x1b\x7f",
    '%C3%A4%E2%82%AC%F0%9F%98%80' => "\x{e4}\x{20ac}\x{1f600}",
    '%ff%C3%28' => "\x{fffd}\x{fffd}(",
    '%E2%80%AEevil' => "\x{202e}evil",
    ('x' x 300) => 'x' x 115 . "\x{2026}",
    'xx' . '%C3%A4' x 80 => 'xx' . "\x{e4}" x 56 . "\x{2026}",
    'x' . '%C3%A4' x 80 => 'x' . "\x{e4}" x 57 . "\x{2026}",
);

$h->get("/p/$_") for keys %texts;

my $all = hot('pages', sub { @{$_[0]} >= 8 + keys %texts });
my %seen = map { $_->{key} => 1 } @$all;

ok($seen{"<>/p/$texts{$_}"}, substr "key $_", 0, 50) for sort keys %texts;

my $body = $h->get('/status')->body();

unlike($body, qr/[<>\x00-\x09\x0b-\x1f\x7f]/, 'nothing that HTML minds');
is($body =~ tr/\n//, 1, 'on one line');

# no more than twenty; a key that goes on being asked for is among them

many(80, sub { [$h->port(), '/p/r' . ($_[0] % 2 ? 'hot' : $_[0])] },
    concurrency => 8);

$all = hot('pages', sub {
    @{$_[0]} == 20 && grep { $_->{key} eq '<>/p/rhot' } @{$_[0]};
});
is(scalar @$all, 20, 'twenty are shown');

my @rates = map { $_->{rate} } @$all;
is("@rates", join(' ', sort { $b <=> $a } @rates), 'the hottest first');

# a reload keeps them

$t->not_in('single', 'nginx cannot reload then');

$h->reload(wait_old => 1);
$all = hot('pages', sub { 1 });
is($all->[0]{key}, '<>/p/1', 'after a reload');
is(scalar @$all, 20, 'all are there');

$t->done();


# how many times hotter each page is than the next one

sub shares {
    my ($list) = @_;
    return map { $list->[$_ - 1]{rate} / $list->[$_]{rate} } 1 .. $#$list;
}


# a list of hot keys, once the sub is content with it

sub hot {
    my ($kind, $sub) = @_;
    my $list;

    wait_for(sub { $list = status($h)->{hot}{$kind}; $sub->($list) }, 5);

    return $list;
}


sub keys_of {
    my ($list, $re) = @_;
    return join '', sort map { $_->{key} =~ $re ? $1 : () } @$list;
}
