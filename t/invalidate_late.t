#!/usr/bin/perl

# Copyright (C) mcds authors

# Somebody changes a page while a memcached that has it does not answer: his
# answer does not wait for that server; when it is back the page of before goes
# there, too, with replicas, with another one that stood in, and alone.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Time::HiRes qw/ sleep time /;

my $t = Test::Mcds->new();

my %m = map { $_ => $t->memcached($_) } qw/ r0 r1 e0 e1 one d0 d1 d2 /;

# each POST makes another version of all pages

my $version = 1;

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    $version++ if $q->{method} eq 'POST';
    return { headers => ['Cache-Control' => 'max-age=600'],
        body => "version $version" };
});

my @h = map { $t->nginx("h$_", <<'EOT') } 0 .. 1;
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool replicas {
        server       127.0.0.1:%%PORT_r0%%;
        server       127.0.0.1:%%PORT_r1%%;
        distribution modula;
        replicas     2;
        timeout      200ms;
        fail_timeout 300ms;
    }
    mcds_pool eject {
        server       127.0.0.1:%%PORT_e0%%;
        server       127.0.0.1:%%PORT_e1%%;
        eject        on;
        distribution ketama;
        timeout      200ms;
        fail_timeout 300ms;
    }
    mcds_pool one {
        server       127.0.0.1:%%PORT_one%%;
        timeout      200ms;
        fail_timeout 300ms;
    }
    mcds_pool disabled {
        server       127.0.0.1:%%PORT_d0%% down;
        server       127.0.0.1:%%PORT_d1%%;
        server       127.0.0.1:%%PORT_d2%%;
        eject        on;
        distribution ketama;
        timeout      200ms;
        fail_timeout 300ms;
    }
    add_header X-Cache $mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /replicas/ {
            mcds_cache replicas;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            location /replicas/stale/ {
                mcds_cache_invalidate stale;
                proxy_pass http://127.0.0.1:%%PORT_o%%;
            }
        }
        location /eject/ {
            mcds_cache eject;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /disabled/ {
            mcds_cache disabled;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /one/ {
            mcds_cache one;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub hits {
    my ($h, @uris) = @_;

    return wait_for(sub {
        !grep { ($h->get($_)->header('X-Cache') // '') ne 'HIT' } @uris
    }, 20);
}

for my $row (
    ['replicas/', 'r0'], ['replicas/', 'r1'],
    ['replicas/stale/', 'r0'], ['replicas/stale/', 'r1'],
    ['eject/', 'e0'], ['eject/', 'e1'], ['one/', 'one'],
) {
    my ($where, $away) = @$row;
    my @uris = map { "/$where$away/$_" } 1 .. 4;

    ok(hits($_, @uris), "$where: stored") for @h;

    my ($before) = $h[0]->get($uris[0])->body() =~ /(\d+)/;

    $m{$away}->freeze();

    for (@uris) {
        is(http_request($h[0]->port(), $_, method => 'POST')->status(), 200,
            "$_ is changed while $away is away");
    }

    $m{$away}->cont();

    for my $h (@h) {
        ok(wait_for(sub {
            !grep { my $r = $h->get($_);
                $r->header('X-Cache') ne 'HIT'
                    || $r->body() eq "version $before" } @uris
        }, 20), "$where: shown as it is now, when $away is back");
    }
}


# a page that cannot be invalidated where it belongs is not taken away again
# and again where it is

my @uris = map { "/disabled/$_" } 1 .. 12;

ok(hits($h[0], @uris), 'stored');
$m{d1}->freeze();
http_request($h[0]->port(), $_, method => 'POST') for @uris;
ok(hits($h[0], @uris), 'changed, and stored anew');

my $made = $o->count();
my $end = time() + 3;

while (time() < $end) {
    $h[0]->get($_) for @uris;
    sleep(0.1);
}

# a busy machine may miss a deadline once, and builds a page again then

cmp_ok($o->count() - $made, '<', @uris, 'and stay so');
$m{d1}->cont();


# the worker keeps a megabyte of names

$m{one}->freeze();

for (1 .. 160) {
    http_request($h[0]->port(), "/one/$_" . 'a' x 7000, method => 'POST');
}

$m{one}->cont();
$t->allow(qr/cannot invalidate a page, .*too many others wait for that/);
ok(wait_for(sub { $h[0]->log() =~ /too many others wait for that/ }),
    'more is not kept');

like($t->read_file('h0/error.log'),
    qr/\[warn\].* pool "one" cannot invalidate a page yet, .*\/one\/1"/,
    'the log says what waits');
unlike($t->read_file('h0/error.log'), qr/it is given up/,
    'nothing was given up');

$t->done();
