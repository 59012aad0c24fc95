#!/usr/bin/perl

# Copyright (C) mcds authors

# A conditional request, or one for a range, has its page built by a copy of it.
# An answer that cannot be stored is for the request itself then: the origin is
# asked once, and the client gets what it has asked for.  Only where the answer
# is too large to be held, or has no length while a part of it is asked for, the
# request goes to the origin as it came.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

my $m = $t->memcached('m');
my $date = 'Mon, 28 Sep 1970 06:00:00 GMT';
my @life = ('Cache-Control' => 'max-age=60');
my @tags = (ETag => '"1"', 'Last-Modified' => $date);
my $body = join '', 'a' .. 'z';

# as an origin does it that knows conditions and ranges

my %kinds = (
    private => { headers => ['Cache-Control' => 'private, max-age=60',
        'X-More' => 1, Link => '<a>', Link => '<b>'] },
    cookie => { headers => [@life, 'Set-Cookie' => 'a=b',
        'Set-Cookie' => 'c=d'] },
    404 => { status => 404, headers => ['X-More' => 1] },
    403 => { status => 403, headers => ['X-More' => 1] },
    429 => { status => 429, headers => ['Retry-After' => 7] },
    401 => { status => 401, headers => ['WWW-Authenticate' => 'Basic x'] },
    503 => { status => 503, headers => ['Retry-After' => 7] },
    302 => { status => 302, headers => [Location => '/there'] },
    empty => { headers => ['Cache-Control' => 'private'], body => '' },
    chunked => { headers => ['Cache-Control' => 'private'], chunked => 1 },
    large => { headers => [@life], body => $body x 400 },
    huge => { headers => ['Cache-Control' => 'private'],
        body => $body x 50000 },
    typed => { headers => ['Cache-Control' => 'private',
        'Content-Type' => 'text/plain; charset=utf-8'] },
);

