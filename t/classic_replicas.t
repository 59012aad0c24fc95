#!/usr/bin/perl

# Copyright (C) mcds authors

# In the classic protocol, a server that is asked only which version of a page
# it has replies with the whole page.  That goes through its connection for
# large values: counters do not wait behind it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my @f = map { $t->fake("f$_") } 0 .. 1;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'],
    body => 'x' x 200_000 });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_f0%%;
        server       127.0.0.1:%%PORT_f1%%;
        distribution modula;
        replicas     2;
        protocol     classic;
    }
    add_header X-Cache $mcds_cache_status;
    mcds_cache_key $uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /count {
            mcds_counter $n key=n;
            mcds_return  "$n";
        }
    }
}
EOT

$h->get('/page');
ok(wait_for(sub { 2 == grep { defined $_->get('<>/page') } @f }), 'stored');

# once it knows that the page is large

$h->get('/page') for 1 .. 2;
$_->mark() for @f;
is($h->get('/page')->header('X-Cache'), 'HIT', 'a large page');
is($h->get('/count')->body(), 1, 'a counter');

for my $i (0 .. 1) {
    my %conn = map { $_->{key} => $_->{conn} }
        grep { ($_->{key} // '') =~ m{^(?:<>/page|n)$} } $f[$i]->log();

    ok($conn{'<>/page'} && $conn{n}, "server $i: both were asked for");
    isnt($conn{'<>/page'}, $conn{n}, "server $i: on different connections");
}

$t->done();
