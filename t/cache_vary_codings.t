#!/usr/bin/perl

# Copyright (C) mcds authors

# Compressed answers are stored once for each set of codings, whether or not
# Vary has Accept-Encoding, and no client gets a coding that it does not accept;
# nginx's filters make of the variants what they make without the cache.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

use IO::Compress::Gzip qw/ gzip /;
use IO::Uncompress::Gunzip qw/ gunzip /;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m = $t->memcached('m');

my $text = join '', map { "line $_ <!--# echo var=\"uri\" -->\n" } 1 .. 200;
gzip(\$text, \my $gzipped, -Time => 0);

# takes the first coding that it likes, as servers do

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $accepts = $q->{headers}{'accept-encoding'} // '';
    my ($coding) = $accepts =~ /\b(deflate|gzip|br|zstd)\b(?!;q=0(?!\.))/;

    $coding = 'gzip' if $q->{path} =~ m{/always$};
    $coding = 'x-made-up' if $q->{path} eq '/odd';

    my @vary = $q->{path} =~ m{^/silent/} ? ()
        : (Vary => $q->{path} eq '/none' ? 'X-Other' : 'Accept-Encoding');

    return {
        headers => ['Cache-Control' => 'max-age=60', @vary,
            'Content-Type' => 'text/html',
            $coding ? ('Content-Encoding' => $coding) : ()],
        body => !$coding ? $text : $coding eq 'gzip' ? $gzipped
            : "in $coding",
    };
});

