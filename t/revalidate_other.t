#!/usr/bin/perl

# Copyright (C) mcds authors

# RFC 9111, 4.3.4: a 304 of another page than the stored one selects nothing.
# The origin is asked again, for the whole page: by the request that builds,
# whatever its client is, and by a refresh.  Where that cannot be, the client
# gets an error, and is told that the connection is closed.  A 304 that the
# origin was not asked for goes to its client, and the page stays.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new()->needs('http_v2', 'curl')->not_in('many',
    'it looks at few workers');
$t->needs('mcds large');

my $m = $t->memcached('m');

# says "not modified", and "2", to all that have a validator

my $large = join '', map { sprintf "%07d\n", $_ } 1 .. 300000;

# other validators, of the page and of the 304: Last-Modified of another
# version, an older one if files were restored; a strong ETag for a page that
# has none

my ($d1, $d2) = map { "Mon, 28 Sep 2020 06:00:0$_ GMT" } 1, 2;
my @d1 = ('Last-Modified' => $d1);
my @d2 = ('Last-Modified' => $d2);
my ($same, $other) = ('REVALIDATED page 1', 'EXPIRED page 3');

my %others = (
    'date-older' => [\@d2, \@d1, $other],
    'date-same' => [\@d2, \@d2, $same],
    'date-form' => [\@d2, ['Last-Modified' =>
        'Monday, 28-Sep-20 06:00:02 GMT'], $same],
    'date-none' => [\@d2, [], $same],
    'date-new' => [[ETag => '"1"'], \@d2, $same],
    'date-odd' => [\@d2, ['Last-Modified' => 'now'], $other],
    'date-odd-same' => [['Last-Modified' => 'now'],
        ['Last-Modified' => 'now'], $same],
    'etag-gone' => [[ETag => '"1"', @d2], \@d1, $other],
    'etag-same' => [[ETag => '"1"', @d2], [ETag => '"1"', @d1], $same],
    'etag-strong' => [\@d2, [ETag => '"2"', @d2], $other],
    'etag-weak' => [\@d2, [ETag => 'W/"2"', @d2], $same],
    'etag-weak-older' => [\@d2, [ETag => 'W/"2"', @d1], $other],
);

