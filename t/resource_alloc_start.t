#!/usr/bin/perl

# Copyright (C) mcds authors

# No memory at the start: while the configuration is read nginx says so and
# ends, whichever allocation of a pool of servers it lacks; a worker either does
# not start, or works, with all connections to memcached still to be made:
# plain, with TLS and a password, to a name (R04).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Dns;
use Test::Mcds::Memory;

# OpenSSL leaks when it has no memory, which is not of interest here

local $ENV{MCDS_LEAKS} = 0;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker')->not_in('single',
    'workers are to be started')->needs('http_ssl', 'openssl');

# what has no memory says so

$t->allow(qr/\[emerg\] .*(?:malloc|memalign|calloc)\(.* failed/,
    qr/\[(?:alert|crit|emerg)\] .*Cannot allocate memory/,
    qr/exited with (?:fatal )?code 2/, qr/\[(?:crit|alert)\] .*SSL/);

my $m = $t->memcached('m');
my ($crt, $key) = $t->cert('mc.local');

$t->write_file('users', "joe:secret\n");
$t->write_file('password', "secret\n");
$t->memcached('tls', mute => 1, args => ['-Z', '-o',
    "ssl_chain_cert=$crt,ssl_key=$key", '-Y', $t->dir() . '/users']);

my $d = $t->forked('Test::Mcds::Dns', 'd');
$d->names('localhost', '127.0.0.1');

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    resolver 127.0.0.1:%%PORT_d%% ipv6=off;
    mcds_zone 1m;

    mcds_pool plain   { server 127.0.0.1:%%PORT_m%%; timeout 2s; }
    mcds_pool classic { server 127.0.0.1:%%PORT_m%%; protocol classic; }
    mcds_pool ring    { server 127.0.0.1:%%PORT_m%% weight=2;
                        distribution ketama; eject on; }
    mcds_pool name    { server localhost:%%PORT_m%%; timeout 2s; }
    mcds_pool string  { libmemcached "--SERVER=127.0.0.1:%%PORT_m%%"; }
    mcds_pool tls     { server 127.0.0.1:%%PORT_tls%%; timeout 2s; ssl on;
                        ssl_verify on; ssl_name mc.local;
                        ssl_trusted_certificate %%TMP%%/mc.local.crt;
                        auth_user joe;
                        auth_password_file %%TMP%%/password; }
    mcds_use plain;
    mcds_counter_top popular;
    log_format line $uri;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /plain   { mcds_counter $n key=n; mcds_return "$n"; }
        location /classic { mcds_use classic; mcds_counter $n key=n;
                            mcds_return "$n"; }
        location /ring    { mcds_use ring; mcds_counter $n key=n;
                            mcds_return "$n"; }
        location /name    { mcds_use name; mcds_counter $n key=n;
                            mcds_return "$n"; }
        location /string  { mcds_use string; mcds_counter $n key=n;
                            mcds_return "$n"; }
        location /tls     { mcds_use tls; mcds_counter $n key=n;
                            mcds_return "$n"; }
        location /page {
            mcds_cache                 on;
            mcds_cache_key             $uri$is_args$args;
            mcds_cache_key_args ignore=utm_*;
            mcds_cache_tag             a;
            mcds_cache_bypass          $arg_nocache;
            mcds_cache_session_cookies session;
            mcds_visitor_counter       $v;
            mcds_counter               $c top=popular;
            mcds_counter_durable $c on;
            mcds_counter_buffer $c on;
            mcds_counter_writeback     /save;
            mcds_array_push            pages $uri;
            mcds_table_lookup          $t table $uri none;
            mcds_log                   log line;
            mcds_cache_compress        gzip;
            mcds_cache_valid           200 1m;
            mcds_return                "page";
        }
        location /save   { return 204; }
        location /lock   { mcds_lock $uri; mcds_return "lock"; }
        location /array  { mcds_array_api array; }
        location /table/ { mcds_table_api table; }
        location /lines  { mcds_log_api log; }
        location /status { mcds_status; }
    }
}
EOT

my $h = $t->nginx('h', $conf, memory => 1);
my @pools = qw/ plain classic ring name string tls /;
my $master = Test::Mcds::Memory->of($h, $h->pid());


# a worker that has just been started, and its first requests

my (@wrong, @hung, @died);
my ($n, $tried, $none, $step) = (0, 0, 0, $t->size(101, 3));

