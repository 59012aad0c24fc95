#!/usr/bin/perl

# Copyright (C) mcds authors

# A lock whose owner has died before it had its token is freed by the tool, and
# by the API with the name of the owner.  If the owner lives, and only waits for
# its token, it does not run with the lock that was freed.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;
    return if $line !~ /^ma slow:fence / || $f->{slow}++;
    return ($f->hold('x'), $f->default($line, $value));
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 20s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /locks/ {
            mcds_lock_api;
            mcds_api_methods GET POST PUT DELETE;
        }
        location = /slow {
            mcds_lock slow wait=20s;
            mcds_return 200 $mcds_lock_token;
        }
    }
}
EOC

my $h = $t->nginx('h', $conf);
my ($g, $k) = map { $t->nginx($_, $conf =~ s/PORT_m/PORT_f/r) } qw/ g k /;

my ($mcds, $other) = map {
    Test::Mcds::Tool->new($t, '-c', $_->dir() . '/nginx.conf') } $h, $k;


# by the tool

$m->set('x', '0 dead', 60);

is($mcds->json('lock', 'show', 'x')->[0]{owner}, 'dead', 'shown');
is($h->get('/locks/x?owner=dead', method => 'PUT')->status(), 409,
    'not extended');

my $r = $mcds->run('lock', 'free', 'x');

is($r->{code}, 0, 'the tool frees it') or diag($r->{out}, $r->{err});
is($m->get('x'), undef, 'it is free');


# by the API

$m->set('x', '0 dead', 60);

is($h->get('/locks/x?owner=other', method => 'DELETE')->status(), 409,
    'not by another name');
is($h->get('/locks/x?owner=dead&token=7', method => 'DELETE')->status(), 409,
    'not with a token');
is($m->get('x'), '0 dead', 'it is left');
is($h->get('/locks/x?owner=dead', method => 'DELETE')->status(), 204,
    'the API releases it');
is($m->get('x'), undef, 'it is free');


# the owner waits for its token

my $p = start_get($g->port(), '/slow');

ok(wait_for(sub { $f->held('x') }), 'the owner waits for its token');
is($other->run('lock', 'free', 'slow')->{code}, 0, 'the tool frees the lock');

$r = $k->get('/locks/slow?owner=next', method => 'POST', body => '{}',
    headers => { 'Content-Type' => 'application/json' });

my ($token) = $r->body() =~ /"token":(\d+)/;

is($r->status(), 200, 'another owner has it') or diag($r->body());

$f->release('x');
$g->get('/locks/slow') for 1 .. 3;
like($f->get('slow'), qr/^$token next$/, 'and keeps it');
is($k->get('/locks/slow?owner=next', method => 'DELETE')->status(), 204,
    'until it releases it');

cmp_ok(finish($p)->body(), '>', $token, 'then the first has it');

$t->done();
