#!/usr/bin/perl

# Copyright (C) mcds authors

# With recursive_error_pages nginx does not say that a request was led to an
# error page, if that is "error_page ... = @name": what another origin answers
# or "return" makes there is not the page nevertheless, and who was refused
# purges nothing.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->allow(qr/access forbidden by rule/,
    qr/Connection reset by peer/);

my $m = $t->memcached('m');

my %fails;
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return $q->{uri} =~ /down/ ? { abort => 0 } : { status => 500 }
        if $q->{uri} =~ /new/ || $fails{$q->{uri}}++;

    return { headers => ['Cache-Control' => 'max-age=60', ETag => '"1"',
        $q->{uri} =~ /accel/ ? ('X-Accel-Redirect' => '/file') : ()],
        body => 'the page' };
});

my $s = $t->origin('s', sub {
    my ($s, $q) = @_;

    return { headers => ['Cache-Control' => 'max-age=60', ETag => '"1"'],
        body => join ' ', 'sorry', sort grep { /^if-/ } keys
            %{$q->{headers}} };
});

my $conf = <<'EOT';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 2s; }
    mcds_cache             on;
    mcds_cache_key         $uri;
    mcds_cache_revalidate  on;
    recursive_error_pages  on;
    add_header X-Cache     $mcds_cache_status;
    proxy_intercept_errors on;
    log_not_found          off;

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_purge_api method=PURGE mode=delete;

        location / {
            error_page 500 = @sorry;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /made/ {
            error_page 404 = @made;
        }
        location @made {
            error_page 500 = @sorry;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @sorry {
            proxy_pass http://127.0.0.1:%%PORT_s%%;
        }
        location /denied {
            limit_except GET { deny all; }
            error_page 403 = @denied;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @denied {
            mcds_cache_invalidate off;
            proxy_pass http://127.0.0.1:%%PORT_s%%;
        }
        location /return/ {
            error_page 500 = @return;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
%%ALONE%%
        location @return { return 200 returned; }
        location = /returned { return 200 returned; }
        location @redirect { return 302 /elsewhere; }
        location @status { return 404; }

        location = /file {
            internal;
            mcds_return "by X-Accel-Redirect";
        }
    }
}
EOT

# error pages that "return" makes

my %pages = (alone => '500 = @return', code => '500 =503 @return',
    uri => '500 /returned', redirect => '500 = @redirect',
    status => '500 = @status', down => '502 = @status');

my $alone = join '', map { <<"EOT" } sort keys %pages;
        location /return/$_/ {
            mcds_cache_background_update off;
            error_page $pages{$_};
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
EOT

for my $recursive (qw/ on off /) {
    my $h = $t->nginx($recursive, $conf =~ s/%%ALONE%%\n/$alone/r
        =~ s/(recursive_error_pages) +on/$1 $recursive/r);
    my $name = "recursive_error_pages $recursive";

    $m->flush();
    %fails = ();

    # an origin that fails

    for my $uri ("/new/$recursive", $recursive eq 'on' ? '/made/new' : ()) {
        is($h->get($uri)->body(), 'sorry', "$name: $uri");
        is($h->get($uri)->body(), 'sorry', "$name: $uri, again");
        is($s->count($uri), 2, "$name: $uri is not stored");
    }

    # the same behind a page that has expired

    my $uri = "/$recursive";

    is($h->get($uri)->body(), 'the page', "$name: the page");
    page_wait($m, $uri);
    page_expire($m, $uri, 1000);

    ok(wait_for(sub { $h->get($uri); $s->count($uri) }), "$name: it fails");
    is(page_decode($m->get("<>$uri"))->{body}, 'the page',
        "$name: and is still the page");
    is(scalar(grep { $_->{headers}{'if-none-match'} } $s->requests($uri)), 0,
        "$name: another origin is not asked about it");

    # what "return" makes when a refresh fails, and a build for a client

    for my $way ('', map { "$_/" } sort keys %pages) {
        $uri = "/return/$way$recursive";

        is($h->get($uri)->body(), 'the page', "$name: $uri");
        page_wait($m, $uri);
        page_expire($m, $uri, 1000);

        my $r = $h->get($uri);

        ok($o->wait_requests(2, $uri), "$name: $uri fails");
        is(($r->header('X-Cache') // $r->status()) . ' ' . $r->body(),
            'STALE the page', "$name: $uri, its old page");
        ok(page_wait($m, $uri), "$name: $uri, the build has ended");
        is(page_decode($m->get("<>$uri"))->{body}, 'the page',
            "$name: $uri is still the page");
    }

    $uri = "/return/new/$recursive";
    is($h->get($uri)->body(), 'returned', "$name: without a page");

    # a page that is made where a file is not, or is one

    is($h->get("/made/$recursive")->body(), 'the page', "$name: made");
    ok(page_wait($m, "/made/$recursive"), "$name: and stored");
    is($h->get("/accel/$recursive")->body(), 'by X-Accel-Redirect',
        "$name: X-Accel-Redirect");

    # refused

    $uri = "/denied/$recursive";

    is($h->get($uri)->body(), 'the page', "$name: one that all may read");
    page_wait($m, $uri);
    is($h->get($uri, method => 'PURGE')->body(), 'sorry', "$name: refused");
    is(page_decode($m->get("<>$uri"))->{body}, 'the page',
        "$name: and not purged");

    like($h->get("/$recursive", method => 'PURGE')->body(), qr/"purged"/,
        "$name: who may purge does");
}

$t->done();
