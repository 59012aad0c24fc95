#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_table_lookup: the variable is there for if, return, map and rewrite, in
# servers and locations, subrequests and redirects; one get at most; what is
# remembered; what happens without memcached.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at one worker');

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if ($f->mode() // '') ne 'hold' || $line !~ /held/;
    return ($f->hold('held'), $f->default($line, $value));
});

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 2s; }

    map $mode $mapped { on "it is on"; default "it is $mode"; }

    server {
        listen 127.0.0.1:%%PORT%%;

        mcds_table_lookup $mode switches $host unset remember=off;
        mcds_table_lookup $moved redirects $uri remember=off;

        if ($mode = closed) { return 503 "closed\n"; }
        if ($moved) { return 301 $moved; }

        location / { return 200 "$mode, $mapped\n"; }

        location = /own {
            mcds_table_lookup $own own $arg_key "default of $arg_key"
                              remember=5s;
            if ($own = no) { return 403; }
            return 200 "$mode $own\n";
        }
        location = /two {
            mcds_table_lookup $one own one remember=off;
            mcds_table_lookup $two own two 2 remember=off;
            return 200 "$one $two\n";
        }
        location = /off {
            mcds_table_lookup off;
            return 200 "$mode\n";
        }
        location = /late {
            set $key "held-$arg_key";
            mcds_table_lookup $late own $key none phase=preaccess remember=off;
            add_header X-Late $late;
            mcds_return "$late\n";
        }
        location = /late-early {
            set $key "held-$arg_key";
            mcds_table_lookup $early own "x$key" none remember=off;
            mcds_return "$early\n";
        }
        location = /jump {
            rewrite ^ /own last;
        }
        location = /try {
            mcds_table_lookup $target own target remember=off;
            try_files /none $target;
        }
        location = /ssi {
            ssi on;
            ssi_types *;
            mcds_table_lookup $own own a remember=off;
            set $sub_page '<!--# include virtual="/sub" -->';
            mcds_return '<!--# echo var="own" --> $sub_page';
        }
        location = /sub {
            mcds_table_lookup $sub own sub nothing remember=off;
            mcds_return "$own $sub";
        }
        location = /twice {
            mcds_table_lookup $x own one d1 remember=off;
            mcds_table_lookup $x own two d2 remember=off;
            return 200 "$x\n";
        }
        location = /twice-kept {
            mcds_table_lookup $x own three d1;
            mcds_table_lookup $x own four d2;
            return 200 "$x\n";
        }
        location = /level {
            mcds_table_lookup $one own first remember=5s;
            mcds_table_lookup $two own "second-$one" none remember=5s;
            return 200 "$one $two\n";
        }
        location = /nul { mcds_table_lookup $x "" a d; return 200 "$x\n"; }
        location = /mem {
            mcds_table_lookup $x own held remember=1h;
            return 200 "$x\n";
        }
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name levels;

        mcds_table_lookup $v groups $arg_u remember=5s;

        location / {
            mcds_table_lookup $v rights $v none remember=5s;
            return 200 "$v\n";
        }
    }
}
EOC

sub body { return $h->get(@_)->body() }


# a server's, for if, return and map

is(body('/'), "unset, it is unset\n", 'default');
$f->set('switches:localhost', 'on');
is(body('/'), "on, it is on\n", 'for "map"');
$f->set('switches:localhost', 'closed');
is($h->get('/')->status(), 503, 'for "if"');
$f->set('redirects:/a', 'http://other/b?c=d');
$f->delete('switches:localhost');
is($h->get('/a')->header('Location'), 'http://other/b?c=d', 'for "return"');
is($h->get('/b')->status(), 200, 'another URI');

$f->mark();
body('/');
is($f->count(qr/^mg/), 2, 'both, once');
is(scalar(keys %{{ map { $_->{read} => 1 } grep { $_->{cmd} eq 'mg' }
    $f->log() }}), 1, 'in one batch');


# a location's

