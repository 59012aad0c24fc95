#!/usr/bin/perl

# Copyright (C) mcds authors

# The ETag of the names of a table: the same on all hosts, and another one
# whenever other names are shown, also if nothing but the time has changed.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;

my $t = Test::Mcds->new();
my $clock = Test::Mcds::Clock->new($t, 1_700_000_000);

$clock->memcached('m');

my ($h, $other) = map { $clock->nginx($_, <<'EOC') } 'one', 'two';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_api_methods GET PUT DELETE;

    server {
        listen 127.0.0.1:%%PORT%%;
        location /t/ { mcds_table_api t; }
    }
}
EOC

my %seen;

put('a', 10);
put('b', 30);
put('c', 0);
etag_is('a b c', 'three names');
$clock->add(15);
etag_is('b c', 'one expires');
put('b', 3600);
etag_is('b c', 'another one lives longer');
put('d', 10);
etag_is('b c d', 'a further one');
$clock->add(15);
put('e', 10);
etag_is('b c e', 'as many as before: one has expired, one is new');
delete_it('c');
etag_is('b e', 'one is deleted');
$clock->add(15);
etag_is('b', 'one expires');
$clock->add(3600);
etag_is('', 'all have expired');
put('a', 0);
etag_is('a', 'one is back');

$t->done();


# the names, with an ETag that was not there before, and that stays until they
# change

sub etag_is {
    my ($names, $what) = @_;

    my $r = $h->get('/t/?format=text');
    my $etag = $r->header('ETag');

    is(join(' ', split /\n/, $r->body()), $names, "$what: the names");
    ok($etag && !$seen{$etag}, 'have an ETag of their own');

    for my $old (sort keys %seen) {
        is(condition($h, $old), 200, 'which is not that of others');
    }

    is(condition($_, $etag // ''), 304, 'and which stays') for $h, $other;

    $seen{$etag // ''} = 1;
}


sub condition {
    my ($host, $etag) = @_;

    return $host->get('/t/?format=text',
        headers => { 'If-None-Match' => $etag })->status();
}


sub put {
    my ($name, $ttl) = @_;

    is($h->get("/t/$name" . ($ttl ? "?ttl=$ttl" : ''), method => 'PUT')
        ->status(), 204, "put $name");
}


sub delete_it {
    is($h->get("/t/$_[0]", method => 'DELETE')->status(), 204, 'delete');
}
