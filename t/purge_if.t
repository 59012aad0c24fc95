#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_purge_api in an "if" of a location with "mcds_purge_api on": where the
# "if" is true, its own mcds_purge_api applies, such as "off".

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache_key $uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        %%SERVER%%
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge {
            mcds_purge_api on;
            if ($arg_off) { mcds_purge_api off; }
            if ($arg_method) { mcds_purge_api method=PURGE; }
        }
    }
}
EOC

for my $server ('', 'mcds_cache on;') {
    my $name = $server ? 'cache' : 'alone';
    my $h = $t->nginx($name, $conf =~ s/%%SERVER%%/$server/r);
    my ($worker) = $h->workers();
    my $uri = "/$name";

    is($h->get($uri)->header('X-Cache'), 'MISS', "$name: built");
    page_wait($m, $uri);

    for my $if (qw/ off method /) {
        for my $what ("key=$uri", 'all', 'tag=a', 'host=localhost') {
            is($h->get("/purge?$what&$if=1")->status(), 404,
                "$name: $if, $what");
        }
    }

    is($h->get($uri)->header('X-Cache'), 'HIT', "$name: not purged");
    is($h->get("/purge?key=$uri")->status(), 200, "$name: purge");
    is($h->get($uri)->header('X-Cache'), 'STALE', "$name: purged");
    is(($h->workers())[0], $worker, "$name: by one worker");
}

$t->allow(qr/open\(\) .* failed \(2: No such file/);
$t->done();
