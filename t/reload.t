#!/usr/bin/perl

# Copyright (C) mcds authors

# Reloads: under load nothing fails and nothing is counted twice or not at all;
# old workers leave; what the configuration no longer has is gone, and a broken
# one changes nothing (L01, L03).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('single', 'nginx cannot reload then');
my $workers = $t->workers(2);

my $m = $t->memcached('m');
my $m2 = $t->memcached('m2');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] },
    paths => { '/number' => { body => 1000 }, '/load' => { delay => 0.03,
        headers => ['Cache-Control' => 'max-age=1'] } });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 2048; }
http {
    %%HTTP%%
    keepalive_requests 1000000;
    mcds_pool main  { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_pool other { server 127.0.0.1:%%PORT_m%%; timeout 5s; prefix other:; }
    mcds_use  main;
    mcds_zone 1m;

    server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-Cache $mcds_cache_status;

        location /count {
            mcds_counter $n key=$uri;
            mcds_return  200 "$n";
        }
        location /init {
            mcds_counter      $i key=init:$arg_k;
            mcds_counter_init $i /number;
            mcds_return       200 "$i";
        }
        location /number {
            proxy_pass      http://127.0.0.1:%%PORT_o%%;
        }
        location /other {
            mcds_cache      other;
            mcds_cache_key  $uri;
            proxy_pass      http://127.0.0.1:%%PORT_o%%;
        }
        location / {
            mcds_cache      on;
            mcds_cache_key  $uri;
            mcds_counter    $n key=hits:$uri;
            proxy_pass      http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $a = $t->nginx('a', $conf);
my $slow = $t->slow();


# HUP again and again

my %load = (port => $a, clients => $t->size(20, 250), rate => 20, timeout => 20,
    background => 1);
my $seconds = $t->size(4, 600);
my @load = map { $t->load(%load, seconds => $seconds, %$_) }
    { uri => '/count' }, { uri => '/load', expect => 'of /load' };

my ($longest, $reloads, %old) = (0, 0);
my $end = time() + $seconds;

while (time() < $end) {
    my $next = time() + 0.5;

    my @leave = $a->workers();

    $a->reload();
    $old{$_} = $t->stopwatch() for @leave;
    $reloads++;

    do {
        leave();
        sleep 0.02;
    } while (time() < $next);
}

my ($counted, $pages) = map { $_->wait() } @load;

is($counted->{errors}, 0, "counters: no error in $reloads reloads")
    or diag($counted->{first_error});
is($counted->{ok}, $counted->{requests}, 'counters: all answers are 200');
is($m->get('/count'), $counted->{requests}, 'counters: exact');
is($pages->{errors}, 0, 'pages: no error') or diag($pages->{first_error});
is($pages->{ok}, $pages->{requests}, 'pages: all answers are 200');
is($pages->{wrong}, 0, 'pages: all the right one');
is($m->get('hits:/load'), $pages->{requests}, 'pages: counted exactly');
cmp_ok($o->count('/load'), '>=', $seconds / 2, 'pages: refreshed meanwhile');
is($o->most('/load'), 1, 'pages: never two builds at once');

ok(wait_for(sub { leave(); $a->children() == $workers }, 2 * $slow),
    'old workers are gone');
cmp_ok($longest, '<', 2 * $slow, 'each within 2 s');


# a build goes on in an old worker, and new ones wait for it; then with another
# size of the memory that they would share

for my $zone ('1m', '2m') {
    (my $new = $conf) =~ s/mcds_zone 1m/mcds_zone $zone/;
    my $uri = "/zone/$zone";

    $o->hold_path($uri);
    my $builds = start_get($a->port(), $uri);
    $o->wait_requests(1, $uri);

    $a->conf($new);
    ok($a->reload(), "zone of $zone: reloaded");
    ok(one_leaves(), 'an old worker builds');

    my @wait = map { start_get($a->port(), $uri) } 1 .. 5;
    ok(wait_for(sub { ($m->get("hits:$uri") // 0) == 6 }, 5 * $slow),
        'others wait in the new ones');
    $o->release($uri);

    is(scalar(grep { $_->status() == 200 } map { finish($_) }
        $builds, @wait), 6, 'all are answered');
    is($o->count($uri), 1, 'one build');
    ok(wait_for(sub { $a->children() == $workers }, 2 * $slow),
        'the old one leaves');
}


# a pool changes its server, another one is gone, with a build under way

$o->hold_path('/other');
my $builds = start_get($a->port(), '/other');
$o->wait_requests(1, '/other');

(my $changed = $conf) =~ s/PORT_m%%; timeout 5s; }/PORT_m2%%; timeout 5s; }/;
$changed =~ s/mcds_pool other.*\n//;
$changed =~ s/mcds_cache      other/mcds_cache      on/;

$a->conf($changed);
ok($a->reload() && one_leaves(), 'pools: reloaded');
is($a->get('/count')->body(), 1, 'a pool with another server counts there');
is($m2->get('/count'), 1, 'as that server knows');

$o->release('/other');
is(finish($builds)->status(), 200, 'a build for a pool that is gone');
ok(wait_for(sub { ($m->get('other:<>/other') // '') =~ /of \/other/ }, 2),
    'is stored as it was meant');
ok(wait_for(sub { $a->children() == $workers }, 2 * $slow),
    'and its worker leaves');
ok(wait_for(sub { $m->hang_up(); $m->connections() == 0 }, 2 * $slow),
    'nothing stays connected to the old server');


# what is broken changes nothing, in the workers to come neither

$a->conf($conf)->reload(wait_old => 1);
is($a->get('/kept')->status(), 200, 'a page');

my @broken = (
    ['unknown pool', $conf =~ s/mcds_use  main/mcds_use  none/r,
        qr/there is no pool "none"/],
    ['no pool', $conf =~ s/mcds_pool (?:main|other).*\n//gr,
        qr/"mcds_use": there is no pool "main"/],
    ['late mistake', $conf =~ s/^ +mcds_(?:cache|zone|counter|return).*\n//gmr
        =~ s/^ +add_header.*\n//gmr
        =~ s/keepalive_requests/access_log %%DIR%%\/no\/such\/file; $&/r,
        qr/open\(\) ".*no\/such\/file" failed/],
);

$t->allow(map { $_->[2] } @broken);

for my $case (@broken) {
    my ($name, $text, $message) = @$case;
    my @before = $a->workers();

    $a->conf($text);
    ok(!$a->reload(), "$name: refused");
    ok($a->log_has($message), "$name: said so");
    is("@{[$a->workers()]}", "@before", "$name: the same workers");
    is($a->get('/kept')->header('X-Cache'), 'HIT', "$name: they serve");

    $a->kill_worker($_) for @before;
    is($a->get('/kept')->header('X-Cache'), 'HIT', "$name: so do others");
    my $uri = $name =~ s/ /-/r;
    $a->get("/$uri");
    ok(wait_for(sub { defined $m->get("<>/$uri") }, 2),
        "$name: and they store");
    is($a->get("/init?k=$uri")->body(), 1001, "$name: and begin a counter");
}


# without the module, and with it again

SKIP: {
    skip 'the module is static', 5 if $t->{static};

    my $user = $> == 0 ? 'user root root;' : '';

    $a->conf(<<"EOT");
daemon off; $user pid %%DIR%%/nginx.pid; error_log %%DIR%%/error.log info;
worker_processes 2;
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT
    ok($a->reload(wait_old => 1), 'without the module');
    is(scalar(grep { maps($_) } $a->workers()), 0, 'it is not loaded');
    is($a->get('/kept')->body(), "answer " . $o->count() . " of /kept\n",
        'pages come from the origin');

    $a->conf($conf);
    ok($a->reload(wait_old => 1), 'with it again');
    is($a->get('/kept')->header('X-Cache'), 'HIT', 'what was stored is there');
}

$t->done();


# notes how long those stay that were told to leave

sub leave {
    my %now = map { $_ => 1 } $a->workers();
    my %all = map { $_ => 1 } $a->children();

    for my $pid (keys %old) {
        next if $now{$pid};

        # the worker may have ended at any time since the last look

        if (!$all{$pid}) {
            delete $old{$pid};
            next;
        }

        my $stayed = $old{$pid}->();
        $longest = $stayed if $stayed > $longest;
    }
}


# the other one has ended, and this one takes nothing new

sub one_leaves {
    return wait_for(sub {
        $a->leaving() == 1 && $a->children() == $workers + 1;
    }, 5 * $slow);
}


sub maps {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/maps" or return 0;
    return scalar grep { /ngx_http_mcds_module/ } <$fh>;
}
