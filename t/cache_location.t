#!/usr/bin/perl

# Copyright (C) mcds authors

# The Location of a page from the cache is what nginx would have sent without
# one: made absolute with the host, scheme and port of whoever asks where
# proxy_redirect has changed it, relative where the origin's was, and as
# absolute_redirect, port_in_redirect and server_name_in_redirect say.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->needs('http_ssl', 'openssl', 'IO::Socket::SSL');

$t->cert('localhost');

# of which there is one for each number at the end of a uri

my $origin = 'http://127.0.0.1:' . $t->port('o');

my @lines = ((map { [Location => $_] } '/relative', "$origin/own", "$origin/",
    'http://127.0.0.1/port', 'http://other/x?y=http://z/', '//other/x', 'word',
    '?query', '/', ''), ['Refresh' => "0; url=$origin/own"],
    ['Refresh' => '0; url=/a'], [location => "$origin/lower"], []);

my $answer = sub {
    my ($o, $q) = @_;
    my ($status, $n) = $q->{uri} =~ m{(\d+)/(\d+)$};

    my @h = ('Cache-Control' => 'max-age=60', ETag => '"1"');

    return { status => 304, headers => \@h }
        if $q->{headers}{'if-none-match'};
    return { status => $status, body => "$status\n",
        headers => [@h, @{$lines[$n]}] };
};

my $m = $t->memcached('m');
my $o = $t->origin('o', $answer);
my $f = $t->origin('f', $answer, fastcgi => 1);

my %confs = (
    default => 'proxy_pass http://127.0.0.1:%%PORT_o%%/;',
    deep => 'proxy_pass http://127.0.0.1:%%PORT_o%%/;
        proxy_redirect default; proxy_redirect / /deep/;',
    off => 'proxy_pass http://127.0.0.1:%%PORT_o%%/; proxy_redirect off;',
    regex => 'proxy_pass http://127.0.0.1:%%PORT_o%%/;
        proxy_redirect ~^http://[^/]+/(.*)$ /regex/$1;',
    to => 'proxy_pass http://127.0.0.1:%%PORT_o%%/;
        proxy_redirect http://127.0.0.1:%%PORT_o%%/ https://to/;',
    relative => 'proxy_pass http://127.0.0.1:%%PORT_o%%/;
        absolute_redirect off;',
    portless => 'proxy_pass http://127.0.0.1:%%PORT_o%%/;
        port_in_redirect off;',
    named => 'proxy_pass http://127.0.0.1:%%PORT_o%%/;
        server_name_in_redirect on;',
    fastcgi => 'fastcgi_param REQUEST_URI $uri; fastcgi_param REQUEST_METHOD
        GET; fastcgi_pass 127.0.0.1:%%PORT_f%%;',
    hidden => 'proxy_pass http://127.0.0.1:%%PORT_o%%/;
        proxy_hide_header Location;',
    added => 'proxy_pass http://127.0.0.1:%%PORT_o%%/;
        proxy_hide_header Location; add_header Location /added always;',
    static => 'alias %%TMP%%/; mcds_cache_valid any 1m;',
    returned => 'mcds_return 301 /returned; mcds_cache_valid any 1m;',
);

mkdir $t->dir() . '/folder';
$t->write_file('folder/file', "a file\n");

my $locations = join '', map { "location /$_/ { $confs{$_} }\n" }
    sort keys %confs;

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_cache_key \$uri;
    mcds_cache_revalidate on;
    ssl_certificate     %%TMP%%/localhost.crt;
    ssl_certificate_key %%TMP%%/localhost.key;
    server {
        server_name name.example.com;
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_tls%% ssl;
        mcds_cache on;
        add_header X-Cache \$mcds_cache_status always;
        add_header X-Sent \$sent_http_location always;
        $locations
    }
    server {
        server_name name.example.com;
        listen 127.0.0.1:%%PORT_bare%%;
        listen 127.0.0.1:%%PORT_baretls%% ssl;
        add_header X-Sent \$sent_http_location always;
        $locations
    }
}
EOT

sub key { "<name.example.com>$_[0]" }

my %port = (http => [$h->port(), $t->port('bare')],
    https => [map { $t->port($_) } qw/ tls baretls /]);

my %conn = map { my $s = $_; $s => [map { conn($_, ssl => $s eq 'https') }
    @{$port{$s}}] } keys %port;


# what nginx says with and without a cache; they are on ports of their own

sub ask {
    my ($scheme, $i, $uri, %o) = @_;

    my $r = $conn{$scheme}[$i]->get($uri, %o);

    return ($r, join ' | ', $r->status(), map({ "$_ " . ($r->header($_)
        // 'none') =~ s/:$port{$scheme}[$i](?=\/|$)/:PORT/r }
        qw/ Location Refresh X-Sent /), $r->body() =~ s/<hr>.*//sr);
}

my @visitors = (['http', host => 'first.example'],
    ['http', host => 'second.example:99'],
    ['https', host => 'first.example'], ['http', host => 'third', method =>
    'HEAD']);

for my $name (sort keys %confs) {
    my (@bad, %got);

    my @uris = $name =~ /static/ ? ("/$name/folder", "/$name/folder/file")
        : $name =~ /returned/ ? "/$name/x" : ((map { "/$name/302/$_" }
        0 .. $#lines), (map { "/$name/$_/1" } 200, 201, 301, 303, 307, 308),
        "/$name");

    for my $uri (@uris) {
        for my $visitor (@visitors[0, 0 .. $#visitors]) {
            my ($scheme, @o) = @$visitor;

            my ($r, $got) = ask($scheme, 0, $uri, @o);
            my (undef, $want) = ask($scheme, 1, $uri, @o);
            my $status = $r->header('X-Cache') // '-';

            push @bad, "$scheme @o $uri, $status:\n$got\n$want"
                if $got ne $want;
            $got{$status}++;

            page_wait($m, key($uri)) if $status eq 'MISS'
                && $name !~ /static|returned/;
        }
    }

    is(join("\n", @bad), '', "$name: as without a cache");
    cmp_ok($got{HIT} // 0, '>', 50, "$name: from the cache")
        if $name !~ /static|returned|added/;
}


# a page that is renewed, by an answer or by a 304

for my $uri ('/default/302/1', '/default/302/0', '/default/200/1') {
    my @o = ('http', 0, $uri, host => 'first.example');
    my (undef, $want) = ask(@o);

    page_expire($m, key($uri), 1000);

    my ($r, $got) = ask(@o);
    is($r->header('X-Cache') . $got, "STALE$want", "$uri: an old page");
    ok(wait_for(sub { (ask(@o))[0]->header('X-Cache') eq 'HIT' }), 'renewed');
    is((ask(@o))[1], $want, "$uri: the new one");
}


# what is in memcached says of the first slash alone whose it is; flags that are
# not known change nothing

for my $row ([0, '/x', '/x'], [8, '/x', "http://localhost:PORT/x"],
    [8, '//else/x', "http://localhost:PORT//else/x"], [8, 'x', 'x'],
    [8, '', ''], [0xffffffd8, '/x', 'http://localhost:PORT/x'])
{
    my ($flags, $location, $want) = @$row;

    $m->set(key('/default/200/0'), page_encode(key => key('/default/200/0'),
        flags => $flags, headers => "Location: $location\r\n"));
    like((ask('http', 0, '/default/200/0'))[1], qr/Location \Q$want\E \|/,
        "flags $flags, $location");
}

$t->done();
