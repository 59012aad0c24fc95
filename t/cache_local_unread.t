#!/usr/bin/perl

# Copyright (C) mcds authors

# A host also keeps a copy of a page that a purge has rebuilt, though no request
# has looked the page up there.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('two many', 'each worker has copies')
    ->allow(qr/mcds|memcached/);
$t->needs('mcds local');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Cache-Control' => 'max-age=60'],
        body => "page $q->{k}" };
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
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_purge_api method=PURGE mode=refresh;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my ($one, $two) = map { $t->nginx($_, $conf) } 'one', 'two';

sub which {
    my ($r) = @_;
    return $r->header('X-Cache') . ' ' . $r->body();
}

# the host that rebuilds the page has never looked for it

$one->get('/purged');
page_wait($m, key('/purged'));

my $r = $two->get('/purged', method => 'PURGE');
ok(decode_json($r->body())->{refresh}, 'a purge begins to rebuild a page');
ok(wait_for(sub {
    page_decode($m->get(key('/purged')))->{body} eq 'page 2'
}), 'the page is rebuilt');

$two->handled('/other');
$m->kill9();

is(which($two->get('/purged')), 'HIT page 2',
    'the copy of the rebuilt page is served without memcached');

$t->done();
