#!/usr/bin/perl

# Copyright (C) mcds authors

# A server that is marked "down" keeps its place: its keys are unavailable at
# once, no other key moves, and nobody ever connects to it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my @m = map { $t->memcached("m$_") } 1 .. 3;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my @distributions
    = qw/ modula modula_crc ketama consistent nginx_consistent /;

my $a = $t->nginx('a', conf('', '127.0.0.1:%%PORT_m2%%'));
my $b = $t->nginx('b', conf('down', '127.0.0.1:%%PORT_m2%%'));

# a server's share varies with its port, and may be very small ("consistent")

my @keys = map { "key:$_" } 1 .. 300;

for my $distribution (@distributions) {
    $_->flush() for @m;

    count($a, $distribution);

    my %lost = map { $_ => 1 } grep { $m[1]->mc("mg $_") =~ /^HD/ } @keys;
    my %n = count($b, $distribution);

    cmp_ok(scalar keys %lost, '>', 0, "$distribution: some keys are on it");
    is(join(' ', grep { $n{$_} ne '' } sort keys %lost), '',
        "$distribution: these have no number");
    is(join(' ', grep { !$lost{$_} && $n{$_} ne '2' } @keys), '',
        "$distribution: the others count on");
}

$a->quit();

ok(wait_for(sub { $m[1]->connections() == 0 }), 'it has no connection');
ok($m[0]->connections() > 0, 'others have');

# pages come from the origin, one each time, and nobody waits

$_->flush() for @m;

my ($good, $hits) = (0, 0);

for my $page (1 .. 30) {
    my @r = map { $b->get("/page/$page") } 1 .. 2;

    $good += grep { $_->status() == 200 } @r;
    $hits++ if $r[1]->header('X-Cache') eq 'HIT';
}

is($good, 60, 'all requests are answered');
cmp_ok($hits, '>', 5, "$hits pages are cached");
cmp_ok($hits, '<', 25, 'and those of the server that is down are not');
is($o->count(), 60 - $hits, 'these come from the origin');

# a pool of nothing else, and a name that is not there: not looked up

my $c = $t->nginx('c', <<'EOT');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool gone {
        server no-such-host.invalid:11211 down;
        server unix:%%TMP%%/nothing.sock weight=2 down;
        distribution modula;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=$uri;
            mcds_cache on;
            add_header X-Count "<$n>";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

$o->mark();

is($c->get("/$_")->header('X-Count'), '<>', "request $_ without memcached")
    for 1 .. 3;
is($o->count(), 3, 'all from the origin');
ok($_->log_lacks(qr/is down after|\[error\]|\[crit\]|\[alert\]/),
    'nothing in the log') for $b, $c;

$t->done();


sub conf {
    my ($down, $address) = @_;

    my ($pools, $locations) = ('', '');

    for my $distribution (@distributions) {
        $pools .= "
    mcds_pool $distribution {
        distribution $distribution;
        server 127.0.0.1:%%PORT_m1%%;
        server $address weight=2 $down;
        server 127.0.0.1:%%PORT_m3%%;
    }";
        $locations .= "
        location = /$distribution {
            mcds_use $distribution;
            mcds_counter \$n key=\$arg_k;
            mcds_return \$n;
        }";
    }

    return <<"EOT";
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    $pools
    server {
        listen 127.0.0.1:%%PORT%%;
        $locations
        location /page/ {
            mcds_cache modula;
            mcds_cache_key \$uri;
            add_header X-Cache \$mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT
}


sub count {
    my ($h, $distribution) = @_;

    my $c = $h->conn();
    my %n = map { $_ => $c->get("/$distribution?k=$_")->body() } @keys;

    $c->close();

    return %n;
}
