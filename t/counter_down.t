#!/usr/bin/perl

# Copyright (C) mcds authors

# A counter that cannot count: the page is more important than its number.
# Whatever memcached does, the answer is 200, without a number, after the
# pool's timeout at most; nothing is counted twice; and it recovers.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at one worker');

my $m = $t->memcached('m');
my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if $line !~ /^m[ag] / || !$f->mode();
    return $f->stall() if $f->mode() eq 'silent';
    return "SERVER_ERROR out of memory storing object\r\n"
        if $f->mode() eq 'full';

    return ($f->hold('answer'), $f->default($line, $value))
        if $f->mode() eq 'hold';
    return $f->default($line, $value) =~ s/VA \d+ (.*\r\n)\d+/VA 4 $1text/r
        if $f->mode() eq 'text';

    if ($f->mode() eq 'lost') {
        $f->default($line, $value);
        return $f->fin();
    }

    return;
});

my $conf = <<'EOT';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_f%%;
        timeout 1s;
        connect_timeout 1s;
        fail_timeout 300ms;
    }
    mcds_pool real { server 127.0.0.1:%%PORT_m%%; }
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-N "[$n]";
        add_header X-P "[$p]";
        location / {
            mcds_counter $n key=n;
            mcds_return "page";
        }
        location = /two {
            mcds_use real;
            mcds_counter $n key=text;
            mcds_counter $p key=p;
            mcds_return "page";
        }
        location = /key {
            mcds_counter $n key=$arg_k;
            mcds_counter $p key=p;
            mcds_return "page";
        }
    }
}
EOT

my $timeout = 1;
my $h = $t->nginx('h', $conf);


# values that are no numbers

for my $text ('text', '', '-1', '1.5', '99999999999999999999999') {
    $m->set('text', $text);
    my $r = $h->get('/two');
    is(join(' ', map { $r->header($_) // '' } qw/ X-N X-P /)
        =~ s/\d+/1/r, '[] [1]', "not a number: '$text'");
    is($m->get('text'), $text, 'is left alone');
}

$m->set('text', '41 ');
is(answer('/two', 'X-N'), '200 [42]', 'a number with a space behind');
$m->set('text', '18446744073709551615');
is(answer('/two', 'X-N'), '200 [0]', 'after 2^64 - 1 it begins anew');


# no key, no number; any other text is one

$f->mark();
is(answer('/key', 'X-N'), '200 []', 'empty key');
is($f->count(qr/^ma (?!p )/), 0, 'not counted');
is($h->get('/key')->header('X-P'), '[2]', 'but the other one is');

is(answer('/key?k=a%20b', 'X-N'), '200 [1]', 'a key as written');
is($f->get('a%20b'), 1, 'lies under its name');
is(answer('/key?k=' . 'x' x 300, 'X-N'), '200 [1]', 'a long key');
is($f->count(qr/^ma sha1:[0-9a-f]{40} /), 1, 'is hashed');


# an answer that is lost: not known, and never asked again

is(answer('/'), '200 [1]', 'before');
$f->mark();
$f->tell('lost');
is(answer('/'), '200 []', 'an answer is lost');
$f->tell('');
is(answer('/'), '200 [3]', 'it was counted once');
is($f->count(qr/^ma n /), 2, 'and sent once');

$f->tell('full');
is(answer('/'), '200 []', 'a server error');
$f->tell('');
is(answer('/'), '200 [4]', 'the connection goes on');

$f->tell('text');
is(answer('/'), '200 []', 'an answer that is no number');
$f->tell('');
is(answer('/'), '200 [6]', 'and the next one is');


# the client leaves before its number has come

$f->tell('hold');
my $p = start_get($h->port(), '/');
ok(wait_for(sub { $f->held('answer') }), 'left: the answer is held');
$p->reset();
ok($h->wait_log(qr/client prematurely closed connection/), 'left: seen');
$f->tell('');
$f->release('answer');
is(answer('/'), '200 [8]', 'left: it has counted');


# silence: the timeout at most, then the breaker

$f->tell('silent');
$f->mark();

my @r = many(20, sub { [$h->port(), '/'] });
is(scalar(grep { $_->status() == 200 && $_->header('X-N') eq '[]' } @r), 20,
    'silent: all answered');
cmp_ok($_, '<', ($timeout + 0.3) * $t->slow(), 'silent: within the timeout')
    for (sort { $b <=> $a } map { $_->calm() } @r)[0];

ok(wait_for(sub { $h->get('/'); $h->log_has(qr/is down after 3 failures/) }),
    'silent: the server is down');

my $before = $f->count(qr/^ma /);
@r = map { $h->get('/') } 1 .. 3;
is(scalar(grep { $_->status() == 200 && $_->header('X-N') eq '[]' } @r), 3,
    'down: answered');
is($f->count(qr/^ma /), $before, 'down: it is not asked');

$f->tell('');
ok(wait_for(sub { $h->get('/')->header('X-N') ne '[]' }), 'up again');


# gone

$f->refuse(1);
$f->close_all();
@r = many(20, sub { [$h->port(), '/'] });
is(scalar(grep { $_->status() == 200 && $_->header('X-N') eq '[]' } @r), 20,
    'refused: all answered');
cmp_ok($_, '<', $timeout, 'refused: at once')
    for (sort { $b <=> $a } map { $_->calm() } @r)[0];

$f->refuse(0);
ok(wait_for(sub { $h->get('/')->header('X-N') ne '[]' }), 'back again');

$t->allow(qr/memcached server .* is down/);
$t->done();


sub answer {
    my ($uri, $header) = @_;
    my $r = $h->get($uri);
    return $r->status() . ' ' . ($r->header($header // 'X-N') // 'none');
}
