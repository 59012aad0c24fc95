#!/usr/bin/perl

# Copyright (C) mcds authors

# A reload gives a pool another prefix: memcached has other items under the same
# keys, and what the host remembers of the items of before, the numbers of
# counters and copies of pages, is not for these.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->allow(qr/mcds|memcached/)
    ->not_in('single', 'what nginx knows ends with the process');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_zone 8m;
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        fail_timeout 60s;
        prefix before:;
    }
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=n;
            mcds_return $n;
        }
        location /page {
            mcds_cache on;
            %%LOCAL%%
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $local = $t->has('mcds local') ? 'mcds_cache_local validated;' : '';
$conf =~ s/%%LOCAL%%/$local/;

my $h = $t->nginx('h', $conf);

is($h->get('/')->body(), $_, "count $_") for 1 .. 3;
is($h->get('/page')->header('X-Cache'), $_, "page: $_") for qw/ MISS HIT /;

$h->conf($conf =~ s/prefix before:/prefix behind:/r);
ok($h->reload(wait_old => 1), 'another prefix');

is($h->get('/')->body(), 1, 'another counter');
is($m->get('before:n'), 3, 'beside the one of before');

$m->kill9();
is($h->get('/page')->header('X-Cache'), 'MISS', 'another page');

$t->done();
