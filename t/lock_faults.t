#!/usr/bin/perl

# Copyright (C) mcds authors

# Locks when memcached's answers are lost, or are others than expected: never
# one that is held by mistake, none that stays behind for long, none of others
# released.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { body => ($req->{headers}{'x-token'} // 'none') . "\n" };
});

# what to do with commands that match: "late" does them, but never answers

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;
    my ($what, $re) = split ' ', $f->mode() // '', 2;

    return if !defined $re || $line !~ /$re/;
    $f->default($line, $value) if $what eq 'late';
    return $f->stall() if $what eq 'late' || $what eq 'stall';
    return "SERVER_ERROR out of memory storing object\r\n" if $what eq 'full';
    return $f->default($line, $value) =~ s/ c\d+/ c0/r if $what eq 'nocas';
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; max_fails 0; }
    mcds_api_methods GET POST DELETE;

    add_header X-Lock $mcds_lock_status always;
    proxy_set_header X-Token $mcds_lock_token;
    log_format lock '$uri $mcds_lock_status';
    access_log %%DIR%%/lock.log lock;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /f/ {
            mcds_lock $uri ttl=3s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /keep/ {
            mcds_lock $uri ttl=%%KEEP%%;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /long/ {
            mcds_lock $uri ttl=10m;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /locks/ { mcds_lock_api; }
    }
}
EOC

# what is kept outlives an extension without an answer, also where the timeout
# of a pool is longer

my $keep = $t->slow() < 5 ? '4s' : '16s';

$conf =~ s/%%KEEP%%/$keep/;

my ($h, $two) = map { $t->nginx($_, $conf) } qw/ h two /;
my ($r, $p);


# commands that are done, or not, and never answered: not held, and nothing is
# left behind for long

for my $row (
    ['late', '^ms /long/\S+ .*ME', 'an add that was done'],
    ['stall', '^ms /long/\S+ .*ME', 'an add that was not'],
    ['late', '^ma /long/\S+', 'a number that was counted'],
    ['stall', '^ma /long/\S+', 'a number that was not'],
    ['late', '^ms /long/\S+ .*C\d+', 'a number that was written'],
    ['stall', '^ms /long/\S+ .*C\d+', 'a number that was not written'],
    ['full', '^ms /long/\S+ .*ME', 'out of memory'],
    ['full', '^ms /long/\S+ .*C\d+', 'out of memory for the number'],
) {
    my ($what, $re, $name) = @$row;
    my $uri = '/long/' . $name =~ s/\W//gr;

    $f->tell("$what $re");
    $r = $h->get($uri);
    is($r->status() . ' ' . $r->header('X-Lock'), '503 unavailable', $name);
    is($r->header('Retry-After'), 1, "$name: try again");
    is($o->count($uri), 0, "$name: not sent to the backend");
    $f->tell('');
    ok(wait_for(sub { !defined $f->get($uri) }, 10 * $t->slow()),
        "$name: nothing is left behind");
    $r = $two->get($uri);
    is($r->status() . ' ' . $r->header('X-Lock'), '200 acquired',
        "$name: the next one has it");
    ok(wait_for(sub { !defined $f->get($uri) }), "$name: released");
}


# an extension without an answer is no loss

for my $what ('late', 'stall') {
    my $uri = "/keep/$what";

    $o->hold_path($uri);
    $p = start_get($h->port(), $uri);
    $o->wait_requests(1, $uri);
    $f->tell("$what ^ms $uri .*C\\d+");
    $f->mark();
    ok(wait_for(sub { $f->count(qr/^ms $uri .*C/) }),
        "$what: extended");
    $f->tell('');
    $f->mark();
    ok(wait_for(sub { $f->count(qr/^ms $uri .*C/) }),
        "$what: and again");
    ok(defined $f->get($uri), "$what: it is there");
    is($two->get($uri)->status(), 423, "$what: still held");
    $o->release($uri);
    is(finish($p)->header('X-Lock'), 'acquired', "$what: the request ends");
    ok(wait_for(sub { !defined $f->get($uri) }), "$what: released");
}


# a release without an answer

for my $what ('late', 'stall') {
    my $uri = "/long/release$what";

    ok(wait_for(sub { $h->get('/f/ready')->status() == 200 }, 10),
        "$what: ready");
    $f->tell("$what ^md $uri");
    is($h->get($uri)->status(), 200, "$what: a release");
    ok(wait_for(sub { $f->count(qr/^md $uri/) }), "$what: was sent");
    $f->tell('');
    ok(wait_for(sub { !defined $f->get($uri) }, 10 * $t->slow()),
        "$what: it is not left behind for ten minutes");
}


# it is another's meanwhile: not extended, not released, and said

$o->hold_path('/f/lost');
$p = start_get($h->port(), '/f/lost');
$o->wait_requests(1, '/f/lost');
$f->set('/f/lost', '99 another');
ok($h->wait_log(qr/"mcds_lock" has lost "\/f\/lost" while the request/, 10),
    'taken away: logged');
$o->release('/f/lost');
is(finish($p)->status(), 200, 'the request ends');
ok(wait_for(sub { ($t->read_file('h/lock.log') // '') =~ m{^/f/lost lost$}m }),
    'the status says so');
is($f->get('/f/lost'), '99 another', 'the lock of another is as it was');
$f->delete('/f/lost');


# without CAS

$f->tell('nocas ^ms /f/nocas');
is($h->get('/f/nocas')->status(), 503, 'no CAS: no lock');
$f->tell('nocas ^mg nocas');
$f->set('nocas', '1 me');
is($h->get('/locks/nocas?owner=me', method => 'DELETE')->status(), 503,
    'no CAS: not released');
$f->tell('');
is($f->get('nocas'), '1 me', 'no CAS: it is as it was');


# the API does not say that nothing was done when the reply is lost

$f->tell('late ^ms asked .*ME');
$r = http_post($h->port(), '/locks/asked', '{"owner": "me"}',
    headers => { 'Content-Type' => 'application/json' });
is($r->status(), 503, 'API, an add that was done: no lock');
like($r->body(), qr/it is not known whether/, 'API: as the client is told');
$f->tell('');

$t->allow(qr/memcached gives no CAS in pool "fake", locks do not work/);
$t->done();
