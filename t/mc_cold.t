#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached comes back empty before a crowd that asks for all pages at once, on
# two hosts: the origin is asked for each of them once (M11).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => "page of %u,\n" . 'x' x 1000 });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 2048; }
http {
    %%HTTP%%
    access_log off;
    keepalive_requests 1000000;
    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        timeout      2s;
        fail_timeout 100ms;
    }
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / {
            mcds_counter $n key=n:$uri;
            mcds_cache on;
            mcds_cache_key page:$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache $mcds_cache_status;
            add_header X-Number $n;
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } qw/ a b /;
my ($keys, $clients) = ($t->size(400, 10000), $t->size(120, 500));

# all of them know memcached

sub works {
    for my $h ((@hosts) x 12) {
        my $res = $h->get('/known');
        return 0 if ($res->header('X-Cache') // '') ne 'HIT'
            || ($res->header('X-Number') // '') eq '';
    }

    return 1;
}

# each page is asked for by several at a time

sub load {
    my (%o) = @_;

    return $t->load(ports => [map { $_->port() } @hosts], keys => $keys,
        uris => [('/page%n') x 6], clients => $clients,
        expect => 'page of %u,', background => 1, %o);
}

sub check {
    my ($name, $load) = @_;
    my $r = $load->wait();

    is("$r->{ok} $r->{wrong} $r->{errors}", "$r->{requests} 0 0",
        "$name: $r->{requests} requests: all have their page");
}

sub asked {
    my %asked;

    $asked{$_->{path}}++ for $o->requests(qr{^/page});

    return %asked;
}

ok(wait_for(sub { works() }), 'it works');
check('hot', load(requests => $keys * 6));

my %asked = asked();

is(scalar keys %asked, $keys, 'pages are there');


# the crowd is there when memcached is back

for my $round (1 .. $t->size(2, 3)) {
    $m->restart();
    ok(wait_for(sub { works() }, 5 * $t->slow()), "round $round: back");
    $o->mark();

    check("round $round", load(requests => $keys * 12));

    %asked = asked();

    is(scalar keys %asked, $keys, "round $round: all pages are made");
    is(scalar(grep { $_ > 1 } values %asked), 0, "round $round: once each");
}


# the crowd is there all the time: while memcached is away, each worker asks for
# a page at most once at a time, and nothing is left to ask for later

$o->mark();

my $load = load(seconds => $t->size(1.5, 20));

sleep $t->size(0.5, 2);
$m->restart();
check('under load', $load);

# a slow machine may not have come to all pages by then

ok(wait_for(sub { works() }, 5 * $t->slow()), 'later: back');
check('the rest', load(requests => $keys * 6));

%asked = asked();

my $total = 0;

$total += $_ for values %asked;

cmp_ok($total, '>', $keys * 0.9, "under load: $total fetches of $keys pages");
cmp_ok($total, '<=', 2 * $keys, 'under load: one of each host') if $t->full();
cmp_ok(most(), '<=', 4, 'under load: one of each worker at a time');

$o->mark();
check('later', load(requests => $keys * 6));
is($o->count(qr{^/page}), 0, 'later: all pages are there');

$t->done();


# fetches of one page at the same time

sub most {
    my %events;
    my $most = 0;

    push @{$events{$_->{path}}}, [$_->{start}, 1], [$_->{end}, -1]
        for $o->requests(qr{^/page});

    for my $events (values %events) {
        my $n = 0;

        for (sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } @$events) {
            $n += $_->[1];
            $most = $n if $n > $most;
        }
    }

    return $most;
}
