#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_table_lookup of a server, in locations with an mcds_use of their own: the
# lookup takes place again in the location's pool, and only there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $f = $t->fake('f');

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool one { server 127.0.0.1:%%PORT_f%%; prefix one:; }
    mcds_pool two { server 127.0.0.1:%%PORT_f%%; prefix two:; }
    mcds_use one;

    server {
        listen 127.0.0.1:%%PORT%%;

        mcds_table_lookup $mode switches mode none remember=off;
        set $first $mode;

        location /set/one/ {
            mcds_table_api switches;
            mcds_table_lookup off;
            mcds_api_methods PUT;
        }
        location /set/two/ {
            mcds_use two;
            mcds_table_api switches;
            mcds_table_lookup off;
            mcds_api_methods PUT;
        }

        location /one { return 200 "$first, $mode"; }
        location /same {
            mcds_use one;
            return 200 "$first, $mode";
        }
        location /two {
            mcds_use two;
            return 200 "$first, $mode";
        }
        location /off {
            mcds_use two;
            mcds_table_lookup off;
            return 200 "$first, $mode";
        }
        location /back {
            mcds_use two;
            rewrite ^ /one;
        }
    }
}
EOC

for my $pool (qw/ one two /) {
    is($h->get("/set/$pool/mode", method => 'PUT', body => "of $pool")
        ->status(), 204, "the table of pool $pool");
}

looks('/one', 'of one, of one', 'one');
looks('/same', 'of one, of one', 'one');
looks('/two', 'of one, of two', 'one two');
looks('/off', 'of one, of one', 'one');
looks('/back', 'of one, of one', 'one two one');

$t->done();


sub looks {
    my ($uri, $body, $pools) = @_;

    $f->mark();

    is($h->get($uri)->body(), $body, "$uri: the values");
    is(join(' ', map { /^(?:mg|get) (\w+):switches/ ? $1 : () } $f->commands()),
        $pools, "$uri: the pools");
}
