package Test::Mcds::Herd;

# Copyright (C) mcds authors

# Lets requests wait for a page that one request builds, and returns the
# responses to all of them, that to the one that builds first:
#
#     @responses = herd($h, $o, $uri, $other => $body)
#
# $h is the host, $o the origin, which is held until three requests wait: they
# do when the worker has answered what came later, a request for $other with
# $body.

use warnings;
use strict;

use Exporter qw/ import /;
use Test::More ();

use Test::Mcds::Http qw/ start_get finish /;

our @EXPORT = qw/ herd /;


sub herd {
    my ($h, $o, $uri, $other, $body) = @_;

    $o->hold_path($uri);

    my $first = start_get($h->port(), $uri);

    $o->wait_requests(1, $uri);

    my @wait = map { start_get($h->port(), $uri) } 1 .. 3;

    Test::More::is($h->get($other)->body(), $body, "$uri: three wait");
    $o->release($uri);

    return map { finish($_) } $first, @wait;
}


1;
