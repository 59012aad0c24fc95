#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_api shows and counts many keys on an idle memcached whatever
# max_pending of the pool is, and counts them even if the client leaves.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return $line =~ /^ma left:k1 / && $f->mode() eq 'hold'
        ? ($f->hold('held'), $f->default($line, $value)) : ();
});

my %pools = (few => '20', four => '4', bytes => '4096 4k', one => '1');

my @pools = map { "mcds_pool $_ { server 127.0.0.1:%%PORT_m%%; timeout 20s;"
    . " max_pending $pools{$_}; }" } sort keys %pools;
my @places = map { "location = /$_ { mcds_use $_; mcds_counter_api prefix=$_:"
    . ' count=on; }' } sort keys %pools;

local $" = "\n    ";

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    @pools
    mcds_pool left { server 127.0.0.1:%%PORT_f%%; max_pending 1; timeout 20s; }

    server {
        listen 127.0.0.1:%%PORT%%;
        @places
        location = /left {
            mcds_use         left;
            mcds_counter_api prefix=left: count=on;
        }
    }
}
EOT

my $args = join '&', map { "key=k$_" } 1 .. 12;

for my $pool (sort keys %pools) {
    $m->set("$pool:k$_", $_) for 1 .. 12;

    is($h->get("/$pool?$args")->body(), shown(0), "$pool: all are shown");
    is($h->get("/$pool?$args", method => 'POST')->body(), shown(1),
        "$pool: all are counted");
}


# the client leaves

$f->tell('hold');

my $p = start_get($h->port(), "/left?$args", method => 'POST');

ok(wait_for(sub { $f->held('held') == 1 }), 'the first key is sent');
$p->reset();
ok(wait_for(sub { $h->access_log() =~ / 499 / }), 'the client leaves');
$f->tell('');
$f->release('held');
ok(wait_for(sub { 12 == grep { ($f->get("left:k$_") // 0) == 1 } 1 .. 12 }),
    'all are counted');

$t->done();


sub shown {
    my ($more) = @_;

    return '{' . join(',', map { "\"k$_\":" . ($_ + $more) } 1 .. 12)
        . "}\r\n";
}
