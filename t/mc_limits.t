#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached at its limits: more connections than it takes, less memory than the
# pages need, items that are too large for it.  What it does not take is shed;
# clients get their pages, and memory of nginx stays what it was.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1);
$t->needs('mcds large');

my ($most, $workers) = $t->full() ? (16, 64) : (24, 16);

my $few = $t->memcached('few', threads => 1, args => ['-c', $most]);
my $tiny = $t->memcached('tiny', memory => 3, args => ['-I', '512k']);

my %length = (small => 100, middle => 40000, big => 600000, huge => 5000000);

sub body {
    my ($path) = @_;
    my ($kind) = $path =~ m{/([a-z]+)};
    my $tail = "end of $path\n";

    return 'x' x (($length{$kind} // 100) - length $tail) . $tail;
}

my $o = $t->origin('o', sub { return { body => body($_[1]->{path}),
    headers => ['Cache-Control' => 'max-age=600'] } });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes %%WORKERS%%;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_MC%%;
        fail_timeout 300ms;
        timeout      2s;
    }
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / {
            mcds_counter $n key=$uri;
            mcds_cache on;
            mcds_cache_key page:$uri;
            mcds_cache_max_size 4m;
            proxy_buffers 32 16k;
            proxy_max_temp_file_size 0;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache $mcds_cache_status;
            add_header X-Number $n;
        }
    }
}
EOT

sub host {
    my ($name, $mc, $workers, %o) = @_;

    return $t->nginx($name, $conf =~ s/%%PORT_MC%%/"%%PORT_$mc%%"/er
        =~ s/%%WORKERS%%/$workers/r, %o);
}

# answers that are not as they should be

sub wrong {
    return scalar grep { $_->status() != 200
        || $_->body() ne body($_->{path}) } @_;
}

sub ask {
    my ($h, $n, @paths) = @_;

    my @res = many($n, sub { [$h->port(), $paths[$_[0] % @paths]] },
        concurrency => 48);

    $res[$_]{path} = $paths[$_ % @paths] for 0 .. $#res;

    return @res;
}


# connections: each worker wants one, memcached takes about half of what it is
# told; so this is about many workers in all modes

my $a = host('a', 'few', $workers, mode => 0);
my @res = ask($a, 240, '/small');

is(wrong(@res), 0, 'connections: all are answered');

my $with = grep { defined $_->header('X-Number') } @res;

cmp_ok($with, '>', $t->size(40, 3), 'connections: some are counted');
cmp_ok($with, '<', 235, 'connections: and some are not');
is(scalar(grep { $_->calm() > $t->slow() } @res), 0,
    'connections: nobody waits');


# each worker that has none says so once, and what memcached has said

my @lines = $a->log_lines(qr/\[error\]/);

cmp_ok(scalar @lines, '<=', $workers, 'connections: one line of each worker');
is(scalar(grep { !/is down after 3 failures/ } @lines), 0,
    'connections: it is down, not foreign');
ok($a->log_has(qr/memcached said "ERROR Too many open connections"/),
    'connections: with what it said');
cmp_ok($few->get('/small') // 0, '==', $with, 'connections: the count holds');

# with more room, all of them count

$few->{args} = [];
$few->restart();

ok(wait_for(sub {
    my @all = ask($a, 100, '/small');
    return !grep { !defined $_->header('X-Number') } @all;
}, 10 * $t->slow()), 'connections: then all are counted');

ok($a->quit(), 'connections: the end');


# memory: 3 MB for 12 MB of pages

my $b = host('b', 'tiny', 2);
my @paths = map { "/middle/$_" } 1 .. 300;

my $rounds = $t->size(2, 20);
my $hits = 0;

for my $round (1 .. $rounds) {
    @res = ask($b, 600, @paths[map { rand @paths } 1 .. 600]);
    is(wrong(@res), 0, "memory $round: all are answered");
    is(scalar(grep { ($_->header('X-Number') // '') !~ /^[1-9]\d*$/ } @res),
        0, "memory $round: all are counted");

    $hits += grep { $_->header('X-Cache') eq 'HIT' } @res;
}

cmp_ok($tiny->stats()->{evictions}, '>', 100, 'memory: pages were evicted');
cmp_ok($hits, '>', 30, 'memory: some are still hits');


# items: up to 512 KB, pages in parts up to 4 MB

my $rss = rss();
my $opened = $tiny->stats()->{total_connections};

for my $round (1 .. $t->size(3, 50)) {
    for my $kind ('big', 'huge', 'middle') {
        $_ = $b->get("/$kind/x");
        $_->{path} = "/$kind/x";
        is(wrong($_), 0, "items $round: $kind");
    }
}

is($o->count('/middle/x'), 1, 'items: one that fits is stored');
is($o->count('/huge/x'), $t->size(3, 50), 'items: one that does not is not');
is($b->get('/big/x')->header('X-Cache'), 'HIT', 'items: one just above is');

# of each worker, one for small things and one for large, and this test's

cmp_ok($tiny->stats()->{total_connections} - $opened, '<=',
    2 * $t->workers(2) + 1,
    'items: no connection was given up');
is(scalar($b->log_lines(qr/\[(?:error|warn)\]/)), 0, 'items: no warning');

SKIP: {
    skip 'sanitizers keep what is freed', 1 if $t->watched();
    cmp_ok(rss() - $rss, '<', $t->workers(2) * 9000,
        'items: memory is bounded');
}

$t->done();


# KB

sub rss {
    my $sum = 0;

    for my $pid ($b->workers()) {
        $sum += 4 * (split / /, $t->run('cat', "/proc/$pid/statm"))[1];
    }

    return $sum;
}