my $answer = sub {
    my ($o, $q) = @_;
    my @life = ('Cache-Control' => 'max-age=60'
        . ($q->{path} =~ /must/ ? ', must-revalidate' : ''));

    my ($page, $confirms) = @{ $others{$q->{path} =~ m{([^/]+)$} ? $1 : ''}
        // [[ETag => '"1"'], [ETag => '"2"']] };

    return { status => 304, headers => [@life, @$confirms] }
        if $q->{headers}{'if-none-match'}
        || $q->{headers}{'if-modified-since'};

    return { headers => [@life, @$page], body =>
        $q->{path} =~ /large/ ? $large . $q->{k} : "page $q->{k}" };
};

my $o = $t->origin('o', $answer);
my $f = $t->origin('f', $answer, fastcgi => 1);

my $lua = $t->has('ngx_http_lua_module.so');
my @lua = $lua ? ($t->has('ndk_http_module.so'), $lua) : ();

my $conf = <<'EOT';
LOAD
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_revalidate on;
    mcds_cache_background_update off;
    mcds_cache_wait 30s;
    upstream kept { server 127.0.0.1:%%PORT_o%%; keepalive 4; }
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_h2c%% http2;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /kept/ {
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass http://kept;
        }
        location /unbuffered/ {
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /alone/ {
            mcds_cache_lock off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /behind/ {
            mcds_cache_background_update 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /strict/ {
            mcds_cache_use_stale off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fcgi/ {
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_pass 127.0.0.1:%%PORT_f%%;
        }
        location /any/ {
            mcds_cache_revalidate off;
            mcds_cache_valid any 60s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off/ {
            mcds_cache_revalidate off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi/ {
            ssi on;
            ssi_types text/plain;
            mcds_cache off;
            return 200 '<!--# include virtual="/fill/ssi" -->.';
        }
        LUA
    }
}
EOT

my $inside = <<'EOT';
        location /lua/ {
            mcds_cache_use_stale off;
            content_by_lua_block {
                if ngx.var.http_if_none_match then return ngx.exit(304) end
                ngx.header["Cache-Control"] = "max-age=60, must-revalidate"
                ngx.header["ETag"] = '"1"'
                ngx.say("page")
            }
        }
EOT

$conf =~ s/LUA\n/$lua ? $inside : "\n"/e;
$conf =~ s/LOAD\n/$lua ? join '', map { "load_module $_;\n" } @lua : "\n"/e;

my $h = $t->nginx('h', $conf);

sub which {
    my ($r) = @_;
    return join ' ', $r->status(), $r->header('X-Cache') // '-',
        $r->body() =~ /(page \d+)/ ? $1 : length $r->body();
}

# fills, and makes it expire

sub expired {
    my ($uri, $ms) = @_;
    $h->get($uri);
    ok(page_wait($m, key($uri)), "$uri: filled");
    page_expire($m, key($uri), $ms // 100_000);
}

sub validators {
    my ($origin, $uri) = @_;
    return join ' ', map { $_->{headers}{'if-none-match'} // '-' }
        $origin->requests($uri);
}


# the request that builds

for my $c (map({ ["/$_/1", $o] } qw/ fill must kept unbuffered alone strict /),
    ['/fcgi/1', $f])
{
    my ($uri, $origin) = @$c;

    expired($uri);
    is(which($h->get($uri)), '200 EXPIRED page 3', "$uri: the new page");
    is(validators($origin, $uri), '- "1" -', "$uri: asked again, for all");

    my $e = refresh_wait($m, key($uri));
    is($e->{body}, 'page 3', "$uri: which is stored");
    is(which($h->get($uri)), '200 HIT page 3', "$uri: and used");
    is($origin->count($uri), 3, "$uri: not asked any more");
}

# its connection stays, and the next request is answered

expired('/must/conn');
my $c = $h->conn();
is(which($c->get('/must/conn')), '200 EXPIRED page 3', 'keepalive: one page');
is(which($c->get('/must/conn')), '200 HIT page 3', 'keepalive: the next one');

# all that wait for it

expired('/must/herd');
$o->hold_path('/must/herd');
my @p = map { start_get($h->port(), '/must/herd') } 1 .. 10;
$o->wait_requests(2, '/must/herd');
$h->get('/none/1');
$o->release('/must/herd');
my %seen;
$seen{which(finish($_))}++ for @p;
is_deeply(\%seen, { '200 EXPIRED page 3' => 1, '200 HIT page 3' => 9 },
    'a herd: one has asked again for all');
is($o->count('/must/herd'), 3, 'a herd: by one request more');

# in HTTP/2

expired('/must/two');
my @curl = ('-si', '--http2-prior-knowledge', '-H', 'Host: localhost');
my $h2c = 'http://127.0.0.1:' . $t->port('h2c');
like($t->curl(@curl, "$h2c/must/two"),
    qr{^HTTP/2 200.*x-cache: EXPIRED.*page 3$}s, 'HTTP/2');

# a page within a page

expired('/fill/ssi');
is($h->get('/ssi/')->body(), 'page 3.', 'in a subrequest');

# a request for a part, and one under a condition, wait for a copy of them

expired('/must/part');
my $r = $h->get('/must/part', headers => [Range => 'bytes=5-5']);
is($r->status() . $r->body(), '2063', 'a range of the new page');
expired('/must/met');
is($h->get('/must/met', headers => ['If-None-Match' => '"1"'])->status(), 304,
    'a condition that the new page meets');
is(validators($o, '/must/met'), '- "1" -', '... of which the origin was asked');

# one in parts

expired('/must/large');
ok($h->get('/must/large')->body() eq $large . 3, 'a page in parts');

# a client that leaves before the second answer lets another one build

expired('/must/leave');
$o->hold_path('/must/leave');
my $p = start_get($h->port(), '/must/leave');
$o->wait_requests(2, '/must/leave');
$o->let('/must/leave');
$o->wait_requests(3, '/must/leave');
$p->reset();
$o->release('/must/leave');
ok(wait_for(sub { ($m->get(key('/must/leave') . ':lock') // '') eq '' }),
    'its client leaves');
like(which($h->get('/must/leave')), qr/^200 (?:EXPIRED|HIT) page/,
    '... and the next one gets a page');

# a refresh

expired('/behind/1', 1000);
is(which($h->get('/behind/1')), '200 STALE page 1', 'refresh: the old page');
is(refresh_wait($m, key('/behind/1'))->{body}, 'page 3', 'refresh: a new one');
is(validators($o, '/behind/1'), '- "1" -', 'refresh: asked again');


# other validators

for my $name (sort keys %others) {
    my $want = $others{$name}[2];
    my $uri = "/must/$name";

    expired($uri);
    is(which($h->get($uri)), "200 $want", "$name: the page");
    is($o->count($uri), $want =~ /EXPIRED/ ? 3 : 2, "$name: requests");
    is(refresh_wait($m, key($uri))->{body}, $want =~ s/.*(?=page)//r,
        "$name: is stored");
}


# an origin that says the same without a validator

sub stays {
    my ($uri, $what) = @_;
    ok(wait_for(sub { !defined $m->get(key($uri) . ':lock') }),
        "$what: has ended");
    is(page_decode($m->get(key($uri)))->{kind}, 0, "$what: the page stays");
}

my %same = (status => 304, headers => [ETag => '"2"',
    'Cache-Control' => 'max-age=60']);

for my $uri ('/must/same', '/off/same', '/any/same') {
    expired($uri);
    $o->set($uri, \%same);
    $o->mark();
    is($h->get($uri)->status(), 304, "$uri: unasked: goes to its client");
    is($o->count($uri), $uri =~ /must/ ? 2 : 1, "$uri: it is not asked on");
    stays($uri, "$uri: unasked");
    $o->set($uri);
    like(which($h->get($uri)), qr/^200 EXPIRED page/, "$uri: the next builds");
}

expired('/behind/same', 1000);
$o->set('/behind/same', \%same);
is(which($h->get('/behind/same')), '200 STALE page 1', 'a refresh: unasked');
$o->wait_requests(3, '/behind/same');
stays('/behind/same', 'a refresh: unasked');

$o->set('/any/new', \%same);
is($h->get('/any/new')->status(), 304, 'no page: unasked');
$o->set('/any/new');
is(which($h->get('/any/new')), '200 MISS page 2', 'no page: is none then');


# it is no upstream that answers

SKIP: {
    skip 'no Lua', 6 unless $lua;

    expired('/lua/1');
    $c = $h->conn();
    $r = $c->get('/lua/1');
    is($r->status(), 502, 'no upstream: an error');
    is($r->header('Connection'), 'close', 'no upstream: which says so');
    ok($c->closed(20), 'no upstream: the connection is closed');

    my $all = $t->curl(@curl, "$h2c/lua/1");
    like($all, qr{^HTTP/2 502.*</html>\s*$}s, 'no upstream: HTTP/2');
    unlike($all, qr/^connection/im, 'no upstream: which has no such header');
}

$t->done(keep => ['o']);
