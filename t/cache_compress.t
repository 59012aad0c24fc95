#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_cache_compress: what is compressed when it is stored, who gets it so and
# with which headers, and that all others get the bytes that they get without.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

use IO::Uncompress::Gunzip qw/ gunzip /;

my $t = Test::Mcds->new();
$t->needs('zstd');

my $m = $t->memcached('m');

my $text = join '', map { "line $_ of a page\n" } 1 .. 2000;
my $small = 'x' x 1000;

my %pages = (
    '/small' => { body => $small },
    '/chunked-small' => { body => $small, chunked => 1 },
    '/chunked' => { chunked => 1 },
    '/pieces' => { parts => [$text =~ /(.{1,900})/gs] },
    '/404' => { status => 404 },
    '/image' => { type => 'image/png' },
    '/svg' => { type => 'image/svg+xml; charset=utf-8' },
    '/json' => { type => 'Application/LD+JSON' },
    '/fixed' => { headers => ['Cache-Control' => 'no-transform'] },
    '/hidden' => { headers => ['Cache-Control' => 'no-transform'] },
    '/cdn' => { headers => ['CDN-Cache-Control' =>
        'max-age=60, no-transform'] },
    '/cdn-lines' => { headers => ['CDN-Cache-Control' => 'no-transform',
        'CDN-Cache-Control' => 'max-age=60'] },
    '/cdn-false' => { headers => ['CDN-Cache-Control' =>
        'max-age=60, no-transform=?0'] },
    '/cdn-bad' => { headers => ['CDN-Cache-Control' => 'no-transform',
        'CDN-Cache-Control' => 'max-age='] },
    '/digest' => { headers => ['Content-Digest' => 'sha-256=:AAAA:'] },
    '/head' => { headers => ['Cache-Control' => 'no-transform'] },
    '/varied' => { headers => [Vary => 'Accept-Encoding'] },
    '/listed' => { headers => [Vary => 'X-A , ACCEPT-ENCODING,X-B'] },
    '/other' => { headers => [Vary => 'X-Accept-Encoding, X-B'] },
);

