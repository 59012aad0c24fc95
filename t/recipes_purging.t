#!/usr/bin/perl

# Copyright (C) mcds authors

# docs/recipes/purging.md: its configuration, and the requests that plugins and
# libraries send which were made for Varnish or ngx_cache_purge; the settings of
# MediaWiki in all pages of the manual, sent by curl as MediaWiki sends them.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Recipe;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

# each has its tags in another header

my %page = (
    '/news' => ['Cache-Tag' => 'node:1,list'],
    '/sport?page=2' => ['Purge-Cache-Tags' => 'node:2 list'],
    '/wiki/Main_Page' => ['X-Cache-Tags' => 'node:3,user:3'],
    '/shop' => [xkey => 'node:4 user:4'],
    '/plain' => [],
);
my @pages = sort keys %page;

my $root = "$FindBin::Bin/..";
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;

    return { headers => ['Cache-Tag' => join ' ', map { "t$_" } 1 .. $1] }
        if $req->{uri} =~ m{^/tags/(\d+)};
    return { headers => $page{$req->{uri}} // [], body => "$req->{n}\n" };
});

my ($conf) = fenced("$root/docs/recipes/purging.md", 'nginx');

$conf =~ s/127\.0\.0\.1:11211/127.0.0.1:%%PORT_m%%/ or die;
$conf =~ s/127\.0\.0\.1:8000/127.0.0.1:%%PORT_o%%/ or die;
$conf =~ s/listen +80;/listen 127.0.0.1:%%PORT%%;/ or die;
$conf =~ s/127\.0\.0\.1:80\b/127.0.0.1:%%PORT%%/g or die;
$conf =~ s/127\.0\.0\.1:(808[12])/127.0.0.1:%%PORT_$1_NAME%%/g or die;

my ($a, $b) = map { $t->nginx($_, whole($_)) } qw/ a b /;


# by URL

sends('Proxy Cache Purge', [$t->port('8082_a'), '/news', method => 'PURGE',
    headers => ['X-Purge-Method' => 'default']], '/news');
sends('Nginx Helper', [$a->port(), '/purge/news'], '/news');
sends('Nginx Helper, with arguments', [$a->port(), '/purge/sport?page=2'],
    '/sport?page=2');
sends('MediaWiki', [$a->port(), 'http://www.example.com/wiki/Main_Page',
    method => 'PURGE', headers => ['Proxy-Connection' => 'Keep-Alive']],
    '/wiki/Main_Page');
sends('FOSHttpCache, path', [$t->port('8082_a'), '/shop', method => 'PURGE'],
    '/shop');
sends('FOSHttpCache, nginx', [$a->port(), '/plain', method => 'PURGE'],
    '/plain');


mediawiki("docs/$_")
    for 'recipes/mediawiki.md', 'recipes/purging.md', 'applications.md';


# the number of tags that a page can have

for my $file ('recipes/purging.md', 'reference/purge.md') {
    my ($most) = slurp("$root/docs/$file")
        =~ /(?:with\s+more than|up to)\s+(\d+)\s+tags/;

    ok(wait_for(sub {
        get($a, "/tags/$most?$file")->header('X-Cache') eq 'HIT'
    }), "$file: $most tags");

    my $over = '/tags/' . ($most + 1) . "?$file";

    is(join(' ', map { get($a, $over)->header('X-Cache') } 1 .. 3),
        'MISS MISS MISS', "$file: one more is too many");
}


# by tags

sends('Drupal, HTTP purger', [$t->port('8081_a'), '/purge?tag=node:2',
    method => 'POST'], '/sport?page=2');
sends('Drupal, Varnish purger', [$t->port('8082_a'), '/', method => 'BAN',
    headers => ['Cache-Tags' => 'list']], '/news', '/sport?page=2');
sends('Drupal, Varnish purger, bundled', [$t->port('8082_a'), '/',
    method => 'BAN', headers => ['Cache-Tags' => 'node:1|node:4|node:9']],
    '/news', '/shop');
sends('Drupal, another header', [$t->port('8082_a'), '/', method => 'BAN',
    headers => ['Purge-Cache-Tags' => 'node:2']], '/sport?page=2');
sends('FOSHttpCache, xkey', [$t->port('8082_a'), '/', method => 'PURGEKEYS',
    headers => ['xkey-softpurge' => 'user:3 node:4']],
    '/shop', '/wiki/Main_Page');
sends('four tags', [$t->port('8082_a'), '/', method => 'PURGEKEYS',
    headers => ['xkey-softpurge' => 'node:1 node:2 node:3 none']],
    '/news', '/sport?page=2', '/wiki/Main_Page');
sends('FOSHttpCache, xkey-purge', [$t->port('8082_a'), '/',
    method => 'PURGEKEYS', headers => ['xkey-purge' => 'node:3']],
    '=/wiki/Main_Page');


# what cannot be understood purges all, and never too little

sends('Proxy Cache Purge, all', [$t->port('8082_a'), '/.*', method => 'PURGE',
    headers => ['X-Purge-Method' => 'regex']], @pages);
sends('FOSHttpCache, a regular expression', [$t->port('8082_a'), '/',
    method => 'BAN', headers => ['X-Host' => '.*', 'X-Url' => '^/news',
    'X-Content-Type' => '.*']], @pages);
