#!/usr/bin/perl

# Copyright (C) mcds authors

# An origin whose status line is good, and whose header then is too large,
# invalid, cut off or late: nginx makes 502 or 504 of it, and the old page takes
# the place of the error, whatever error_page there is.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

my $ok = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n";
my $big = 'X-Big: ' . ('x' x 9000) . "\r\n\r\n";

# "large_404" has the status of a page that is gone, and is no such answer

my %bad = (
    large => { raw => $ok . $big },
    large_404 => { raw => "HTTP/1.1 404 Not Found\r\n$big" },
    large_502 => { raw => "HTTP/1.1 502 Bad Gateway\r\n$big" },
    invalid => { raw => $ok . "no header\r\n\r\nbody" },
    cut => { raw => $ok . 'X-' },
    slow => { raw => $ok },
);

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($how) = $q->{path} =~ m{/(\w+)$};

    return $bad{$how} if $q->{k} > 1;

    return { headers => ['Cache-Control' => 'max-age=60'],
        body => "page $q->{path}" };
});
my $s = $t->origin('s', { body => 'sorry' });

mkdir $t->dir() . '/html' or die "mkdir: $!\n";
$t->write_file('html/50x.html', 'error page');

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_background_update off;
    mcds_cache_error_backoff off;
    # the origin closes its connections but that of the slow header

    map $uri $connection_to {
        ~/slow$ "";
        default close;
    }
    proxy_http_version 1.1;
    proxy_set_header Connection $connection_to;
    proxy_read_timeout 1s;
    server {
        listen 127.0.0.1:%%PORT%%;
        root %%TMP%%/html;
        location /none/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /file/ {
            error_page 500 502 503 504 /50x.html;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /its/ {
            error_page 500 502 503 504 = /50x.html;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /50x.html { }
        location /return/ {
            error_page 500 502 503 504 = /busy;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /busy { return 200 busy; }
        location /other/ {
            error_page 500 502 503 504 =200 @other;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @other {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_s%%;
        }
        location /away/ {
            error_page 500 502 503 504 =302 https://example.com/busy;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $where (qw/ none file its return other away /) {
    for my $how (sort keys %bad) {
        my $uri = "/$where/$how";

        $h->get($uri);
        page_wait($m, key($uri));
        page_expire($m, key($uri), 1000);

        my $r = $h->get($uri);
        is(join(' ', $r->status(), $r->header('X-Cache') // '-', $r->body()),
            "200 STALE page $uri", "$uri: the old page");
        is(page_decode($m->get(key($uri)))->{body}, "page $uri",
            "$uri: is kept");
    }
}

$t->allow(qr/upstream (?:sent|prematurely|timed)/);
$t->done();