my $locations = <<'EOC';
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /plain/ {
            proxy_set_header Accept-Encoding "";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /gzip/ {
            gzip on;
            gzip_vary on;
            gzip_min_length 1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /gzip-plain/ {
            gzip on;
            gzip_vary on;
            gzip_min_length 1;
            proxy_set_header Accept-Encoding "";
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi/ {
            ssi on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /sub/ {
            sub_filter line LINE;
            sub_filter_once off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
EOC

$locations .= <<'EOC' if $t->has('http_gunzip');
        location /gunzip/ {
            gunzip on;
            proxy_set_header Accept-Encoding gzip;
            proxy_pass http://127.0.0.1:%%PORT_o%%/always;
        }
EOC

my $a = $t->nginx('a', <<"EOC");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache \$mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache on;
$locations
    }
    server {
        listen 127.0.0.1:%%PORT_bare%%;
$locations
    }
}
EOC

sub get {
    my ($uri, $accept, %h) = @_;
    $h{'Accept-Encoding'} = $accept if defined $accept;
    return $a->get($uri, headers => \%h);
}

sub shows {
    my ($uri, $accept, $cache, $coding, $what) = @_;

    my $r = get($uri, $accept);
    is(join(' ', $r->header('X-Cache'), $r->header('Content-Encoding')
        // 'none'), "$cache $coding", $what);
    is($r->body, $coding eq 'none' ? $text : $coding eq 'gzip' ? $gzipped
        : "in $coding", "$what: the body");
    page_wait($m, key($uri), 1);
}


# a variant for each set, whatever its order and weights

shows('/a', undef, 'MISS', 'none', 'no Accept-Encoding');
shows('/a', 'gzip', 'MISS', 'gzip', 'gzip');
shows('/a', 'br', 'MISS', 'br', 'br');
shows('/a', 'zstd', 'MISS', 'zstd', 'zstd');
shows('/a', 'gzip, br', 'MISS', 'gzip', 'two');
shows('/a', $_, 'HIT', 'none', "none: $_")
    for 'identity', 'compress', 'gzip;q=0', '';
shows('/a', $_, 'HIT', 'gzip', "gzip: $_")
    for 'gzip', 'GZIP', ' gzip ; q=0.5', 'gzip, compress', 'gzip;q=1, br;q=0';
shows('/a', $_, 'HIT', 'gzip', "two: $_")
    for 'br, gzip', 'br;q=1, gzip;q=0.1', 'gzip,br,gzip';

is($o->count('/a'), 5, 'five were asked for');
is(length(page_decode($m->get(key('/a')))->{body}), 5 * 16, 'five are there');


# what not all who get it accept is not stored

shows('/deflate', 'deflate, gzip', 'MISS', 'deflate', 'deflate');
shows('/deflate', 'deflate, gzip', 'MISS', 'deflate', 'deflate, again');
is(page_decode($m->get(key('/deflate')))->{kind}, 1, 'deflate: not stored');

shows('/always', undef, 'MISS', 'gzip', 'unasked');
shows('/always', undef, 'MISS', 'gzip', 'unasked, again');
shows('/odd', 'gzip', 'MISS', 'x-made-up', 'a coding of its own');
shows('/odd', 'gzip', 'MISS', 'x-made-up', 'a coding of its own, again');


# what Vary does not say is assumed

sub names { page_decode($m->get(key(shift)))->{ext} }

shows('/none', 'gzip', 'MISS', 'gzip', 'Vary does not say so');
shows('/none', 'gzip', 'HIT', 'gzip', 'Vary does not say so, again');
shows('/none', undef, 'MISS', 'none', 'Vary does not say so, no coding');
like(names('/none'), qr/accept-encoding,x-other/, 'both names');

shows('/silent/1', 'gzip', 'MISS', 'gzip', 'no Vary');
shows('/silent/1', 'gzip', 'HIT', 'gzip', 'no Vary, again');
shows('/silent/1', undef, 'MISS', 'none', 'no Vary, no coding');
shows('/silent/1', 'br', 'MISS', 'br', 'no Vary, another');
shows('/silent/1', $_, 'HIT', $_ // 'none', 'no Vary, each has its own')
    for undef, 'gzip', 'br';

shows('/silent/2', undef, 'MISS', 'none', 'no Vary, plain first');
shows('/silent/2', 'gzip', 'HIT', 'none', 'no Vary, plain is for all');

shows('/silent/always', undef, 'MISS', 'gzip', 'no Vary, unasked');
shows('/silent/always', 'gzip', 'MISS', 'gzip', 'no Vary, asked for');
ok(wait_for(sub {
    ((page_decode($m->get(key('/silent/always'))) // {})->{kind} // 0) == 2;
}), 'no Vary, a list of variants is in the place of the mark');
shows('/silent/always', 'gzip', 'HIT', 'gzip', 'no Vary, stored');
shows('/silent/always', undef, 'MISS', 'gzip', 'no Vary, not for others')
    for 1 .. 2;
shows('/silent/deflate', 'deflate', 'MISS', 'deflate', 'no Vary, deflate')
    for 1 .. 2;


# as without the cache: miss, hit, and no cache at all

sub bytes {
    my ($r) = @_;
    my $body = $r->body;

    if (($r->header('Content-Encoding') // '') eq 'gzip') {
        gunzip(\$body, \my $plain);
        $body = "gzip: $plain";
    }

    return join ' | ', $r->status, (map { "$_: " . ($r->header($_) // 'none') }
        'Content-Encoding', 'Content-Type', 'Content-Range'),
        substr($body, 0, 12), unpack('%32C*', $body), length $body;
}

for my $filter (qw/ plain gzip gzip-plain ssi sub gunzip /) {
    next if $filter eq 'gunzip' && !$t->has('http_gunzip');

    for my $accept (undef, 'gzip', 'br') {
        my $uri = "/$filter/x";
        my $name = "$filter, " . ($accept // 'none');
        my %h = defined $accept ? ('Accept-Encoding' => $accept) : ();

        my $bare = http_get($t->port('bare'), $uri, headers => \%h);
        my $miss = $a->get($uri, headers => \%h);
        page_wait($m, key($uri), 1);
        my $hit = $a->get($uri, headers => \%h);

        is(bytes($miss), bytes($bare), "$name: first");
        is(bytes($hit), bytes($bare), "$name: then");
        is(join(', ', sort $hit->all('Vary')),
            join(', ', sort $bare->all('Vary')), "$name: Vary");
    }
}

$t->done();
