#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached falls silent, or sends a byte now and then: a request goes on at
# the deadline of the pool, whatever was on its way, and not a moment after.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1);

$t->not_in('two many', 'it looks at one worker');

sub page { return "page of $_[0] " x 100 . "end\n" }

my $o = $t->origin('o', sub { return { body => page($_[1]->{path}) } });

my $f = $t->fake('m', sub {
    my ($f, $c, $line, $value) = @_;

    return if $f->mode() ne 'cut';

    my ($re, $state) = @{$f->{told}};

    return if $line !~ $re;

    my $bytes = $f->default($line, $value);

    return $f->bytewise($bytes, 0.05) if $state eq 'slow';

    my $first = index($bytes, "\n") + 1;
    my $len = length $bytes;

    my %keep = (sent => 0, line => int($first / 2), trailer => $len - 1,
        body => $first + int(($len - $first) / 2));

    return (substr($bytes, 0, $keep{$state}), $f->stall());
});

$t->fake('hole', blackhole => 1);

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server    127.0.0.1:%%PORT_m%%;
        timeout   200ms;
        max_fails 0;
    }
    mcds_pool hole {
        server          127.0.0.1:%%PORT_hole%%;
        timeout         600ms;
        connect_timeout 200ms;
        max_fails       0;
    }
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /n {
            mcds_counter $n key=count;
            mcds_return "<$n>\n";
        }
        location /hole {
            mcds_use hole;
            mcds_counter $n key=count;
            mcds_return "<$n>\n";
        }
        location /v {
            mcds_visitor_counter $v key=online visitor=$arg_u window=60s
                                 slots=1 interpolate=off;
            mcds_return "<$v>\n";
        }
        location /p {
            mcds_cache on;
            mcds_cache_key page:$uri;
            mcds_cache_valid 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $limit = 0.2;
my $id = 0;

$h->get('/p/hot');
ok(wait_for(sub { defined $f->get('<>page:/p/hot') }), 'a page is stored');

for my $state (qw/ sent line body trailer slow /) {
    cell("counter $state", '/n', '^ma count ', $state);
    cell("page $state", '/p/hot', '^mg <>page:', $state);
}

for my $state (qw/ sent line slow /) {
    cell("lock $state", '/p/new', '^ms \S+:lock ', $state);
    cell("greeting $state", '/n', '^version', $state, 1);
}

cell('all of a visit', '/v', '^m[sg]', 'sent');
cell('all of a page', '/p/new', '^m[sgd]', 'sent');
cell('MN', '/n', '^mn', 'trailer', 1);

# nobody waits for these

cell('store', '/p/new', '^ms <>page:\S+ \d{4}', 'sent', 0, 0);
cell('unlock', '/p/new', '^md', 'sent', 0, 0);

# neither does the mark of a visitor, as long as the sum comes

my $res;

for (1 .. 3) {
    $res = $h->get('/hole');
    is($res->body, "<>\n", 'no connection: no number');
    last if $res->calm < 0.2 + 0.05 * $t->slow();
}

in_time('no connection', $res, 0.2);

# commands that come late to a silent connection end with it

$f->tell('cut', '^ma count ', 'sent');

my $one = start_get($h->port(), '/n');
ok(wait_for(sub { $f->count(qr/^ma count/) > 0 && $f->connections() }),
    'one waits');

my @res = map { finish($_) } start_get($h->port(), '/n'), $one;

is($_->body, "<>\n", 'both have no number') for @res;
cmp_ok($res[0]->calm, '<', $limit + 0.05 * $t->slow(), 'none waits longer');

$t->done();


# a machine that was busy elsewhere makes one answer late, and a connection that
# the worker has begun before the request makes one early; a deadline that is
# wrong makes all of them so

sub cell {
    my ($name, @cell) = @_;
    my $res;

    for (1 .. 3) {
        $res = shot($name, @cell);
        last if timely($res, $cell[4] // $limit);
    }

    in_time($name, $res, $cell[4] // $limit);
}


sub shot {
    my ($name, $uri, $re, $state, $fresh) = @_;

    $uri .= ++$id if $uri =~ /new/;
    $uri .= '?u=' . ++$id if $uri eq '/v';

    $f->mark();
    $f->tell('cut', $re, $state);

    # the worker may connect again by itself, for counts that it has kept

    if ($fresh) {
        $f->close_all();
        $f->hang_up();
        wait_for(sub { $f->connections() == 0 });
    }

    my $res = $h->get($uri);

    my $good = $res->status == 200
        && $res->body eq ($uri =~ /^.p/ ? page($uri) : "<>\n");

    ok($good, "$name: answered without memcached");

    ok(wait_for(sub { $f->count(qr/$re/) }), "$name: it was silent");
    $f->tell('');

    # what came too late is not taken for the next answer; a store may still
    # wait on the connection that is silent, and a busy machine answers late

    ok(wait_for(sub { $h->get('/n')->body =~ /^<\d+>$/ }, 2),
        "$name: the next has a number");

    return $res;
}


sub in_time {
    my ($name, $res, $expect) = @_;

    ok(timely($res, $expect), "$name: at the deadline")
        or diag('after ' . $res->time() . " s, not $expect");
}


sub timely {
    my ($res, $expect) = @_;

    return $res->time() > $expect - 0.01
        && $res->calm() < $expect + 0.05 * $t->slow();
}
