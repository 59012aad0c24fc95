#!/usr/bin/perl

# Copyright (C) mcds authors

# X-Accel-Charset and X-Accel-Limit-Rate of the origin act on a page from the
# cache as on an answer that passes, whatever charset, override_charset,
# proxy_ignore_headers and the like say, and no client ever sees them.  What an
# application says beside X-Accel-Redirect is that of each answer of its own.

use warnings;
use strict;

use Config;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

$t->allow(qr/unknown charset "[-\w ]+" to override/,
    qr/no "charset_map" between/);

my %types = (html => 'text/html', named => 'text/html; charset=koi8-r',
    other => 'text/html; charset=x-other', image => 'image/png');

my @accel = ('utf-8', 'UTF-8', 'koi8-r', 'unknown', '', undef);
my @rates = ('1000000', '0', '0900000', 'x', '-1', '9' x 30, '', undef);

my $answer = sub {
    my ($o, $q) = @_;
    my ($type, $charset, $rate) = $q->{uri} =~ m{/(\w+)/(\w+)/(\w+)$};

    my @h = ('Cache-Control' => 'max-age=60', ETag => '"1"');

    push @h, 'X-Accel-Charset' => $accel[$charset] if defined $accel[$charset];
    push @h, 'X-Accel-Limit-Rate' => $rates[$rate] if defined $rates[$rate];

    # the second time a rate of its own

    return { status => 304, headers => ['X-Accel-Limit-Rate' => 777,
        'Content-Type' => 'text/html', 'Cache-Control' => 'max-age=60'] }
        if $q->{headers}{'if-none-match'};

    push @h, 'X-Accel-Redirect' => '/file/page.html',
        'Content-Disposition' => "inline; filename=$charset"
        if $q->{uri} =~ /redirected/;

    return {
        headers => [@h, 'Content-Type' => $types{$type}],
        body => $q->{uri} =~ /large/ ? "\xFE" x 1_300_000
            : $q->{uri} =~ /packed/ ? "\xFE" x 10_000 : "<p>\xFE\xC0</p>\n",
    };
};

my $m = $t->memcached('m');
my $o = $t->origin('o', $answer);
my $f = $t->origin('f', $answer, fastcgi => 1);

my $proxy = 'proxy_pass http://127.0.0.1:%%PORT_o%%;';
my $fastcgi = 'fastcgi_param REQUEST_URI $uri; fastcgi_param REQUEST_METHOD'
    . ' GET; fastcgi_pass 127.0.0.1:%%PORT_f%%;';

my %locations = (
    plain => $proxy,
    charset => "charset windows-1251; $proxy",
    override => "charset windows-1251; override_charset on; $proxy",
    source => "source_charset koi8-r; charset utf-8; $proxy",
    rate => "limit_rate 500k; $proxy",
    set => "set \$limit_rate 400k; $proxy",
    deaf => "charset utf-8; limit_rate 300k; proxy_ignore_headers
        X-Accel-Charset X-Accel-Limit-Rate; $proxy",
    passed => "proxy_pass_header X-Accel-Charset; $proxy",
    fastcgi => "charset windows-1251; $fastcgi",
    deafcgi => "fastcgi_ignore_headers X-Accel-Charset
        X-Accel-Limit-Rate; $fastcgi",
    gzip => "gzip on; gzip_min_length 1; $proxy",
    packed => "mcds_cache_compress gzip; $proxy",
    large => $proxy,
    kept => "mcds_cache_local timed=1m; $proxy",
    unbuffered => "proxy_buffering off; $proxy",
    redirected => "source_charset koi8-r; $proxy",
    file => 'internal; proxy_pass http://127.0.0.1:%%PORT_files%%/;
        mcds_cache_valid 1m; source_charset koi8-r;',
);

$t->write_file('page.html', "\xFE in a file\n");

my $text = join '', map { "location /$_/ { $locations{$_} }\n" }
    sort keys %locations;

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_zone 2m;
    mcds_cache_key \$uri;
    mcds_cache_revalidate on;
    add_header X-Cache \$mcds_cache_status;
    add_header X-Rate \$limit_rate;
    charset_map koi8-r utf-8 { FE D0AE; C0 D18E; }
    charset_map koi8-r windows-1251 { FE DE; C0 FE; }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache on;
        location = /ssi {
            mcds_cache off; ssi on; charset koi8-r; default_type text/html;
            mcds_return 200 '<!--# include virtual="/plain/html/0/7" -->';
        }
        $text
    }
    server {
        listen 127.0.0.1:%%PORT_bare%%;
        location = /ssi {
            ssi on; charset koi8-r; default_type text/html;
            mcds_return 200 '<!--# include virtual="/plain/html/0/7" -->';
        }
        $text
    }
    server {
        listen 127.0.0.1:%%PORT_files%%;
        types { text/html html; }
        root %%TMP%%;
    }
}
EOT

my ($c, $bare) = ($h->conn(), conn($t->port('bare')));


