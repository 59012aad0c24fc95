#!/usr/bin/perl

# Copyright (C) mcds authors

# What the parameters of mcds_counter do: by=, ttl=, period=, if=, read; and
# mcds_counter_init.  (Those of answers and async have files of their own.)

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $m = $t->memcached('m');
my $f = $t->fake('f');

my $h = $t->nginx('a', <<'EOT');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; }
    mcds_use main;

    map $http_user_agent $human { default 1; ~*bot ""; ~*crawler 0; ~zero 00; }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /by { mcds_counter $n key=by by=5; mcds_return "$n"; }
        location = /down {
            mcds_counter $n key=$arg_k by=-3;
            mcds_return "$n";
        }
        location = /any {
            mcds_counter $n key=$arg_k by=$arg_n;
            mcds_return "$n";
        }
        location = /minus {
            mcds_counter $n key=$arg_k by=-$arg_n;
            mcds_return "$n";
        }
        location = /both {
            mcds_use fake;
            mcds_counter $n key=both by=$arg_n;
            mcds_return "$n";
        }

        location = /ttl { mcds_counter $n key=ttl ttl=1h; mcds_return "$n"; }

        location = /hour {
            mcds_counter $n key=hour period=1h;
            mcds_return "$n";
        }
        location = /day {
            mcds_counter $n key=day period=1d@22h ttl=3d;
            mcds_return "$n";
        }
        location = /second {
            mcds_counter $n key=second period=1s;
            mcds_return "$n";
        }
        location = /now {
            mcds_counter $n key=hour period=1h read;
            mcds_return "$n";
        }

        location = /init {
            mcds_counter $n key=$arg_k by=$arg_n;
            mcds_counter_init $n 1000;
            mcds_return "$n";
        }
        location = /inits {
            mcds_use fake;
            mcds_counter $n key=inits;
            mcds_counter_init $n 1000;
            mcds_return "$n";
        }

        location = /if { mcds_counter $n key=if if=$human; mcds_return "$n"; }
        location = /read {
            mcds_counter $n key=$arg_k read;
            mcds_return "$n";
        }
        location = /from {
            mcds_counter $n key=$arg_k read;
            mcds_counter_init $n 7;
            mcds_return "$n";
        }
        location = /turn {
            mcds_use fake;
            mcds_counter $n key=turn if=$arg_c;
            mcds_return "$n";
        }
    }
}
EOT

sub body { return $h->get($_[0])->body() }


# by=

is(body('/by'), 5, 'by=5');
is(body('/by'), 10, 'by=5, again');

$m->set('d', 7);
is(join(' ', map { body('/down?k=d') } 1 .. 4), '4 1 0 0', 'ends at 0');
is(body('/down?k=none'), 0, 'from nothing');
is($m->get('none'), '0', 'it is there then');
is(body('/any?k=d&n=12') . ' ' . body('/minus?k=d&n=5'), '12 7',
    'by a variable');
is(body('/any?k=d&n=-2') . ' ' . body('/any?k=d&n=0'), '5 5', 'of any sign');
is(body('/any?k=d'), 5, 'by nothing: not counted, but shown');
is($h->log_count(qr/by=/), 0, 'which is no mistake');

for my $bad ('x', '1x', '1.5', '--1', '%201', '-', '2000000000000000000',
    '99999999999999999999999999')
{
    is(body("/any?k=d&n=$bad"), 5, "by=$bad: not counted, but shown");
}

is($h->log_count(qr/\[warn\].* "by=" of variable "\$n" is no number: "x", it/),
    1, 'which is said once');
is(body('/any?k=big&n=1000000000000000000'), '1000000000000000000',
    'a large one');
is(body('/minus?k=big&n=999999999999999999') + 0, 1, 'and back');


# what is added in one turn is one sum, what is subtracted is not

my @c = map { $h->conn() } 1 .. 6;

$f->set('both', 4);
$f->mark();
is(turn(map { "/both?n=$_" } 2, 2, -3, 2, -3), '4 6 7 8 10',
    'numbers in one turn');
