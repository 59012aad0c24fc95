#!/usr/bin/perl

# Copyright (C) mcds authors

# A stored page never gets past the rules of the location that makes it, and
# is never mistaken for that of another server{}, location or URI that nginx
# chooses for the same request line.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->needs('http_auth_request',
    'http_addition');
$t->needs('mcds vary');

my $m = $t->memcached('m');
my $two = $t->memcached('two');

# the origin says by whom it was asked, and for what

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $who = $q->{headers}{cookie} // '-';
    my ($as) = $q->{headers}{'x-as'} // '-';
    my @more;

    if ($q->{path} =~ m{^/check}) {
        return { status => $who =~ /good/ ? 200 : 403, headers => [
            'Cache-Control' => 'max-age=60', 'X-User' => $who], body => '' };
    }

    if ($q->{path} =~ m{^/accel/(\w+)}) {
        my %say = (plain => [], vary => ['Vary' => 'Cookie'],
            star => ['Vary' => '*'], none => ['X-Accel-Expires' => 0],
            pragma => ['Pragma' => 'no-cache'],
            cdn => ['CDN-Cache-Control' => 'no-store']);

        return { status => 403, body => 'no' } if $who =~ /bad/;
        return { headers => ['X-Accel-Redirect' => '/refused/1'], body => '' }
            if $1 eq 'refused';
        return { headers => ['X-Accel-Redirect' => "/inner/$1",
            @{ $say{$1} }], body => '' };
    }

    push @more, 'Cache-Control' => 'max-age=60' if $q->{path} !~ /valid/;

    return { headers => \@more, body => "$as:$who:$q->{n}" };
});

