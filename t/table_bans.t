#!/usr/bin/perl

# Copyright (C) mcds authors

# A ban list of 100,000 addresses: a request is decided with one get at most,
# with none when it is remembered; a change is in effect on all hosts within the
# time that is remembered; the list stays in proportion to what is in it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Time::HiRes qw/ time /;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

my $m = $t->memcached('m', memory => 256);

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 2s; }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            mcds_table_lookup $banned bans $arg_ip remember=500ms;
            if ($banned) { return 403; }
            return 204;
        }
        location = /asked {
            mcds_table_lookup $banned bans $arg_ip remember=off;
            if ($banned) { return 403; }
            return 204;
        }
        location = /hour {
            mcds_table_lookup $banned bans $arg_ip remember=1h;
            if ($banned) { return 403; }
            return 204;
        }
        location /bans/ {
            mcds_table_api   bans;
            mcds_api_methods GET PUT POST DELETE;
        }
    }
}
EOC

# a sanitizer does not let the loop be watched, and takes its time

my $watched = !$t->watched();
my @h = map { $t->nginx($_, $conf, loop => $watched) } qw/ a b /;
my $n = $t->size(40000, 100000);
my @bans = map { join '.', 10, unpack('CCC', substr(pack('N', $_), 1)) }
    1 .. $n;


# all of them

if ($watched) { $_->loop_begin() for @h }

for (my $i = 0; $i < $n; $i += 20000) {
    my $r = post(@bans[$i .. $i + 19999]);

    is($r->status(), 204, "banned up to $i");
}

my $r = $h[1]->get('/bans/');

is($r->body(), '["' . join('","', @bans) . "\"]\n", 'the list has all');
is(status(0, $bans[0]), 403, 'the first is banned');
is(status(1, $bans[-1]), 403, 'the last is banned');
is(status(0, '192.0.2.1'), 204, 'another is not');

if ($watched) {
    my ($longest) = sort { $b <=> $a }
        map { my $h = $_; map { $h->loop($_)->{longest} } 0, 1 } @h;

    cmp_ok($longest, '<', 100, 'no worker was long at it');
    note("longest turn: $longest ms");
}


# gets

my $gets = gets();

$h[0]->get("/asked?ip=$bans[$_ * 7]") for 1 .. 50;
is(gets() - $gets, 50, 'one get for each');
$h[0]->get("/hour?ip=$bans[3]") for 1 .. 4;
$gets = gets();
$h[0]->get("/hour?ip=$bans[3]") for 1 .. 50;
cmp_ok(gets() - $gets, '<=', 2, 'none when it is remembered');
$h[0]->get('/hour?ip=192.0.2.9') for 1 .. 4;
$gets = gets();
$h[0]->get('/hour?ip=192.0.2.9') for 1 .. 50;
cmp_ok(gets() - $gets, '<=', 2, 'nor when it is not there');


# a change

for my $ip ('198.51.100.1', '2001:db8::7') {
    is(join(' ', map { status($_ % 2, $ip) } 1 .. 12), join(' ', (204) x 12),
        "$ip is not banned");

    $h[0]->get("/bans/$ip?ttl=1h", method => 'PUT');

    my $start = time();
    my ($last, $lost) = ($start, $t->lost());

    # when the last request came that was told the former state

    ok(wait_for(sub {
        my $old = 0;

        for my $i (1 .. 12) {
            my $now = time();
            next if status($i % 2, $ip) == 403;
            ($old, $last) = (1, $now);
        }

        return !$old;
    }, 10), 'is banned everywhere');

    cmp_ok($last - $start - ($t->lost() - $lost), '<', 1.1, 'in time');

    $h[0]->get("/bans/$ip", method => 'DELETE');
    ok(wait_for(sub { !grep { status($_ % 2, $ip) != 204 } 1 .. 12 }, 10),
        'is no longer banned');
}


# the list is written anew when most of it is of no use

my $items = grep { /^bans(?::[0-9a-f]{16})?$/ } $m->keys();

for (1 .. 2) {
    post(@bans[0 .. 19999]) for 1 .. 2;
    post(@bans[20000 .. 39999]) for 1 .. 2;
}

ok(wait_for(sub { (grep { /^bans(?::[0-9a-f]{16})?$/ } $m->keys())
    < 3 * $items + 10 }, 20), 'the list does not grow for ever');
is(scalar split(/,/, $h[1]->get('/bans/')->body()), $n, 'and has all');

ok((grep { /^#\d+$/ } split(/\n/, $m->get('bans') // '')),
    'it was written anew');

is($h[0]->get('/bans/', method => 'DELETE')->status(), 204, 'delete all');
is($h[1]->get('/bans/')->body(), "[]\n", 'all are gone');
ok(wait_for(sub { !$m->keys() }, 20), 'from memcached, too');

$t->done();


sub post {
    return $h[0]->get('/bans/', method => 'POST',
        body => '["' . join('","', @_) . '"]',
        headers => { 'Content-Type' => 'application/json' });
}


sub status {
    my ($i, $ip) = @_;

    return $h[$i]->get("/?ip=$ip")->status();
}


sub gets { return $m->stats()->{cmd_get} }
