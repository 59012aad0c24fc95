#!/usr/bin/perl

# Copyright (C) mcds authors

# The ways in which nginx can be told to run: the same counters, builds and
# refreshes in all of them, whatever MCDS_MODE says (L08).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
my $slow = $t->slow();
my $threads = $t->has('threads') ? 'aio threads;' : '';

my $m = $t->memcached('m');
my $mu = $t->memcached('mu', unix => 1);
mkdir $t->dir() . '/static';
chmod 0755, $t->dir() . '/static';
my $file = join '', map { "line $_\n" } 1 .. 40000;
$t->write_file('static/large', $file);
$t->write_file('static/small', 'small');

my %pages = (large => $file, small => 'small');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=1'] },
    paths => { map { my $mode = $_; map { ("/$mode/static/$_" => {
    headers => ['Cache-Control' => 'max-age=1'], body => $pages{$_} }) }
    keys %pages } qw/ single one eight reuse threads direct poll few / });

my $tcp = 'server 127.0.0.1:%%PORT_m%%';
my $unix = 'server unix:%%SOCK_mu%%';
my $sendfile = 'sendfile on; tcp_nopush on;';

# name, main level, events, http, parameters of listen, memcached

my %modes = (
    single  => ['master_process off;', '', '', '', $tcp],
    one     => ['worker_processes 1;', '', $sendfile, '', $tcp],
    eight   => ['worker_processes 8;', 'multi_accept on; accept_mutex on;',
                '', '', $tcp],
    reuse   => ['worker_processes 4;', 'multi_accept on;', $sendfile,
                'reuseport', $unix],
    threads => ['worker_processes 2;', '', "$sendfile $threads", '', $tcp],
    direct  => ['worker_processes 1;', '',
                "sendfile off; $threads directio 64k;", '', $unix],
    poll    => ['worker_processes 2;', 'use select;', '', '', $tcp],
);

delete $modes{poll} if !$t->has('select');

my %hosts = map { $_ => $t->nginx($_, conf($_, 512, @{$modes{$_}}),
    mode => 0) }
    sort keys %modes;

for my $name (sort keys %hosts) {
    my $host = $hosts{$name};
    my $workers = $modes{$name}[0] =~ /worker_processes (\d)/ ? $1 : 1;

    is(scalar(() = $host->workers()), $workers, "$name: workers");
    start($name, $host);
}

sleep 1.2;
old($_, $hosts{$_}) for sort keys %hosts;

$_->quit() for values %hosts;


# more clients than connections: who is not served is hung up on, and that is
# all that happens

my $few = $t->nginx('few', conf('few', 24, 'worker_processes 1;', '', '', '',
    $tcp), mode => 0);

start('few', $few, 8);
$few->get("/few/old/$_") for 0 .. 2;
sleep 1.2;

# these have a connection, and their requests are not whole yet

my @early = map { conn($few->port()) } 1 .. 3;
$early[$_]->send("GET /few/old/$_ HTTP/1.0\r\n") for 0 .. 2;

my $full = qr/\[alert\] .* 24 worker_connections are not enough/;
$t->allow($full);
$o->hold_path('/few/flood');
my @flood = start_get($few->port(), '/few/flood');
$o->wait_requests(1, '/few/flood');

