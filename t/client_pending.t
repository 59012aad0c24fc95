#!/usr/bin/perl

# Copyright (C) mcds authors

# max_pending bounds the operations that wait at one time: those that were
# answered are not counted any more, however many a connection has had.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return $f->mode() eq 'hold' && $line =~ /^ma 1 /
        ? ($f->hold('m'), $f->default($line)) : ();
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool number { server 127.0.0.1:%%PORT_m%%; max_pending 3; }
    mcds_pool size { server 127.0.0.1:%%PORT_m%%; max_pending 1000 16k; }
    mcds_pool held { server 127.0.0.1:%%PORT_f%%; max_pending 2; timeout 20s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /number { mcds_use number;
            mcds_counter $a key=a; mcds_counter $b key=b;
            mcds_return "$a $b"; }
        location /size { mcds_use size;
            mcds_counter $c key=c; mcds_counter $d key=d;
            mcds_return "$c $d"; }
        location /held { mcds_use held;
            mcds_counter $e key=$arg_k; mcds_return "<$e>"; }
    }
}
EOT

for my $what ('number', 'size') {
    my $wrong = '';

    for my $i (1 .. 200) {
        my $got = $h->get("/$what")->body();
        $wrong .= "$i: $got\n" if $got ne "$i $i";
    }

    is($wrong, '', "$what: as many as there come, one after the other");
}

# operations that wait do count

$h->get('/held?k=0');
$f->tell('hold');

my @p = start_get($h->port(), '/held?k=1');

ok(wait_for(sub { $f->held('m') }), 'one waits');
push @p, start_get($h->port(), '/held?k=2');
ok(wait_for(sub { $h->get('/held?k=3')->body() eq '<>' }), 'a third may not');
$f->tell('');
$f->release('m');
is(join(' ', map { finish($_)->body() } @p), '<1> <1>', 'they are answered');
is($h->get('/held?k=4')->body(), '<1>', 'then there is room');

$t->done();
