#!/usr/bin/perl

# Copyright (C) mcds authors

# H02: 1 to 100 requests in one write, hits, misses and others mixed: each has
# its own answer, in its place.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => { map { ("/p/$_" => { body => "<$_>" . 'x' x ($_ * 37) . "\n" },
        "/slow/$_" => { body => "<slow $_>\n", delay => 0.01 },
        "/no/$_" => { body => "<no %u>\n", headers => [] }) } 0 .. 19 });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    keepalive_requests 100000;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_counter $views key=views:$uri;
    add_header X-Cache $mcds_cache_status always;
    add_header X-Asked $arg_i always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            mcds_cache_key $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /count/ { mcds_return 200 "count $views\n"; }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

$t->seed(7);

my (@bad, %cache);
my $sent = 0;
my $i = 0;

for my $round (1 .. $t->size(60, 10_000)) {
    my $h = $hosts[$round % 2];
    my $c = $h->conn();
    my @asked;
    my $bytes = '';

    for (1 .. 1 + rand 100) {
        my $kind = (qw/ p p p p slow no count /)[rand 7];
        my $n = int rand 20;
        my $method = rand() < 0.1 ? 'HEAD' : 'GET';
        my $uri = "/$kind/$n?i=" . ++$i;

        # new pages all the time

        $m->delete("<>/p/$n") if rand() < 0.02;

        push @asked, [$kind, $n, $i, $method, $uri];
        $bytes .= "$method $uri HTTP/1.1\r\nHost: localhost\r\n\r\n";
    }

    push @{$c->{methods}}, map { $_->[3] } @asked;

    # whole, or in two pieces

    my $cut = rand() < 0.5 ? length $bytes : int rand length $bytes;
    $c->send(substr $bytes, 0, $cut);
    $c->send(substr $bytes, $cut);

    for my $a (@asked) {
        my ($kind, $n, $id, $method, $uri) = @$a;
        my $r = $c->response();
        my $body = $method eq 'HEAD' ? qr/^$/
            : $kind eq 'p' ? qr/^<$n>x{@{[$n * 37]}}\n$/
            : $kind eq 'slow' ? qr/^<slow $n>\n$/
            : $kind eq 'no' ? qr/^<no \Q$uri\E>\n$/ : qr/^count \d+\n$/;

        $sent++;
        $cache{$r->header('X-Cache') // 'none'}++;
        next if $r->complete() && $r->status() == 200
            && ($r->header('X-Asked') // '') eq $id && $r->body() =~ $body;

        push @bad, "$round, $method $uri: " . $r->status() . ' asked '
            . ($r->header('X-Asked') // 'nothing') . ' ' . substr($r->body(),
            0, 60);
        last;
    }

    is(length $c->{in}, 0, "round $round: nothing more") if length $c->{in};
    $c->close();
}

is(join("\n", @bad), '', "$sent answers, each in its place");
cmp_ok($cache{HIT} // 0, '>', 100, 'hits among them');
cmp_ok($cache{MISS} // 0, '>', 100, 'and misses');

$t->done();