my $answer = sub {
    my ($o, $q) = @_;

    # an answer that never ends, and then a good one

    return $q->{k} > 1 ? { headers => [@life], body => 'good' }
        : { headers => ['Cache-Control' => 'private'], chunked => 1,
            length => undef, parts => ['a', ['b', 3600]] }
        if $q->{path} eq '/short/endless';

    my ($kind) = $q->{path} =~ m{/(\w+)$};
    my $ok = $kinds{$kind}
        && ($q->{path} =~ m{^/now/} || $q->{k} > ($q->{path} =~ m{^/old/}));
    my %a = $ok ? %{$kinds{$kind}} : (headers => [@life]);
    my $old = $ok ? 1 : 0;
    my $of = $a{status} ? $a{body} // "status $a{status}" : $a{body} // $body;

    $a{headers} = [@{$a{headers}}, @tags] if !$a{status};

    if (!$a{status} && $ok
        && (($q->{headers}{'if-none-match'} // '') eq '"1"'
            || ($q->{headers}{'if-modified-since'} // '') eq $date))
    {
        return { status => 304, headers => $a{headers} };
    }

    if (!$a{status} && ($q->{headers}{range} // '') =~ /bytes=(\d+)-(\d+)/) {
        return { status => 206, body => substr($of, $1, $2 - $1 + 1),
            headers => [@{$a{headers}},
                'Content-Range' => "bytes $1-$2/" . length $of] };
    }

    return { %a, body => $of };
};

my $o = $t->origin('o', $answer);
my $f = $t->origin('f', $answer, fastcgi => 1);

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_max_size 10k;
    mcds_cache_background_update off;
    proxy_http_version 1.1;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /fcgi/ {
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_pass 127.0.0.1:%%PORT_f%%;
        }
        location /short/ {
            mcds_cache_lock_timeout 1s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /zero/ {
            mcds_cache_lock_timeout 0;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /nobody/ {
            mcds_cache_max_waiters 0;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /rule/ {
            mcds_no_cache $http_x_no;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /page/ {
            proxy_intercept_errors on;
            error_page 404 /sorry;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /sorry { internal; return 200 sorry; }
    }
}
EOT

# all headers but those that differ each time

sub lines {
    my ($r) = @_;
    return join "\n", sort grep { !m{^(?:Date|X-Answer|X-Cache|Connection
        |Content-Length|Transfer-Encoding):|^HTTP}x } split /\r\n/, $r->head();
}

my %asked = (
    inm => ['If-None-Match' => '"1"'],
    other => ['If-None-Match' => '"2"'],
    since => ['If-Modified-Since' => $date],
    range => [Range => 'bytes=2-5'],
);

# how many requests: those of which the answer cannot be held make two

sub requests {
    my ($place, $kind, $how) = @_;
    my $length = $place ne 'fcgi' && $kind ne 'chunked';

    return 2 if $kind eq 'huge' || $kind eq 'large' && !$length;
    return 2 if !$kinds{$kind}{status} && !$length && $how eq 'range';
    return 1;
}

for my $place ('cold', 'old', 'fcgi') {
    for my $kind (sort keys %kinds) {

        next if $place eq 'fcgi' && $kind eq 'chunked';

        # the old page is shown

        next if $place eq 'old' && $kind eq '503';

        # an answer of FastCGI has no length


        my $origin = $place eq 'fcgi' ? $f : $o;
        my $plain = $h->get(($place eq 'fcgi' ? '/fcgi' : '')
            . "/now/plain/$kind");

        for my $how (sort keys %asked) {
            next if $kind eq 'empty' && $how eq 'range';

            my $uri = "/$place/$how/$kind";
            my $name = "$place $kind $how";
            my $r;

            if ($place eq 'old') {
                $h->get($uri);
                page_wait($m, key($uri));
                page_expire($m, key($uri), 400_000);
            }

            $origin->mark();
            $r = $h->get($uri, headers => $asked{$how});

            my $status = $kinds{$kind}{status} // ($how eq 'range' ? 206
                : $how eq 'other' ? 200 : 304);

            is($origin->count($uri), requests($place, $kind, $how),
                "$name: requests");
            is($r->status(), $status, "$name: status");

            if ($status == 206) {
                is($r->body(), 'cdef', "$name: the part");

            } elsif ($status == 304) {
                ok($r->body() eq '', "$name: no body");
                is($r->header('ETag'), '"1"', "$name: its ETag");

            } elsif ($kind ne 'empty') {
                ok($r->body() eq $plain->body(), "$name: the body");
                is(lines($r), lines($plain), "$name: the headers");
            }

            is(join(',', $r->all('Set-Cookie')), 'a=b,c=d', "$name: cookies")
                if $kind eq 'cookie';
        }
    }
}

# what a mark says is one request

for my $how (sort keys %asked) {
    my $uri = "/cold/$how/private";
    $o->mark();
    like($h->get($uri, headers => $asked{$how})->header('X-Cache'),
        qr/^MISS uncacheable/, "$how: a mark");
    is($o->count($uri), 1, "$how: one request");
}

# those who wait beside it go to the origin, each for itself

my $uri = '/cold/herd/private';
$o->hold_path($uri);
my @p = (start_get($h->port(), $uri, headers => $asked{inm}));
$o->wait_requests(1, $uri);
push @p, map { start_get($h->port(), $uri) } 1 .. 3;
$h->get('/now/plain/private');
$o->release($uri);
is(join(' ', map { finish($_)->status() } @p), '304 200 200 200', 'a herd');
is($o->count($uri), 4, 'a herd: one request for each');

# an answer about this one request lets another one build

$uri = '/rule/1';
$o->hold_path($uri);
@p = (start_get($h->port(), $uri, headers => ['X-No' => 1, @{$asked{inm}}]));
$o->wait_requests(1, $uri);
push @p, map { start_get($h->port(), $uri) } 1 .. 3;
$h->get('/now/plain/private');
$o->set($uri, { headers => [@life, @tags] });
$o->release($uri);
my @r = map { finish($_) } @p;
is(join(' ', map { $_->status() } @r), '304 200 200 200', 'a rule');
is($o->count($uri), 2, 'a rule: one request, and one that builds');

# an answer that breaks off is none, and neither is one that never ends

$uri = '/short/broken';
$o->set($uri, { headers => ['Cache-Control' => 'private'], body => $body,
    truncate => 3 });
$p[0] = start_get($h->port(), $uri, headers => $asked{inm});
ok($o->wait_requests(2, $uri), 'broken: is asked');
$o->set($uri, { body => 'good' });
$p[0]->reset();

$uri = '/short/endless';
$p[0] = start_get($h->port(), $uri, headers => $asked{inm});
ok($o->wait_requests(1, $uri), 'endless: is asked');
ok($o->wait_requests(2, $uri), 'endless: and once more');
is(finish($p[0])->body(), 'good', 'endless: which is answered');

# a client that leaves takes its copy along

$o->set('/leave', { headers => ['Cache-Control' => 'private'], chunked => 1,
    parts => ['a', ['b', 3600]] });
my $p = start_get($h->port(), '/leave', headers => $asked{inm});
$o->wait_requests(1, '/leave');
ok(wait_for(sub { $m->get(key('/leave')) }), 'leaves: the header has come');
$p->reset();
ok(wait_for(sub { ($o->requests('/leave'))[0]{aborted} }),
    'leaves: the origin is let go');

# if no request may wait, the request whose page is built in the background goes
# to the origin as it came; another one is refused

for my $place ('zero', 'nobody') {
    for my $how (sort keys %asked) {
        my $name = "$place $how";
        $uri = "/$place/$how";
        $o->set($uri, { status => 200, headers => [@life, @tags],
            body => $body });
        $o->hold_path($uri);
        $p = start_get($h->port(), $uri, headers => $asked{$how});
        ok($o->wait_requests(2, $uri), "$name: two requests");
        is($h->get($uri)->status(), 503, "$name: another client");
        $o->release($uri);
        is(finish($p)->body(), $body, "$name: the origin's response");
        page_wait($m, key($uri));
        like($h->get($uri, headers => $asked{$how})->header('X-Cache'),
            qr/^HIT/, "$name: the page is stored");
    }
}

# what stands for an error is not the answer, and nor is it asked for twice by
# those without a condition

$uri = '/page/404';
$o->mark();
is($h->get($uri, headers => $asked{inm})->body(), 'sorry', 'an error page');
is($o->count($uri), 2, 'an error page: two requests');

$t->allow(qr/upstream prematurely closed/);
$t->done(keep => ['o', 'f']);