# /again/: the first response has none of these headers, those after it do, and
# they say that the page is the same

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($name) = $q->{path} =~ m{(/[\w-]+)$};
    my %page = (type => 'text/html', body => $text, headers => [],
        %{ $pages{$name} // {} });
    $page{body} = join '', @{ $page{parts} } if $page{parts};
    $page{headers} = [] if $q->{path} =~ m{^/again/} && $q->{k} == 1;
    $page{status} = 304 if $q->{headers}{'if-none-match'};
    delete $page{body} if $q->{headers}{'if-none-match'};
    return { %page, headers => ['Cache-Control' => 'max-age=60', ETag => '"e"',
        'Content-Type' => delete $page{type}, @{ $page{headers} }] };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_valid 404 1m;
    mcds_cache_key $uri;
    mcds_cache_compress gzip;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /gzip/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /gzip/hidden {
            proxy_hide_header Cache-Control;
            mcds_cache_valid 1m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /off/ {
            mcds_cache_compress off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /zstd/ {
            mcds_cache_compress zstd level=19;
            gzip on;
            gzip_vary on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /all/ {
            mcds_cache_compress gzip level=1 min_length=1000 types=*;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /some/ {
            mcds_cache_compress gzip types=image/p*,text/Plain;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /again/ {
            mcds_cache_revalidate on;
            mcds_cache_background_update off;
            mcds_cache_request_control on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /again/hidden {
            proxy_hide_header Cache-Control;
            mcds_cache_valid 1m;
            mcds_cache_revalidate on;
            mcds_cache_background_update off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /control/ {
            mcds_cache_request_control on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $h = $t->nginx('h', $conf);
my $off = $t->nginx('off', $conf =~ s/compress gzip;/compress off;/r);

sub get {
    my ($uri, $accept, %o) = @_;
    my %h = (defined $accept ? ('Accept-Encoding' => $accept) : (),
        %{ delete $o{headers} // {} });
    return $h->get($uri, headers => \%h, %o);
}

sub plain {
    my ($coding, $body) = @_;
    my $plain = '';

    if ($coding eq 'gzip') {
        gunzip(\$body, \$plain);

    } elsif ($coding eq 'zstd') {
        my $file = $t->write_file('zstd', $body);
        $plain = `zstd -dcq $file`;

    } else {
        $plain = $body;
    }

    return $plain;
}

# the coding, weak or strong, and the bytes

sub shape {
    my ($r, $want) = @_;
    my $coding = $r->header('Content-Encoding') // 'none';

    return join ' ', $r->status, $r->header('X-Cache'), $coding,
        $r->header('ETag') // 'none',
        plain($coding, $r->body) eq ($want // $text) ? 'right' : 'wrong';
}


# what is stored, and how

sub stored {
    my ($uri) = @_;
    my $body = $h->get($uri)->body;
    my $e = page_decode(page_wait($m, $uri)) // return 'none';
    my $coding = ('none', 'gzip', 'zstd')[$e->{coding}];

    return "wrong entry" if !$e->{valid} || $e->{total} != length $e->{body}
        || $e->{length} != length $body || $e->{format} != ($e->{coding} ? 2
        : 1) || $e->{coding} && $e->{total} > 0.5 * $e->{length};
    return plain($coding, $e->{body}) eq $body ? $coding : 'wrong body';
}

is(stored("/gzip$_"), 'gzip', "gzip: $_")
    for qw{ /a /svg /json /chunked /pieces /404 /cdn-false /cdn-bad };
is(stored("/gzip$_"), 'none', "gzip, not: $_")
    for qw{ /small /chunked-small /image /fixed /hidden /cdn /cdn-lines
        /digest };
is(stored("/zstd$_"), 'zstd', "zstd: $_") for qw{ /a /chunked };
is(stored("/all$_"), 'gzip', "types=*: $_")
    for qw{ /small /chunked-small /image };
is(stored("/some$_"), $_ eq '/image' ? 'gzip' : 'none', "types: $_")
    for qw{ /a /image };
is(stored('/off/a'), 'none', 'off');


# who gets it

my $hit = 'HIT gzip W/"e" right';
my $none = 'HIT none "e" right';

is(shape(get('/gzip/a', $_)), "200 $hit", "gzip: $_")
    for 'gzip', 'x-gzip', '*', 'br, GZIP;q=0.1', 'gzip;q=1, identity;q=0.5';
is(shape(get('/gzip/a', $_)), "200 $none", 'not gzip: ' . ($_ // 'none'))
    for undef, '', 'zstd', 'gzip;q=0', '*;q=0', 'identity, gzip;q=0.5';
is(shape(get('/gzip/a', 'gzip', version => '1.0')), "200 $none", 'HTTP/1.0');
is(shape(get('/gzip/404', 'gzip')), "404 $hit", 'a 404');
is(shape($off->get('/gzip/a', headers => { 'Accept-Encoding' => 'gzip' })),
    "200 $hit", 'what is there is used where nothing is compressed');
is(shape(get('/zstd/a', 'gzip, zstd')), '200 HIT zstd W/"e" right', 'zstd');
is(shape(get('/zstd/a', 'gzip')), '200 HIT gzip W/"e" right',
    'zstd, to gzip by nginx');
is(shape(get('/zstd/a')), "200 $none", 'zstd, to neither');


# headers

my $r = get('/gzip/a', 'gzip');
is($r->header('Content-Length'), length $r->body, 'its own length');
ok(!defined $r->header('Accept-Ranges'), 'no ranges of it');
is($r->all('Content-Encoding') . '', 1, 'one Content-Encoding');

for my $uri ('/gzip/a', '/gzip/varied', '/zstd/a') {
    is(join('|', get($uri, $_)->all('Vary')), 'Accept-Encoding',
        "Vary: $uri, $_") for 'gzip', 'none';
}

# without "vary", no page that varies is stored

for ($t->has('mcds vary') ? (['listed', 'X-A , ACCEPT-ENCODING,X-B'],
    ['other', 'X-Accept-Encoding, X-B|Accept-Encoding']) : ())
{
    my ($name, $vary) = @$_;
    my $r;

    ok(wait_for(sub { $r = get("/gzip/$name", 'gzip');
        $r->header('X-Cache') eq 'HIT' }), "Vary: $name, a hit");
    is(shape($r), "200 $hit", "Vary: $name, gzip");
    is(join('|', $r->all('Vary')), $vary, "Vary: $name");
}

is(join('|', get('/gzip/new')->all('Vary')), 'Accept-Encoding', 'of a miss');
is(join('|', get('/gzip/small', $_)->all('Vary')), '', "not of others: $_")
    for 'gzip', 'none';

for my $accept ('gzip', 'none') {
    my $head = get('/gzip/a', $accept, method => 'HEAD');
    my $get = get('/gzip/a', $accept);
    is(join('|', map { $head->header($_) // '' } qw/ Content-Length ETag Vary
        Content-Encoding /), join('|', map { $get->header($_) // '' } qw/
        Content-Length ETag Vary Content-Encoding /), "HEAD as GET: $accept");
    is($head->body, '', "HEAD, no body: $accept");

    for my $tag ('"e"', 'W/"e"') {
        $r = get('/gzip/a', $accept, headers => { 'If-None-Match' => $tag });
        is(join(' ', $r->status, $r->header('ETag'), $r->header('Vary')),
            '304 ' . $get->header('ETag') . ' Accept-Encoding',
            "If-None-Match: $tag, $accept");
    }

    # of the page as it is without

    $r = get('/gzip/a', $accept, headers => { Range => 'bytes=100-199' });
    is(shape($r, substr $text, 100, 100), '206 HIT none "e" right',
        "a range: $accept");
    is($r->header('Content-Range'), 'bytes 100-199/' . length $text,
        "Content-Range: $accept");
    is(shape(get('/gzip/a', $accept, headers => { Range => 'bytes=-7' }),
        substr $text, -7), '206 HIT none "e" right', "the end: $accept");
    like(get('/gzip/a', $accept, headers => { Range => 'bytes=0-1,9-10' })
        ->body, qr/\r\n\r\nli\r\n.*\r\n\r\n a\r\n/s, "two ranges: $accept");
    is(shape(get('/gzip/a', $accept, headers => { Range => 'bytes=0-9',
        'If-Range' => '"e"' }), substr $text, 0, 10),
        '206 HIT none "e" right', "If-Range: $accept");
    is(shape(get('/gzip/a', $accept, headers => { Range => 'bytes=0-9',
        'If-Range' => 'W/"e"' })), shape(get('/gzip/a', $accept)),
        "weak If-Range, as without the two: $accept");
}

get('/control/a');
page_wait($m, '/control/a');
is(shape(get('/control/a', 'gzip', headers => {
    'Cache-Control' => 'no-transform' })), "200 $none", 'asked not to');
is(shape(get('/control/a', 'gzip')), "200 $hit", 'asked nothing');

is($o->count('/gzip/a'), 1, 'the origin was asked once');


# a page that is stored compressed, and must not be any more by a 304, or by the
# response to HEAD

for my $name ('a', 'fixed', 'hidden', 'digest', 'head') {
    my $uri = "/again/$name";
    my $same = ($name eq 'a');

    is(stored($uri), 'gzip', "$name: compressed at first");

    if ($name eq 'head') {
        is(get($uri, 'gzip', method => 'HEAD', headers => {
            'Cache-Control' => 'no-cache' })->header('X-Cache'), 'BYPASS',
            'head: from the origin');
        ok(wait_for(sub {
            page_decode(page_wait($m, $uri))->{expire} <= time() * 1000
        }), 'head: the page expires');

    } else {
        page_expire($m, $uri, 1000);
    }

    is(shape(get($uri, 'gzip')), $same ? '200 REVALIDATED gzip W/"e" right'
        : '200 EXPIRED none "e" right', "$name: the page after that");
    is(refresh_wait($m, $uri)->{coding}, $same ? 1 : 0,
        "$name: which is stored");
    is(shape(get($uri, 'gzip')), '200 ' . ($same ? $hit : $none),
        "$name: and used");
}


# the directive

sub refused {
    my ($text, $why) = @_;
    like($t->conf_error(location => "mcds_cache_compress $text;"),
        qr/$why.* in .*:\d+/s, "refused: $text");
}

refused('br', 'invalid value "br" in "mcds_cache_compress"');
refused('off level=1', '"off" takes no further parameter');
refused('gzip level=10', '"level=10".* it must be 1 to 9');
refused('zstd level=0', 'invalid value "level=0".* it must be 1 to 19');
refused('gzip min_length=x', 'invalid value "min_length=x".* a size up to 64m');
refused('gzip types=', 'invalid parameter "types="');
refused('gzip types=text/*,,a/b', 'invalid value "types=');
refused('gzip text/html', 'invalid parameter "text/html"');
refused('gzip; mcds_cache_compress off', 'is duplicate');

$t->done();
