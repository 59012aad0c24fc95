#!/usr/bin/perl

# Copyright (C) mcds authors

# A page whose lifetime came in a header that is not stored, and that the origin
# says has not changed: its lifetime is that of before.  After a purge of the
# page by its key it is not known any more, so the whole page is asked for.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

# an hour, which a 304 does not tell

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @headers = ('Content-Type' => 'text/plain', ETag => '"one"');

    return { status => 304, headers => \@headers, body => '' }
        if ($q->{headers}{'if-none-match'} // '') eq '"one"';
    return { headers => [@headers, 'X-Accel-Expires' => 3600,
        $q->{path} =~ /headers/ ? ('Cache-Control' => 'max-age=1800') : ()] };
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
    mcds_cache_key $uri;
    mcds_cache_tag $uri;
    mcds_cache_revalidate on;
    mcds_cache_background_update off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /refresh/ {
            mcds_cache_background_update 10m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off/ {
            mcds_cache_lock off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_cache off; mcds_purge_api on; }
    }
}
EOT

sub status { join ' ', $_[0]->header('X-Cache'), $_[0]->body() =~ /^(\w+ \d+)/ }

# the seconds that the page lives from its build on, once it is good again

sub life {
    my ($uri) = @_;
    my $e;

    wait_for(sub {
        $e = page_decode(page_wait($m, $uri));
        return $e->{kind} != 0 || $e->{expire} > time() * 1000;
    });

    # a lifetime of Cache-Control begins with the request, one of
    # X-Accel-Expires with the response

    return $e->{kind} ? "kind $e->{kind}" : ($e->{expire} - $e->{created}
        + ($uri =~ m{/headers$} ? $e->{took} : 0)) / 1000;
}

# how the page is made stale, the response then, the number of requests for the
# origin since, and the lifetime

for my $c (
    ['/expired', 'expire', 'REVALIDATED', 1, 3600],
    ['/tag', 'tag', 'REVALIDATED', 1, 3600],
    ['/headers', 'key', 'REVALIDATED', 1, 1800],
    ['/key', 'key', 'EXPIRED', 2, 3600],
    ['/off/key', 'key', 'EXPIRED', 2, 3600],
    ['/refresh/key', 'key', 'STALE', 2, 3600],
) {
    my ($uri, $how, $status, $asked, $life) = @$c;

    # the page is some seconds old, as a purge takes back its lifetime

    $h->get($uri);
    page_expire($m, $uri, -3590_000);
    my $first = $o->count($uri);

    if ($how eq 'expire') {
        page_expire($m, $uri, 1000);

    } else {
        my $what = $how eq 'key' ? "key=$uri" : "tag=$uri";
        is($h->get("/purge?$what")->status(), 200, "$uri: purged");
    }

    like(status($h->get($uri)), qr/^$status answer/, "$uri: $status");
    ok($o->wait_requests($first + $asked, $uri), "$uri: the origin is asked");
    is(life($uri), $life, "$uri: lives for $life seconds");
    is($o->count($uri), $first + $asked, "$uri: and not asked again");
    like(status($h->get($uri)), qr/^HIT answer/, "$uri: is good again");
}

# at once, within the time that clocks may differ by

$h->get('/soon');
page_wait($m, '/soon');
$h->get('/purge?key=/soon');
like(status($h->get('/soon')), qr/^EXPIRED answer/, 'purged soon');
is(life('/soon'), 3600, 'purged soon: lives for 3600 seconds');

# by the copy of a request, here of HEAD, which builds behind it

$h->get('/head');
page_expire($m, '/head', -3590_000);
$h->get('/purge?key=/head');
$h->get('/head', method => 'HEAD');
like(status($h->get('/head')), qr/^HIT answer/, 'HEAD: builds the page');
is(life('/head'), 3600, 'HEAD: lives for 3600 seconds');

$t->done();
