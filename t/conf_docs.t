#!/usr/bin/perl

# Copyright (C) mcds authors

# Every configuration of the documentation, and those of conf-examples, is
# right as it is written: nginx -t takes it once what it leaves to the reader
# is there, and it serves a request.  An example that a reader saves in conf.d
# is also right there, beside the directives of Debian's nginx.conf, and beside
# the files that docs/start.md has put there.

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

# the directives that nginx.conf of Debian 12 has at the level of http

my $debian = <<'EOT';
sendfile on; tcp_nopush on; types_hash_max_size 2048;
default_type application/octet-stream;
gzip on;
EOT

$debian .= 'ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;'
    . " ssl_prefer_server_ciphers on;\n" if $t->has('http_ssl');

# the files of docs/start.md, without their ports

my @start = map { $_->{text} } grep {
    $_->{file} eq 'docs/start.md' && $_->{text} =~ /^(?:mcds_pool|server)/
} examples();

is(scalar @start, 2, 'docs/start.md has a pool, and a server');

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

    if ($level eq 'http') {
        ($code, $said) = $t->conf_test($conf =~ s/^http \{\n/$&$debian/mr);
        is($code, 0, "$name: in conf.d of Debian") or diag($said);
    }

    # the example of docs/recipes/wordpress.md belongs to its own nginx.conf

    beside($name, $text)
        if $level eq 'http' && $name =~ m{^docs/recipes/(?!wordpress)};

    # one start of each kind in the quick size

    return if !$t->full() && ($level eq 'location' || $started >= 10);

    my ($uri) = $text =~ m{location\s+(?:=\s+)?(/\S*)};
    my $h = $t->nginx('e' . $started++, $conf);

    like($h->get($uri // '/')->status() // 0, qr/^[1-5]\d\d$/,
        "$name: a request is answered");
    ok($h->quit(), "$name: and all ends");
}


# a recipe in a file of conf.d, beside the files of docs/start.md

sub beside {
    my ($name, $text) = @_;

    # as docs/recipes/purging.md says

    $text =~ s/^mcds_pool main \{.*\}\n//m;

    my ($conf, $code, $said) = whole($t, join("\n", @start, $text), alone => 1);

    is($code, 0, "$name: beside the files of docs/start.md")
        or diag("$said$conf");
}