is(body('/own?key=a'), "unset default of a\n", 'default with a variable');
$f->set('own:b', 'no');
is($h->get('/own?key=b')->status(), 403, 'for "if"');
is(body('/own'), "unset default of \n", 'no key');
$f->set('own:two', '22');
is(body('/two'), " 22\n", 'two');
is(body('/off'), "unset\n", 'off: only that of the server');
is(body('/jump?key=a'), "unset default of a\n", 'rewrite ... last');
$f->set('own:target', '/two');
is(body('/try'), " 22\n", 'try_files');
is(body('/nul'), "d\n", 'no table');

$f->set('own:held-x', 'found');
is(body('/late?key=x'), "found\n", 'phase=preaccess sees "set"');
is($h->get('/late?key=x')->header('X-Late'), 'found', 'in a header');
$f->set('own:xheld-x', 'found');
is(body('/late-early?key=x'), "none\n", 'the rewrite phase does not');

$f->set('own:a', 'A');
is(body('/ssi'), 'A A nothing', 'subrequests');


# one variable twice on a level

$f->set('own:one', '11');
$f->set('own:two', '22');
$f->mark();
is(body('/twice'), "22\n", 'the last directive of a level sets the variable');
is($f->count(qr/^mg own:/), 1, 'no other lookup is done');


# the keys are those before the lookups of the level, remembered or not

$f->set('own:first', 'a');
$f->set('own:second-', 'outer');
$f->set('own:second-a', 'inner');
is(body('/level'), "a outer\n", 'a variable of the same level is not set yet');
is(body('/level'), "a outer\n", 'nor when the worker remembers it');

$f->set('groups:u', 'x');
$f->set('rights:x', 'y');
$f->set('rights:y', 'z');

for my $n (1, 2) {
    is(body('/?u=u', headers => { Host => 'levels' }), "y\n",
        "$n: a lookup with the variable that an outer level has set");
}

is($f->count(qr/^mg (?:groups|rights):/), 2, 'each is done once');


# what is remembered

$f->mark();
is(body('/own?key=new'), "unset default of new\n", 'not there');
is(body('/own?key=new'), "unset default of new\n", 'not there again');
is($f->count(qr/own:new/), 1, 'asked once');
$f->set('own:new2', '2');
is(body('/own?key=new2'), "unset 2\n", 'there');
$f->set('own:new2', '3');
is(body('/own?key=new2'), "unset 2\n", 'is remembered');


# who asks at the same time, asks once

$f->tell('hold');

my @p = map { start_get($h->port(), '/mem') } 1 .. 20;

ok(wait_for(sub { $f->held('held') == 1 }), 'one asks');

my $gone = pop @p;

$gone->reset();
$f->tell('');
$f->release('held');
is(join('', map { finish($_)->body() } @p), "\n" x 19, 'all are answered');
is($f->count(qr/own:held/), 1, 'one get');


# what is not to be trusted

$f->set('redirects:/c', "/x\r\nX-Evil: 1");
is($h->get('/c')->status(), 200, 'control characters are left out');
ok($h->log_has(qr/"mcds_table_lookup" has left out/), 'which is said');

{
    my $wrong = '';

    for my $code (0 .. 31, 127) {
        $f->set('redirects:/c', '/x' . chr($code) . 'y');
        my $status = $h->get('/c')->status();
        $wrong .= " $code: $status" if $status != 200;
    }

    is($wrong, '', 'each of them');
}

$f->set('redirects:/c', 'x' x 40000);
is($h->get('/c')->status(), 200, 'too large');


# without memcached

$f->tell('hold');

my $r = $h->get('/late?key=x');

is($r->body(), "none\n", 'silent: default');
cmp_ok($r->calm(), '<', 3 * $t->slow(), 'not for long');
$f->tell('');
$f->refuse(1);
is($h->get('/late?key=x')->body(), "none\n", 'down: default') for 1 .. 5;
is(body('/twice-kept'), "d2\n", 'down: one variable twice') for 1 .. 3;
$f->refuse(0);

$t->done();
