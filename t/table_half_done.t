#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_table_api with one of two servers down: what the other one has done is
# not answered with "nothing was done", and the list of names follows it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my %m = map { $_ => $t->memcached($_) } qw/ a b c d /;

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool two {
        server 127.0.0.1:%%PORT_a%%;
        server 127.0.0.1:%%PORT_b%%;
        distribution ketama;
        timeout 5s;
        fail_timeout 100s;
    }
    mcds_pool both {
        server 127.0.0.1:%%PORT_c%%;
        server 127.0.0.1:%%PORT_d%%;
        distribution ketama;
        replicas 2;
        timeout 5s;
        fail_timeout 100s;
    }
    mcds_api_methods GET POST PUT DELETE;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /two/ {
            mcds_use       two;
            mcds_table_api table;
        }
        location /both/ {
            mcds_use       both;
            mcds_table_api table;
        }
    }
}
EOT

is(post('/both/', map { "n$_" } 1 .. 4)->status(), 204, 'several are set');
is($h->get('/two/first', method => 'PUT')->status(), 204, 'so is one');

# of each pool, the server without the list of names stops

my ($up, $down) = defined $m{a}->get('table') ? qw/ a b / : qw/ b a /;

$m{$_}->stop() for $down, defined $m{c}->get('table') ? 'd' : 'c';

ok(wait_for(sub {
    $h->get("/$_/x" . int rand 1000) for qw/ two both /;
    return $h->log_count(qr/is down after/) >= 2;
}), 'it is down');

# several elements, on two servers

my $r = post('/two/', map { "e$_" } 1 .. 20);
my $n = grep { /^table:e/ } $m{$up}->keys();

is($r->status(), 503, 'POST of several');
cmp_ok($n, '>', 0, 'some were set');
cmp_ok($n, '<', 20, 'but not all');
like($r->body(), qr/it is not known whether it was done/, 'and that is said');

# one element that can certainly not be changed

my ($lost) = grep { $h->get("/two/e$_")->status() == 503 } 1 .. 20;
like($h->get("/two/e$lost", method => 'DELETE')->body(),
    qr/nothing was done/, 'one on the server that is down');

# one element on two servers

for my $etag (0, 1) {
    my $name = 'n' . ($etag + 1);
    my $say = $etag ? 'If-Match' : 'no condition';
    my $e = $h->get("/both/$name");

    is($e->status(), 200, "$say: it is there");

    $r = $h->get("/both/$name", method => 'DELETE', $etag
        ? (headers => { 'If-Match' => $e->header('ETag') }) : ());

    is($r->status(), 503, "$say: DELETE");
    like($r->body(), qr/it is not known whether it was done/,
        "$say: not that nothing was done");
    is($h->get("/both/$name")->status(), 404, "$say: it is gone");

    my $list = $h->get('/both/')->body();

    like($list, qr/"n4"/, "$say: the list of names");
    unlike($list, qr/"$name"/, "$say: lacks its name");
}

$t->done();


sub post {
    my ($uri, @names) = @_;

    return $h->get($uri, method => 'POST',
        headers => { 'Content-Type' => 'application/json' },
        body => '[' . join(',', map { qq("$_") } @names) . ']');
}
