#!/usr/bin/perl

# Copyright (C) mcds authors

# A client leaves while its purge waits for memcached, whichever command it is
# that is not answered: the purge goes on to its end, and nothing else is hurt.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many single', 'it looks at one worker');

# the command of that number, from the first one of a purge on, is held

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if $f->mode() ne 'hold' || $line !~ /^m[gsad] /
        || $f->{told}[0]--;

    $f->{mode} = '';
    return ($f->hold('purge'), $f->default($line, $value));
});

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600',
    'Cache-Tag' => 'a'], body => 'version %k' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 20s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;
    mcds_cache on;
    mcds_cache_key $uri;
    mcds_cache_tag $upstream_http_cache_tag;
    mcds_purge_api method=PURGE mode=delete;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /purge { mcds_cache off; mcds_purge_api on mode=delete; }
    }
}
EOT

my ($worker) = $h->workers();

sub left { return scalar(() = $h->access_log() =~ / 499 /g) }

for my $way (qw/ method api /) {
    my $n = 0;

    for my $at (0 .. 3) {
        my $uri = "/$way/$at";

        ok(wait_for(sub { $h->get($uri)->header('X-Cache') =~ /^HIT/ }),
            "$uri: a page");

        my $left = left();

        $f->tell('hold', $at);

        my $p = $way eq 'api'
            ? start_get($h->port(), "/purge?key=$uri")
            : start_get($h->port(), $uri, method => 'PURGE');

        # a purge may have fewer commands than that

        wait_for(sub { $p->fill(0); $f->held('purge') || length $p->{in} });

        if (!$f->held('purge')) {
            $f->tell('');
            finish($p);
            next;
        }

        $n++;
        $p->reset();
        ok(wait_for(sub { left() > $left }, 10), "$uri: the client has left");
        $f->release('purge');
        ok(wait_for(sub { $h->get($uri)->body() eq 'version 2' }),
            "$uri: it is purged all the same");
    }

    cmp_ok($n, '>=', 2, "$way: $n purges were left");
}

is(($h->workers())[0], $worker, 'the worker lives');

$t->done();
