#!/usr/bin/perl

# Copyright (C) mcds authors

# C16: nginx with memory that is full of a pattern when it is handed out, and
# when it is given back: nothing of it is ever in an answer, or in what is
# stored, whatever way an answer takes.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');
$t->needs('mcds vary');

# glibc fills what is freed with this byte, what is handed out with its
# complement; neither is in anything that is sent here

$ENV{MALLOC_PERTURB_} = 0xb5;

my $pattern = qr/\xb5{4}|\x4a{4}/;

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60',
    'X-Empty' => '', ETag => '"e"', 'Content-Type' => 'text/html'] },
    paths => {
    '/empty' => { body => '' }, '/one' => { body => 'x' },
    '/page' => { body => 'y' x 4096 }, '/large' => { body => 'z' x 400_000 },
    '/chunked' => { body => 'c' x 9000, chunked => 1 },
    '/closed' => { body => 'd' x 9000, length => undef },
    '/short' => { body => 'e' x 9000, truncate => 5000 },
    '/reset' => { body => 'f' x 9000, abort => 6000 },
    '/error' => { status => 500 }, '/missing' => { status => 404 },
    '/none' => { status => 204, body => '' },
    '/moved' => { status => 301, headers => ['Cache-Control' => 'max-age=60',
        Location => '/page'] },
    '/odd' => { headers => ['Cache-Control' => 'max-age=60, x="', X => ''] },
    '/vary' => { headers => ['Cache-Control' => 'max-age=60',
        Vary => 'Accept-Language'] },
    '/private' => { headers => ['Cache-Control' => 'private'] },
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 300ms; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    add_header X-Views $views always;
    add_header X-Key $mcds_cache_key always;
    mcds_counter $views key=views:$uri;
    mcds_cache on;
    mcds_cache_status_header on;
    mcds_cache_key "$uri$regex";
    map $uri $regex {
        default                "";
        ~^/(?<a>never)(b)?$    $a;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location ~ ^/(x)?(p)age$ {
            gzip on;
            gzip_min_length 1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fail/ {
            proxy_pass http://127.0.0.1:%%PORT_nobody%%;
        }
    }
}
EOT

my @uris = map { "/$_" } qw( empty one page large chunked closed short reset
    error missing none moved odd vary private fail/x );
my @ways = ([], [headers => [Range => 'bytes=1-20']],
    [headers => [Range => 'bytes=0-0,-1']], [method => 'HEAD'],
    [headers => ['If-None-Match' => '"e"']], [version => '1.0'],
    [headers => ['Accept-Encoding' => 'gzip']],
    [headers => [Authorization => 'x']], [method => 'POST', body => 'x=y']);

my (@seen, $n);

sub look {
    my ($name) = @_;

    for my $uri (@uris) {
        for my $way (@ways) {
            my $r = $h->get($uri, @$way);
            my $all = $r->head() . $r->body();
            $n++;
            push @seen, "$name, $uri, @$way[0]" if $all =~ $pattern;
        }
    }

    push @seen, map { "$name, stored: $_" }
        grep { ($m->get($_) // '') =~ $pattern } $m->keys();
}

sub expire {
    for my $key (grep { !/:(?:lock|size)$/ } $m->keys()) {
        my $e = page_decode($m->get($key)) or next;
        page_expire($m, $key, 1000) if $e->{kind} == 0;
    }
}

for (1 .. $t->size(1, 50)) {
    look('at first');
    look('from the cache');

    expire();

    look('old, and refreshed');
    $o->set('*', { status => 503 });

    expire();

    look('old, the origin fails');
    $o->set('*', undef);
    $m->flush();
}

$m->stop();
my @down = map { $h->get($_) } @uris;
push @seen, map { 'without memcached' } grep {
    ($_->head() . $_->body()) =~ $pattern } @down;

is(join("\n", @seen), '', "$n answers, nothing of other memory in any");
$t->allow(qr/is down after/);

$t->done();
