#!/usr/bin/perl

# Copyright (C) mcds authors

# A counter that memcached has lost goes on from the largest of what is known:
# the number of mcds_counter_init, asked for once, and what the hosts remember.
# A host that finds less than it remembers raises the counter, by the
# difference, once.  What somebody has set stays as it is set.

use warnings;
use strict;

use Test::More;

use List::Util qw/ max /;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1)->not_in('single',
    'what nginx knows ends with the process');

my $m = $t->memcached('m');
my $one = $t->memcached('one');
my $two = $t->memcached('two');
my $o = $t->origin('o', { body => '0' });

# count: another one counts between what is seen and what is added

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;
    my $mode = $f->mode() // '';

    if ($mode eq 'hold' && $line =~ /^mg/) {
        return ($f->hold('look'), $f->default($line, $value));

    } elsif ($mode eq 'add' && $line =~ /^ma \S+ D\d+ C/) {
        return ($f->hold('add'), $f->default($line, $value));

    } elsif ($mode eq 'count' && $line =~ /^ma (\S+) D\d+ C/
             && $f->{told}[0]-- > 0)
    {
        $f->default("ma $1 D1 v");
    }

    return;
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 10s; }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; timeout 2s; max_fails 0; }
    mcds_pool replicas {
        server   127.0.0.1:%%PORT_one%%;
        server   127.0.0.1:%%PORT_two%%;
        distribution modula;
        replicas 2;
        timeout 10s;
        fail_timeout 100ms;
    }
    mcds_pool classic {
        server   127.0.0.1:%%PORT_one%%;
        server   127.0.0.1:%%PORT_two%%;
        distribution modula;
        replicas 2;
        protocol classic;
        timeout 10s;
    }
    mcds_use main;
    keepalive_requests 1000000;
    add_header X-Time $request_time;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location /db/ {
            mcds_counter $n key=$uri;
            mcds_counter_init $n /number$uri;
            mcds_return "$n";
        }
        location /skip/ {
            mcds_counter $n key=$uri;
            mcds_counter_init $n /number$uri fail=skip;
            mcds_return "$n";
        }
        location /number/ {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /window/ {
            mcds_counter $n key=$uri period=20d;
            mcds_return "$n";
        }
        location /async/ {
            mcds_counter $n key=$uri async=1ms;
            mcds_return "$n";
        }
        location /read/ {
            mcds_counter $n key=$arg_k read;
            mcds_return "$n";
        }
        location /like/ {
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location /unlike/ {
            mcds_counter $n key=$arg_k by=-1;
            mcds_return "$n";
        }
        location /likew/ {
            mcds_counter $n key=$uri period=20d;
            mcds_return "$n";
        }
        location /unlikew/ {
            mcds_counter $n key=$arg_k period=20d by=-1;
            mcds_return "$n";
        }
        location /readw/ {
            mcds_counter $n key=$arg_k period=20d read;
            mcds_return "$n";
        }
        location /fake/ {
            mcds_use fake;
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location /classic/ {
            mcds_use classic;
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
        location /replicas/ {
            mcds_use replicas;
            mcds_counter $n key=$uri;
            mcds_return "$n";
        }
    }
}
EOT

my ($a, $b) = map { $t->nginx($_, $conf) } qw/ a b /;


# a knows 101, b 502, and nobody else knows anything

sub known {
    my ($uri, $key, @m) = @_;

    @m = $m if !@m;

    for ([$a, 101], [$b, 502]) {
        my ($host, $n) = @$_;
        $_->set($key // $uri, $n - 1) for @m;
        $host->get($uri)->body() eq $n or diag("$uri: not $n");
    }

    $_->flush() for @m;
}

sub numbers {
    return join ' ', map { $_->body() } @_;
}


# without a location

known('/a');
is(numbers($a->get('/a'), $b->get('/a'), $a->get('/a'), $b->get('/a')),
    '102 503 504 505', 'the host that knows more raises it');
is($m->get('/a'), 505, 'memcached has it');

known('/b');
is(numbers($b->get('/b'), $a->get('/b'), $b->get('/b')), '503 504 505',
    'made by the one that knows more');

known('/c');
$a->get('/c') for 1 .. 3;
is(numbers($b->get('/c'), $b->get('/c'), $a->get('/c')), '503 504 505',
    'some have counted before');

known('/read');
is($a->get('/read')->body(), 102, 'made anew');
is($b->get('/read/?k=/read')->body(), 502, 'who reads raises it, too');
is($m->get('/read'), 502, 'by what he knows');
is($a->get('/read')->body(), 503, 'and it goes on');

$m->set('/async/a', 501);
ok(wait_for(sub { $b->get('/async/a'); ($m->get('/async/a') // 0) > 501 }),
    'async: known');
$m->flush();
$m->mc("ms /async/a 3 T" . mark(0), 102);
my $n = $m->get('/async/a');
$b->get('/async/a');
ok(wait_for(sub { ($m->get('/async/a') // 0) > 501 }), 'async: raised');


# with the number of a location: it is asked once, and the largest wins

known('/db/a');
$o->mark();
$o->set('/number/db/a', { body => '1500' });
is(numbers($a->get('/db/a'), $b->get('/db/a'), $a->get('/db/a')),
    '1501 1502 1503', 'init: the number of the location is the largest');
is($o->count('/number/db/a'), 1, 'init: asked once');

known('/db/b');
$o->mark();
$o->set('/number/db/b', { body => '1500' });
my @p = map { start_get(($_ % 2 ? $a : $b)->port(), '/db/b') } 1 .. 20;
is(join(' ', sort map { finish($_)->body() } @p), join(' ', 1501 .. 1520),
    'init: all at once');
is($o->count('/number/db/b'), 1, 'init: asked once');

known('/db/c');
$o->set('/number/db/c', { body => '300' });
is(numbers($a->get('/db/c'), $b->get('/db/c'), $a->get('/db/c')),
    '301 503 504', 'init: b knows more');

known('/db/d');
$o->set('/number/db/d', { body => '300' });
is(numbers($b->get('/db/d'), $a->get('/db/d')), '503 504',
    'init: b knows more, and makes it');

known($_) for '/db/e', '/db/f';
$o->set("/number$_", { status => 500 }) for '/db/e', '/db/f', '/skip/a';
is(numbers($a->get('/db/e'), $b->get('/db/e'), $a->get('/db/e')),
    '102 503 504', 'init: no number, what is known');
is($b->get('/db/f')->body(), 503, 'init: no number, b');
ok($a->log_has(qr/no start for counter ".db.e": .*, it goes on from the last/),
    'init: said');

$o->set('/number/skip/a', { body => '0' });
known('/skip/a');
$o->set('/number/skip/a', { status => 500 });
is(numbers($a->get('/skip/a'), $b->get('/skip/a')), ' ', 'init: skip');
is($m->get('/skip/a') // 'none', 'none', 'init: skip, not made');


# set by hand: that holds on all hosts, and is what they know from then on

for my $uri ('/a', '/db/a') {
    $a->get($uri);
    $b->get($uri);
    $m->set($uri, 0);
    is(numbers(map { $_->get($uri) } $a, $b, $a, $b), '1 2 3 4',
        "$uri: set to 0");
    is($m->ttl($uri), -1, "$uri: has no time to live");
    $m->flush();
    $o->set("/number$uri", { body => '0' });

    # a, which was shown 3, may have looked once more when it was 4

    like(numbers(map { $_->get($uri) } $a, $b), qr/^(?:4 5|5 6)$/,
        "$uri: lost again");
}

# by an older version: no mark

known('/old');
$m->set('/old', 102);
is(numbers($b->get('/old'), $a->get('/old')), '103 104',
    'one without a mark is left alone');

# lowered

known('/lower');
$m->mc('ms /lower 3 T' . mark(3600), 600);
is(numbers($a->get('/lower'), $b->get('/lower')), '601 602', 'an old one');
$m->mc('ma /lower D500 MD v');
is(numbers($b->get('/lower'), $a->get('/lower'), $b->get('/lower')),
    '103 104 105', 'lowered by somebody else');

is(numbers(map { $a->get('/like/a') } 1 .. 5), '1 2 3 4 5', 'likes');
is($a->get('/unlike/?k=/like/a')->body(), 4, 'and one less');
ok(wait_for(sub { $m->ttl('/like/a') == -1 }), 'one less: the mark is gone');
is(numbers($a->get('/like/a'), $b->get('/like/a')), '5 6',
    'one less: is not raised');


# windows

my $part = int(time() / (20 * 86400));
known('/window/a', "/window/a:$part");
is(numbers($a->get('/window/a'), $b->get('/window/a'), $a->get('/window/a')),
    '102 503 504', 'window');
ttl_between($m, "/window/a:$part", 0, 21 * 86400, 'window: it ends in time');
$m->set("/window/a:$part", 5);
is(numbers($a->get('/window/a'), $b->get('/window/a')), '6 7',
    'window: set by hand');

$a->get('/likew/a') for 1 .. 5;
is(numbers(map { $a->get($_) } '/unlikew/?k=/likew/a', '/readw/?k=/likew/a',
    '/likew/a', '/unlikew/?k=/likew/a', '/readw/?k=/likew/a'), '4 4 5 4 4',
    'window: one less is not raised');
$m->mc("md /likew/a:$part");
is(numbers(map { $a->get($_) } '/unlikew/?k=/likew/a', '/readw/?k=/likew/a'),
    '0 3', 'window: one less of one that is lost');


# replicas

known('/replicas/a', undef, $one, $two);
is($a->get('/replicas/a')->body(), 102, 'replicas: both are lost');
is(join(' ', $one->get('/replicas/a'), $two->get('/replicas/a')), '102 102',
    'replicas: both are made');
is($b->get('/replicas/a')->body(), 503, 'replicas: raised');
is(join(' ', $one->get('/replicas/a'), $two->get('/replicas/a')), '503 503',
    'replicas: both of them');
$one->flush();
is(numbers($a->get('/replicas/a'), $b->get('/replicas/a')), '504 505',
    'replicas: one is lost');
ok(wait_for(sub { $one->get('/replicas/a') == 505 }, 40),
    'replicas: and raised');
is($two->get('/replicas/a'), 505, 'replicas: the other is as it was');
$_->set('/replicas/a', 0) for $one, $two;
is(numbers(map { $_->get('/replicas/a') } $a, $b, $a), '1 2 3',
    'replicas: set by hand');

# in the classic protocol as well: what exists was not lost

is(numbers(map { $a->get('/classic/a') } 1 .. 5), '1 2 3 4 5', 'classic');
$_->set('/classic/a', 0) for $one, $two;
is(numbers(map { $a->get('/classic/a') } 1 .. 3), '1 2 3',
    'classic: set by hand');
is(join(' ', map { $_->get('/classic/a') } $one, $two), '3 3',
    'classic: on both servers');
$a->get('/classic/b') for 1 .. 5;
$_->mc('md /classic/b') for $one, $two;
is($a->get('/classic/b')->body(), 6, 'classic: lost on both');

known('/replicas/b', undef, $one, $two);
$one->kill9();
$a->get('/replicas/none') for 1 .. 10;
is(numbers($a->get('/replicas/b'), $b->get('/replicas/b')), '102 503',
    'replicas: one is down');

# what is left may be behind, however old it is; one that was set is not

$two->mc('ms /replicas/b 3 T' . mark(3600), 300);
is(numbers($b->get('/replicas/b'), $a->get('/replicas/b')), '504 505',
    'replicas: an old one that is behind');
$two->set('/replicas/b', 300);
is(numbers($b->get('/replicas/b'), $a->get('/replicas/b')), '301 302',
    'replicas: one that was set');
$two->mc('ms /replicas/b 3 T' . mark(0), 503);
$one->restart();
ok(wait_for(sub { $a->get('/replicas/b'); $b->get('/replicas/b');
    ($one->get('/replicas/b') // 0) > 503 }, 40), 'replicas: and back');


# somebody counts meanwhile: seen again, and nothing is counted twice

known('/fake/a', undef, $f);
is($a->get('/fake/a')->body(), 102, 'count: made');
$f->mark();
$f->tell('count', 3);
is($b->get('/fake/a')->body(), 503, 'count: raised');
is($f->count(qr/^ma \S+ D\d+ C/), 4, 'count: by the fourth try');
is($f->count(qr/^mg/), 4, 'count: seen again each time');
is($f->get('/fake/a'), 503, 'count: and no more');
$f->tell('');

known('/fake/b', undef, $f);
$a->get('/fake/b');
$f->tell('hold');
my $c = $b->conn();
$c->request('/fake/b') for 1 .. 4;
@p = map { start_get($b->port(), '/fake/b') } 1 .. 4;
ok(wait_for(sub { $f->held('look') }), 'together: seen');
$f->mc('ma /fake/b D50 v');
$f->tell('');
$f->release('look');
my $most = 0;
$most = max($most, $_->body()) for map({ finish($_) } @p),
    map { $c->response() } 1 .. 4;
is($most, $f->get('/fake/b'), 'together: the largest is what it has');
cmp_ok($most, '<=', 502 + 8 + 50 + 1, 'together: no more');
cmp_ok($most, '>=', 502 + 1, 'together: no less');


# a server that hangs: what was counted is shown in time, and it is raised later

known('/fake/c', undef, $f);
$a->get('/fake/c');
$f->tell('hold');
my $r = $b->get('/fake/c');
is($r->body(), 103, 'hung: what was counted');
cmp_ok($r->header('X-Time'), '>=', 1.998, 'hung: it has waited');
cmp_ok($r->calm(), '<', 3 * $t->slow(), 'hung: for the timeout at most');
$f->tell('');
$f->release('look');
ok(wait_for(sub { $b->get('/fake/c')->body() =~ /^50\d$/ }), 'hung: later');

known('/fake/d', undef, $f);
$a->get('/fake/d');
$f->tell('add');
my $p = start_get($b->port(), '/fake/d');
ok(wait_for(sub { $f->held('add') }), 'left: adding');
$p->reset();
$f->tell('');
$f->release('add');
is($b->get('/fake/d')->body(), 504, 'left: is raised, and counts');

known('/fake/e', undef, $f);
$a->get('/fake/e');
$f->tell('add');
$p = start_get($b->port(), '/fake/e');
ok(wait_for(sub { $f->held('add') }), 'quit: adding');
$b->signal('QUIT');
ok($b->wait_log(qr/gracefully shutting down/), 'quit: begun');
$f->tell('');
$f->release('add');
is(finish($p)->body(), 503, 'quit: raised');
$b->wait_exit();
$b->up();


# hammered: lost again and again, nothing is counted twice, and who asks a host
# again is shown more than before

my @uris = map { "/hot$_" } 1 .. 2;
my $load = $t->load(ports => [$a, $b], uris => \@uris, clients => 16,
    requests => $t->size(15000, 300000), background => 1);
my ($kept, $asked, $down, %last) = (1, 0, '');

while (!$load->ended()) {
    my @before = map { $m->get($_) // 0 } @uris;
    $m->flush();

    for my $i (0 .. 1) {
        for my $host ($a, $b, $a, $b) {
            my $n = $host->get($uris[$i])->body();
            my $old = $last{$host->port()}[$i] // 0;

            $down = "$uris[$i]: $n after $old" if $n <= $old;
            $last{$host->port()}[$i] = $n;
            $asked++;
        }

        $kept &&= $m->get($uris[$i]) >= $before[$i];
    }
}

$r = $load->wait();
is($r->{ok}, $r->{requests}, 'load: all are answered');
ok($kept, 'load: what was there is kept');
is($down, '', 'load: no number is smaller than one before');

my $flushes = $m->stats()->{cmd_flush};
my $total = $r->{requests} + $asked;
my $sum = 0;
$sum += $m->get($_) for @uris;

cmp_ok($sum, '<=', $total, 'load: nothing is counted twice');
cmp_ok($sum, '>', $total * 0.8, 'load: little is lost');
note("$flushes times lost: $sum of $total");

$t->allow(qr/memcached server .* is down/, qr/start .* counter/);
$t->done();


# the time to live of a counter that mcds has made so many seconds ago

sub mark {
    my ($age) = @_;
    return 0x7fffffff - 0x2000000 + (int(time()) - $age) % 0x1000000;
}
