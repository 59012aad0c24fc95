#!/usr/bin/perl

# Copyright (C) mcds authors

# The harness itself: hosts, memcached, the fake, the origin, the client.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(module => 0);


# a real memcached

my $m = $t->memcached('m');
my $start;

is($m->mc('mg nokey v k O7'), "EN knokey O7\r\n", 'memcached: one line');
is($m->mc('ms key 3 T60', 'abc'), "HD\r\n", 'memcached: a value stored');
is($m->mc('mg key v'), "VA 3\r\nabc\r\n", 'memcached: a value read');
is($m->get('key'), 'abc', 'memcached: get');
ok(!defined $m->get('nokey'), 'memcached: get of nothing');
ok($m->set('a b', 'x') == 0, 'memcached: a bad key is not stored');
ok($m->set('big', 'x' x 300000, 30), 'memcached: a large value');
is(length $m->get('big'), 300000, 'memcached: comes back whole');
like($m->ttl('big'), qr/^(29|30)$/, 'memcached: ttl');
is_deeply([$m->keys()], ['big', 'key'], 'memcached: keys');
ok($m->delete('big'), 'memcached: delete');
is($m->stats()->{curr_items}, 1, 'memcached: stats');
is($m->connections(), 0, 'memcached: no connection of others');

my $port = $m->port();
$m->restart();
is($m->port(), $port, 'memcached: the same port after a restart');
ok(!defined $m->get('key'), 'memcached: empty after a restart');

$m->freeze();
my $frozen = conn($port);
$frozen->send("mn\r\n");
is($frozen->slurp(0.1), '', 'memcached: silent when frozen');
$m->cont();
ok(wait_for(sub { $frozen->fill(0.1); $frozen->{in} eq "MN\r\n" }),
    'memcached: answers when let go');
$frozen->close();

# helpers that do not start

$start = time();
ok(!eval { $t->memcached('bad', args => ['--none']) }, 'a bad helper: dies');
like($@, qr/\Abad has ended, \d+:\n.*--none/s, 'a bad helper: what it said');
cmp_ok(time() - $start, '<', 60, 'a bad helper: at once');

# on a busy machine all helpers together may wait for longer than that

my $slept = 0;

for (1 .. 50) {
    my $watch = $t->stopwatch();
    sleep 0.2;
    last if ($slept = $watch->()) > 0.1;
}

cmp_ok($slept, '>', 0.1, 'a stopwatch: what the test slept');

for my $kind ('memcached', 'fake', 'origin') {
    my $take = \&Test::Mcds::port;
    my $taken = 0;

    no warnings 'redefine';
    local *Test::Mcds::port = sub {
        my ($self, $name) = @_;
        $self->{ports}{$name} = $port if $name eq "on $kind" && !$taken++;
        return $take->($self, $name);
    };

    my $s = $t->$kind("on $kind");
    ok($s->port() != $port && $taken > 1, "$kind: takes another port")
        or diag($s->port(), " $taken");
}

ok(!eval { local $t->{ports}{known} = $port; $t->memcached('known') },
    'but not when the test knows it');

my $mu = $t->memcached('mu', unix => 1);
ok($mu->set('k', 'v') && $mu->get('k') eq 'v', 'memcached: a unix socket');


# the fake answers as the real one does; a second may end between an item and
# the question for its TTL

my $f = $t->fake('f');
my @dialog = (
    ['mn'], ['mg k v t c f k O1f'], ['ms k 3 T60 c k O2', 'abc'],
    ['mg k v t f s k O3'], ['mg k k O4'], ['mg k'],
    ['ms k 1 ME T9', 'x'], ['ms n 1 MA T9', 'x'], ['ms k 2 MA', 'de'],
    ['mg k v'], ['ms k 1 C99999', 'x'], ['ms none 1 C99999', 'x'],
    ['ma k N0 J1 D1 v'], ['ma c N0 J5 D1 v k O5'], ['ma c N0 J5 D7 v k O6'],
    ['ma c MD D3 v'], ['mg c v'], ['ma c MD D99 v'], ['ma none v'],
    ['ms w 20', '18446744073709551615'], ['ma w v'],
    ['md k C99999'], ['md k k O8'], ['md k k O9'], ['mn'],
 ['nonsense'],
);

