#!/usr/bin/perl

# Copyright (C) mcds authors

# php-memcached and mcds find each other's keys, with each setting of PHP that
# the table in docs/storage.md names.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Interop;

my $output = `php -r 'new Memcached();' 2>&1`;

plan(skip_all => 'no php-memcached') if $? || $output ne '';

my $t = Test::Mcds->new();

my $i = Test::Mcds::Interop->new($t, {
    modula => 'distribution modula;',
    modula_crc => 'distribution modula_crc;',
    consistent => 'distribution consistent;',
    ketama => 'distribution ketama;',
    md5 => '--HASH=MD5',
    consistent_md5 => '--HASH=MD5 --DISTRIBUTION=consistent',
    prefix => 'prefix site:; distribution ketama;',
});

my $script = $t->write_file('client.php', <<'EOT');
<?php

$task = json_decode(file_get_contents($argv[1]), true);
$m = new Memcached();

$m->setOption(Memcached::OPT_COMPRESSION, false);

switch ($task['setting']) {

case 'modula_crc':
    $m->setOption(Memcached::OPT_HASH, Memcached::HASH_CRC);
    break;

case 'md5':
    $m->setOption(Memcached::OPT_HASH, Memcached::HASH_MD5);
    break;

case 'consistent':
case 'consistent_md5':

    if ($task['setting'] == 'consistent_md5') {
        $m->setOption(Memcached::OPT_HASH, Memcached::HASH_MD5);
    }

    $m->setOption(Memcached::OPT_DISTRIBUTION,
                  Memcached::DISTRIBUTION_CONSISTENT);
    break;

case 'prefix':
    $m->setOption(Memcached::OPT_PREFIX_KEY, 'site:');

    /* fall through */

case 'ketama':
    $m->setOption(Memcached::OPT_LIBKETAMA_COMPATIBLE, true);
    break;
}

$servers = [];

foreach ($task['servers'] as $s) {
    $servers[] = [$s['host'], $s['port'], $s['weight']];
}

$m->addServers($servers);

if ($task['setting'] == 'late') {
    $m->setOption(Memcached::OPT_DISTRIBUTION,
                  Memcached::DISTRIBUTION_CONSISTENT);
}

foreach ($task['set'] as $key => $value) {
    if (!$m->set($key, (string) $value)) {
        fwrite(STDERR, "$key: " . $m->getResultMessage() . "\n");
        exit(1);
    }
}

$values = [];

foreach ($task['get'] as $key) {
    $values[] = $m->get($key);
}

echo json_encode($values);
EOT

for my $setting (qw/ modula modula_crc consistent ketama md5 consistent_md5
    prefix /)
{
    my $client = $i->program($setting, 'php', $script);

    $i->agree($setting, $client);

    # PHP ignores weights unless there is a ring

    $i->agree($setting, $client,
        weights => $setting =~ /modula|^md5/ ? 'theirs' : 1);
}

# a ring that is set once the servers are there has no weights

$i->agree('consistent', $i->program('late', 'php', $script),
    weights => 'theirs', as => 'consistent set late');

# sockets agree in a ring if they come by addServers()

my $sockets = Test::Mcds::Interop->new($t, {
    modula => 'distribution modula;',
    consistent => 'distribution consistent;',
    ketama => 'distribution ketama;',
}, unix => 1);

for my $setting (qw/ modula consistent ketama /) {
    $sockets->agree($setting, $i->program($setting, 'php', $script),
        weights => $setting eq 'modula' ? 'theirs' : 1,
        as => "$setting on sockets");
}

$t->done();
