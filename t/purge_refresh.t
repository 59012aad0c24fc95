#!/usr/bin/perl

# Copyright (C) mcds authors

# The rebuild after a purge is what a GET with the headers of the purge would
# be: with a session cookie or a method override there is none, and behind a
# login only what the origin allows to share is stored.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

$t->write_file('users', "admin:{PLAIN}x\n");

# a page shows whose it is

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($name) = $q->{headers}{cookie} // $q->{headers}{authorization}
        // 'all';

    return { headers => ['Cache-Control' => $q->{path} =~ /public/
            || $q->{path} =~ /checked/ && $q->{k} == 1
            ? 'public, max-age=60' : $q->{path} =~ /private/ && $name ne 'all'
            ? 'private' : 'max-age=60'],
        body => "$q->{k} for $name" };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache on;
    mcds_cache_session_cookies sid;
    mcds_purge_api method=PURGE mode=refresh;
    mcds_cache_uncacheable 30s;
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /shared {
            mcds_cache_shared on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /checked {
            auth_request /ok;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /limited {
            limit_except GET {
                auth_basic all;
                auth_basic_user_file %%TMP%%/users;
            }
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /if {
            if ($request_method = PURGE) { set $purging 1; }
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /closed {
            limit_except POST { allow all; }
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /tried {
            mcds_cache_session_cookies other;
            mcds_cache_shared on;
            try_files /none @tried;
        }
        location @tried { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /half { try_files /none @half; }
        location @half {
            mcds_cache_shared on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /checked/half {
            auth_request /ok;
            mcds_cache_shared on;
            try_files /none @tried;
        }
        location = /ok { mcds_cache off; return 204; }
        location /behind/ {
            mcds_purge_api off;
            mcds_cache_session_cookies outer;
            try_files /none @behind;
        }
        location @behind {
            mcds_cache_shared on;
            mcds_purge_api method=PURGE $http_x_purge mode=refresh;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name server;
        try_files /none @server;
        location @server { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

sub is_page { is(page_decode($m->get(key($_[0])))->{body}, $_[1], $_[2]) }

sub purge {
    my ($uri, @headers) = @_;

    $h->get($uri);
    page_wait($m, key($uri)) or die "$uri is not stored\n";

    my $r = $h->get($uri, method => 'PURGE', headers => [@headers]);

    return $r->status() != 200 ? $r->status()
        : decode_json($r->body())->{refresh} ? 'rebuilt' : 'purged';
}

sub rebuilt {
    my ($uri, $body, $name) = @_;

    ok(wait_for(sub { page_decode(page_wait($m, key($uri)))->{body}
        eq $body }), $name);
}

# nothing more is to come of what the origin has answered before

my $after = 0;

sub settled {
    my $uri = '/after' . ++$after;

    purge($uri);
    rebuilt($uri, '2 for all', "$uri: what was asked before has ended");
}

for (['/session', Cookie => 'sid=1'], ['/override',
    'X-HTTP-Method-Override' => 'PURGE'])
{
    my ($uri, @headers) = @$_;

    is(purge($uri, @headers), 'purged', "$uri: purged, and not rebuilt");
    settled();
    is($o->count($uri), 1, "$uri: the origin is not asked");
    isnt($h->get($uri)->header('X-Cache'), 'HIT', "$uri: is purged");
    rebuilt($uri, '2 for all', "$uri: the next visitor has it rebuilt");
}

is(purge('/cookie', Cookie => 'other=1'), 'rebuilt', 'another cookie: rebuilt');
rebuilt('/cookie', '2 for other=1', 'another cookie: as for a GET');

is(purge('/tried/session', Cookie => 'sid=1'), 'rebuilt', 'try_files: begun');
settled();
is($o->count('/tried/session'), 1, 'try_files: the origin is not asked');
is_page('/tried/session', '1 for all', 'try_files: the page is the old one');

for my $uri ('/login', '/private', '/tried/login', '/half') {
    is(purge($uri, Authorization => 'x'), 'rebuilt', "$uri: begun");
    ok($o->wait_requests(2, $uri), "$uri: the origin is asked");
    settled();
    is_page($uri, '1 for all', "$uri: its answer is not stored");

    my $r = $h->get($uri);
    is($r->header('X-Cache') . ' ' . $r->body(), 'STALE 1 for all',
        "$uri: the page is served, and rebuilt");
    rebuilt($uri, '3 for all', "$uri: for all");
}

for my $uri ('/public', '/shared') {
    is(purge($uri, Authorization => 'x'), 'rebuilt', "$uri: begun");
    rebuilt($uri, '2 for x', "$uri: stored");
}

# the location of the page is that of GET, whatever protects the purge

my $admin = 'Basic YWRtaW46eA==';

is(purge('/limited/public'), 401, 'limit_except: without a password');

for (['/limited/public', $admin, Authorization => $admin],
    ['/closed/public', 'all'])
{
    my ($uri, $name, @headers) = @$_;

    is(purge($uri, @headers), 'rebuilt', "$uri: begun");
    rebuilt($uri, "2 for $name", "$uri: stored");

    my $r = $h->get($uri);
    is($r->header('X-Cache') . ' ' . $r->body(), "HIT 2 for $name",
        "$uri: as the page of all");
}

# an "if" that is true for the purge alone is another location: the rebuild is
# that of its page, not of the visitors'

is(purge('/if'), 'rebuilt', 'if: begun');
ok($o->wait_requests(2, '/if'), 'if: the origin is asked');
settled();
is($o->count('/if'), 2, 'if: once');

my $v = $h->get('/if');
is($v->header('X-Cache') . ' ' . $v->body(), 'MISS 3 for all',
    'if: a visitor has the page rebuilt');

for my $uri ('/checked', '/checked/half') {
    is(purge($uri), 'rebuilt', "$uri: begun");
    ok($o->wait_requests(2, $uri), "$uri: the origin is asked");
    settled();
    is_page($uri, '1 for all', "$uri: its answer is not stored");
}

# only the location behind try_files knows the purge, and not all of the rules:
# those of the location before count, too

sub behind {
    my ($uri, @headers) = @_;
    my $method = "@headers" =~ /X-Purge/ ? 'GET' : 'PURGE';

    $h->get($uri);
    page_wait($m, key($uri)) or die "$uri is not stored\n";

    my $r = $h->get($uri, method => $method, headers => [@headers]);

    return decode_json($r->body())->{refresh} ? 'rebuilt' : 'purged';
}

for (['PURGE'], ['GET', 'X-Purge' => 1]) {
    my ($method, @purge) = @$_;

    my $uri = "/behind/$method";

    is(behind("$uri/outer", @purge, Cookie => 'outer=1'), 'purged',
        "$uri: a session of the location before");
    settled();
    is($o->count("$uri/outer"), 1, "$uri: the origin is not asked");

    is(behind("$uri/login", @purge, Authorization => 'x'), 'rebuilt',
        "$uri: a password, begun");
    ok($o->wait_requests(2, "$uri/login"), "$uri: the origin is asked");
    settled();
    is_page("$uri/login", '1 for all', "$uri: the answer is not stored");

    is(behind("$uri/cookie", @purge, Cookie => 'a=1'), 'rebuilt',
        "$uri: another cookie");
    rebuilt("$uri/cookie", '2 for a=1', "$uri: rebuilt");
}

# a request that no location matches runs at the level of the server

my $page = '<server>http://server/none/here';
my @server = (host => 'server');

$h->get('/none/here', @server);
page_wait($m, $page) or die "$page is not stored\n";

my $r = $h->get('/none/here', @server, method => 'PURGE');
is($r->status(), 200, 'server: purged');
ok(decode_json($r->body())->{refresh}, 'server: begun');
ok(wait_for(sub { page_decode(page_wait($m, $page))->{body} eq '2 for all' }),
    'server: rebuilt');
is($h->get('/none/here', @server)->header('X-Cache'), 'HIT', 'server: shown');

$t->done();
