#!/usr/bin/perl

# Copyright (C) mcds authors

# A conditional request whose page turns out to be none that is stored gets the
# answer that its copy was given, if that was whole; if the origin has cut it
# off, the client is not told that it has all of it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $body = 'x' x 1000;
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($n) = $q->{path} =~ /(\d+)$/;

    return { headers => ['Cache-Control' => 'private', ETag => '"1"'],
        body => $body, defined $n ? (truncate => $n) : () };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_key $uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

my %requests = (
    condition => ['If-None-Match' => '"other"'],
    range => [Range => 'bytes=0-99999'],
);

for my $name (sort keys %requests) {
    my @o = (headers => [@{$requests{$name}}]);

    my $r = $h->get("/$name/whole", @o);
    ok($r->complete() && $r->body() eq $body, "$name: whole");

    for my $n (0, 1, 500, 999) {
        $r = $h->get("/$name/$n", @o);
        ok(!$r->complete() || $r->status() >= 500, "$name: $n bytes, cut off")
            or diag($r->status(), ' ', length $r->body());
        cmp_ok(length($r->body() // ''), '<=', $n, "$name: $n bytes, no more")
            if $r->status() < 500;
    }
}

$t->allow(qr/upstream prematurely closed/);
$t->done();
