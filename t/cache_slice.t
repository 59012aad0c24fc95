#!/usr/bin/perl

# Copyright (C) mcds authors

# With nginx's slice module the origin sends a file in parts, and a page of
# several parts is not stored: requests for it do not wait for each other.  One
# that fits into its first part is a page like any other.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();
$t->needs('http_slice');

my %files = ('/big' => join('', map { "line $_\n" } 1 .. 20_000),
    '/copied' => join('', map { "other $_\n" } 1 .. 20_000),
    '/part' => 'x' x 65_536, '/small' => 'small');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $file = $files{$q->{path}};
    my $all = length $file;
    my @headers = (ETag => '"1"', 'X-Range' => $q->{headers}{range} // 'none');

    my ($from, $to) = ($q->{headers}{range} // '') =~ /^bytes=(\d+)-(\d+)$/
        or return { headers => \@headers, body => $file };

    $to = $all - 1 if $to >= $all;

    return { status => 206, headers => [@headers,
        'Content-Range' => "bytes $from-$to/$all"],
        body => substr($file, $from, $to - $from + 1) };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache on;
    mcds_cache_valid 200 1m;
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            slice 64k;
            proxy_set_header Range $slice_range;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub is_file {
    my ($r, $uri, $cache, $name) = @_;

    is(join(' ', $r->status(), $r->header('X-Cache')), "200 $cache", $name);
    ok($r->body() eq $files{$uri}, "$name: the whole file");
}

# while the first client has got the first part only, the second one goes to
# the origin as well

$o->hold_path('/big');

my @p = start_get($h->port(), '/big');
$o->wait_requests(1, '/big');
push @p, start_get($h->port(), '/big');
$o->let('/big', 1);

ok($o->wait_requests(3, '/big'), 'a second request waits for no other');
$o->release('/big');

my @r = map { finish($_) } @p;

is($_->status(), 200, 'both get the file') for @r;
ok($_->body() eq $files{'/big'}, 'both get all of it') for @r;

# the page is marked

is(page_decode(page_wait($m, key('/big')))->{kind}, 1, 'there is a mark');
is_file($h->get('/big'), '/big', 'MISS status', 'several parts');

# a file of one part is stored

for my $uri ('/part', '/small') {
    is_file($h->get($uri), $uri, 'MISS absent', "$uri, one part");
    page_wait($m, key($uri)) or die "$uri is not stored\n";
    is_file($h->get($uri), $uri, 'HIT fresh', "$uri, stored");
    is($o->count($uri), 1, "$uri: the origin was asked once");
}

my $r = $h->get('/part', headers => { Range => 'bytes=1-3' });
is($r->status() . $r->body(), '206xxx', 'a range of a stored file');

$r = $h->get('/big', headers => { Range => 'bytes=70000-70009' });
is($r->status(), 206, 'a range of a marked file');
is($r->body(), substr($files{'/big'}, 70_000, 10), 'that range');

# the copy of a request, which builds for it, has no parts

$r = $h->get('/copied', headers => { Range => 'bytes=70000-70009' });
is($r->status(), 206, 'a range of a file that is not stored');
page_wait($m, key('/copied')) or die "/copied is not stored\n";
is_file($h->get('/copied'), '/copied', 'HIT fresh', 'built for a range');
is($o->count('/copied'), 1, 'built for a range: in one part');

is($h->get('/big', method => 'HEAD')->status(), 200, 'HEAD of a marked file');

$t->done();
