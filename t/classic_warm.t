#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached that is stopped gently and started again from its memory file (its
# option -e) still has counters and pages: with the meta commands and with the
# classic ones.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $shm = '/dev/shm';
my $file = "$shm/mcds-$$-" . $t->port('warm');

if (!-d $shm || !-w $shm) {
    $t->needs("a writable $shm");
}

END { unlink $file, "$file.meta" if defined $file }

my $m = $t->memcached('m', args => ['-e', $file],
    memory => 64);
my $o = $t->origin('o', { body => 'page ' . 'x' x 20000 . " %n of %u\n" });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool meta {
        server       127.0.0.1:%%PORT_m%%;
        fail_timeout 200ms;
    }
    mcds_pool classic {
        server       127.0.0.1:%%PORT_m%%;
        protocol     classic;
        fail_timeout 200ms;
    }
    mcds_cache_valid 1h;
    server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-N $n;
        add_header X-Cache $mcds_cache_status;
        location /meta {
            mcds_use meta;
            mcds_counter $n key=$uri durable=off;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /classic {
            mcds_use classic;
            mcds_counter $n key=$uri durable=off;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my %before;

for my $uri (qw{ /meta /classic }) {
    $h->get($uri) for 1 .. 4;

    my $r = $h->get($uri);
    is($r->header('X-N'), 5, "$uri: counted");
    is($r->header('X-Cache'), 'HIT', "$uri: stored");
    $before{$uri} = $r->body();
}


# SIGUSR1: memcached writes down where everything is

sub gently {
    $m->hang_up();
    kill 'USR1', $m->pid();
    my $pid = $m->pid();
    ok(wait_for(sub { waitpid($pid, 1) == $pid }, 10), 'memcached has ended');
    $t->gone($pid);
    $m->{pid} = 0;
}

gently();

is($h->get($_)->status(), 200, "$_: answered without it") for keys %before;

# it takes its file for one of the future when no second has passed

my $ended = time();
wait_for(sub { time() > $ended + 1 }, 5);

$m->up();

for my $uri (sort keys %before) {

    # not counted while it was away, never counted twice

    my $r;
    ok(wait_for(sub { defined(($r = $h->get($uri))->header('X-N')) }, 5),
        "$uri: counts again");
    is($r->header('X-N'), 6, "$uri: the counter goes on");
    is($r->header('X-Cache'), 'HIT', "$uri: the page is there");
    ok($r->body() eq $before{$uri}, "$uri: the very same");
}


# what it says of itself: this was no empty start

cmp_ok($m->stats()->{curr_items}, '>=', 4, 'items of before');

# an ordinary restart for comparison: all is new

unlink $file, "$file.meta";
$m->kill9();
unlink $file, "$file.meta";
$m->up();

ok(wait_for(sub { ($h->get('/meta')->header('X-N') // 9) < 3 }, 5),
    'without the file it begins at 1');

$t->done();
