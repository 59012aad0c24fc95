#!/usr/bin/perl

# Copyright (C) mcds authors

# A page in parts on its way to the client: limited in rate, beside other
# subrequests, from a replica, and while nginx stops.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();
$t->needs('mcds large');

my $bytes = join '', map { pack 'N', $_ } 1 .. 1_000_000;

my ($m, $n) = map { $t->memcached($_, memory => 128) } 'm', 'n';
my $o = $t->origin('o', sub { return { body => $bytes, headers => [
    'Cache-Control' => 'max-age=60', 'Content-Type' => 'text/html'] } });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server   127.0.0.1:%%PORT_m%%;
        server   127.0.0.1:%%PORT_n%%;
        distribution modula;
        replicas 2;
        timeout  2s;
    }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /rate {
            limit_rate 4m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /after {
            ADDITION
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /two {
            mcds_cache off;
            ssi on;
            default_type text/html;
            return 200 '<!--# include virtual="/a" -->,<!--# include
                virtual="/b" -->';
        }
    }
}
EOT

my $addition = $t->has('http_addition');
$conf =~ s/ADDITION/$addition ? 'add_after_body \/a;' : ''/e;

my $h = $t->nginx('h', $conf);

sub right {
    my ($r, $body) = @_;
    return $r->body() eq $body ? 'right' : 'wrong, ' . length $r->body();
}

for my $uri ('/a', '/b', '/rate', '/after') {
    $h->get($uri);
    my $key = "<>http://localhost$uri";
    ok(page_wait($m, $key) && page_wait($n, $key), "$uri: stored twice");
}

my $r = $h->get('/rate');
is($r->header('X-Cache') . ' ' . right($r, $bytes), 'HIT right', 'limit_rate');
cmp_ok($r->time(), '>', 0.5, 'limit_rate: slowly');

is(right($h->get('/two'), "$bytes,$bytes"), 'right', 'two side by side');

SKIP: {
    skip 'no addition', 1 if !$addition;
    is(right($h->get('/after'), "$bytes$bytes"), 'right', 'one after another');
}

$m->kill9();
$r = $h->get('/a');
is($r->header('X-Cache') . ' ' . right($r, $bytes), 'HIT right', 'a replica');
$m->restart();

SKIP: {
    skip 'nginx does not wait at QUIT then', 1 if $t->mode() eq 'single';

    my $p = start_get($h->port(), '/b');

    wait_for(sub { $p->fill(0); length $p->{in} > 10_000 });
    $h->signal('QUIT');
    is(right(finish($p), $bytes), 'right',
        'a worker that stops sends the rest');
}

# as large as it may be

is($t->conf_error(http => 'mcds_pool main { server 127.0.0.1; }',
    location => 'mcds_cache on; mcds_cache_max_size 64m;'), '', '64m');
like($t->conf_error(http => 'mcds_pool main { server 127.0.0.1; }',
    location => 'mcds_cache on; mcds_cache_max_size 65m;'),
    qr/"65m" in "mcds_cache_max_size", .* a size up to 64m in \S+:\d+/,
    '65m');

$t->done();