sub seen {
    my ($r) = @_;

    return join ' | ', (map { "$_: " . ($r->header($_) // '') } qw/ Content-Type
        X-Rate X-Accel-Charset X-Accel-Limit-Rate /),
        $r->all('Cache-Control'), $r->all('Content-Disposition'), $r->status(),
        length $r->body(), unpack 'H40', $r->body();
}

my @rows = (map({ my $type = $_; map { [$type, $_, 7] } 0 .. $#accel }
    sort keys %types), map { ['html', 5, $_] } 0 .. $#rates - 1);

my $large = $t->has('mcds large');

for my $name (grep { $_ ne 'file' } sort keys %locations) {
    next if $name eq 'large' && !$large;

    my @bad;

    for my $row (@rows) {
        my $uri = join '/', "/$name", @$row;

        # a few will do of what takes long

        next if $name eq 'large' && "@$row" !~ /^(?:html 0 7|html 5 [01])$/;

        my %o = (headers => { 'Accept-Encoding' => $name eq 'gzip' ? 'gzip'
            : 'identity' });
        my $want = seen($bare->get($uri, %o));
        my $got = seen($c->get($uri, %o));

        push @bad, "$uri, passed: $got, not $want" if $got ne $want;

        # the line is for nginx, wherever it comes from

        $want =~ s/(?<=X-Accel-Charset:) [^|]+/  /;

        push @bad, "$uri is not stored" if !page_wait($m, $uri);
        $got = seen($c->get($uri, %o));
        push @bad, "$uri, HIT: $got, not $want" if $got ne $want;
    }

    is(join("\n", @bad), '', "$name: as without a cache");
}


# other ways to get it

my $uri = '/plain/html/0/0';
my $want = seen($bare->get($uri));

like($want, qr{Type: text/html; charset=utf-8 \| X-Rate: 1000000 },
    'charset and rate');
is($c->get('/ssi')->body(), $bare->get('/ssi')->body(), 'included');

is(seen($c->get($uri)), $want, 'a page');

my ($head, $bareh) = map { $_->get($uri, method => 'HEAD') } $c, $bare;
is(seen($head), seen($bareh), 'HEAD');

page_expire($m, $uri, 1000);
$o->hold_path($uri);
my $r = $c->get($uri);
is($r->header('X-Cache'), 'STALE', 'an old one');
is(seen($r), $want, 'as before');
$o->release($uri);
ok(wait_for(sub { $c->get($uri)->header('X-Cache') eq 'HIT' }), 'renewed');
like(page_decode($m->get("<>$uri"))->{headers},
    qr/^(?=.*^X-Accel-Charset: utf-8\r$)(?=.*^X-Accel-Limit-Rate: 777\r$)/ms,
    'a 304 renews what it names, and the other stays');
is(seen($c->get($uri)), $want =~ s/X-Rate: \d+/X-Rate: 777/r, 'and acts');

# clients that have waited

$uri = '/plain/named/0/0';
$o->hold_path($uri);
my @p = map { start_get($h->port(), $uri) } 1 .. 3;
$o->wait_requests(1, $uri);
$o->release($uri);
is(join("\n", map { seen(finish($_)) } @p), join("\n", (seen($bare->get($uri)))
    x 3), 'three at once');


# the rate is kept to

if ($large) {
    $h->get('/large/html/5/0');
    page_wait($m, '/large/html/5/0');
    $r = $h->get('/large/html/5/0');
    is($r->header('X-Cache') . length $r->body(), 'HIT1300000', 'in parts');
    cmp_ok($r->time(), '>', 0.2, 'a large page: slowly');
}


# of what lies in memcached no more is done than that

sub forged {
    my ($lines, %o) = @_;

    $m->set('<>/charset/forged', page_encode(key => '<>/charset/forged',
        headers => "Content-Type: text/html; charset=koi8-r\r\n$lines",
        body => "<\xFE>"));

    return $c->get('/charset/forged');
}

my $long = 'x' x 65;

# a number of nginx's, which is none where it has 32 bits

my $most = $Config{ptrsize} == 8 ? 2147483647 : 0;

for my $row (['X-Accel-Charset: utf-8', '', 'utf-8', '3CD0AE3E'],
    ['x-accel-charset: utf-8', '', 'utf-8', '3CD0AE3E'],
    ['X-Accel-Charset: two words', '', 'koi8-r', '3CFE3E'],
    ["X-Accel-Charset: $long", '', 'koi8-r', '3CFE3E'],
    ['X-Accel-Charset: "utf-8"', '', 'koi8-r', '3CFE3E'],
    ['X-Accel-Limit-Rate: 5000', 5000, 'koi8-r', '3CFE3E'],
    ['X-Accel-Limit-Rate: -5', 0, 'koi8-r', '3CFE3E'],
    ['X-Accel-Limit-Rate: 5k', 0, 'koi8-r', '3CFE3E'],
    ['X-Accel-Limit-Rate: 9223372036854775807', $most, 'koi8-r', '3CFE3E'],
    ['X-Accel-Redirect: /plain/html/0/0', 0, 'koi8-r', '3CFE3E'],
    ['X-Accel-Buffering: no', 0, 'koi8-r', '3CFE3E'],
    ['X-Accel-Expires: 0', 0, 'koi8-r', '3CFE3E'])
{
    my ($line, $rate, $charset, $hex) = @$row;

    my $r = forged("$line\r\n");

    is(join(' ', $r->header('X-Cache'), $r->header('X-Rate') || 0,
        $r->header('Content-Type'), uc unpack 'H*', $r->body()),
        join(' ', 'HIT', $rate || 0, "text/html; charset=$charset", $hex),
        "forged $line");
    unlike($r->head(), qr/x-accel/i, "$line: not sent");
}

$t->done();
