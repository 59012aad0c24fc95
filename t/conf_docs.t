#!/usr/bin/perl

# Copyright (C) mcds authors

# Every configuration of the documentation, and those of conf-examples, is
# right as it is written: nginx -t takes it once what it leaves to the reader
# is there, and it serves a request.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Examples;

my $t = Test::Mcds->new();
my $m = $t->memcached('m');
my $o = $t->origin('o', { body => 'a page' });
my $dir = $t->dir();

# what a system has

$t->write_file('mcds.key', 'k' x 64);
$t->write_file($_, "fastcgi_param QUERY_STRING \$query_string;\n")
    for qw/ fastcgi_params fastcgi.conf /;
$t->write_file('mime.types', "types { text/html html; }\n");
mkdir "$dir/logs";

my ($started, $n) = (0, 0);

for my $e (examples()) {
    example($e->{name}, $e->{text});
    $n++ if $e->{file} =~ /\.md$/;
}

cmp_ok($n, '>=', 60, 'examples are there');
cmp_ok($started, '>=', $t->size(8, 40), 'examples have served a request');

# the servers of the examples are not there, and the machine has no PHP

$t->allow(qr/\[crit\] .*connect\(\) to unix:.*failed/);
$t->done();


sub example {
    my ($name, $text) = @_;

    my ($conf, $code, $said, $level) = whole($t, $text,
        memcached => { map { ("memcached$_:11211" => "m$_") } 1, 2 });

    is($code, 0, $name) or return diag("$said$conf");
    is($said =~ s/^nginx: .*\n//mgr, '', "$name: no warnings");

    # one start of each kind in the quick size

    return if !$t->full() && ($level eq 'location' || $started >= 10);

    my ($uri) = $text =~ m{location\s+(?:=\s+)?(/\S*)};
    my $h = $t->nginx('e' . $started++, $conf);

    like($h->get($uri // '/')->status() // 0, qr/^[1-5]\d\d$/,
        "$name: a request is answered");
    ok($h->quit(), "$name: and all ends");
}
