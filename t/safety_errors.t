#!/usr/bin/perl

# Copyright (C) mcds authors

# C08: an attacker makes the origin, or nginx itself, fail for a page that
# others want, with a header that is too long, a sign that is not understood, or
# a method that is not there.  The error is his own: it is never stored.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

# an origin that is easily upset, and thinks its errors can be kept

my $keep = 1;
my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $h = $q->{headers};
    my ($kept) = $q->{path} =~ m{^/(\w+)};
    my $status = length($h->{'x-long'} // '') > 4000 ? 431
        : ($h->{'x-meta'} // '') =~ /[^ -~]/ ? 400
        : defined $h->{'x-status'} ? $h->{'x-status'}
        : $q->{headers}{'x-http-method-override'} ? 405 : 200;
    return { status => $status, body => "status $status",
        headers => $kept eq 'says' ? ['Cache-Control' => 'max-age=60'] : [] };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    client_max_body_size 1k;
    large_client_header_buffers 4 16k;
    server {
        listen 127.0.0.1:%%PORT%%;

        location /says/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /valid/ {
            mcds_cache_valid 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /any/ {
            mcds_cache_valid 200 301 302 404 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        # errors of nginx itself, which say so to nobody

        location /gone/ {
            mcds_cache_valid any 1m;
            proxy_connect_timeout 200ms;
            proxy_pass http://127.0.0.1:%%PORT_nobody%%;
        }

        # an error that is listed is stored, since somebody wants it

        location /listed/ {
            mcds_cache_valid 503 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# what the attacker sends, and what comes of it

my @attacks = (
    ['a long header', 431, headers => ['X-Long' => 'x' x 6000]],
    ['8-bit signs', 400, headers => ['X-Meta' => "\xff\x01"]],
    ['another method in a header', 405,
        headers => ['X-HTTP-Method-Override' => 'POST']],
    map({ ["status $_", $_, headers => ['X-Status' => $_]] } 400, 401, 403,
        405, 406, 408, 411, 412, 413, 414, 415, 416, 421, 422, 425, 429, 431,
        451, 500, 501, 502, 503, 504, 505, 507, 511),
    ['a header that is too long for nginx', 400,
        headers => ['X-Long' => 'x' x 40_000]],
    ['a body that is too long for nginx', 413, method => 'POST',
        body => 'x' x 2000],
    ['a method that nginx does not know', 405, method => 'TRACE'],
    ['an odd method', qr/^(200|405|501)$/, method => 'FROB'],
    ['an Expect', 417, headers => [Expect => '999-nonsense']],
    ['an Upgrade', 200, headers => [Upgrade => 'h2c', Connection => 'close']],
);

for my $where ('says', 'valid', 'any') {
    my (@shown, @odd);

    for my $i (0 .. $#attacks) {
        my ($name, $status, %o) = @{$attacks[$i]};
        my $uri = "/$where/$i";
        my @got = map { $h->get($uri, %o)->status() } 1 .. 2;

        push @odd, "$name: @got" if grep { ref $status ? !/$status/
            : $name !~ /Expect|too long|method that/ && $_ != $status } @got;

        # a mark that nobody waits for may be left

        for my $r ($h->get($uri), $h->get($uri)) {
            push @shown, "$name: " . $r->status() . ' '
                . ($r->header('X-Cache') // '')
                if $r->status() != 200 || $r->body() ne 'status 200';
        }
    }

    is(join("\n", @odd), '', "$where: the attacker sees his error");
    is(join("\n", @shown), '', "$where: nobody else does");
}

$h->get('/gone/a') for 1 .. 2;
is($h->get('/gone/a')->header('X-Cache'), 'MISS', 'no origin: not stored');

$h->get('/listed/a', headers => ['X-Status' => 503]);
ok(wait_for(sub { $h->get('/listed/a')->header('X-Cache') eq 'HIT' }),
    'an error that is listed is stored');

ok(!grep({ ($m->get($_) // '') =~ /status [45](?!03)/ } $m->keys()),
    'no error is in memcached');

$t->done();
