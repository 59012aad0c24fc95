#!/usr/bin/perl

# Copyright (C) mcds authors

# With "protocol classic" some operations take several commands: a counter that
# is not there, a lock and its end.  Nothing is sent twice, all steps together
# keep to the timeout, and a lock is never taken from its next owner, even
# where that has the same CAS.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

my $timeout = 2 * $t->slow();
my $ms = $timeout * 1000;

my $o = $t->origin('o', { body => "page %n of %u\n" });

# the next owner of a lock has a name that is as long

my $next = 'another owner of the same length';

my $f = $t->fake('m', item_cas => 1, on_command => sub {
    my ($f, $c, $line, $value) = @_;

    my $mode = $f->mode();

    if ($mode eq 'slow' && $line =~ /^(incr|add) count /) {
        return ($f->hold($1), $1 eq 'add' ? "STORED\r\n" : "NOT_FOUND\r\n");
    }

    # somebody else makes it, and somebody deletes it

    return $line =~ /^incr/ ? "NOT_FOUND\r\n" : "NOT_STORED\r\n"
        if $mode eq 'never' && $line =~ /^(incr|add) count/;

    if ($mode eq 'race' && $line =~ /^add count/) {
        $f->put_item('count', 10);
        return "NOT_STORED\r\n";
    }

    # its next owner, at once, so that nobody sees that there is none

    if ($line =~ /^next_owner (\S+) (\d+)/) {
        $f->put_item($1, $next)->{cas} = $2;
        return "STORED\r\n";
    }

    # between the lock and its CAS

    if ($mode eq 'stolen' && $line =~ /^gets \S+:lock/) {
        $f->{mode} = '';
        $f->put_item((split / /, $line)[1], $next)->{cas} = 1;
        return;
    }

    return "SERVER_ERROR busy\r\n"
        if $mode eq 'ill' && $line =~ /^gets \S+:lock/;

    return $f->hold('gets') if $mode eq 'deaf' && $line =~ /^gets \S+:lock/;

    return;
});

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server    127.0.0.1:%%PORT_m%%;
        protocol  classic;
        timeout   ${ms}ms;
        max_fails 0;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /n {
            mcds_counter \$n key=count\$arg_k;
            mcds_counter_durable \$n off;
            mcds_return "<\$n>";
        }
        location /p {
            mcds_cache on;
            mcds_cache_key \$uri;
            mcds_cache_valid 1h;
            mcds_cache_lock_age 2s;
            mcds_cache_lock_timeout 1s pass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache \$mcds_cache_status;
        }
    }
}
EOT


# counters

