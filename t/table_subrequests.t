#!/usr/bin/perl

# Copyright (C) mcds authors

# A request and its subrequests have the same variables.  If several of them
# look elements up in a table at the same time, each goes on with its own value.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my @names = 'a' .. 'h';
my $includes = sub {
    my ($where) = @_;
    return join ' ', map { "<!--# include virtual=\"/$where/$_\" -->" } @names;
};

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Content-Type' => 'text/html'] }, paths =>
    { map { ("/page/$_" => { body => $includes->($_) }) }
        qw/ early late server / });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /page/ { ssi on; proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /early/ {
            mcds_table_lookup $found t $uri none remember=off;
            mcds_return $uri=$found;
        }
        location /late/ {
            mcds_table_lookup $found t $uri none remember=off phase=preaccess;
            mcds_return $uri=$found;
        }
        location /server/ { proxy_pass http://127.0.0.1:%%PORT_moved%%; }
        location /table { mcds_table_api t; mcds_api_methods PUT; }
    }

    server {
        listen 127.0.0.1:%%PORT_moved%%;
        mcds_table_lookup $moved t $uri remember=off;

        # a redirect of one part is not one of the others

        if ($moved) { return 200 $uri=$moved; }

        location /page/ { ssi on; proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location / { mcds_return $uri=none; }
    }
}
EOT

my %value = (a => 1, c => 3, d => 4, g => 7);

for my $where (qw/ early late server /) {
    for my $name (sort keys %value) {
        is($h->get("/table?name=/$where/$name", method => 'PUT',
            body => $value{$name})->status(), 204, "$where: element $name");
    }
}

sub page {
    my ($port, $where) = @_;

    my $r = http_get($port, "/page/$where");
    my $want = join ' ', map { "/$where/$_=" . ($value{$_} // 'none') } @names;

    is($r->body(), $want, "$where: each part has its own value");
}

page($h->port(), 'early');
page($h->port(), 'late');
page($t->port('moved'), 'server');

$t->done();