mkdir $t->dir() . "/$_" for 'root', 'root/index';

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool other { server 127.0.0.1:%%PORT_two%%; }
    mcds_use main;
    mcds_cache on;
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    proxy_set_header X-As $server_port;
    proxy_set_header Host $http_host;

    server {
        listen 127.0.0.1:%%PORT_web%% default_server;
        server_name www.test;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }

    server {
        listen 127.0.0.1:%%PORT_intra%%;
        server_name intranet;
        location / {
            allow 127.0.0.9;
            deny  all;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }

    # two of one name

    server {
        listen 127.0.0.1:%%PORT_live%%;
        server_name twin;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }

    server {
        listen 127.0.0.1:%%PORT_draft%%;
        server_name twin;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }

    # two that are to be one

    server {
        listen 127.0.0.1:%%PORT_front%%;
        mcds_cache_site one;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }

    server {
        listen 127.0.0.1:%%PORT_back%%;
        mcds_cache_site one;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }

    server {
        listen 127.0.0.1:%%PORT_ways%%;
        server_name ways;
        proxy_set_header X-As "";
        root %%TMP%%/root;
        index index.php;
        log_not_found off;
        mcds_purge_api method=PURGE;

        location /admin/ { try_files $uri $uri/ /index.php?$args; }
        location ~ \.php$ {
            allow 127.0.0.9;
            deny  all;
            proxy_set_header X-As php;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /asked/ { try_files /none @asked; }
        location @asked {
            auth_request /check;
            mcds_cache_shared on;
            proxy_set_header X-As asked;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /check {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /behind/ {
            auth_request /check;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /whole/ {
            auth_request     /check;
            auth_request_set $user $upstream_http_x_user;
            mcds_cache       off;
            try_files        /none @whole;
        }
        location @whole {
            addition_types  text/plain;
            add_before_body /piece;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /piece {
            set $user "$user";
            proxy_set_header X-As "<$user>";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /if/ { try_files /none /if.cgi; }
        location = /if.cgi {
            if ($cookie_who = bad) { return 403; }
            proxy_set_header X-As if;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /session/ { try_files /none @session; }
        location @session {
            mcds_cache_session_cookies SID;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /bypass/ { try_files /none @bypass; }
        location @bypass {
            mcds_cache_bypass $cookie_SID;
            mcds_no_cache $cookie_SID;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /never/ {
            mcds_no_cache $cookie_SID;
            try_files /none @plain;
        }
        location @plain { proxy_pass http://127.0.0.1:%%PORT_o%%; }

        location /off/ { try_files /none @off; }
        location @off {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /key/ { try_files /none @key; }
        location @key {
            mcds_cache_key $host$uri+$cookie_SID;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /pool/ { try_files /none @pool; }
        location @pool {
            mcds_cache other;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /a/ {
            allow 127.0.0.9;
            deny  all;
            error_page 403 = @login;
            proxy_set_header X-As secret;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @login {
            proxy_set_header X-As login;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /c/ {
            if ($cookie_x) { return 418; }
            error_page 418 = @c;
            proxy_set_header X-As plain;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location @c {
            proxy_set_header X-As other;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /beta/ {
            if ($cookie_beta) { rewrite ^/beta/(.*)$ /new/$1 last; }
            proxy_set_header X-As old;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /new/ {
            proxy_set_header X-As new;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /break/ {
            if ($cookie_beta) { rewrite ^/break/(.*)$ /broken/$1 break; }
            proxy_set_header X-As $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /args/ {
            if ($cookie_beta) { set $args new=1; }
            proxy_set_header X-As $args;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /drop/ {
            if ($cookie_beta) { rewrite ^/drop/(.*)$ /dropped/$1 last; }
            try_files /none /dropped/1;
        }
        location /dropped/ {
            proxy_set_header X-As "args=$args";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /utm/ {
            mcds_cache_key_args ignore=utm_*;
            try_files /none /utm.cgi?q=$uri&$args;
        }
        location = /utm.cgi {
            mcds_cache_key_args ignore=utm_*;
            proxy_set_header X-As $arg_q;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /lead/ {
            mcds_cache_key_args ignore=utm_*;
            try_files /none /utm.cgi?$args&q=$uri;
        }

        location /role/ {
            mcds_cache_key_args only=page;
            try_files /none /role.cgi?role=$cookie_role;
        }
        location /elor/ {
            mcds_cache_key_args only=page;
            try_files /none /role.cgi?$cookie_role=role;
        }
        location = /role.cgi {
            mcds_cache_key_args only=page;
            proxy_set_header X-As $args;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /listed/ {
            mcds_cache_key_args only=page,role;
            try_files /none /listed.cgi?role=$cookie_role;
        }
        location = /listed.cgi {
            mcds_cache_key_args only=page,role;
            proxy_set_header X-As $args;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /accel/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /inner/ {
            internal;
            mcds_cache_valid 200 1m;
            proxy_set_header X-As inner;
            proxy_pass http://127.0.0.1:%%PORT_o%%/valid/;
        }

        location /refused/ {
            error_page 403 = /page;
            return 403;
        }
        location /page { return 200 page; }

        location /same/ {
            mcds_counter $views key=page;
            mcds_cache_key page;
            proxy_set_header X-As 0;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /index/ { }
    }
}
EOT

$t->write_file('root/file.html', 'a file');
$t->write_file('root/index/index.php', 'the source');


# by whom and for what the origin was asked, and what the cache did; friends
# come from the address that is allowed

sub got {
    my ($port, $uri, %o) = @_;
    my $r = http_get($t->port($port), $uri, host => $o{host} // $port,
        $o{friend} ? (local => '127.0.0.9') : (),
        $o{cookie} ? (headers => [Cookie => $o{cookie}]) : ());
    my ($how) = ($r->header('X-Cache') // '') =~ /^(\w+)/;
    $how //= '-';

    return $r->status() . " $how" if $r->status() != 200;
    return "$how " . $r->body() =~ s/:\d+$//r;
}

sub stored {
    my ($key, $m) = @_;
    ok(page_wait($m, $key), "stored: $key");
}


# a server{} never serves, nor makes, the pages of another one

my $port = $t->port('intra');
my $intra = "intranet:$port";

is(got('intra', '/report', host => $intra, friend => 1), "MISS $port:-",
    'a friend reads the report');
stored("<intranet>http://$intra/report", $m);
is(got('intra', '/report', host => $intra), '403 -', 'a stranger does not');
is(got('web', '/report', host => $intra), 'MISS ' . $t->port('web') . ':-',
    'nor by the public server');

is(got('web', '/news', host => $intra), 'MISS ' . $t->port('web') . ':-',
    'a stranger asks the public server for news');
is(got('intra', '/news', host => $intra, friend => 1), "MISS $port:-",
    'the friend gets those of the intranet');

is(got('live', '/x', host => 'twin'), 'MISS ' . $t->port('live') . ':-',
    'two server{} of one name: the first');
is(got('draft', '/x', host => 'twin'), 'MISS ' . $t->port('draft') . ':-',
    '... the second');
is(got('live', '/x', host => 'twin'), 'HIT ' . $t->port('live') . ':-',
    '... the first again');
ok($h->log_has(qr/\[warn\] .*nginx\.conf:\d+ .*nginx\.conf:\d+ .*"twin"/),
    '... a warning names them');

is(got('front', '/y', host => 'z'), 'MISS ' . $t->port('front') . ':-',
    'mcds_cache_site: one site of two server{}');
stored('<one>http://z/y', $m);
is(got('back', '/y', host => 'z'), 'HIT ' . $t->port('front') . ':-',
    '... they share its pages');


# the rules of the location that answers

is(got('ways', '/admin/stats', friend => 1), 'MISS php:-',
    'try_files: a friend is let in by the location of PHP');
stored('<ways>http://ways/admin/stats', $m);
is(got('ways', '/admin/stats'), '403 -', '... a stranger is not');
is(got('ways', '/admin/stats', friend => 1), 'HIT php:-',
    '... and the friend has a page in the cache');

is(got('ways', '/index/', friend => 1), 'MISS php:-', 'index: a friend');
stored('<ways>http://ways/index/', $m);
is(got('ways', '/index/'), '403 -', '... a stranger');
is(got('ways', '/index/', friend => 1), 'HIT php:-', '... the friend again');

is(got('ways', '/asked/1', cookie => 'good'), 'MISS asked:good',
    'auth_request there: who is good');
stored('<ways>http://ways/asked/1', $m);
is(got('ways', '/asked/1', cookie => 'bad'), '403 -', '... who is bad');
is(got('ways', '/asked/1', cookie => 'good'), 'HIT asked:good',
    '... who is good again');

is(got('ways', '/if/1', cookie => 'who=me'), 'MISS if:who=me',
    '"if" there: one whom it does not mean');
stored('<ways>http://ways/if/1', $m);
is(got('ways', '/if/1', cookie => 'who=bad'), '403 -',
    '... one whom it means');


# auth_request itself is not answered from the cache, and what is behind it may
# depend on the client

is(got('ways', '/check', cookie => 'good'), 'MISS ', 'the check, asked');
stored('<ways>http://ways/check', $m);
is(got('ways', '/check', cookie => 'bad'), 'HIT ', '... is a page');
is(got('ways', '/behind/1', cookie => 'good'), 'MISS -:good',
    'auth_request: let in') for 1, 2;
is(got('ways', '/behind/1', cookie => 'bad'), '403 -', '... not let in');

is(got('ways', '/piece'), 'MISS <>:-', 'auth_request: a piece for all');
stored('<ways>http://ways/piece', $m);
like(got('ways', '/whole/1', cookie => $_), qr/ <$_>:\Q$_/,
    "... as a part of a page: $_") for 'good 1', 'good 2';
is(got('ways', '/piece'), 'HIT <>:-', '... and for all again');


# what either of the two locations says about cookies and stores

for my $way ('session', 'bypass', 'never') {
    is(got('ways', "/$way/1", cookie => 'SID=alice')
        =~ s/^\w+ \w+:|^\w+ -://r, 'SID=alice', "$way: alice");
    is(got('ways', "/$way/1", cookie => 'SID=bob') =~ s/^\w+ \w+:|^\w+ -://r,
        'SID=bob', "$way: bob");
    like(got('ways', "/$way/1"), qr/^MISS .*:-$/, "$way: a stranger");
    stored("<ways>http://ways/$way/1", $m);
    like(got('ways', "/$way/1"), qr/^HIT .*:-$/, "$way: another one");
}

is(got('ways', '/off/1', cookie => $_), "BYPASS -:$_", "off: $_")
    for 'a', 'b';

is(got('ways', '/key/1', cookie => 'SID=a'), 'MISS -:SID=a', 'its key: a');
is(got('ways', '/key/1', cookie => 'SID=b'), 'MISS -:SID=b', '... b');
stored('<ways>ways/key/1+b', $m);
is(got('ways', '/key/1', cookie => 'SID=b'), 'HIT -:SID=b', '... b again');

is(http_get($t->port('ways'), '/key/1', method => 'POST', body => 'x',
    host => 'ways', headers => [Cookie => 'SID=b'])->status(), 200,
    '... b posts');
is(got('ways', '/key/1', cookie => 'SID=b'), 'MISS -:SID=b',
    '... and its page has gone');

is(got('ways', '/pool/1'), 'MISS -:-', 'its pool: built');
stored('<ways>http://ways/pool/1', $two);
is(got('ways', '/pool/1', cookie => 'x'), 'HIT -:-', '... found');


# what nginx chose, for one and the same request line

for my $first (0, 1) {
    for my $c (
        ['/a', 'secret', { friend => 1 }, 'login', {}],
        ['/c', 'plain', {}, 'other', { cookie => 'x=1' }],
        ['/beta', 'old', {}, 'new', { cookie => 'beta=1' }],
        ["/break", "/break/$first", {}, "/broken/$first",
            { cookie => 'beta=1' }],
        ['/args', '-', {}, 'new=1', { cookie => 'beta=1' }])
    {
        my ($dir, @ways) = @$c;
        my @each = ([@ways[0, 1]], [@ways[2, 3]]);
        @each = reverse @each if $first;

        for my $try (1 .. 4) {
            for my $way (@each) {
                my ($as, $who) = @$way;
                my $r = got('ways', "$dir/$first", %$who);
                like($r, qr/^\w+ \Q$as\E:/, "$dir, $first, $as: $try");
            }
        }

        for my $way (@each) {
            my ($as, $who) = @$way;
            ok(wait_for(sub {
                got('ways', "$dir/$first", %$who) =~ /^HIT \Q$as\E:/ }),
                "$dir, $first, $as: in the cache");
        }
    }
}

for my $try (1, 2) {
    is(got('ways', '/drop/1?x=1') =~ s/^\w+ //r, 'args=:-',
        "the client's arguments dropped: $try");
    is(got('ways', '/drop/1?x=1', cookie => 'beta=1') =~ s/^\w+ //r,
        'args=x=1:beta=1', "... and kept: $try");
}

for my $uri ('/utm/1', '/lead/1') {
    is(got('ways', "$uri?utm_a=1&b=2"), "MISS $uri:-",
        "try_files with arguments: $uri");
    stored("<ways>http://ways$uri?b=2", $m);
    is(got('ways', "$uri?b=2&utm_a=2"), "HIT $uri:-",
        '... those that the key leaves out do not tell pages apart');
}

# an argument of the client that nginx has removed, and whose text is a part of
# one that nginx has added

for (['/role/1', 'role=admin', 'role=guest'],
    ['/elor/1', 'admin=role', 'guest=role'])
{
    my ($uri, $admin, $guest) = @$_;

    is(got('ways', "$uri?admin", cookie => 'role=admin'),
        "MISS $admin:role=admin", "a part of an own argument: $uri, the admin");
    stored("<ways>http://ways$uri", $m);
    is(got('ways', "$uri?guest", cookie => 'role=guest'),
        "MISS $guest:role=guest", '... a guest');
}

# an argument of the client that nginx has replaced by the same one: the key
# must have it

is(got('ways', '/listed/1?role=admin', cookie => 'role=admin'),
    'MISS role=admin:role=admin', 'the same argument: the admin');
stored('<ways>http://ways/listed/1?role=admin', $m);
is(got('ways', '/listed/1?role=guest', cookie => 'role=guest'),
    'MISS role=guest:role=guest', '... a guest');
is(got('ways', '/listed/1?role=admin', cookie => 'role=guest'),
    'MISS role=guest:role=guest', '... a guest with that of the admin');


# a purge is of all ways

is(http_get($t->port('ways'), '/a/0', method => 'PURGE', host => 'ways',
    local => '127.0.0.9')->status(), 200, 'purged');
like(got('ways', '/a/0', @$_), qr/^(?:STALE|EXPIRED) /, 'all ways') for
    [friend => 1], [];


# the application is asked each time, and what it refuses stays refused

my $n = () = $o->requests('/accel/plain');

is(got('ways', '/accel/plain') =~ s/^\w+ //r, 'inner:-',
    'X-Accel-Redirect: led on');
ok(wait_for(sub { got('ways', '/accel/plain') =~ /^HIT inner:-/ }),
    '... the page of the location that it names is stored');
is(got('ways', '/accel/plain', cookie => 'bad'), '403 MISS',
    '... the application refuses');
cmp_ok(scalar $o->requests('/accel/plain'), '>', $n + 2,
    '... it was asked each time');

for my $say (qw/vary star none pragma cdn/) {
    is(got('ways', "/accel/$say", cookie => $_), "MISS inner:$_",
        "X-Accel-Redirect, $say: $_") for 'a', 'b';
}


for my $more ([], ['Range', 'bytes=0-9'], ['If-None-Match', '"x"']) {
    is(http_get($t->port('ways'), '/accel/refused', host => 'ways',
        headers => $more)->body(), 'page',
        "X-Accel-Redirect to a refusal that has a page, @$more");
}


# a page and a counter of one key are two things

is(got('ways', '/same/1'), 'MISS 0:-',
    'a page whose key is that of a counter');
stored('<ways>page', $m);
is($m->get('page'), '1', '... the counter');
is(got('ways', '/same/2'), 'HIT 0:-', '... the page is there');
is($m->get('page'), '2', '... and the counter counts on');


# files are no pages

is(got('ways', '/file.html'), '- a file', 'a file') for 1, 2;
ok(!grep({ /file\.html/ } $m->keys()), '... is not stored');

$t->done();
