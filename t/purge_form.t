#!/usr/bin/perl

# Copyright (C) mcds authors

# The form of a request to mcds_purge_api may have client_body_buffer_size
# bytes, wherever nginx keeps it: in memory, where nginx itself may take some
# more, or in a file, as with client_body_in_file_only.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT slurp /;

my $t = Test::Mcds->new();

$t->memcached('m');

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }

    server {
        listen 127.0.0.1:%%PORT%%;
        client_header_buffer_size 1k;
        client_body_buffer_size   8k;

        location = /memory { mcds_purge_api on; }
        location = /single {
            client_body_in_single_buffer on;
            mcds_purge_api               on;
        }
        location = /file {
            client_body_in_file_only on;
            mcds_purge_api           on;
        }
        location = /clean {
            client_body_in_file_only clean;
            mcds_purge_api           on;
        }
        location = /mirrored {
            client_body_in_file_only clean;
            mirror                   /copy;
            mcds_purge_api           on;
        }
        location = /copy { return 204; }
    }
}
EOC

my $none = 'there is no such page';
my $long = 'the body is too long';

for my $uri (qw{ /memory /single /file /clean /mirrored }) {
    is(said($uri, 'key=x'), "404 $none", "$uri: a short form");
    is(said($uri, form(8192)), "404 $none", 'one of the largest size');
    is(said($uri, form(8193)), "400 $long", 'one that is a byte longer')
        if $uri !~ /memory|single/;
    is(said($uri, form(100_000)), "400 $long", 'a long one');
    is(said($uri, ''), said('/memory', ''), 'an empty one');
}

my @files = glob($h->dir() . '/*/* ' . $h->dir() . '/*/*/*/*');

is(scalar(grep { -f && slurp($_) eq 'key=x' } @files), 1,
    'the file stays with "on", and only there');

$t->done();


# many keys, since there is a limit for each

sub form {
    my ($size) = @_;

    my $form = join '&', map { "key=$_" . 'x' x 100 } 10 .. 10 + $size / 110;

    return substr $form . 'x' x $size, 0, $size;
}


sub said {
    my ($uri, $form) = @_;

    my $r = http_post($h->port(), $uri, $form,
        headers => { 'Content-Type' => 'application/x-www-form-urlencoded' });

    return $r->status() . ' ' . decode_json($r->body())->{detail};
}
