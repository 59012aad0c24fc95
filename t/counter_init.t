#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_init: a counter that is not there begins with the number that a
# location of nginx answers, asked for once by all workers of all hosts; what
# happens when it answers late, wrongly, or not at all.

use warnings;
use strict;

use Test::More;

use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1);

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my ($id) = $req->{uri} =~ /id=(\w+)/;

    return { body => '1000' } if !defined $id || $id =~ /^n/;
    return { body => "$1\n" } if $id =~ /^b(\d+)/;
    return { status => $1, body => '1000' } if $id =~ /^s(\d+)/;
    return { body => ' 42 ' . "\r\n" x 3 } if $id eq 'blank';
    return { body => '1' x 200 } if $id eq 'long';
    return { body => 'text' } if $id eq 'text';
    return { body => '' } if $id eq 'empty';
    return { body => '-5' } if $id eq 'minus';
    return { body => '1000', truncate => 2 } if $id eq 'cut';
    return { body => '1000', abort => 10 } if $id eq 'abort';
    return { body => '70', chunked => 1 } if $id eq 'chunked';
    return { body => $req->{head} =~ /^(range|if-|content-length)/mi
        ? 'bad' : '500' } if $id eq 'head';
    return { body => '1000' };
});

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if ($f->mode() // '') ne 'hold' || $line !~ /^ma/;
    return ($f->hold('held'), $f->default($line, $value));
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 1s; }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; timeout 20s; }
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;

        location = /zero {
            mcds_counter $n key=z:$arg_k;
            mcds_counter_init $n /internal/views?id=$arg_k timeout=20s;
            mcds_counter_durable $n off;
            mcds_return "n=$n";
        }
        location = /skip {
            mcds_counter $n key=s:$arg_k by=2 ttl=1h;
            mcds_counter_init $n /internal/views?id=$arg_k timeout=1s fail=skip;
            mcds_return "n=$n";
        }
        location = /two {
            mcds_counter $n key=t1:$arg_k;
            mcds_counter_init $n /internal/views?id=b$arg_k;
            mcds_counter $p key=t2:$arg_k;
            mcds_counter_init $p /internal/views?id=b9$arg_k;
            mcds_counter $q key=t3:$arg_k;
            mcds_return "$n $p $q";
        }
        location = /if {
            mcds_counter $n key=if if=$arg_c;
            mcds_counter_init $n /internal/views;
            mcds_return "$n";
        }
        location = /local {
            mcds_counter $n key=l:$arg_k;
            mcds_counter_init $n /file.$arg_k;
            mcds_return "$n";
        }
        location = /text {
            mcds_counter $n key=text;
            mcds_counter_init $n /internal/views;
            mcds_return "[$n]";
        }
        location = /short {
            mcds_counter $n key=h:$arg_k;
            mcds_counter_init $n /internal/views?id=$arg_k timeout=100ms;
            mcds_return "n=$n";
        }
        location = /fake {
            mcds_use fake;
            mcds_counter $n key=p:$arg_k;
            mcds_counter_init $n /internal/views?id=$arg_k timeout=20s;
            mcds_counter_durable $n off;
            mcds_return "n=$n";
        }
        location = /proxied {
            mcds_counter $n key=p:$arg_k;
            mcds_counter_init $n /internal/views?id=$arg_k;
            add_header X-N $n;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /tried/ {
            mcds_counter $n key=tried:$arg_id;
            mcds_counter_init $n /internal/views?id=b$arg_id;
            mcds_counter $p key=$uri;
            mcds_counter_init $p /internal/views?uri=$uri;
            try_files $uri /index.php;
        }
        location /named/ {
            mcds_counter $n key=named:$arg_id;
            mcds_counter_init $n /internal/views?id=b$arg_id;
            mcds_counter $p key=$uri;
            mcds_counter_init $p /internal/views?uri=$uri;
            try_files $uri @app;
        }
        location @app { rewrite ^ /index.php? last; }
        location = /index.php { mcds_return "$n $p"; }

        location /internal/ {
            internal;
            mcds_counter $inner key=inner;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /file. { internal; root %%TMP%%; }
        location = /file.return { internal; return 200 " 12345\n"; }
        location = /file.204 { internal; return 204; }
        location = /file.moved { internal; return 302 /x; }
        location = /file.rewrite { internal; rewrite ^ /internal/views last; }
    }
}
EOT