sends('FOSHttpCache, tags by BAN', [$t->port('8082_a'), '/', method => 'BAN',
    headers => ['X-Cache-Tags' => '(^|,)(node\\:1|node\\:2)(,|$)']], @pages);
sends('five tags', [$t->port('8082_a'), '/', method => 'PURGEKEYS',
    headers => ['xkey-softpurge' => 'node:1 b c d e']], @pages);


# refreshes, of the application alone

for my $header (['X-Refresh' => 1], ['Cache-Control' => 'no-cache']) {
    warm();
    my $n = get($a, '/news')->body();
    my $new = get($a, '/news', headers => $header)->body();

    isnt($new, $n, "FOSHttpCache, refresh by $header->[0]");
    ok(wait_for(sub { get($b, '/news')->body() eq $new }),
        'everybody has the new page');
    is(get($a, '/news', headers => $header, local => '127.0.0.2')->body(),
        $new, 'a stranger cannot do that');
}


# nobody else purges

for (['PURGE', $a->port(), '/news'], ['GET', $a->port(), '/purge/news'],
    ['POST', $t->port('8081_a'), '/purge?all=1'],
    ['BAN', $t->port('8082_a'), '/'], ['PURGE', $t->port('8082_a'), '/news'])
{
    my ($method, $port, $uri) = @$_;
    my $r = http_request($port, $uri, method => $method, local => '127.0.0.2',
        host => 'www.example.com');
    is($r->status(), 403, "$method $uri of a stranger");
}

is(http_request($t->port('8082_a'), '/many', host => 'www.example.com')
    ->status(), 404, 'what is internal');

for my $method (qw/ POST PUT PATCH DELETE OPTIONS /) {
    is(http_request($a->port(), '/news', method => $method,
        host => 'www.example.com', local => '127.0.0.2')->status(), 200,
        "$method is open to all");
}

$t->allow(qr/access forbidden by rule/);
$t->done(keep => ['o']);


sub whole {
    my ($name) = @_;

    return "%%GLOBALS%%\nevents { }\nhttp {\n%%HTTP%%\n"
        . ($conf =~ s/NAME/$name/gr =~ s/PORT_(808\d)_(\w)/PORT_$1_$2/gr)
        . "}\n";
}


sub get {
    my ($host, $uri, %o) = @_;

    return $host->get($uri, host => 'www.example.com', %o);
}


# MediaWiki gives each address in $wgCdnServers to libcurl as a proxy, and sends
# the URLs of pages to it, with the scheme of $wgInternalServer, or without that
# setting with https, the scheme of the site

sub mediawiki {
    my ($file) = @_;

    my ($settings) = grep { /wgCdnServers/ } fenced("$root/$file", 'php');
    my ($proxy) = $settings =~ /\$wgCdnServers = \['([^',]+)'\];/;
    my ($scheme) = ($settings =~ m{\$wgInternalServer = '(\w+)://}, 'https');
    my $uri = '/wiki/Main_Page';
    my @ways = ([], [headers => { 'X-Forwarded-Proto' => 'https' }]);
    my @old;

    $proxy =~ s/:80$/':' . $a->port()/e;

  SKIP: {
    skip 'no curl', 2 if !$t->has('curl');

    # the page is built again when it gets its first variant

    wait_for(sub {
        my @r = map { get($a, $uri, @$_) } @ways, @ways;
        @old = map { $_->body() } @r;
        return "@old[0, 1]" eq "@old[2, 3]"
            && !grep { $_->header('X-Cache') ne 'HIT' } @r;
    });

    # curl fails if it reaches nobody

    eval {
        $t->curl('-X', 'PURGE', '--noproxy', '', '-x', $proxy, '-H',
            'Proxy-Connection: Keep-Alive', "$scheme://www.example.com$uri");
    };

    for my $i (0, 1) {
        ok(wait_for(sub { get($a, $uri, @{$ways[$i]})->body() ne $old[$i] },
            10), "$file: a purge, the page for " . (qw/ http https /)[$i]);
    }
  }
}


# both hosts have all pages, and these are fresh

sub warm {
    for my $uri (@pages) {
        wait_for(sub {
            get($a, $uri)->header('X-Cache') eq 'HIT'
                || get($b, $uri)->header('X-Cache') eq 'HIT';
        });
    }
}


# The request is answered with 200, and these pages are built anew, others are
# not; with = in front no host shows the old page again

sub sends {
    my ($name, $request, @purged) = @_;

    warm();

    my %old = map { $_ => get($b, $_)->body() } @pages;
    my ($port, $uri, %o) = @$request;
    my $r = http_request($port, $uri, host => 'www.example.com', %o);

    is($r->status(), 200, $name) or diag($r->head(), $r->body());

    my $deleted = grep { s/^=// } @purged;
    my %purged = map { $_ => 1 } @purged;

    for my $uri (@pages) {
        my $now = get($b, $uri)->body();

        if (!$purged{$uri}) {
            is($now, $old{$uri}, "$name: $uri stays");

        } elsif ($deleted) {
            isnt($now, $old{$uri}, "$name: $uri is gone at once");

        } else {
            ok(wait_for(sub { get($a, $uri)->body() ne $old{$uri} }),
                "$name: $uri is new");
        }
    }
}
