#!/usr/bin/perl

# Copyright (C) mcds authors

# A counter that starts from a location is missing on one of two servers, and
# the other one executes a count, but does not reply: the count is not sent
# again, as if the counter was missing.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

# silent: executes increments, and does not reply
# gone:   executes increments, and closes the connection

my @f = map { $t->fake("f$_", sub {
    my ($f, $c, $line, $value) = @_;
    my $mode = $f->mode() // '';

    return if !$mode || $line !~ /^ma / || $f->{told}[0]++;
    $f->default($line, $value);
    return $mode eq 'gone' ? $f->fin() : $f->stall();
}) } 0 .. 1;

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_f0%%;
        server       127.0.0.1:%%PORT_f1%%;
        distribution modula;
        replicas     2;
        max_fails    0;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=$uri;
            mcds_counter_init $n /number;
            mcds_return "<$n>";
        }
        location = /number { return 200 10; }
    }
}
EOT

for my $mode ('silent', 'gone') {
    for my $i (0, 1) {
        my ($there, $missing) = @f[$i, 1 - $i];
        my $key = "/$mode$i";

        is($h->get($key)->body(), '<11>', "$key: counted");
        is($_->get($key), 11, "$key: on both servers") for @f;

        $missing->mc("md $key");
        $there->tell($mode);
        is($h->get($key)->body(), '<>', "$key: one lacks it, one is silent");
        is($there->get($key), 12, "$key: it was counted once");

        $there->tell('');
        is($h->get($key)->body(), '<13>', "$key: the next count");
    }
}

$t->allow(qr/timed out|closed/);
$t->done();
