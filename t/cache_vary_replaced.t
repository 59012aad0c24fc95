#!/usr/bin/perl

# Copyright (C) mcds authors

# The list of a page that varies is replaced by one of another generation: a
# host that knows the old list, and asks for it and for a variant at once, does
# not take the variant of the old list, which may still be there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'each worker knows lists');
$t->needs('mcds vary');

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=600', Vary => 'X-A'],
        body => "version $q->{k}" };
});

my ($one, $two) = map { $t->nginx($_, <<'EOT') } 'one', 'two';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_zone 8m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status;
    mcds_cache on;
    mcds_cache_key $uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /local/ {
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /timed/ {
            mcds_cache_local timed=300ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub ask {
    my ($h, $uri) = @_;
    my $r = $h->get($uri, headers => { 'X-A' => 1 });
    return $r->header('X-Cache') . ' ' . $r->body();
}

sub hits {
    my ($h, $uri, $version) = @_;
    return wait_for(sub { ask($h, $uri) eq "HIT version $version" });
}

for my $uri ('/a', '/local/a', '/timed/a') {
    my $key = "<>$uri";

    ok(hits($_, $uri, 1), "$uri: a variant") for ($one, $two) x 2;

    # all of it goes, and is built anew by one host

    my %old = map { $_ => $m->get($_) } grep { /^\Q$key\E(?::|$)/ } $m->keys();
    my @variants = grep { /:vary:/ } keys %old;

    is(scalar(@variants), 1, "$uri: one variant");
    $m->delete($_) for keys %old;

    # timed copies are not asked for a while

    ok(wait_for(sub { ask($one, $uri) =~ /version 2$/ }), "$uri: built anew");
    ok(hits($one, $uri, 2), "$uri: and stored");
    isnt(page_decode($m->get($key))->{generation},
        page_decode($old{$key})->{generation}, "$uri: under another list");

    # the old variant is still there, and the other host knows the old list

    $m->set($variants[0], $old{$variants[0]});

    my @said;

    if ($uri =~ /timed/) {
        ok(wait_for(sub { ask($two, $uri) !~ /version 1$/ }), "$uri: in time");
    }

    push @said, ask($two, $uri) for 1 .. 3;
    is(scalar(grep { /version 1/ } @said), 0, "$uri: the old one is not used")
        or diag("@said");
}

$t->done();
