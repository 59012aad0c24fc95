#!/usr/bin/perl

# Copyright (C) mcds authors

# The end of a worker, with requests in every state: QUIT finishes them, TERM
# does not wait, and after kill -9 another one goes on with what is there
# (L02, L05, M12).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('single', 'nginx does not wait at QUIT then');
my $workers = $t->workers(2);

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;
    my $held = $f->mode();

    return if !length $held || $line !~ $held;
    return ($f->hold(), $f->default($line, $value));
});

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

# a pool has connections of its own: what is held in one holds up no other

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 256; }
http {
    %%HTTP%%
    mcds_pool main   { server 127.0.0.1:%%PORT_f%%; timeout 20s; max_fails 0; }
    mcds_pool count  { server 127.0.0.1:%%PORT_f%%; timeout 20s; max_fails 0; }
    mcds_pool lookup { server 127.0.0.1:%%PORT_f%%; timeout 20s; max_fails 0; }
    mcds_pool lock   { server 127.0.0.1:%%PORT_f%%; timeout 20s; max_fails 0; }
    mcds_pool store  { server 127.0.0.1:%%PORT_f%%; timeout 20s; max_fails 0; }
    mcds_pool down   { server 127.0.0.1:%%PORT_down%%; max_fails 1; }

    mcds_use                main;
    mcds_cache_key          $uri;
    mcds_cache_lock_age     2s;
    mcds_cache_lock_timeout 20s;

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        add_header X-Cache $mcds_cache_status;
        proxy_set_header Host $host;

        location /count/ {
            mcds_use     count;
            mcds_counter $n key=$uri;
            mcds_return  200 "$n";
        }
        location /down/ {
            mcds_use     down;
            mcds_counter $d key=$uri;
            mcds_return  200 "$d";
        }
        location /plain/ { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /lookup/ {
            mcds_cache lookup;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /lock/ {
            mcds_cache lock;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /store/ {
            mcds_cache store;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location / {
            mcds_cache   main;
            mcds_counter $here key=here:$uri;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $a = $t->nginx('a', $conf);
my $second = $t->slow();


# pages that are expired when they are needed

my @tags = qw/ quit term kill /;

$o->set("/stale/$_", { headers => ['Cache-Control' => 'max-age=1'] })
    for @tags;
is(scalar(grep { $_->status() == 200 } many(3,
    sub { [$a->port(), "/stale/$tags[$_[0]]"] })), 3, 'pages that expire');
$o->set("/stale/$_", undef) for @tags;
my $expired = time() + 1.1;


# with idle connections, and with a server that is down: at once

$o->set('/large', { body => 'x' x 100000 });
is($a->get('/large')->status(), 200, 'a large page');
is($a->get('/large')->status(), 200, 'has a connection of its own')
    for 1 .. 4;
is($a->get('/down/1')->body(), '', 'a server is down') for 1 .. 4;
my $idle = $a->conn();
$idle->get('/count/idle');
cmp_ok($f->connections(), '>=', 3, 'connections are idle');

# at QUIT Angie gives clients that keep a connection some seconds to use it
$idle->close() if $t->nginx_name() eq 'Angie';

my $watch = $t->stopwatch();
ok($a->quit(), 'QUIT');
cmp_ok($watch->(), '<', $second, 'at once, when all is idle');
ok(wait_for(sub { !connections() }), 'nothing is left open');


# while something else goes on: what is idle is closed

$a->up();
$o->hold_path('/plain/1');
$a->get("/$_/1") for qw/ count lookup store /;
my @plain = map { start_get($a->port(), '/plain/1') } 1 .. 8;
$o->wait_requests(8, '/plain/1');
cmp_ok($f->connections(), '>=', 3, 'connections are idle');
$a->signal('QUIT');
ok(wait_for(sub { !connections() }), 'QUIT closes them');
ok($a->children(), 'and does not wait for all to end');
$o->release('/plain/1');
is(scalar(grep { $_->status() == 200 } map { finish($_) } @plain), 8,
    'which it does');
ok($a->wait_exit(5 * $second), 'then it ends');


# waiters for what never comes leave by their own time, and no later

(my $short = $conf) =~ s/lock_timeout 20s/lock_timeout 1s/;
$a->conf($short)->up();
$f->set('<>/never:lock', 'another', 60);
my @waiters = map { start_get($a->port(), '/never') } 1 .. 10;
ok(wait_for(sub { ($f->get('here:/never') // 0) == 10 }, 5 * $second),
    'waiters behind a lock');
ok($a->quit(), 'QUIT');
is(scalar(grep { $_->status() == 503 } map { finish($_) } @waiters), 10,
    'they hear that it takes too long');
$a->conf($conf)->up();


# QUIT with a request in each state

sleep 0.05 while time() < $expired;

$o->hold_path('/plain/2');
@plain = map { start_get($a->port(), '/plain/2') } 1 .. 8;
$o->wait_requests(8, '/plain/2');
my %in = enter('quit');
$a->signal('QUIT');
ok(wait_for(sub { $a->leaving() && !$a->workers() }, 5 * $second),
    'QUIT: the workers finish what they have');
ok(wait_for(sub { !eval { conn($a->port()) } }), 'and take nothing new');

let_go('quit');

for my $what (sort grep { $_ ne 'waiters' } keys %in) {
    my $r = finish($in{$what}, 5 * $second);
    ok($r->status() == 200 && $r->complete(), "QUIT: $what is answered")
        or diag($r->error() // $r->status());
}

is(scalar(grep { $_->status() == 200 } map { finish($_) } @{$in{waiters}}), 10,
    'QUIT: so is who waits for the build');
ok(wait_for(sub { !connections() }), 'QUIT: what is idle then is closed');
ok($a->children(), 'QUIT: before it ends');
$o->release('/plain/2');
my $released = $t->stopwatch();
finish($_) for @plain;
ok($a->wait_exit(5 * $second), 'QUIT: it ends');
cmp_ok($released->(), '<', 1.5 * $second, 'as soon as all is done');
stored('quit', 'QUIT');


# TERM does not wait

$a->up();
%in = enter('term');
$watch = $t->stopwatch();
ok($a->stop(), 'TERM');
cmp_ok($watch->(), '<', $second, 'at once, whatever goes on');
ok(wait_for(sub { !connections() }), 'TERM: nothing is left open');
let_go('term');
close_all(\%in);


# kill -9, both workers

$a->up();
%in = enter('kill');
$watch = $t->stopwatch();
$a->kill_worker($_) for $a->workers();
ok(wait_for(sub { $a->workers() == $workers }, 5),
    'kill -9: there are successors');
let_go('kill');
close_all(\%in);

my %next = map { $_ => start_get($a->port(), "/$_/kill") }
    qw/ count lookup lock there build stale store /;
my %answer = map { $_ => finish($next{$_}, 10 * $second) } keys %next;

is(join(' ', grep { $answer{$_}->status() != 200 } sort keys %answer), '',
    'kill -9: all is answered');
cmp_ok($watch->(), '<', 3.5 + $second, 'within the age of a lock');
ok(wait_for(sub { $a->get('/stale/kill')->header('X-Cache') eq 'HIT' },
    3 + $second), 'kill -9: another one refreshes');
cmp_ok($watch->(), '<', 3.5 + $second, 'within that time, too');


# kill -9 of the one that builds, while the other one's requests wait

SKIP: {
    skip 'there is no other one', 7 if $workers == 1;

    $o->hold_path('/shared');
    my $builds = start_get($a->port(), '/shared');
    ok($o->wait_requests(1, '/shared'), 'one builds');

    my @builders = grep { $a->count_fds($_)->{tcp}{$o->port()} } $a->workers();
    my @wait;

    is(scalar(@builders), 1, 'it has a connection to the origin');

    # which worker takes a connection is the kernel's choice

    ok(wait_for(sub {
        push @wait, start_get($a->port(), '/shared')
            for 1 .. (@wait < 300 ? 10 : 0);
        return $f->count(qr/^mg <>\/shared:lock/);
    }, 3 * $second), 'the other worker has some that wait');
    $watch = $t->stopwatch();
    $a->kill_worker($builders[0]);
    ok($o->wait_requests(2, '/shared', 4 + 2 * $second), 'it builds then');
    cmp_ok($watch->(), '<', 4.5 + $second, 'when the lock has expired');
    $o->release('/shared');

    my @r = map { $_->slurp(5 * $second) } @wait;
    my $ok = grep { /^HTTP\S+ 200 .*\/shared\n\z/s } @r;

    cmp_ok($ok, '>', 0, 'and who waited there is answered');
    is($ok + grep({ $_ eq '' } @r), @wait, 'nobody but the dead one\'s is not');
    $builds->close();
}


# and the memory that the workers share is as good as before

$o->hold_path('/herd');
my @herd = map { start_get($a->port(), '/herd') } 1 .. 40;
$o->wait_requests(1, '/herd');
wait_for(sub { $f->count(qr/^mg <>\/herd:lock/) }, $second);
$o->release('/herd');
is(scalar(grep { $_->status() == 200 } map { finish($_) } @herd), 40,
    'a herd over both workers');
is($o->count('/herd'), 1, 'one build');

$t->done();


# of the hosts alone

sub connections {
    $f->hang_up();
    return $f->connections();
}


# one request in each state, ten behind the build

sub enter {
    my ($tag) = @_;

    my $port = $a->port();
    my $get = sub { start_get($port, "/$_[0]/$tag") };

    $f->mark();
    $f->set("<>/there/$tag:lock", 'another', $tag eq 'kill' ? 2 : 60);
    $f->tell("^(?:ma /count|mg <>/lookup|ms <>/lock\\S*:lock|"
        . "ms <>/store(?!\\S*:lock))");
    $o->hold_path("/$_/$tag") for qw/ build stale /;

    my %in = map { $_ => $get->($_) } qw/ count lookup lock there build
        stale store /;

    ok($o->wait_requests(1, "/build/$tag")
        && wait_for(sub { !grep { !$o->count($_) } "/store/$tag",
            "/stale/$tag" }, 5 * $second)
        && wait_for(sub { $f->held() == 4 }, 5 * $second)
        && wait_for(sub { $f->count(qr/^mg <>\/there\S*:lock/) }, 5 * $second),
        "$tag: a request in each state") or diag($f->commands());

    $in{waiters} = [map { start_get($port, "/build/$tag") } 1 .. 10];
    ok(wait_for(sub { ($f->get("here:/build/$tag") // 0) == 11 }, 5 * $second),
        "$tag: and some that wait");

    return %in;
}


sub let_go {
    my ($tag) = @_;

    $f->tell('');
    1 while $f->release();
    $f->delete("<>/there/$tag:lock");
    $o->release("/$_/$tag") for qw/ build stale /;
}


sub close_all {
    my ($in) = @_;
    $_->close() for map { ref eq 'ARRAY' ? @$_ : $_ } values %$in;
}


# the refresh has put a newer page there

sub newest {
    my ($uri) = @_;

    my $n = ($o->requests($uri))[-1]{n};

    return ($f->get("<>$uri") // '') =~ /answer $n of/;
}


sub stored {
    my ($tag, $name) = @_;

    ok(newest("/stale/$tag"), "$name: the refresh is stored");
    ok(newest("/store/$tag"), "$name: the store is done");
    ok(newest("/build/$tag"), "$name: the build is stored");
    is(join(' ', grep { defined $f->get("<>$_/$tag:lock") }
        qw{ /stale /store /build /lock /lookup /there }), '',
        "$name: no lock is left");
}
