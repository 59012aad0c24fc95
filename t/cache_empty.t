#!/usr/bin/perl

# Copyright (C) mcds authors

# An empty page is a page also where nginx makes it as a part of another
# request: behind a client, behind an old page, in SSI.  Before 1.23.4 nginx
# sends no end of the body there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { body => '' });
my $f = $t->origin('f', { body => '', length => 0 }, fastcgi => 1);

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    proxy_cache_path %%TMP%%/cache keys_zone=c:1m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_cache       on;
    mcds_cache_valid 200 1m;
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /file/ { proxy_pass http://127.0.0.1:%%PORT_files%%/; }
        location /short/ {
            mcds_cache_valid 200 1s;
            proxy_pass http://127.0.0.1:%%PORT_files%%/;
        }
        location /origin/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /fast/ {
            fastcgi_pass 127.0.0.1:%%PORT_f%%;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
        }
        location /warm {
            mcds_cache        off;
            proxy_cache       c;
            proxy_cache_key   key;
            proxy_cache_valid 200 1m;
            proxy_pass        http://127.0.0.1:%%PORT_o%%;
        }
        location /cached {
            proxy_cache       c;
            proxy_cache_key   key;
            proxy_pass        http://127.0.0.1:%%PORT_o%%;
        }
        location /page/ { ssi on; alias %%TMP%%/; }
    }
    server {
        listen 127.0.0.1:%%PORT_files%%;
        mcds_cache off;
        root %%TMP%%;
    }
}
EOT

$t->write_file('empty', '');
$t->write_file('empty.html', '<!--# include virtual="/file/empty" -->' x 2);

sub kind {
    my $page = page_wait($m, '<>http://localhost' . shift);
    return $page ? page_decode($page)->{kind} : 'nothing';
}

# asked for behind a client who wants it only if it is another

my %other = (headers => { 'If-None-Match' => '"other"' });

sub state_of {
    my $r = shift;
    return join ' ', $r->status(), $r->header('X-Cache') // '-',
        length $r->body();
}

$h->get('/warm');

for my $uri ('/file/empty', '/cached', '/origin/', '/fast/') {
    is(state_of($h->get($uri, %other)), '200 HIT 0', "$uri: built behind");
    is(kind($uri), 0, "$uri: stored");
}

is($o->count('/cached'), 0, 'from the cache of nginx');

# behind an old page

sub comes {
    my $status = shift;
    return wait_for(sub {
        ($h->get('/short/empty')->header('X-Cache') // '') eq $status
    });
}

is(state_of($h->get('/short/empty')), '200 MISS 0', 'a page of a second');
ok(comes('STALE'), 'is old');
ok(comes('HIT'), 'and then new');

# twice in a page: the second one does not wait for the first

$m->delete('<>http://localhost/file/empty');

my $r = $h->get('/page/empty.html', timeout => 10 * $t->slow());

is($r->status(), 200, 'a page of empty parts');
is(kind('/file/empty'), 0, 'the part is stored');
ok(!grep({ m{/page/} } $m->keys()), 'the page is a file, and not stored');

$t->done();