sub commands {
    my ($re) = @_;
    return join ',', map { s/ (count|\S+:lock)\b//r =~ s/ \d+ \d+ 32\b.*//r }
        $f->commands($re);
}

is($h->get('/n')->body(), '<1>', 'made');
is($h->get('/n')->body(), '<2>', 'counted');
is(commands(qr/count/), 'incr 1,add 0 0 1,incr 1', 'three commands');

$f->delete('count');
$f->mark();
$f->tell('race');
is($h->get('/n')->body(), '<11>', 'somebody else made it');
is(commands(qr/count/), 'incr 1,add 0 0 1,incr 1', 'it is counted then');

$f->mark();
$f->tell('never');
is($h->get('/n')->body(), '<>', 'always somebody else');
is(commands(qr/count/), join(',', ('incr 1', 'add 0 0 1') x 3, 'incr 1'),
    'not for ever');


# the time of all steps is that of one

$f->mark();
$f->tell('slow');
my ($start, $watch) = (time(), $t->stopwatch());
my $p = start_get($h->port(), '/n');

ok(wait_for(sub { $f->held('incr') }), 'the first step');
select undef, undef, undef, $timeout / 2;
$f->release('incr');
ok(wait_for(sub { $f->held('add') }), 'the second one');

# another operation of this connection is behind, and is not to suffer

my $other = start_get($h->port(), '/n?k=2');

is(finish($p)->body(), '<>', 'no number');
my ($took, $calm) = (time() - $start, $watch->());
cmp_ok($took, '>', $timeout * 0.9, 'the time is used');
cmp_ok($calm, '<', $timeout * 1.35, 'and not more');

$f->tell('');
$f->release('add');
is(finish($other)->body(), '<1>', 'the one behind has its number');
is(commands(qr/ count /), 'incr 1,add 0 0 1', 'nothing was sent twice');
is($f->opened_count(), 0, 'the connection is the same');


# a lock is taken, learned, given back

my $lock = '<>/p/a:lock';

$f->mark();
is($h->get('/p/a')->body(), "page 1 of /p/a\n", 'built');
ok(wait_for(sub { $f->count(qr/^cas \S+:lock/) }), 'given back');
is(commands(qr/:lock/), 'add,gets,gets,cas 0 2592001 0 1', 'how');
ok(!defined $f->mc("get $lock") || $f->mc("get $lock") eq "END\r\n", 'gone');
is($h->get('/p/a')->header('X-Cache'), 'HIT', 'stored');


# the next owner has the same CAS

sub replaced {
    my ($uri, $extended) = @_;

    $f->mark();
    $o->hold_path($uri);

    my $get = start_get($h->port(), $uri);

    ok(wait_for(sub { $o->held($uri) }), "$uri: being built");

    ok(wait_for(sub { $f->count(qr/^cas \S+:lock 0 4 /) }, 5),
        "$uri: the lock is extended") if $extended;

    $f->mc("next_owner <>$uri:lock " . ($extended ? 2 : 1));

    return $get;
}

my $get = replaced('/p/b');
$f->mark();
$o->release('/p/b');
like(finish($get)->body(), qr{of /p/b}, 'served');
ok(wait_for(sub { $f->count(qr/^gets \S+:lock/) }), 'it is looked at');
$h->get('/n');
is($f->count(qr/^(?:cas|delete) \S+:lock/), 0, 'not touched');
like($f->mc('gets <>/p/b:lock'), qr/ 1\r\n$next\r/, 'and lives on');

$get = replaced('/p/c', 1);
ok($h->wait_log(qr{lock of "<>/p/c" was lost to another owner}), 'it is told');
$o->release('/p/c');
finish($get);
$h->get('/n');
like($f->mc('get <>/p/c:lock'), qr/\r\n$next\r/, 'and lives on');


# somebody else's from the start

$f->mark();
$f->tell('stolen');
my $res = $h->get('/p/d');
like($res->body(), qr{of /p/d}, 'stolen: served');
cmp_ok($res->time(), '>', 0.8, 'stolen: after waiting for the owner');
is($f->count(qr/^cas \S+:lock/), 0, 'stolen: not taken back');
like($f->mc('get <>/p/d:lock'), qr/\r\n$next\r/, 'stolen: lives on');


# no answer about its CAS: it is not ours

$f->mark();
$f->tell('deaf');
$res = $h->get('/p/e');
like($res->body(), qr{of /p/e}, 'deaf: served');
$h->get('/n');
is($f->count(qr/^(?:cas|delete) \S+:lock/), 0, 'deaf: left to its end');
$f->tell('');


# one that could not be extended may be another's before the second command: it
# is left to its end, too

$o->hold_path('/p/f');
$get = start_get($h->port(), '/p/f');
ok(wait_for(sub { $o->held('/p/f') }), 'ill: being built');
$f->tell('ill');
$start = time();
ok(wait_for(sub { time() > $start + 2.1 }), 'ill: its sure time is over');
$f->mark();
$o->release('/p/f');
like(finish($get)->body(), qr{of /p/f}, 'ill: served');
$h->get('/n');
is($f->count(qr/^(?:gets|cas|delete) \S+:lock/), 0, 'ill: not touched');

$t->done();
