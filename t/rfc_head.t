#!/usr/bin/perl

# Copyright (C) mcds authors

# RFC 9111, 4.3.5: a HEAD that the origin answers tells whether the stored page
# is still the one that it would send; when it is, it is fresh again, with the
# headers of that answer, and when it is another, it is stale from now on, and
# rebuilt once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m = $t->memcached('m');

$t->write_file('key', 'a secret of some length');

# what GET and HEAD of a path are answered with

my $date = 'Mon, 28 Sep 1970 06:00:00 GMT';
my %get = ('ETag' => '"1"', 'Last-Modified' => $date);

my %head = (
    same => { %get },
    counted => { %get },
    quiet => {},
    etag => { %get, ETag => '"2"' },
    weak => { %get, ETag => 'W/"1"' },
    date => { %get, 'Last-Modified' => 'Tue, 29 Sep 1970 06:00:00 GMT' },
    length => { %get },
    error => { %get, ETag => '"2"' },
    off => { %get, ETag => '"2"' },
    vary => { %get, ETag => '"2"' },
    must => { %get, ETag => '"2"' },
    gained => { %get },
    hidden => { %get },

    renew => { %get },
    renew_date => { 'Last-Modified' => $date },
    renew_vary => { %get },
    renew_must => { %get },
    renew_rule => { %get },
    renew_purged => { %get },
    renew_quiet => {},
    renew_private => { %get, 'Cache-Control' => 'private' },
    renew_hidden => { %get, ETag => '"2"' },
    renew_large => { %get },
);
my %bodies = (renew_large => join '', map { "line $_\n" } 1 .. 300_000);

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($how) = $q->{path} =~ /(\w+)$/;
    my $head = $q->{method} eq 'HEAD';

    return {
        status => $head && $how eq 'error' ? 404 : 200,
        headers => [%{{ 'Cache-Control' => $how =~ /must/
            ? 'max-age=600, must-revalidate' : 'max-age=600',
            $head ? %{$head{$how}} : $how eq 'gained' ? () : %get }},
            'X-By' => $q->{method}, $how =~ /vary/ ? (Vary => 'X-A') : ()],
        body => $head && $how eq 'length' ? 'longer body'
            : $bodies{$how} // 'body',
    };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_request_control on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /renew_rule {
            mcds_no_cache $http_x_no;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /hidden {
            proxy_hide_header ETag;
            proxy_hide_header Last-Modified;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /renew_hidden {
            proxy_hide_header ETag;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off {
            mcds_cache_invalidate off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /counted {
            mcds_cache off;
            mcds_counter $n key=n;
            add_header X-Number $n;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /signed/ {
            mcds_cache_hmac_key %%TMP%%/key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

sub get {
    my ($host, $uri, $method, @headers) = @_;
    return $hosts[$host]->get($uri, method => $method, headers => [@headers]);
}

# a page, a HEAD that does not accept it, and what others see then

sub after_head {
    my ($uri, @headers) = @_;

    get(0, $uri, 'GET', @headers);
    page_wait($m, key($uri)) or die "$uri is not stored\n";

    my $before = get(1, $uri, 'GET', @headers)->header('X-Cache');
    my $r = get(0, $uri, 'HEAD', @headers, 'Cache-Control' => 'no-cache');
    my $after = get(1, $uri, 'GET', @headers)->header('X-Cache');

    return join ' ', $before, $r->header('X-Cache'), $after;
}

is(after_head("/$_"), 'HIT BYPASS HIT', "$_: the same page stays")
    for qw/ same error off /;

# it may be another page, also where nothing tells that it is the same

for my $uri ('/hidden', map { ("/$_", "/signed/$_") } qw/ etag weak date length
    vary quiet gained /)
{
    is(after_head($uri), 'HIT BYPASS STALE', "$uri: another page: stale");
    ok(wait_for(sub { get(1, $uri, 'GET')->header('X-Cache') eq 'HIT' }, 5),
        "$uri: it is rebuilt");
    is(scalar(grep { $_->{method} eq 'GET' } $o->requests($uri)), 2,
        "$uri: once");
}

# only the variant that was asked for

get(0, '/vary', 'GET', 'X-A' => 2);
page_wait($m, key('/vary'));
wait_for(sub { get(1, '/vary', 'GET', 'X-A' => 2)->header('X-Cache')
    eq 'HIT' });
is(after_head('/vary', 'X-A' => 1), 'HIT BYPASS STALE', 'vary: this variant');
is(get(1, '/vary', 'GET', 'X-A' => 2)->header('X-Cache'), 'HIT',
    'vary: not another');

# what must not be shown when it is stale is not

is(after_head('/must'), 'HIT BYPASS EXPIRED', 'must-revalidate: is built');

# what has expired already is not changed any more

{
    page_expire($m, key('/must'), 1000);
    my $before = $m->get(key('/must'));
    my $r = get(0, '/must', 'HEAD');

    is($r->header('X-Cache'), 'EXPIRED', 'expired: HEAD asks the origin');
    is($r->header('ETag'), '"2"', 'expired: there is another page');
    is($m->get(key('/must')), $before, 'expired: the page is left alone');
}

# the page is current: it is fresh again, for all

my $large = $t->has('mcds large');

for my $uri ('/renew_hidden', map { ("/$_", "/signed/$_") } qw/ renew renew_date
    renew_vary renew_must /, $large ? 'renew_large' : ())
{
    my ($how) = $uri =~ /(\w+)$/;
    my $body = $bodies{$how} // 'body';

    after_head($uri);

    my $r;
    ok(wait_for(sub {
        $r = get(1, $uri, 'GET');
        return $r->header('X-By') eq 'HEAD';
    }), "$uri: the page has the headers of the HEAD");
    is($r->header('X-Cache'), 'HIT', "$uri: is there");
    ok($r->body eq $body, "$uri: and has its own body");

    next if $uri =~ /vary|signed/;

    page_expire($m, key($uri), 1000);
    is(get(0, $uri, 'HEAD', 'Cache-Control' => 'no-cache')->status, 200,
        "$uri: expired");
    ok(wait_for(sub { page_decode($m->get(key($uri)))->{expire}
        > 1000 * time() }), "$uri: it is fresh again");
    is(get(1, $uri, 'GET')->header('X-Cache'), 'HIT', "$uri: is shown");
    cmp_ok(get(1, $uri, 'GET')->header('Age'), '<', 60, "$uri: of now");
    is(scalar(grep { $_->{method} eq 'GET' } $o->requests($uri)), 1,
        "$uri: the origin was asked for it once");
}

# two at a time: the parts of the page stay whichever of them renews it

if ($large) {
    my $uri = '/renew_large';
    my $port = $hosts[0]->port();

    $o->hold_path($uri);
    my @heads = map { start_get($port, $uri, method => 'HEAD',
        headers => ['Cache-Control' => 'no-cache']) } 1, 2;
    $o->wait_requests(2, $uri);
    $o->release($uri);
    is(finish($_)->header('X-Cache'), 'BYPASS', 'two at a time: asked')
        for @heads;

    get(0, '/same', 'GET') for 1 .. 3;

    my $r = get(1, $uri, 'GET');
    is($r->header('X-Cache'), 'HIT', 'two at a time: the page stays');
    ok($r->body eq $bodies{renew_large}, 'two at a time: all of it');

    my @keys = grep { /^<>[^:]*:\/\/localhost\Q$uri\E(?!:lock)/ } $m->keys();
    cmp_ok(scalar(@keys), '>', 2, 'two at a time: there are parts');
    is(scalar(grep { $m->ttl($_) >= 0 } @keys), 0,
        'two at a time: none is to go');
}

# it is not: the answer does not say so, or is for one client, or it was purged

get(0, "/renew_$_", 'GET') for qw/ quiet rule purged private /;

for my $how (qw/ quiet rule purged /) {
    my $key = key("/renew_$how");

    page_expire($m, $key, 1000, $how eq 'purged' ? (flags => 4) : ());

    my $before = $m->get($key);

    is(get(0, "/renew_$how", 'HEAD', 'Cache-Control' => 'no-cache', 'X-No' => 1)
        ->status, 200, "$how: HEAD");
    get(0, '/same', 'GET');
    is($m->get($key), $before, "$how: the page is left alone");
}

get(0, '/renew_private', 'HEAD', 'Cache-Control' => 'no-cache');
ok(wait_for(sub { page_decode($m->get(key('/renew_private')))->{expire}
    <= 1000 * time() }), 'private from now on: stale');

# where no pages are kept

is(get(0, '/counted', 'HEAD')->header('X-Number'), 1, 'no cache: as ever');

# memcached does not answer: the client is not made to wait for long

$m->freeze();
is(get(0, '/etag', 'HEAD', 'Cache-Control' => 'no-cache')->status, 200,
    'memcached hangs: answered');
$m->cont();

$t->allow(qr/mcds|memcached|invalidated/);
$t->done();
