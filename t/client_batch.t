#!/usr/bin/perl

# Copyright (C) mcds authors

# All that a request has to ask leaves in one write, and so does what
# comes together; large values have a connection of their own, there are never
# more than two.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $f = $t->fake('m');

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my ($size) = $req->{path} =~ /(\d+)$/;
    return { body => 'x' x ($size // 10) };
});

my $h = $t->nginx('h', <<'EOT', log => 'debug');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache_valid 1h;
        location / {
            mcds_visitor_counter $v key=online visitor=$arg_v window=60s
                                 slots=4 interpolate=off;
            mcds_counter $a key=a:$uri;
            mcds_counter $b key=b:$uri;
            mcds_counter $c key=c:$uri;
            mcds_counter $d key=d:$uri;
            mcds_cache on;
            mcds_cache_key page:$uri;
            add_header X-All $a-$b-$c-$d-$v;
            add_header X-Cache $mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /one {
            mcds_cache on;
            mcds_cache_key page:$uri;
            add_header X-Cache $mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /n {
            mcds_counter $n key=$arg_k;
            mcds_return $n;
        }
    }
}
EOT


# one write: a visitor's mark, the slots of the sum, counters and the page

$h->get('/page?v=1');
ok(wait_for(sub { $f->count(qr/^md /) }), 'a page is stored');

# the line of the last write is in the log

$h->asleep();
$f->mark();

my $writes = writes();
my $res = $h->get('/page?v=2');

is($res->header('X-Cache'), 'HIT', 'a hit');
like($res->header('X-All'), qr/^2-2-2-2-\d+$/, 'with all its numbers');
ok(wait_for(sub { $f->count(qr/^ma online/) }), 'and the visitor is counted');

my @first = grep { $_->{line} !~ /ma online/ } $f->log();
my %reads = map {; "$_->{conn} $_->{read}" => 1 } @first;

cmp_ok(scalar @first, '>=', 6, 'commands');
is(scalar keys %reads, 1, 'that came in one piece');

SKIP: {
    skip 'nginx has no debug log', 1 if !$t->has('debug');

    # the visitor is counted once the mark has told that it is new

    wait_for(sub { writes() >= $writes + 2 });
    is(writes() - $writes, 2, 'writes: all of it, and the visitor');
}


# requests that come in one turn share a write, too: the worker is stopped
# until all of them are there

my ($worker) = $h->workers();
my @conns = map { $h->conn() } 1 .. 16;

$conns[$_]->get("/n?k=$_") for 0 .. 15;

kill 'STOP', $worker;
ok(wait_for(sub { state($worker) eq 'T' }), 'the worker is stopped');

$f->mark();
$writes = writes();
$conns[$_]->request("/n?k=$_") for 0 .. 15;

kill 'CONT', $worker;

is(join(' ', map { $_->response()->body } @conns), join(' ', (2) x 16),
    '16 requests have their numbers');

%reads = map { $_->{read} => 1 } $f->log();
is(scalar keys %reads, 1, 'asked for together');

SKIP: {
    skip 'nginx has no debug log', 1 if !$t->has('debug');
    is(writes() - $writes, 1, 'and in one write');
}

$_->close() for @conns;


# large values

$f->close_all();
$f->hang_up();
wait_for(sub { $f->connections() == 0 });
$f->mark();

for my $size (100, 20000, 32000, 40000, 400000) {
    is(length $h->get("/one$size")->body, $size, "a page of $size bytes");
    ok(wait_for(sub { $f->count(qr/^ms <>page:\/one$size \d/) }), 'is stored');
    $h->get("/one$size") for 1 .. 3;
    is($h->get("/one$size")->header('X-Cache'), 'HIT', 'and hit');
}

my ($control) = map { $_->{conn} } grep { $_->{line} =~ /^mg/ } $f->log();
my %bulk = map { $_->{conn} => 1 } grep { $_->{cmd} eq 'ms'
    && $_->{conn} != $control } $f->log();

is(scalar keys %bulk, 1, 'one connection for large values');

for my $c (grep { ($_->{key} // '') =~ /^<>page:/ } $f->log()) {
    my ($size) = $c->{key} =~ /(\d+)/;
    my $large = defined $c->{value} && length $c->{value} >= 32768;

    next if $c->{cmd} ne 'ms' || $c->{key} =~ /:lock/;
    is($c->{conn} == $control ? 0 : 1, $large ? 1 : 0,
        "ms of a page of $size bytes: its connection");
}

my @gets = map { my $size = $_; [grep {
    $_->{cmd} eq 'mg' && $_->{key} eq "<>page:/one$size" } $f->log()] }
    100, 400000;

is(scalar(grep { $_->{conn} != $control } @{$gets[0]}), 0,
    'small pages never come over it');
ok($gets[1][-1]{conn} != $control, 'large ones do once they are known');

many(100, sub { [$h->port(), '/one' . (100, 20000, 40000, 400000)[$_[0] % 4]] },
    concurrency => 50);

$f->hang_up();
is($f->opened_count(), 2, 'two connections, all the time');

$t->done();


# of our connections: those of clients have a number in the log

sub writes {
    return $h->log_count(qr/\[debug\] \d+#\d+: writev: \d+ of \d+/);
}


sub state {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/stat" or return '';

    return <$fh> =~ /\) (\S)/ ? $1 : '';
}
