package Test::Mcds::Origin2;

# Copyright (C) mcds authors

# An origin for HTTP/2 without TLS, whose frames the test controls, for answers
# that no server sends.  The origin does not decode the headers of requests: it
# answers each request as one for "/".
#
#     $o = $t->origin('o', http2 => 1)
#     $o->set('/', { frames => [..] })        the next answers, made of
#         head(status, [name => value, ..], flags)   HEADERS; 1 ends the stream
#         data(bytes, flags)                  DATA
#         [type, flags, payload, id]          any other; id 0 for a frame of the
#                                             connection
#     $o->set('/', { frames => [..], abort => 20 })  TCP RST after 20 bytes
#     $o->set('/', { frames => [..], last => 1 })    FIN after the frames

use warnings;
use strict;

use base qw/ Test::Mcds::Origin /;

use Exporter ();
use Test::Mcds::Http2;

our @EXPORT_OK = qw/ head data /;

*import = \&Exporter::import;


sub head {
    my ($status, $headers, $flags) = @_;

    my @more = @{$headers // []};
    my $block = length $status
        ? Test::Mcds::Http2::literal(':status', $status) : '';

    while (my ($name, $value) = splice @more, 0, 2) {
        $block .= Test::Mcds::Http2::literal(lc $name, $value);
    }

    return [1, 4 | ($flags // 0), $block];
}


sub data {
    my ($bytes, $flags) = @_;
    return [0, $flags // 0, $bytes];
}


# reads HTTP/2 frames up to the next request; called in the origin's process

sub read_http {
    my ($self, $c) = @_;

    if (!$c->{preface}) {
        return if length $c->{in} < 24;

        substr($c->{in}, 0, 24, '');
        $c->{preface} = 1;
        $self->queue($c, Test::Mcds::Http2::frame(4, 0, 0, ''));
    }

    while (my ($type, $flags, $id, $payload)
        = Test::Mcds::Http2::next_frame(\$c->{in}))
    {
        if ($type == 4 && !($flags & 1)) {
            $self->queue($c, Test::Mcds::Http2::frame(4, 1, 0, ''));

        } elsif ($type == 6 && !($flags & 1)) {
            $self->queue($c, Test::Mcds::Http2::frame(6, 1, 0, $payload));
        }

        return {
            method => 'GET', uri => '/', headers => {}, body => '',
            head => '', keepalive => 1, stream => $id,
        } if $type == 1;
    }

    return;
}


sub format_answer {
    my ($self, $c, $req, $spec) = @_;

    $c->{last} = 1 if $spec->{last};

    return ('', map {
        my ($type, $flags, $payload, $id) = @$_;
        Test::Mcds::Http2::frame($type, $flags, $id // $req->{stream},
            $payload);
    } @{$spec->{frames}});
}


1;