is(join("\n", sort map { s/ k O\w+$//r } $f->commands(qr/^ma/)),
    join("\n", ('ma both N0 J0 D3 MD v t') x 2, 'ma both N0 J6 D6 v'),
    'and their commands');

$h->get('/inits');
$f->mark();
is(turn(('/inits') x 3), '1002 1003 1004', 'init in one turn');
is(scalar($f->commands(qr/^ma inits N\d+ J1004 D3 /)), 1, 'one command');

$f->mark();
is(turn('/turn', '/turn?c=1', '/turn', '/turn?c=1', '/turn?c=1', '/turn'),
    '0 1 1 2 3 3', 'some of them count');
is(join(' ', map { /^(ma turn) .*(D\d+)/ ? "$1 $2" : $_ } $f->commands()),
    'ma turn D3', 'in one command');
$f->mark();
is(turn(('/turn') x 6), '3 3 3 3 3 3', 'none of them counts');
is(join(' ', map { /^(m. turn)/ } $f->commands()), 'mg turn',
    'one command, too');
$_->close() for @c;


# ttl= is that of the item, from its start on

is(body('/ttl'), 1, 'ttl=1h');
ttl_between($m, 'ttl', 3590, 3600, 'lives an hour');
$m->set('ttl', 5, 100);
is(body('/ttl'), 6, 'a later one');
ttl_between($m, 'ttl', 1, 100, 'does not make it live longer');


# window=

is(join(' ', map { body('/hour') } 1 .. 2) =~ s/^1 1$/1 2/r, '1 2', 'window');

my ($hour) = grep { /^hour:/ } $m->keys();
my $now = time();

like($hour // '', qr/^hour:\d+$/, 'the key has its number');
cmp_ok($now / 3600 - $hour =~ s/.*://r, '<', 1.1, 'that of the hour');
my $left = 3600 - $now % 3600;
ttl_between($m, $hour, $left + 51, $left + 69, 'it lives a minute longer')
    if $left > 10;
is(body('/now'), body('/now'), 'reads the same') if $left > 2;

is(body('/day'), 1, 'period=1d@22h ttl=3d');

my ($day) = grep { /^day:/ } $m->keys();

is($day, 'day:' . int((time() - 22 * 3600) / 86400), 'begins at 22 UTC');
cmp_ok($m->ttl($day), '>', 2.9 * 86400, 'lives as long as ttl says');

is(body('/second'), 1, 'period=1s');
ok(wait_for(sub { body('/second') == 1 && 1 < grep { /^second:/ } $m->keys() }),
    'the next one begins anew');


# mcds_counter_init

is(body('/init?k=i1&n=5'), 1005, 'from 1000, by=5');
is(body('/init?k=i1&n=5'), 1010, 'once');
is(body('/init?k=i2&n=-5'), 995, 'from 1000, by=-5');
is(body('/init?k=i3&n=-5000'), 0, 'from 1000, by=-5000');
is(body('/init?k=i4'), 1000, 'not counted');
is($m->get('i4') // 'none', 'none', 'nor made');


# if=, read

is($h->get('/if', headers => { 'User-Agent' => $_->[0] })->body(), $_->[1],
    "if: $_->[0]")
    for ['a', 1], ['a bot', 1], ['b', 2], ['crawler', 2], ['zero', 3];

is(body('/read?k=if'), 3, 'read');
is(body('/read?k=if'), 3, 'read, again');
is(body('/read?k=absent'), 0, 'read what is not there');
is(body('/from?k=absent'), 7, 'with init');
is($m->get('absent') // 'none', 'none', 'it is not made');
is(body('/read?k=') . body('/from'), '', 'no key, no number');

$m->set('text', 'a text');
is(body('/read?k=text'), '', 'no number');
$m->set('text', 'x' x 5000);
is(body('/read?k=text'), '', 'a long text');
$m->set('padded', '7  ');
is(body('/read?k=padded'), 7, 'padded with spaces');
$m->stop();
is($h->get('/read?k=if')->status(), 200, 'without memcached');
is(body('/read?k=if'), '', 'no number');

$t->allow(qr/memcached server .* is down/);
$t->done();


# requests that a worker finds in one turn; the numbers, sorted

sub turn {
    my (@uris) = @_;

    $_->get('/by') for @c;

    $h->freeze();
    $c[$_]->request($uris[$_]) for 0 .. $#uris;
    $h->cont();

    return join ' ', sort { $a <=> $b }
        map { $_->response()->body() } @c[0 .. $#uris];
}
