#!/usr/bin/perl

# Copyright (C) mcds authors

# A page is asked for with its own validators, and nothing else is: neither
# what its SSI includes, nor an error page that another origin makes.  What is
# added to it is there when it takes the place of an answer, too.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->needs('http_addition');

my $m = $t->memcached('m');

# all pages have the same validators, and so has the backup

my $answer = sub {
    my ($name) = @_;

    return sub {
        my ($o, $q) = @_;
        my $h = $q->{headers};

        return { status => 502 } if $q->{path} =~ /failing/ && $name eq 'o'
            && $h->{'if-none-match'};
        return { status => 504 } if $q->{path} =~ /broken/
            && $h->{'if-none-match'};
        return { status => 304, headers => ['Cache-Control' => 'max-age=60',
                'Content-Type' => 'text/html'] }
            if $h->{'if-none-match'} || $h->{'if-modified-since'};
        return { headers => ['Cache-Control' => 'max-age=60', ETag => '"1"',
                'Last-Modified' => 'Mon, 28 Sep 2020 06:00:00 GMT',
                'Content-Type' => 'text/html'],
            body => $q->{path} =~ /page/
                ? '<!--# include virtual="/part" -->.' : "of $name" };
    };
};

my $o = $t->origin('o', $answer->('o'));
my $p = $t->origin('p', $answer->('p'));

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_revalidate on;
    mcds_cache_background_update off;
    mcds_cache_use_stale error timeout http_504;
    ssi on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /part {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /failing/ {
            proxy_intercept_errors on;
            error_page 502 504 = @backup;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /added/ {
            add_before_body /part;
            add_after_body  /part;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @backup { proxy_pass http://127.0.0.1:%%PORT_p%%; }
    }
}
EOT

is($h->get('/page')->body(), 'of o.', 'a page with a part');
page_wait($m, '/page');

for (1 .. 3) {
    page_expire($m, '/page', 1000);

    my $r = $h->get('/page');

    is($r->header('X-Cache'), 'REVALIDATED', 'the page has not changed');
    is($r->body(), 'of o.', 'its part is there');
}

for my $way ('same REVALIDATED', 'broken STALE') {
    my ($uri, $status) = split / /, $way;

    is($h->get("/added/$uri")->body(), 'of oof oof o', "$uri: with additions");
    page_wait($m, "/added/$uri");
    page_expire($m, "/added/$uri", 1000);

    my $r = $h->get("/added/$uri");

    is(($r->header('X-Cache') // '') . ' ' . $r->body(),
        "$status of oof oof o", "$uri: so has the old page");
}

is(scalar(grep { $_->{headers}{'if-none-match'}
    || $_->{headers}{'if-modified-since'} } $o->requests('/part')), 0,
    'it was asked for without validators');

is($h->get('/failing/x')->body(), 'of o', 'a page');
page_wait($m, '/failing/x');
page_expire($m, '/failing/x', 1000);

my $r = $h->get('/failing/x');

is($r->status() . ' ' . $r->body(), '200 of p', 'the backup answers');

$t->done();