while (1) {
    my ($old) = $h->workers();

    $n += $step;
    $master->fail_later($n);
    kill 'TERM', $old;

    wait_for(sub { begun($old) }, 10) or push(@hung, "$n: begins"), last;

    $master->fail_later(0);

    if (!$h->workers()) {
        $none++;
        $tried++;
        $h->reload();
        next;
    }

    my ($worker) = $h->workers();
    my $memory = Test::Mcds::Memory->of($h, $worker);
    my @r = map { $h->get("/$_", timeout => 10 * $t->slow()) } @pools, 'page';
    my $failed = $memory->now()->{failed};

    $memory->fail(0);

    push @hung, $n if grep { ($_->error() // '') eq 'timed out' } @r;

    # who could not be asked may be so for a second; what OpenSSL has not done
    # once it may never do

    push @wrong, $n if !wait_for(sub {
        !grep { $h->get("/$_")->body() !~ /^(?:\d+|page)\z/ }
            grep { $_ ne 'tls' } @pools, 'page'
    }, 10 * $t->slow());

    push @died, $n if ($h->workers())[0] != $worker;

    last if !$failed;
    $tried++;
}

cmp_ok($tried, '>', 10, "$tried failures, of which $none have no worker");
is("@died", '', 'no worker dies of it');
is("@hung", '', 'no request hangs');
is("@wrong", '', 'all works then');


# the configuration; libraries can do without some of their memory

my ($read, @bad) = (0);

for (my $i = 1; ; $i += $t->size(97, 3)) {
    my ($failed) = refuse('nginx.conf', $i);

    last if !$failed;
}

cmp_ok($read, '>', 3, "$read times nginx does not start");
is(scalar @bad, 0, 'each time it says so') or diag(splice @bad, 0, 5);


# each allocation of a pool of many servers; a directive that is unknown, before
# the pool or after it, tells which these are

my ($head) = $t->read_file('h/nginx.conf') =~ /\A(.*?)^\s*mcds_pool plain/ms;
my $pool = join "\n", 'mcds_pool many { distribution ketama;',
    (map { "server 127.0.0.$_:1;" } 1 .. 40), '}';

$t->write_file('h/before.conf', "$head unknown;\n$pool }\n");
$t->write_file('h/after.conf', "$head $pool\nunknown; }\n");
$t->write_file('h/many.conf', "$head $pool }\n");

my ($first, $last) = map { (config("$_.conf", 0))[3] } qw/ before after /;
my $servers = 0;

# the refusal of the directive needs some memory, too

for my $i ($first - 30 .. $last) {
    my ($failed, $output) = refuse('many.conf', $i);

    $servers++ if $output =~ /out of memory in "server/;
}

cmp_ok($servers, '>', 2, "$servers times a server of a pool has no memory");
is(scalar @bad, 0, 'many: each time it says so') or diag(splice @bad, 0, 5);

$t->done(keep => ['tls']);


sub begun {
    my ($old) = @_;

    my @workers = $h->workers();

    # between the two there is none for a moment, too

    return (@workers && $workers[0] != $old)
        || $h->log_count(qr/cannot be respawned/) > $none;
}


# fails one allocation of a start, and notes a bad end of it

sub refuse {
    my ($file, $i) = @_;

    my ($failed, $output, $code) = config($file, $i);

    return ($failed, $output) if !$failed || $code == 0;

    $read++;

    # or the loader has none, or the parser of libmemcached, which exits or, as
    # the sanitizer tells, uses what it has not got

    push @bad, "$file $i: $code: $output"
        if !($code == 256 && $output =~ /\[emerg\]|test failed/)
        && $output !~ /\Aout of memory\Z/
        && $output !~ /out of dynamic memory in yy/
        && $output !~ m{SEGV.*\n(?:==.*\n)*\s+#0 .*libmemcached\.so};

    return ($failed, $output);
}


sub config {
    my ($file, $i) = @_;

    local %ENV = (%ENV, LD_PRELOAD => $t->preload('memory'),
        MCDS_MEMORY => $t->dir() . '/conf', MCDS_MEMORY_FAIL => $i,
        ASAN_OPTIONS => 'detect_leaks=0:verify_asan_link_order=0');

    my $output = $t->run($t->binary(), '-t', '-p', $h->dir() . '/', '-c',
        $file, '-e', 'stderr');
    my $code = $?;

    # of its first process

    my ($memory) = glob $t->dir() . '/conf.*';
    my ($calls, $failed) = unpack 'x8Q2',
        $t->read_file($memory =~ s{.*/}{}r);

    unlink glob $t->dir() . '/conf.*';

    return ($failed, $output, $code, $calls);
}
