#!/usr/bin/perl

# Copyright (C) mcds authors

# A location of "post_action" may have a "post_action" itself, whose location
# does not run without its own lock: also if the first location was refused its
# lock, or has led the request to an error page.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { status => 502 } if $req->{path} eq '/fails';
    return { body => "page\n" };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 50s; }

    recursive_error_pages  off;
    proxy_intercept_errors on;
    proxy_set_header       X-Lock $mcds_lock_status;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /page {
            post_action /first;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location = /first {
            internal;
            mcds_lock   first;
            post_action /second;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location = /other {
            post_action /fails;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location = /fails {
            internal;
            mcds_lock  fails;
            error_page 502 = /sorry;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /sorry {
            internal;
            post_action /second;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location = /second {
            internal;
            mcds_lock  second;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /owns/first {
            mcds_lock  first;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /owns/second {
            mcds_lock  second;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $recursive (qw/ off on /) {
    my $h = $t->nginx($recursive,
        $conf =~ s/(recursive_error_pages) +off/$1 $recursive/r);
    my $name = "recursive_error_pages $recursive";

    my $refused = sub {
        my ($key) = @_;
        return $h->log_count(qr/refuses the request, "$key" is/);
    };

    # the first lock has another owner

    $o->mark();
    $o->hold_path('/owns/first');

    my $first = start_get($h->port(), '/owns/first');

    $o->wait_requests(1, '/owns/first');
    is($h->get('/page')->status(), 200, "$name: a response");
    ok($o->wait_requests(1, '/second', 10), "$name: the second location runs");
    is($o->count('/first'), 0, "$name: the first one does not");

    my ($r) = $o->requests('/second');

    is($r->{headers}{'x-lock'}, 'acquired', "$name: under its lock");

    # both have

    $o->mark();
    $o->hold_path('/owns/second');

    my $second = start_get($h->port(), '/owns/second');

    $o->wait_requests(1, '/owns/second');

    for my $uri ('/page', '/other') {
        my $n = $refused->('second');

        is($h->get($uri)->status(), 200, "$name, $uri: a response");
        ok(wait_for(sub { $refused->('second') > $n || $o->count('/second') }),
            "$name, $uri: the second location is refused its lock");
        is($o->count('/second'), 0, "$name, $uri: and does not run");
    }

    is($o->count('/sorry'), 1, "$name: there was an error page");

    $o->release($_) for '/owns/first', '/owns/second';
    is(finish($_)->status(), 200, "$name: the owner") for $first, $second;
    ok(wait_for(sub { !grep { defined $m->get($_) } qw/ first second fails / }),
        "$name: nothing is locked");
}

$t->done();
