#!/usr/bin/perl

# Copyright (C) mcds authors

# What the format allows and this version does not serve, because others have
# written it, is no page: a list of headers, a body in more than one item.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

my %kinds = (
    split => { parts => 2, part => 495, total => 1000, body => 'first part' },
    list => { kind => 2, status => 0, headers => '', body => 'Cookie' },
);

my %why = (split => 'parts are missing', list => 'no list of headers');

sub answer {
    return join ' ', $_[0]->status(), $_[0]->header('X-Cache') // 'none',
        $_[0]->body();
}

sub put {
    my ($uri, $kind, %more) = @_;

    $m->set(key($uri), page_encode(key => key($uri), %{$kinds{$kind}}, %more));
}

# the page as it was answered takes the place of what was there

sub stored {
    my ($uri, $r) = @_;

    return wait_for(sub {
        my $e = page_decode($m->get(key($uri)));
        return $e && $e->{kind} == 0 && $e->{body} eq $r->body();
    });
}

for my $kind (sort keys %kinds) {
    my ($r, $p);

    # without "vary" a list is not replaced, without "large" no page in parts

    next if $kind eq 'list' && !$t->has('mcds vary')
        || $kind eq 'split' && !$t->has('mcds large');

    my $log = qr/page "<>http:\S+$kind-(\w+)" is not used: $why{$kind}/;

    # found at once

    put("/$kind-get", $kind);
    $r = $h->get("/$kind-get");
    like(answer($r), qr{^200 MISS answer \d+ of /$kind-get\n$},
        "$kind: a miss");
    ok(stored("/$kind-get", $r), "$kind: replaced by the page");
    is(answer($h->get("/$kind-get")), '200 HIT ' . $r->body(),
        "$kind: which is a hit");

    put("/$kind-head", $kind);
    $r = http_head($h->port(), "/$kind-head");
    is(answer($r), '200 MISS ', "$kind: HEAD");

    # an old one is not served behind a refresh either

    put("/$kind-old", $kind, created => int(time() * 1000) - 61000,
        expire => int(time() * 1000) - 1000);
    like(answer($h->get("/$kind-old")), qr/^200 MISS answer/, "$kind: old");

    # found while another host builds

    my $lock = key("/$kind-wait") . ':lock';
    my $hits = $m->stats()->{get_hits};

    $m->set($lock, 'another', 20);
    $p = start_get($h->port(), "/$kind-wait");
    ok(wait_for(sub { $m->stats()->{get_hits} > $hits }), "$kind: waits");
    put("/$kind-wait", $kind);
    ok($h->wait_log(qr/$kind-wait" is not used/), "$kind: seen");
    is($o->count("/$kind-wait"), 0, "$kind: waits on");
    $m->delete($lock);
    $r = finish($p);
    like(answer($r), qr/^200 MISS answer/, "$kind: built after that");
    ok(stored("/$kind-wait", $r), "$kind: and stored");

    is(join(' ', sort keys %{{ map { $_ =~ $log ? ($1 => 1) : () }
        $h->log_lines($log) }}), 'get head old wait', "$kind: logged");
}

$t->done();
