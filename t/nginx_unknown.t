#!/usr/bin/perl

# Copyright (C) mcds authors

# A build for an nginx that is newer than those that mcds was tested with warns
# of that, and of structures that have changed, but it does not fail, not even
# where warnings are errors.

use warnings;
use strict;

use Test::More;

use File::Basename qw/ dirname /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $root = dirname($FindBin::Bin);
my @headers = $t->nginx_headers()
    or $t->leave('there are no headers of this nginx');


my $source = "$root/src/http/kit/ngx_http_mcds_nginx.c";

# as if the largest of the structures had been another one

open my $in, '<', $source or die "$source: $!\n";
my $other = join '', map {
    s/(_nginx_size\(ngx_http_request_t, )\d+/${1}1/r } <$in>;
$other = $t->write_file('other.c', $other);


sub compile {
    my ($cc, $known, $file) = @_;

    my $output = $t->run($cc, '-c', '-O', '-Wall', '-Wextra', '-Werror',
        '-Wno-unused-parameter', @headers,
        defined $known ? "-DNGX_HTTP_MCDS_NGINX=$known" : (),
        '-o', $t->dir() . '/nginx.o', $file // $source);

    return ($?, $output);
}


for my $cc ('gcc', 'clang') {

    SKIP: {
        skip("there is no $cc", 5) if !$t->has($cc);

        my ($code, $output) = compile($cc);

        is($code, 0, "$cc: compiled for the nginx that there is");
        is($output, '', "$cc: no warning");

        ($code, $output) = compile($cc, 1000000);

        is($code, 0, "$cc: compiled for an nginx that is not known");
        like($output, qr/does not know this version of nginx/,
            "$cc: a word about the version");

        skip('the sizes are those of 64 bits', 1) if length(pack 'p', '') < 8;

        ($code, $output) = compile($cc, 1000000, $other);

        like($output, qr/warning: .*_nginx_size\(ngx_http_request_t/s,
            "$cc: a warning of a structure that has changed");
    }
}

$t->done();
