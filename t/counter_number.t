#!/usr/bin/perl

# Copyright (C) mcds authors

# Where a counter's number shows: in all that is evaluated once the request
# has counted.  What reads it earlier finds it empty, and is told once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

$t->needs('http_sub');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;

    return {
        headers => ['Content-Type' => 'text/html', 'Cache-Control' =>
            'max-age=' . ($req->{uri} eq '/stale' ? 1 : 60)],
        body => "$req->{n}:<!--# echo var=\"n\" -->:"
            . ($req->{headers}{'x-number'} // 'none'),
    };
});

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }

    log_format numbers "$request_uri $n";
    access_log %%DIR%%/numbers.log numbers;

    map $n $frozen { default "[$n]"; "" nothing; }
    map $n $volatile { volatile; default "[$n]"; "" nothing; }

    server {
        listen 127.0.0.1:%%PORT%%;

        mcds_counter $n key=n:$uri;

        location = /return { mcds_return 200 "$n and $n"; }
        location = /header { add_header X-N "n=$n"; mcds_return "x"; }
        location = /302 { mcds_return 302 /page?$n; }
        location = /sub {
            sub_filter number $n;
            sub_filter_types *;
            mcds_return "the number";
        }
        location = /map { mcds_return "$frozen $volatile"; }

        location = /ssi {
            ssi on;
            proxy_set_header X-Number $n;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /cached {
            ssi on;
            mcds_cache on;
            add_header X-Cache $mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /cached_sub {
            mcds_cache on;
            sub_filter '<!--# echo var="n" -->' $n;
            sub_filter_once off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /stale {
            mcds_counter $stale key=stale;
            mcds_cache on;
            add_header X-Cache $mcds_cache_status;
            proxy_set_header X-Number $stale;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location = /views {
            mcds_counter $views key=views;
            mcds_cache on;
            mcds_cache_valid 1s;
            add_header X-Cache $mcds_cache_status;
            mcds_return "views: $views";
        }

        # too early

        location = /set {
            mcds_counter $set key=set;
            set $x "<$set>";
            mcds_return "$x $set";
        }
        location = /early {
            mcds_counter $early key=early;
            return 200 "<$early>";
        }
        location = /if {
            mcds_counter $if key=if;
            if ($if) { return 404; }
        }
        location = /frozen {
            set $x $frozen;
            mcds_return "$frozen $volatile $n";
        }
        location = /logged { set $x "<$n>"; mcds_return "$x"; }
        location = /other { set $x "<$set>"; mcds_return "$x $set"; }
        location = /refused {
            mcds_counter $refused key=refused;
            add_header X-N "$refused" always;
            deny all;
        }
        location = /key {
            mcds_counter $p key=p;
            mcds_counter $q key=$p;
            mcds_return "$p $q";
        }
    }
}
EOT

$m->set('n:/return', '18446744073709551600');
$m->set('n:/header', '0041');
$m->set('n:/302', '100');
$m->mc('ma n:/302 MD D60');

sub body { return $a->get($_[0])->body() }

is(body('/return'), '18446744073709551601 and 18446744073709551601',
    'mcds_return: all the digits');
is($a->get('/header')->header('X-N'), 'n=42', 'add_header');
like($a->get('/302')->header('Location') // '', qr{/page\?41$}, 'location');
is(body('/sub'), 'the 1', 'sub_filter');
is(body('/map'), '[1] [1]', 'map');
is(body('/ssi'), '1:1:1', 'ssi, and a header to the origin');
is(body('/ssi'), '2:2:2', 'and again');

is(body('/cached'), '3:1:none', 'ssi in a page that is stored');

my $r = $a->get('/cached');
is($r->body(), '3:2:none', 'ssi in the stored page');
is($r->header('X-Cache'), 'HIT', 'which came from the cache');

is(body('/cached_sub'), '4:1:none', 'sub_filter on what is stored');
is(body('/cached_sub'), '4:2:none', 'sub_filter on the stored page');


# too early: empty, but from the precontent phase on it is there

is(body('/set'), '<> 1', 'set');
is(body('/set'), '<> 2', 'set, again');
is(body('/early'), '<>', 'return');
is($a->get('/if')->status(), 404, 'if');
is(body('/frozen'), 'nothing [1] 1', 'map keeps what it saw');
is(body('/logged'), '<>', 'not read again');
is(body('/other'), '<> ', 'a variable that does not count here');
is($a->get('/refused')->header('X-N') // '', '', 'refused');
is(body('/key'), '1 ', 'the key of another counter');

is($m->get('early') // 'no', 'no', 'return comes before the counting');
is($m->get('set'), 2, 'the number was wrong, not the counting');

# each worker says so once

for my $v (qw/ set early if p /) {
    my $n = $a->log_count(qr/\[warn\].*variable "\$$v" is empty when it /);

    ok($n >= 1 && $n <= $t->workers(1), "one warning for $v") or diag($n);
}

ok(wait_for(sub { ($a->get('/stale')->header('X-Cache') // '') eq 'STALE' }),
    'a stale page');
ok($o->wait_requests(2, '/stale'), 'is refreshed');

is(($o->requests('/stale'))[-1]{headers}{'x-number'}, $m->get('stale'),
    'with the number of the request that had it refreshed');

ok(wait_for(sub { ($a->get('/views')->header('X-Cache') // '') eq 'STALE' }),
    'a stale page of mcds_return');
my $views = 'views: ' . $m->get('views');
ok(wait_for(sub { body('/views') eq $views }), 'is refreshed with its number');

is($a->log_count(qr/\[warn\].*"\$stale"/), 0, 'none for a refresh');
is($a->log_count(qr/\[warn\].*"\$refused"/), 0, 'none for who was refused');
is($a->log_count(qr/\[warn\].*GET .other/), 0, 'none for another location');


# the log, also after something has read the number too early

my %log = map { split / / } split /\n/, $t->read_file('a/numbers.log');

is($log{'/header'}, 42, 'log_format');
is($log{'/logged'}, 1, 'log_format after an early read');
is($log{'/refused'}, '-', 'log_format of a refused request');

$t->done();
