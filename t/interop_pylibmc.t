#!/usr/bin/perl

# Copyright (C) mcds authors

# pylibmc and mcds find each other's keys, with each setting of pylibmc that
# the table in docs/storage.md names.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Interop;

# Debian's own first: it may not be the first in PATH

my ($python) = grep { `$_ -c 'import pylibmc' 2>&1`; $? == 0 }
    qw{ /usr/bin/python3 python3 };

plan(skip_all => 'no pylibmc') if !$python;

my $t = Test::Mcds->new();

my $i = Test::Mcds::Interop->new($t, {
    modula => 'distribution modula;',
    modula_crc => 'distribution modula_crc;',
    consistent => 'distribution consistent;',
    ketama => 'distribution ketama;',
    consistent_md5 => '--HASH=MD5 --DISTRIBUTION=consistent',
});

my $script = $t->write_file('client.py', <<'EOT');
import json
import sys

import pylibmc

task = json.load(open(sys.argv[1]))

behaviors = {
    "modula": {},
    "modula_crc": {"hash": "crc"},
    "consistent": {"ketama": True},
    "distribution": {"distribution": "consistent"},
    "consistent_md5": {"ketama": True, "hash": "md5"},
    "ketama": {"ketama_weighted": True},
}

mc = pylibmc.Client(["%s:%d:%d" % (s["host"], s["port"], s["weight"])
                     if s["port"] else s["host"] for s in task["servers"]],
                    behaviors=behaviors[task["setting"]])

for key, value in task["set"].items():
    if not mc.set(key, str(value)):
        sys.exit("%s: not stored" % key)

values = [mc.get(key) for key in task["get"]]

print(json.dumps([None if v is None else str(v, "ascii")
                  if isinstance(v, bytes) else v for v in values]))
EOT

for my $setting (qw/ modula modula_crc consistent ketama consistent_md5 /) {
    my $client = $i->program($setting, $python, $script);

    $i->agree($setting, $client);
    $i->agree($setting, $client,
        weights => $setting =~ /modula/ ? 'theirs' : 1);
}

$i->agree('consistent', $i->program('distribution', $python, $script),
    as => 'distribution');

my $sockets = Test::Mcds::Interop->new($t, {
    consistent => 'distribution consistent;',
    ketama => 'distribution ketama;',
}, unix => 1);

for my $setting (qw/ consistent ketama /) {
    $sockets->agree($setting, $i->program($setting, $python, $script),
        as => "$setting on sockets");
}

$t->done();