$m->flush();
$m->hang_up();

for my $d (@dialog) {
    my ($real, $fake) = map { $_->mc(@$d) } $m, $f;

    s/ +\r\n/\r\n/, s/ c\d+/ cN/, s/ t59\b/ t60/ for $real, $fake;
    is($fake, $real, "fake: $d->[0]");
}

is($f->count(qr/^mg/), scalar(grep { $_->[0] =~ /^mg/ } @dialog),
    'fake: commands are logged');
is(($f->log())[2]{value}, 'abc', 'fake: values too');
is(($f->log())[2]{key}, 'k', 'fake: and keys');

$f->mark();
is($f->count(), 0, 'fake: mark forgets');


# the fake does as it is told

my $s = $t->fake('s', sub {
    my ($f, $c, $line, $value) = @_;

    return $f->bytewise($f->default($line, $value)) if $line =~ /^mg slow/;
    return ["MN\r\n", 0.15] if $line eq 'mn' && $f->mode() eq 'late';
    return ('VERS', $f->pause(0.05), "ION 9\r\n") if $line eq 'version';
    return $f->fin() if $line =~ /^mg fin/;
    return ('EN', $f->rst()) if $line =~ /^mg rst/;
    return $f->stall() if $line =~ /^mg stall/;
    return ($f->hold('h'), "EN\r\n") if $line =~ /^mg hold/;
    return ("EN\r\n", "STRAY\r\n") if $line =~ /^mg extra/;
    return ($f->deaf()) if $line =~ /^mg deaf/;
    return;
});

$s->set('slow', 'value');
is($s->get('slow'), 'value', 'script: bytes one by one');
is($s->mc('version'), "VERSION 9\r\n", 'script: pieces');

$s->tell('late');
$start = time();
is($s->mc('mn'), "MN\r\n", 'script: what it was told');
cmp_ok(time() - $start, '>=', 0.14, 'script: a delay');

is(http_raw($s->port(), "mg fin\r\n", timeout => 2), '', 'script: fin');

my $c = conn($s->port());
$c->send("mg rst\r\n");
is($c->slurp(2), 'EN', 'script: the bytes before a reset');
like($c->{error} // '', qr/reset/, 'script: rst');

$c = conn($s->port());
$c->send("mg stall\r\nmn\r\n");
is($c->slurp(0.1), '', 'script: stalled');
$c->close();

$c = conn($s->port());
$c->send("mg extra\r\nmn\r\n");
ok(wait_for(sub { $c->fill(0.1); $c->{in} =~ /STRAY/ }), 'script: extra');
$c->close();

$c = conn($s->port());
$c->send("mg hold\r\n");
ok(wait_for(sub { $s->held('h') == 1 }), 'script: held');
$s->release('h');
ok(wait_for(sub { $c->fill(0.1); $c->{in} eq "EN\r\n" }), 'script: released');

$s->push("PUSHED\r\n");
ok(wait_for(sub { $c->fill(0.1); $c->{in} =~ /PUSHED/ }), 'script: push');
$s->reset_all();
ok($c->closed(2), 'script: all connections reset');
$s->hang_up();

$s->refuse(1);
ok(!eval { conn($s->port()) }, 'script: connections are refused');
$s->refuse(0);
ok(conn($s->port()), 'script: and accepted again');

$s->restart(on_command => undef);
ok(!defined $s->get('slow'), 'script: empty after a restart');

my $hole = $t->fake('hole', blackhole => 1);
$start = time();
ok(!eval { conn($hole->port(), connect_timeout => 0.3) },
    'script: a black hole does not connect');


# origin and nginx

my $o = $t->origin('o', {
    headers => ['Cache-Control' => 'max-age=5'],
}, paths => {
    '/slow' => { delay => 0.5 },
    '/chunked' => { chunked => 1, parts => ['one', ['two', 0.05], 'three'] },
    '/short' => { body => 'x' x 100, truncate => 10 },
    '/abort' => { abort => 0 },
    '/500' => { status => 500, body => 'no' },
    '/body' => { body => 'page %n.%k of %u' },
});

my $sub = $t->origin('sub', sub {
    my ($o, $r) = @_;
    return "$r->{method} $r->{uri} $r->{headers}{'x-h'} $r->{body} 100%n";
}, unix => 1);

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /sub { proxy_pass http://unix:%%SOCK_sub%%:; }
        location /fcgi {
            fastcgi_pass 127.0.0.1:%%PORT_fcgi%%;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param LONG "%%LONG%%";
        }
        location /pid { return 200 $pid; }
        location /name { return 200 NAME; }
    }
}
EOT