$t->write_file('file.static', "77\n");

my ($h, $i) = map { $t->nginx($_, $conf) } qw/ a b /;

sub body { return $h->get($_[0])->body() }


# numbers

is(body('/zero?k=n1'), 'n=1001', 'begins with the number of the location');
is(body('/zero?k=n1'), 'n=1002', 'goes on');
is($o->count('/internal/views'), 1, 'asked once');
is(($o->requests('/internal/views'))[0]{uri}, '/internal/views?id=n1', 'uri');
is($m->get('inner') // 'none', 'none', 'what asks is not counted');

is(body("/zero?k=$_->[0]"), "n=$_->[1]", "answer: $_->[0]")
    for ['blank', 43], ['b0', 1], ['chunked', 71],
        ['b18446744073709551614', '18446744073709551615'];

is(body('/skip?k=n1'), 'n=1002', 'by=2');
cmp_ok($m->ttl('s:n1'), '>', 3500, 'ttl=');
is(body('/two?k=5'), '6 96 1', 'several');

is($h->get('/zero?k=head', headers => { Range => 'bytes=2-4',
    'If-Modified-Since' => 'Thu, 01 Jan 1970 00:00:00 GMT' })->body(), 'n=501',
    'headers of the client that do not belong to it');
$m->delete('z:head');
is($h->get('/zero?k=head', body => 'x' x 100000)->body(), 'n=501', 'a POST');
is($h->get('/zero?k=n9', method => 'HEAD')->status(), 200, 'HEAD');
is($m->get('z:n9'), 1001, 'HEAD: begins');

is(body("/local?k=$_->[0]"), $_->[1], "from: $_->[0]")
    for ['static', 78], ['return', 12346], ['rewrite', 1001];


# what the location was asked for, not what became of it

for my $path (qw{ /tried/a /named/a }) {
    is(body("$path?id=500"), '501 1001', "$path: its number");
    is(scalar(grep { $_->{uri} eq "/internal/views?uri=$path" }
        $o->requests('/internal/views')), 1, "$path: its URI");
}

is(body('/if'), 0, 'not counted: not asked');
is($m->get('if') // 'none', 'none', 'not counted: not made');
is(body('/if?c=1'), 1001, 'counted');

$m->set('text', 'text');
is(body('/text'), '[]', 'there, but no number');
is($m->get('text'), 'text', 'is left alone');


# no number

my @bad = qw/ s404 s500 s206 s302 s204 text empty minus long cut abort /;

for my $k (@bad) {
    is(body("/zero?k=$k"), 'n=1', "zero: $k");
    is(body("/skip?k=$k"), 'n=', "skip: $k");
    is($m->get("s:$k") // 'none', 'none', "skip: $k, not made");
}

is(body("/local?k=$_"), 1, "from: $_") for qw/ none 204 moved /;

is($h->log_count(qr/\[error\].*start of a counter: "[^"]+" (answered|did not)/),
    2 * @bad + 3, 'each is said');
like($h->log(), qr{start of a counter: "/internal/views\?id=s404" answered 404},
    'with what was answered');
like($h->log(), qr/no start for counter "z:s404": [^,]+, it begins anew/,
    'and what becomes of it');
like($h->log(), qr/no start for counter "s:s404": [^,]+, it is not counted/,
    'or that nothing does');

my $before;

is(body('/skip?k=text'), 'n=', 'skip, again');
ok(wait_for(sub {
    body('/skip?k=text');
    $before = $o->count('/internal/views');
    body('/skip?k=text');
    return $o->count('/internal/views') == $before;
}), 'it is not asked again so soon');
ok(wait_for(sub { body('/skip?k=text');
    $o->count('/internal/views') > $before }), 'but later');


# many at once, on both hosts

$o->hold_path('/internal/views');

my $gets = $m->stats()->{cmd_get};
my $start = time();
my @p = map { start_get(($_ % 2 ? $h : $i)->port(), '/zero?k=nmany') } 1 .. 60;

ok($o->wait_requests($before + 2, '/internal/views'), 'many: asked');
ok(wait_for(sub { $m->stats()->{cmd_get} > $gets + 10 }), 'many: others look');

# the lock and the counter, in each worker of both, soon every 100 ms

$gets = $m->stats()->{cmd_get} - $gets;
cmp_ok($gets, '<=', 2 * $t->workers(2) * 2 * (6 + (time() - $start) / 0.1),
    'many: not often');
$o->release('/internal/views');

my @n = sort { $a <=> $b } map { finish($_)->body() =~ s/n=//r } @p;

is("@n", join(' ', 1001 .. 1060), 'many: each has its number');
is($o->most('/internal/views'), 1, 'many: one asked');
is($m->get('z:nmany'), 1060, 'many: exact');
ok(wait_for(sub { !$m->get('z:nmany:lock') }), 'many: no lock is left');


# late: the request goes on, the count waits

$o->hold_path('/internal/views');
my $r = $h->get('/short?k=nlate');
is($r->body(), 'n=', 'late: no number');
cmp_ok($r->calm(), '<', 0.5 * $t->slow(), 'late: it does not wait for long');
is($m->get('h:nlate') // 'none', 'none', 'late: not counted yet');
my $p = start_get($h->port(), '/short?k=nlate');
$p->reset();
$o->release('/internal/views');
ok(wait_for(sub { ($m->get('h:nlate') // 0) >= 1001 }), 'late: is counted');
ok(wait_for(sub { $h->get('/short?k=nlate')->body() =~ /n=100[23]/ }),
    'late: goes on');


# somebody else makes the counter meanwhile

$o->hold_path('/internal/views');
$p = start_get($h->port(), '/zero?k=nadd');
ok(wait_for(sub { $o->held('/internal/views') }), 'made: asked');
$m->set('z:nadd', 5);
$o->release('/internal/views');
is(finish($p)->body(), 'n=6', 'made: it goes on from there');


# who asked goes away

$o->hold_path('/internal/views');
$p = start_get($h->port(), '/zero?k=nleft');
ok(wait_for(sub { $o->held('/internal/views') }), 'left: asked');
$p->reset();
ok($h->wait_log(qr/client prematurely closed connection/), 'left: seen');
$o->release('/internal/views');
ok(wait_for(sub { ($m->get('z:nleft') // 0) == 1001 }), 'left: is counted');


# who asked has gone before it is known that there is no counter: a count
# alone is no number to begin with

$f->tell('hold');
my $left = $h->log_count(qr/client prematurely closed connection/);
$p = start_get($h->port(), '/fake?k=ngone');
ok(wait_for(sub { $f->held('held') }), 'gone: counted');
$p->reset();
ok(wait_for(sub { $h->log_count(qr/client prematurely closed connection/)
    > $left }), 'gone: seen');
$f->tell('');
$f->release('held');
ok(wait_for(sub { $f->count(qr/^md p:ngone:lock/) }), 'gone: no lock is left');
is(body('/fake?k=ngone'), 'n=1001', 'gone: the next one asks');


# the worker is to end while it asks; a worker that asks is killed

$o->hold_path('/internal/views');
$p = start_get($i->port(), '/zero?k=nquit');
ok(wait_for(sub { $o->held('/internal/views') }), 'quit: asked');
$i->signal('QUIT');

SKIP: {
    skip 'nginx does not wait at QUIT then', 3 if $t->mode() eq 'single';

    ok($i->wait_log(qr/gracefully shutting down/), 'quit: begun');
    $o->release('/internal/views');
    is(finish($p)->body(), 'n=1001', 'quit: answered');
    ok($i->wait_exit(), 'quit: ended');
}

$i->wait_exit();
$o->release('/internal/views');
$i->up();

$o->hold_path('/internal/views');
$p = start_get($i->port(), '/zero?k=nkill');
ok(wait_for(sub { $o->held('/internal/views') }), 'kill: asked');
$i->kill_worker($_) for $i->workers();
$p->close();
$o->release('/internal/views');
ok(wait_for(sub { $h->get('/zero?k=nkill')->body() =~ /n=1\d\d\d/ },
    20 * $t->slow()), 'kill: another one asks');


# no memcached

$m->stop();
is($h->get('/zero?k=none')->body(), 'n=', 'no memcached');

$t->allow(qr/memcached server .* is down/, qr/upstream prematurely closed/,
    qr/start .* counter/);
$t->done();