for my $i (2 .. 40) {
    push @flood, start_get($few->port(), '/few/flood');
    wait_for(sub {
        $few->log_has($full) || ($m->get('here:/few/flood') // 0) == $i
    });
    last if $few->log_has($full);
}

ok($few->log_has($full), 'few: there are not enough');

for my $c (@early) {
    my $before = $few->log_count($full);

    $c->send("Host: localhost\r\n\r\n");
    like($c->slurp(5 * $slow), qr{X-Cache: (?:STALE|UPDATING).*/old/\d\n\z}s,
        'few: an old page needs no connection');

    next if $c != $early[0];
    cmp_ok($few->log_count($full), '>', $before,
        'few: though its refresh does');
}

$o->release('/few/flood');

my @text = map { $_->slurp(5 * $slow) } @flood;
my $served = grep { /^HTTP\S+ 200 .*\/few\/flood\n\z/s } @text;

cmp_ok($served, '>', 5, 'few: some are served');
is($served + grep({ $_ !~ / 200 / } @text), @flood,
    'few: nobody gets half a page');

sleep 1.2;
old('few', $few);

$t->done();


sub conf {
    my ($name, $connections, $main, $events, $http, $listen, $memcached) = @_;

    my $nofile = $name eq 'few' ? '' : 'worker_rlimit_nofile 2048;';

    return <<"EOT";
%%GLOBALS%%
$main
$nofile
events { worker_connections $connections; $events }
http {
    %%HTTP%%
    $http
    mcds_pool main { $memcached; timeout 5s; }
    mcds_cache_key \$host\$uri;

    server {
        listen      127.0.0.1:%%PORT%% $listen;
        server_name localhost;
        add_header  X-Cache \$mcds_cache_status;

        location /$name/count {
            mcds_counter \$n key=\$uri;
            mcds_return  200 "\$n";
        }
        location /$name/file/ {
            alias            %%TMP%%/static/;
            mcds_cache       on;
            mcds_cache_valid 1s;
        }
        location / {
            mcds_counter \$here key=here:\$uri;
            mcds_cache   on;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }
    }

    server {
        listen      127.0.0.1:%%PORT%%;
        server_name other;

        location /$name/count {
            mcds_counter \$n key=\$uri;
            mcds_return  200 "other \$n";
        }
        location / {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%/other\$uri;
        }
    }
}
EOT
}


# counters, files, a herd on a cold page, and two servers

sub start {
    my ($name, $host, $clients) = @_;

    my $port = $host->port();

    $clients //= 40;

    my %seen = map { $_->body() => 1 } many(100,
        sub { [$port, "/$name/count"] }, concurrency => $clients);
    is(join(',', sort { $a <=> $b } keys %seen), join(',', 1 .. 100),
        "$name: 100 requests count to 100");
    is($host->get("/$name/count", host => 'other')->body(), 'other 101',
        "$name: two servers count as one");

    my $r = $host->get("/$name/file/large");
    ok($r->status() == 200 && $r->body() eq $file, "$name: a file");
    ok(!defined $r->header('X-Cache'), "$name: is not stored");

    $r = $host->get("/$name/static/large");
    ok($r->status() == 200 && $r->body() eq $file, "$name: a large page");
    ok(wait_for(sub {
        $r = $host->get("/$name/static/large");
        return $r->header('X-Cache') eq 'HIT';
    }), "$name: it is stored");
    ok($r->status() == 200 && $r->body() eq $file, "$name: and the same");

    is($host->get("/$name/static/small")->body(), 'small',
        "$name: a small one");

    $o->hold_path("/$name/page");
    my @herd = map { start_get($port, "/$name/page") } 1 .. $clients;
    $o->wait_requests(1, "/$name/page");
    $o->release("/$name/page");

    my %body = map { $_->body() => 1 } map { finish($_, 5 * $slow) } @herd;
    is(scalar(keys %body), 1, "$name: a herd gets one answer");
    is($o->count("/$name/page"), 1, "$name: after one build");

    like($host->get("/$name/page", host => 'other')->body(),
        qr/ of \/other\/$name\/page\n/, "$name: the other server's page");
}


# all of that has expired

sub old {
    my ($name, $host) = @_;

    for my $uri ("/$name/page", "/$name/static/large", "/$name/static/small") {
        like($host->get($uri)->header('X-Cache'), qr/^(?:STALE|UPDATING)$/,
            "$name: the old page at once: $uri");
        ok(wait_for(sub { $host->get($uri)->header('X-Cache') eq 'HIT' },
            5 * $slow), "$name: and then a new one");
    }

    is($host->get("/$name/static/large")->body(), $file,
        "$name: the large one is whole");
    is($host->get("/$name/static/small")->body(), 'small',
        "$name: so is the small one");
}