$conf =~ s/%%LONG%%/'l' x 300/e;

my $fcgi = $t->origin('fcgi', sub {
    my ($o, $r) = @_;
    return {
        status => 201,
        body => join('', ($r->{params}{LONG} . $r->{uri}) x 1000),
    };
}, fastcgi => 1);

my $a = $t->nginx('a', $conf);
my $b = $t->nginx('b', $conf);

is(Test::Mcds::version_in("$_->[1]\nbuilt by\n"), $_->[0],
    'nginx: ' . $_->[1] =~ s/\n.*//r)
    for [1022001, 'nginx version: nginx/1.22.1'],
        [1031003, 'nginx version: openresty/1.31.3.1'],
        [1031003, 'nginx version: openresty/1.31.3.1 (no pool)'],
        [1027002, 'nginx version: freenginx/1.27.2'],
        [1031002, "Angie version: Angie/1.13.0\nnginx version: nginx/1.31.2"],
        [undef, 'Angie version: Angie/1.13.0'], [undef, 'none'];

isnt($a->port(), $b->port(), 'nginx: hosts have their own ports');
is(scalar(() = $a->workers()), $t->workers(2), 'nginx: its workers');

my $r = $a->get('/x?y');
is($r->status(), 200, 'nginx: status');
is($r->body(), "answer 1 of /x?y\n", 'origin: numbers its answers');
is($r->header('X-Answer'), 1, 'origin: in a header too');
is($r->header('cache-control'), 'max-age=5', 'origin: headers');
ok($r->complete(), 'client: whole');

is($b->get('/body')->body(), 'page 2.1 of /body', 'origin: body');
is($b->get('/chunked')->body(), 'onetwothree', 'origin: chunked');
is(http_get($a->port(), '/500')->status(), 500, 'origin: status');
is($a->get('/abort')->status(), 502, 'origin: abort');

$r = $a->get('/short');
ok(!$r->complete(), 'origin: a short answer');
is(length $r->body(), 10, 'client: what there is of it');

is($a->get('/sub?1', headers => { 'X-H' => 'h' }, body => 'post')->body(),
    'POST /sub?1 h post 100%n', 'origin: a sub, on a unix socket');

like($_->{head}, qr/\r\n\z/, 'origin: a head ends as its lines do')
    for $o->requests('/x');

$r = $a->get('/fcgi/1');
is($r->status(), 201, 'origin: FastCGI');
is($r->body(), join('', ('l' x 300 . '/fcgi/1') x 1000),
    'origin: FastCGI body');

is(http_head($a->port(), '/x')->body(), '', 'client: HEAD');
like(http_raw($a->port(), "GET /name HTTP/1.0\r\n\r\n"), qr/\r\n\r\nNAME$/,
    'client: raw');

$o->mark();
$o->hold_path('/held');
my @p = map { start_get($_ % 2 ? $a->port() : $b->port(), '/held') } 1 .. 5;
ok($o->wait_requests(5, '/held'), 'origin: requests have come');
is($o->held('/held'), 5, 'origin: held');
is($o->let('/held', 2), 2, 'origin: two let go');
ok(wait_for(sub { $o->held('/held') == 3 }), 'origin: three are held');
$p[4]->reset();
cmp_ok($o->release('/held'), '>=', 2, 'origin: the others too');
is($_->status(), 200, 'origin: answered') for map { finish($_) } @p[0 .. 3];
is($o->count('/held'), 5, 'origin: count');
is($o->most('/held'), 5, 'origin: most at once');
is($o->most('/none'), 0, 'origin: none');

$o->set('*', { status => 404 });
is($a->get('/x')->status(), 404, 'origin: set');
$o->set('*');
is($a->get('/x')->status(), 200, 'origin: and back');

$start = time();
my @res = many(200, sub {
    my ($i) = @_;
    return [$i % 2 ? $a->port() : $b->port(), "/slow?$i"];
});
is(scalar(grep { $_->status() == 200 } @res), 200, 'client: 200 at once');
is(scalar(grep { $res[$_]->body() =~ m{/slow\?$_\n} } 0 .. 199), 200,
    'client: each its own answer');
cmp_ok(time() - $start, '<', 50, 'client: side by side');
cmp_ok($o->most('/slow'), '>', $t->clients(200) / 10, 'origin: side by side');

my $k = $a->conn();
is($k->get('/x')->status(), 200, 'client: keepalive');
is($k->get('/x')->status(), 200, 'client: again');
$k->request('/name');
$k->request('/pid');
is($k->response()->body(), 'NAME', 'client: pipelined, first');
like($k->response()->body(), qr/^\d+$/, 'client: pipelined, second');

SKIP: {
    skip 'there is only one process', 7 if $t->mode() eq 'single';

    my @before = $a->workers();
    $a->conf($conf =~ s/NAME/OTHER/r);
    ok($a->reload(wait_old => 1), 'nginx: reload');
    is($a->get('/name')->body(), 'OTHER', 'nginx: the new configuration');
    isnt(join(' ', $a->workers()), "@before", 'nginx: new workers');

    $a->conf('nonsense;');
    ok(!$a->reload(), 'nginx: a refused reload');
    $a->conf($conf);
    $t->allow(qr/unknown directive "nonsense"/);

    my $killed = $a->kill_worker(0);
    ok(!grep({ $_ == $killed } $a->workers()), 'nginx: a worker killed');
    is(scalar(() = $a->workers()), $t->workers(2), 'nginx: and replaced');
    ok($a->log_has(qr/exited on signal 9/), 'nginx: logged');
}

is($t->conf_error(location => 'return 200;'), '', 'conf: content');
like($t->conf_error(http => 'nonsense;'),
    qr/\[emerg\].*unknown directive "nonsense".*nginx.conf:\d+/,
    'conf: its complaint');

SKIP: {
    skip 'no cc', 4 if !$t->program('load');

    my $l = $t->load(ports => [$a->port(), $b->port()], uri => '/pid',
        clients => 20, requests => 3000);
    is($l->{requests}, 3000, 'load: requests');
    is($l->{ok}, 3000, 'load: all answered');
    is($l->{wrong} + $l->{errors}, 0, 'load: none wrong');

    $l = $t->load(port => $a->port(), uri => '/name', clients => 5,
        seconds => 0.5, rate => 20, expect => 'NEITHER');
    cmp_ok($l->{requests}, '<=', 60, 'load: paced');
    is($l->{wrong}, $l->{ok}, 'load: wrong bodies are seen');
}


# what done() looks for is found

my $h = $t->nginx('h', $conf);
my $idle = $h->conn();
is($idle->get('/name')->body(), 'NAME', 'checks: a connection');
is(scalar(my @l = $h->leaks({}, 0)), 1, 'checks: it is seen');
$idle->close();
ok(wait_for(sub { my @l = $h->leaks({}, 0); !@l }), 'checks: and its end');
ok($h->quit(), 'checks: quit');
is($h->{exit}, 0, 'checks: exit code');

is(scalar(@l = $h->complaints()), 0, 'checks: nothing to complain of');

my $log = $h->log();
$t->write_file('h/error.log', $log . <<'EOT');
2026/01/01 00:00:00 [alert] 1#1: worker process 2 exited on signal 11
2026/01/01 00:00:00 [crit] 1#1: something
2026/01/01 00:00:00 [notice] 1#1: worker process 2 exited with code 1
2026/01/01 00:00:00 [error] 1#1: no matter
==1==ERROR: AddressSanitizer: heap-use-after-free
EOT
@l = $h->complaints(qr/something/);
is(scalar(grep { /exited on signal 11|exited with code 1|after-free/ } @l), 3,
    'checks: crash, exit code and sanitizer are found');
is(scalar(grep { /\[crit\]|\[error\]/ } @l), 0, 'checks: others are not');
$t->write_file('h/error.log', $log);

my $own = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort =>
    $m->port());
