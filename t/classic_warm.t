#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached that is stopped gently and started again from its memory file (its
# option -e) still has counters, pages and logs: with the meta commands and with
# the classic ones; and counters and lists with "ttl=off", as for a store that
# keeps its data for ever.  (Debian 12 has no other one that keeps them and
# speaks the classic protocol.)

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
        timeout      2s;
        fail_timeout 200ms;
    }
    mcds_pool classic {
        server       127.0.0.1:%%PORT_m%%;
        protocol     classic;
        timeout      2s;
        fail_timeout 200ms;
    }
    mcds_pool forever {
        server       127.0.0.1:%%PORT_m%%;
        protocol     classic ttl=off;
        prefix       off:;
        timeout      2s;
        fail_timeout 200ms;
    }
    mcds_cache_valid 1h;
    log_format uri $request_uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-N $n;
        add_header X-Cache $mcds_cache_status;
        location /meta {
            mcds_use meta;
            mcds_log meta uri pool=meta;
            mcds_counter $n key=$uri;
            mcds_counter_durable $n off;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /classic {
            mcds_use classic;
            mcds_log classic uri pool=classic;
            mcds_counter $n key=$uri;
            mcds_counter_durable $n off;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /log/meta { mcds_log_api meta pool=meta; }
        location /log/classic { mcds_log_api classic pool=classic; }
        location /off/ {
            mcds_use forever;
            mcds_counter $n key=$uri;
            mcds_counter_init $n 1000;
            mcds_return "$n";
        }
        location /off/plain {
            mcds_use forever;
            mcds_counter $n key=$uri;
            mcds_counter_durable $n off;
            mcds_return "$n";
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
    ok(wait_for(sub { lines($uri) == 5 }), "$uri: logged");
}

is(join(' ', map { $h->get("/off/$_")->body() } qw/ a a plain plain /),
    '1001 1002 1 2', 'ttl=off: counted');
is($m->ttl("off:/off/$_"), -1, "ttl=off: $_ never ends") for qw/ a plain /;


# events of that location in its log

sub lines {
    my ($uri) = @_;
    return scalar(() = $h->get("/log$uri")->body() =~ /\Q$uri\E/g);
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

    # never counted twice; what was counted while it was away is added, at once
    # or a little later, and so is a count whose answer was late

    my ($r, $asked) = (undef, 0);
    ok(wait_for(sub { $asked++;
        defined(($r = $h->get($uri))->header('X-N')) }, 5),
        "$uri: counts again");
    ok($r->header('X-N') >= 6 && $r->header('X-N') <= 6 + $asked,
        "$uri: the counter goes on") or diag($r->header('X-N'), " of $asked");
    is($r->header('X-Cache'), 'HIT', "$uri: the page is there");
    ok($r->body() eq $before{$uri}, "$uri: the very same");
    ok(wait_for(sub { lines($uri) >= 6 }), "$uri: the log goes on");
}

# a host that has never heard of them

$h->quit();
$h->up();

is(join(' ', map { $h->get("/off/$_")->body() } qw/ a plain a plain /),
    '1003 3 1004 4', 'ttl=off: the counters go on');

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
