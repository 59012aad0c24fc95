#!/usr/bin/perl

# Copyright (C) mcds authors

# Clients that leave where nginx has a "post_action": the request that it makes
# of theirs neither builds the page nor ends its build as a response would, and
# is sent whatever theirs was doing.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT tally /;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => "%u %k" });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_cache                   on;
    mcds_cache_key               $uri;
    mcds_cache_lock_timeout      60s;
    mcds_cache_lock_age          100s;
    mcds_cache_wait              60s;
    mcds_cache_background_update off;
    recursive_error_pages        off;
    add_header X-Cache           $mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            post_action /done;
            proxy_pass  http://127.0.0.1:%%PORT_o%%;
        }
        location /part/ {
            post_action     /done;
            proxy_buffering off;
            proxy_pass      http://127.0.0.1:%%PORT_o%%;
        }
        location /done { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /next { mcds_cache off; return 200 next; }
    }
}
EOT

for my $recursive (qw/ off on /) {
    my $h = $t->nginx($recursive,
        $conf =~ s/(recursive_error_pages) +off/$1 $recursive/r);
    my $name = "recursive_error_pages $recursive";

    # a request that has been read before this one is answered waits by now

    my $ask = sub {
        my $p = start_get($h->port(), @_);
        $h->get('/next') for 1 .. 3;
        return $p;
    };

    # the client whose request builds: a page that is not there, a stale one,
    # and one that has come in part

    for my $way (qw{ /new/ /old/ /part/ }) {
        my $uri = "$way$recursive";
        my $what = "$name, $uri";

        if ($way eq '/old/') {
            $h->get($uri);
            page_expire($m, $uri, 1000);
        }

        $o->mark();
        $o->hold_path('/done');

        my $builds;

        if ($way eq '/part/') {
            $o->set($uri, { parts => ['begin', ['end', 600]] });
            $builds = start_get($h->port(), $uri);
            wait_for(sub { $builds->fill(0); $builds->{in} =~ /begin/ });
            $o->set($uri, undef);
        }

        $o->hold_path($uri);
        $builds //= start_get($h->port(), $uri);
        $o->wait_requests(1, $uri);

        my @wait = map { $ask->($uri) } 1 .. 3;

        $builds->close();

        ok($o->wait_requests(2, $uri), "$what: another one builds");
        ok($o->wait_requests(1, '/done'), "$what: post_action is sent");

        $o->release($uri);
        my @r = map { finish($_) } @wait;

        is($o->count($uri), 2, "$what: and no third one");
        like(tally(@r), qr/\b2 200 HIT\b/, "$what: two get its page");

        $o->release('/done');
        ok($o->wait_requests(4, '/done'), "$what: post_action for all");
        is(page_decode(page_wait($m, $uri))->{kind}, 0, "$what: a page");
    }

    # a client whose request waits

    my $uri = "/waits/$recursive";

    $o->mark();
    $o->hold_path($uri);

    my $builds = start_get($h->port(), $uri);
    $o->wait_requests(1, $uri);
    $ask->($uri)->close();
    my $stays = $ask->($uri);
    $o->release($uri);

    is(finish($_)->body(), "$uri 1", "$name: the page") for $builds, $stays;
    ok($o->wait_requests(3, '/done'), "$name: post_action for who waited");

    # ... and is to build, as the first one has left, too

    $uri = "/both/$recursive";

    $o->mark();
    $o->hold_path($uri);

    $builds = start_get($h->port(), $uri);
    $o->wait_requests(1, $uri);
    $ask->($uri)->close();
    $stays = $ask->($uri);
    $builds->close();

    ok($o->wait_requests(2, $uri), "$name: who stays builds");
    ok($o->wait_requests(2, '/done'), "$name: post_action for who left");
    $o->release($uri);

    is(finish($stays)->header('X-Cache'), 'MISS', "$name: and gets the page");
    ok(page_wait($m, $uri), "$name: which is stored");
}

$t->done();
