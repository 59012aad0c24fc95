#!/usr/bin/perl

# Copyright (C) mcds authors

# With "mcds_cache_local timed" of more than a day, a worker that has taken its
# copy of a page from mcds_zone asks memcached before it serves the copy: the
# page may have been purged.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('single', 'nginx cannot reload then');
$t->needs('mcds local');

my $f = $t->fake('m', sub {
    my ($f, $c, $line, $value) = @_;
    return unless ($f->mode // '') eq 'hold' && $line =~ m{^mg \S*/page };
    return if $f->{asked}++;
    return ($f->hold('page'), $f->default($line, $value));
});
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => 'page %n' });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 10s; }
    add_header X-Cache "$mcds_cache_status $mcds_cache_reason" always;

    server {
        listen           127.0.0.1:%%PORT%%;
        mcds_cache       on;
        mcds_cache_key   $uri;
        mcds_cache_grace off;
        mcds_cache_local timed=2d;
        mcds_cache_background_update off;
        mcds_purge_api   method=PURGE;

        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /idle { return 204; }
    }
}
EOT

is(shown($h->get('/page')), 'MISS absent: page 1', 'built');
ok(page_wait($f, '/page'), 'stored');
is(shown($h->get('/page')), 'HIT fresh: page 1', 'a copy of this host');

$h->reload(wait_old => 1);

is(http_request($h->port(), '/page', method => 'PURGE')->status(), 200,
    'purged, in a worker without a copy');

$f->tell('hold');
my $first = start_get($h->port(), '/page');
ok(wait_for(sub { $f->held('page') }), 'one request asks memcached');

my $second = start_get($h->port(), '/page');
$h->handled('/idle');
$f->release('page');

is(shown(finish($first)), 'EXPIRED purged: page 2', 'it builds the page');
like(shown(finish($second)), qr/: page 2$/, 'another one waits for it');

$t->done();


sub shown {
    my ($r) = @_;
    return $r->header('X-Cache') . ': ' . $r->body();
}
