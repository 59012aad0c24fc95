#!/usr/bin/perl

# Copyright (C) mcds authors

# A page of a location that is a regular expression, with groups, without, or
# after another one that has some: its refresh copies what there is to copy.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => '%k of %u' });

# without a group in all of the configuration, and with some

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $request_uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { rewrite ^ /last.php last; }
        location ~ \.php$ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        %%MORE%%
    }
}
EOT

my $more = <<'EOT';
        location ~ ^/(not)(/|$) { return 404; }
        location ~ ^/(a+)(b)?(c)?/(.*)z$ {
            proxy_pass http://127.0.0.1:%%PORT_o%%/$1-$2-$3-$4;
        }
        location ~ ^/long/(?<long>.*)y$ {
            rewrite ^ /short.php last;
        }
EOT

my %host = (without => $t->nginx('without', $conf =~ s/%%MORE%%//r),
    with => $t->nginx('with', $conf =~ s/%%MORE%%/$more/r));

for my $row (
    ['without', '/one.php', 'one.php'],
    ['without', '/rewritten', 'last.php'],
    ['with', '/two.php', 'two.php'],
    ['with', '/rewritten/too', 'last.php'],
    ['with', '/aac/' . 'x' x 90 . 'z', 'aa--c-' . 'x' x 90],
    ['with', '/ab/z', 'a-b--'],
    ['with', '/long/' . 'x' x 90 . 'y', 'short.php'])
{
    my ($which, $uri, $want) = @$row;
    my $h = $host{$which};
    my $name = "$which, " . substr $uri, 0, 20;

    is($h->get($uri)->body() =~ s/^\d+ of //r, "/$want", "$name: a page");
    page_expire($m, $uri, 1000);
    like($h->get($uri)->header('X-Cache') // 'none', qr/STALE/,
        "$name: the old page");
    my $r;
    ok(wait_for(sub { ($r = $h->get($uri))->header('X-Cache') eq 'HIT' }),
        "$name: refreshed");
    is($r->body() =~ s/^\d+ of //r, "/$want", "$name: the same page");
}


# one expression, with and without case: two locations for one key

my $case = $t->nginx('case', $conf =~ s/%%MORE%%/<<'EOT'/er
        location ~ ^/show { proxy_pass http://127.0.0.1:%%PORT_o%%/a$uri; }
        location ~* ^/show { proxy_pass http://127.0.0.1:%%PORT_o%%/b$uri; }
EOT
    =~ s/(mcds_cache_key) \$request_uri/$1 \$arg_id/r);

for my $status ('MISS', 'HIT') {
    for my $row (['/show', '/a/show'], ['/SHOW', '/b/SHOW']) {
        my ($uri, $want) = @$row;
        my $r;

        # without "vary", one of the two locations has no page

        my $stored = $uri eq '/show' || $t->has('mcds vary');

        ok(wait_for(sub { ($r = $case->get("$uri?id=1"))->header('X-Cache')
            eq ($stored ? $status : 'MISS') }), "$uri: $status");
        is($r->body() =~ s/^\d+ of //r, $want, "$uri: its own page");
    }
}

$t->done();
