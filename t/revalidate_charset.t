#!/usr/bin/perl

# Copyright (C) mcds authors

# A charset_map of two charsets with one byte for each character: nginx recodes
# the body in place.  A page that is served in place of the origin's response,
# a 304 or an error, is recoded once for each response, and neither its copies
# nor its item in memcached are.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $m = $t->memcached('m');

my $small = join '', map { "line $_ \xfe\xc0\n" } 1 .. 200;
my $large = join '', map { "line $_ \xfe\xc0\n" } 1 .. 30_000;

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @headers = ('Cache-Control' => 'max-age=60, stale-if-error=3600',
        ETag => '"e"', 'Content-Type' => 'text/html; charset=koi8-r');

    return { status => 304, headers => \@headers, body => '' }
        if ($q->{headers}{'if-none-match'} // '') eq '"e"';
    return { headers => \@headers,
        body => $q->{path} =~ /large/ ? $large : $small };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_zone 8m;
    add_header X-Cache $mcds_cache_status always;
    charset_map koi8-r windows-1251 { FE DE; C0 FE; }
    charset windows-1251;
    override_charset on;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_revalidate on;
    mcds_cache_background_update off;
    mcds_cache_error_backoff off;
    server {
        listen 127.0.0.1:%%PORT%%;
        sendfile on;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /local/ {
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /gzip/ {
            mcds_cache_compress gzip min_length=1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi/ {
            ssi on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# a large page that is compressed is not served in place of a response

for my $uri ('/gzip/small', map { ("$_/small", "$_/large") } '', '/local',
    '/ssi')
{
    my $body = $uri =~ /large/ ? $large : $small;
    my $recoded = $body =~ tr/\xfe\xc0/\xde\xfe/r;

    my $is = sub {
        my ($state, $name) = @_;
        my $r = $h->get($uri);

        is($r->header('X-Cache') // 'none', $state, "$uri: $name: $state");
        ok($r->body() eq $recoded, "$uri: $name: recoded once");
    };

    my $kept = sub {
        my $e = page_decode(page_wait($m, $uri)) // {};

        ok($e->{valid}, "$uri: @_: its checksum is right");
        ok($uri =~ /gzip/ || ($e->{body} // '') eq $body,
            "$uri: @_: its bytes are the origin's");
    };

    $is->('MISS', 'built');
    $kept->('built');

    for my $n (1 .. 2) {
        page_expire($m, $uri, 1000);
        $is->('REVALIDATED', "304 number $n");

        ok(wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' }),
            "$uri: 304 number $n: good again");
        $is->('HIT', "304 number $n");
        $kept->("304 number $n");
    }

    page_expire($m, $uri, 1000);
    $o->set($uri, { status => 503, body => 'broken' });
    $is->('STALE', "error number $_") for 1 .. 3;
    $o->set($uri, undef);
    $kept->('errors');
}

$t->done();
