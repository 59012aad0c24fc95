#!/usr/bin/perl

# Copyright (C) mcds authors

# The states of a request in the cache: the debug log has each change, and each
# change is an arrow of the drawing in ngx_http_mcds_state.h.  Requests of all
# kinds take all arrows but those of a worker without memory.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->needs('debug');
$t->needs('mcds vary');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $path = $q->{path};

    return { status => 500 } if $q->{headers}{'x-fail'};

    return { headers => ['Cache-Control' => $path =~ /none/ ? 'no-store'
            : $path =~ /each/ ? 'no-cache'
            : $path =~ /must/ ? 'max-age=60, must-revalidate'
            : $path =~ /error/ ? 'max-age=60, stale-if-error=600'
            : 'max-age=60', $path =~ /vary/ ? (Vary => 'X-A') : (),
            $path =~ /each/ ? (ETag => '"1"') : (),
            $path =~ m{/accel/(\w+)}
            ? ('X-Accel-Redirect' => "/$1/file") : ()],
        body => "answer $q->{k}",
        hold => $path !~ /file/ && $q->{headers}{'x-hold'} };
});

my $h = $t->nginx('h', <<'EOT', log => 'debug');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_request_control on;
    mcds_cache_bypass $arg_bypass;
    mcds_cache_invalidate on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /uses/ {
            mcds_cache_min_uses 2;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /unlocked/ {
            mcds_cache_min_uses 2;
            mcds_cache_lock off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /strict/ {
            mcds_cache_grace 0;
            mcds_cache_background_update off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /unlocked/strict/ {
            mcds_cache_grace 0;
            mcds_cache_background_update off;
            mcds_cache_lock off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /each/ {
            mcds_cache_revalidate on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /users/ {
            mcds_cache_session_cookies sid;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /short/ {
            mcds_cache_lock_timeout 200ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /route/ {
            if ($arg_other) { proxy_pass http://127.0.0.1:%%PORT_o%%; }
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /tried/ { try_files /none @purged; }
        location /tried/unsafe/ {
            mcds_cache_invalidate off;
            try_files /none @purged;
        }
        location @purged {
            mcds_purge_api method=PURGE $http_x_purge;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /purged/ {
            mcds_purge_api method=PURGE mode=refresh;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT


# a page is in memcached

sub fill {
    my ($uri, @h) = @_;
    $h->get($uri, headers => [@h]);
    page_wait($m, key($uri)) or die "$uri is not stored\n";
}

# until a second request waits for the page that the first one builds

sub wait_waiting {
    my ($uri) = @_;
    wait_for(sub {
        $h->log_count(qr/LOOKUP -> WAIT "[^"]*localhost\Q$uri\E"/) == 2
    }) or die "no request waits for $uri\n";
}

sub control { return (headers => ['Cache-Control' => shift]) }


fill('/plain/a');
is($h->get('/plain/a')->header('X-Cache'), 'HIT', 'a hit');
is($h->get('/plain/a', method => 'HEAD')->header('X-Cache'), 'HIT', 'HEAD');
$h->get('/plain/a?bypass=1');
$h->get('/plain/b', method => 'HEAD');
$h->get('/plain/a', method => 'POST');
$h->get('/off');

is($h->get('/plain/c', control('only-if-cached'))->status(), 504,
    'only-if-cached');

# refreshes, and builds by a copy

page_expire($m, key('/plain/b'), 1000) if $h->get('/plain/b')
    && page_wait($m, key('/plain/b'));
is($h->get('/plain/b')->header('X-Cache'), 'STALE', 'a refresh');
is($h->get('/plain/range', headers => [Range => 'bytes=0-1'])->status(), 206,
    'a copy builds');
is($h->get('/none/range', headers => [Range => 'bytes=0-1'])->status(), 206,
    'a copy does not store');
$h->get('/none/again') for 1 .. 2;

# waits

for my $c (['/plain/wait', 200], ['/short/wait', 503], ['/none/wait', 200],
    ['/each/wait', 200], ['/accel/plain/wait', 200])
{
    my ($uri, $status) = @$c;
    my $p = start_get($h->port(), $uri, headers => ['X-Hold' => 1]);
    $o->wait_requests(1, $uri);
    my $q = start_get($h->port(), $uri);
    $status == 503 ? is(finish($q)->status(), 503, "$uri: refused")
        : wait_waiting($uri);
    $o->release($uri);
    is(finish($p)->status(), 200, "$uri: built");
    is(finish($q)->status(), 200, "$uri: waited") if $status == 200;
}

# a page that is not fresh enough for the request that waits for it: the origin
# was asked some milliseconds before that request came

{
    my $p = start_get($h->port(), '/must/a', headers => ['X-Hold' => 1]);
    $o->wait_requests(1, '/must/a');
    my $asked = time();
    wait_for(sub { time() > $asked + 0.02 });
    my $q = start_get($h->port(), '/must/a', control('min-fresh=100'));
    wait_waiting('/must/a');
    $o->release('/must/a');
    finish($_) for $p, $q;
}

# uses, and pages without a lock

$h->get('/uses/a') for 1 .. 3;
$h->get('/unlocked/a') for 1 .. 3;

# routes, variants, and other locations

fill('/vary/a', 'X-A' => 1);
$h->get('/vary/a', headers => ['X-A' => $_]) for 1 .. 3;
$h->get($_, headers => [Cookie => 'sid=1']) for map { ("/accel/$_/a",
    "/accel/$_/b?bypass=1") } qw/ plain off users /;
fill('/route/a');
$h->get('/route/a', headers => ['X-Forwarded-Host' => 'other']) for 1 .. 2;

# errors

for my $uri ('/strict/error', '/unlocked/strict/error') {
    fill($uri);
    page_expire($m, key($uri), 1000);
    is($h->get($uri, headers => ['X-Fail' => 1])->header('X-Cache'), 'STALE',
        "$uri: in place of an error");
}

# purges

fill('/purged/a');
is($h->get('/purged/a', method => 'PURGE')->status(), 200, 'purged');

for my $uri ('/tried/a', '/tried/unsafe/a') {
    fill($uri);
    is($h->get($uri, method => 'PURGE')->status(), 200, "$uri: purged");
    is($h->get($uri, headers => ['X-Purge' => 1])->status(), 200,
        "$uri: purged by GET");
}

# the arrows

my %drawn = drawn('http/cache/ngx_http_mcds_state.h');
my %seen = map { $_ => 1 } $h->log() =~ /mcds request (\w+ -> \w+) "/g;

cmp_ok(scalar(keys %drawn), '>', 20, 'the drawing has arrows');
is_deeply([grep { !$drawn{$_} } sort keys %seen], [],
    'each change is in the drawing');

my @unseen = grep { !$seen{$_} && !/FAILED$/ } sort keys %drawn;
is(join(', ', @unseen), '', 'each change that is drawn was seen');

# those of pages: the ones that a host meets alone are seen

%drawn = drawn('cache/page/ngx_mcds_page_state.h');
%seen = map { $_ => 1 } map { /(\w+), was (\w+)/ ? "$2 -> $1" : () }
    $h->log() =~ /mcds page ".*": (\w+, was \w+)/g;

is_deeply([grep { !$drawn{$_} } sort keys %seen], [],
    'pages: each change is in the drawing');
is_deeply([grep { !$seen{$_} } 'IDLE -> LOCKING', 'LOCKING -> BUILDING',
    'BUILDING -> STORING', 'STORING -> IDLE'], [], 'pages: a build was seen');

$t->done();


# the arrows of a header

sub drawn {
    my ($path) = @_;
    my (%drawn, $from);

    open my $f, '<', "$FindBin::Bin/../src/$path" or die "$path: $!\n";

    while (<$f>) {
        $from = $1 if s/^ \* {3}(\w+) -+> /| /;
        undef $from if !/^(?: \* +)?\| /;
        $drawn{"$from -> $_"} = 1 for defined $from ? /(\w+)/g : ();
    }

    return %drawn;
}