ok(wait_for(sub { $m->connections() == 1 }), 'checks: a stranger');
like(join(' ', $t->wait_count(0)), qr/: 1, of workers 0/,
    'checks: it is counted');
like(join(' ', $t->wait_sockets(0)), qr/a socket of \w+ is left/,
    'checks: sockets are seen');
close $own;
is(join(' ', $t->wait_count()), '', 'checks: it is gone');

my $h3 = $t->nginx('h3', $conf);
kill 'STOP', $h3->workers();
$t->lost();
$_ += 1e12 for values %{$t->{waited}};
$h3->kill9();
cmp_ok($t->lost(), '>', 1000, 'the wait of what has ended stays counted');
is(scalar(@l = $t->wait_stray()), 0, 'checks: nobody outlives a host');
push @{$h3->{groups}}, getpgrp();
is(scalar(@l = $t->wait_stray(0)), 1, 'checks: who does is seen');
pop @{$h3->{groups}};


# TLS, curl, and the proxy protocol

SKIP: {
    skip 'no TLS', 3 if grep { !$t->has($_) } 'http_ssl', 'openssl', 'curl',
        'IO::Socket::SSL';

    my ($crt, $key) = $t->cert('localhost');
    my $s = $t->nginx('tls', <<"EOT");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%% ssl;
        ssl_certificate $crt;
        ssl_certificate_key $key;
        return 200 "\$scheme \$ssl_server_name";
    }
    server {
        listen 127.0.0.1:%%PORT_pp%% proxy_protocol;
        return 200 "\$proxy_protocol_addr";
    }
}
EOT

    is($s->get('/', ssl => 1)->body(), 'https localhost', 'client: TLS');
    like($t->curl('https://127.0.0.1:' . $s->port() . '/'), qr/^https /,
        'client: curl');
    is(http_get($t->port('pp'), '/',
        preface => "PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n")->body(),
        '192.0.2.7', 'client: proxy protocol');
}


# a test that dies leaves nothing behind

my $child = $t->run($^X, "-I$FindBin::Bin/lib", '-MTest::More',
    '-MTest::Mcds', '-e', '$| = 1; my $t = Test::Mcds->new(module => 0);
    my $m = $t->memcached("m"); my $f = $t->fake("f");
    my $n = $t->nginx("n", "%%GLOBALS%% events { } http { %%HTTP%% server {'
    . 'listen 127.0.0.1:%%PORT%%; } }");
    print join(" ", "pids", $n->pid(), $n->workers(), $m->pid(), $f->pid()),
        " $t->{dir}\n"; kill $ARGV[0], $$; sleep 9', 'KILL');

my ($pids, $dir) = $child =~ /pids ([\d ]+) (\S+)/;
my @pids = split / /, $pids // '';

is(scalar(@pids), 3 + $t->workers(1), 'reaper: processes were there');
ok(wait_for(sub { !grep { waitpid $_, 1; kill 0, $_ } @pids }),
    'reaper: and are gone');
File::Path::remove_tree($dir) if $dir;

$t->done();
