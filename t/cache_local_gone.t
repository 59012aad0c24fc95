#!/usr/bin/perl

# Copyright (C) mcds authors

# Once memcached has told a worker that a page is another one by now, of which
# no copies are kept, the copy of before is gone, from the worker and from the
# zone of its host: it is not served when memcached does not answer.  Copies of
# other pages are.  The same goes for a page that the host has built anew while
# memcached does not answer.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('two many', 'each worker has copies')
    ->allow(qr/mcds|memcached/);
$t->needs('mcds local');

my $m = $t->memcached('m', args => ['-I', '64k', '-o',
    'slab_chunk_max=65536']);

# a page has the version that the origin is at when it is asked

my $version = $t->write_file('version', 1);

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $path = $q->{path};

    open my $f, '<', $version or die "$version: $!\n";
    my $v = <$f>;
    my $life = 'max-age=86400';

    return { headers => ['Cache-Control' => $life], body => "version $v" }
        if $v == 1 || $path !~ m{^/(\w+)/};

    return {
        status => $1 eq 'gone' ? 404 : 200,
        headers => [$1 eq 'gone' ? ()
            : ('Cache-Control' => $1 eq 'private' ? 'private' : $life),
            $1 eq 'vary' ? (Vary => 'X-A') : ()],
        body => "version $v" . ' large' x ($1 eq 'large' ? 20_000 : 0),
    };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        timeout      1s;
        fail_timeout 60s;
    }
    mcds_cache on;
    mcds_cache_local validated;
    mcds_cache_request_control on;
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_purge_api method=PURGE mode=delete;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my ($one, $two) = map { $t->nginx($_, $conf) } 'one', 'two';

my @kinds = ('gone', 'private', $t->has('mcds vary') ? 'vary' : (),
    $t->has('mcds large') ? 'large' : ());

# /.../read: the other host has stored the new version; /.../built: this host
# has; /.../purged: the other host has purged the page, and no more

my @uris = map { ("/$_/read", "/$_/built") } @kinds;
push @uris, '/gone/purged';

# the host builds the new version when memcached is away

my @down = map { "/$_/down" } @kinds;

for my $uri (@uris, @down, '/same') {
    $one->get($uri);
    page_wait($m, key($uri));
    ok(wait_for(sub { $two->get($uri)->header('X-Cache') eq 'HIT' }),
        "$uri: a copy");
}

$t->write_file('version', 2);

for my $uri (@uris) {
    my $built = $uri =~ /built/;
    my $before = $m->get(key($uri));

    # no purge tells the host that builds the new version

    my $r = $built
        ? $two->get($uri, headers => { 'Cache-Control' => 'no-cache' })
        : $one->get($uri, method => 'PURGE');
    is($r->status(), $built && $uri =~ /gone/ ? 404 : 200, "$uri: done");

    $one->get($uri) if $uri =~ /read/;
    ok(wait_for(sub { ($m->get(key($uri)) // '') ne $before }),
        "$uri: memcached has another version");
    unlike($two->get($uri)->body(), qr/version 1/, "$uri: which is served");
}

$m->kill9();

for my $uri (@uris) {
    like($two->get($uri)->body(), qr/^version 2/,
        "$uri: without memcached, too");
}

for my $uri (@down) {
    my $r = $two->get($uri);

    is($r->header('X-Cache') . ' ' . $r->body(), 'HIT version 1',
        "$uri: the copy, as nobody knows of another version");

    $r = $two->get($uri, headers => { 'Cache-Control' => 'no-cache' });
    like($r->body(), qr/^version 2/, "$uri: another version is built");

    like($two->get($uri)->body(), qr/^version 2/, "$uri: and the copy is gone");
}

is($two->get('/same')->header('X-Cache'), 'HIT', 'another copy is served');

# a new worker has nothing but the copies in the zone

$two->reload();

for my $uri (@uris, @down) {
    like($two->get($uri)->body(), qr/^version 2/, "$uri: nor in the zone");
}

$t->done();
