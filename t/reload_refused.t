#!/usr/bin/perl

# Copyright (C) mcds authors

# A reload that nginx refuses leaves the chain of filters whole: a worker that
# starts later, in the place of one that was killed, answers as before.  The
# master links the chain while it reads a configuration, so each mistake must
# be found before the first module links its filters.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

# nginx refuses each wrong configuration by [emerg]

my $t = Test::Mcds->new()->allow(qr/\[emerg\]/)
    ->not_in('single', 'nginx cannot reload then');

my $m = $t->memcached('m');

my $good = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    # http
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { alias %%DIR%%/files/; add_header X-Added yes; }
        location /counted {
            mcds_use main; mcds_counter $n key=n; mcds_return "$n";
        }
        location /wrong {
            # location
        }
    }
}
EOT

mkdir $t->dir() . '/files';
$t->write_file('files/digits', '0123456789' x 10);
$good =~ s/%%DIR%%/$t->dir()/e;

my $h = $t->nginx('h', $good);

my $other = 'mcds_pool other { server 127.0.0.1:%%PORT_m%%; prefix o; }';
my $forever = 'mcds_pool other { server 127.0.0.1:%%PORT_m%%; '
    . 'protocol classic ttl=off; }';

# what is wrong: in http, in a location, what nginx says

my @wrong = (
    [$other, 'mcds_lock a;', '"mcds_lock" needs a "mcds_use"'],
    [$other, 'mcds_lock_api;', '"mcds_lock_api" needs a "mcds_use"'],
    [$forever, 'mcds_use other; mcds_lock a;',
        '"mcds_lock" needs items that expire'],
    [$other, 'mcds_array_api a;', '"mcds_array_api" needs a "mcds_use"'],
    [$other, 'mcds_array_push a $uri;', '"mcds_array_push" needs a "mcds_use"'],
    [$other, 'mcds_table_api a;', '"mcds_table_api" needs a "mcds_use"'],
    [$other, 'mcds_table_lookup $v a $uri;',
        '"mcds_table_lookup" needs a "mcds_use"'],
    [$forever, 'mcds_use other; mcds_table_api a ttl=1m;',
        '"ttl" of "mcds_table_api" needs items that expire'],
    [$other, 'mcds_log a combined;', '"mcds_log" needs a "mcds_use"'],
    [$other, 'mcds_log_api a;', '"mcds_log_api" needs a "mcds_use"'],
    ['', 'mcds_log a combined pool=none;', 'there is no pool "none"'],
    [$forever, 'mcds_log a combined pool=other;',
        '"mcds_log" needs items that expire'],
    ['', 'mcds_log a none;', 'there is no "log_format" "none"'],
    ['', 'mcds_log a combined chunk=1s; mcds_log_api a chunk=2s;',
        'has another "chunk"'],
    ['', 'mcds_log a combined chunk=1h chunks=1000;',
        'must be at most 30 days'],
    ['', 'mcds_counter $p top=none;', 'there is no "mcds_counter_top none"'],
    ["$other mcds_counter_top top;", '', '"mcds_counter_top top" needs'],
    ['mcds_counter_top top pool=none;', '', 'there is no pool "none"'],
    ["$forever mcds_counter_top top pool=other;", '',
        '"mcds_counter_top" needs items that expire'],
    ['limit_req_zone $uri zone=mcds:1m rate=1r/s;', '',
        'the shared memory zone "mcds" is already declared'],
);

@wrong = grep { !$t->lacks("$_->[0]\n$_->[1]") } @wrong;

is(range(), '206 3456 yes', 'at first');

for my $row (@wrong) {
    my ($http, $location, $says) = @$row;
    my $name = $location || $http;

    my $before = length $h->log();

    $h->conf($good =~ s/# http/$http/r =~ s/# location/$location/r);

    ok(!$h->reload(), "$name: refused");
    like(substr($h->log(), $before),
        qr/\[emerg\].*\Q$says\E.* in \S+nginx\.conf:\d+/, "$name: why");

    my ($dead) = $h->workers();

    $h->kill_worker($dead);
    isnt(($h->workers())[0], $dead, "$name: a new worker");

    is(range(), '206 3456 yes', "$name: its filters");
}

$h->conf($good);
ok($h->reload(wait_old => 1), 'nginx takes the good one again');
is(range(), '206 3456 yes', 'in the end');

$t->done();


sub range {
    my $r = $h->get('/digits', headers => [Range => 'bytes=3-6']);

    return join ' ', $r->status(), $r->body(), $r->header('X-Added') // 'no';
}
