#!/usr/bin/perl

# Copyright (C) mcds authors

# Two hosts share a memcached, and the mcds of one of them has no optional
# features: an entry that needs one is a miss there, its host neither serves nor
# replaces it, and the other host still has it.  Pages without features are
# shared, and purges by key hold on both hosts.
#
# The module without features is TEST_NGINX_MODULE_B, or the one that make
# without has built.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
my $other = $ENV{TEST_NGINX_MODULE_B}
    // "$FindBin::Bin/../build/without/all/ngx_http_mcds_module.so";

$t->needs(map { "mcds $_" } qw/ compress hmac large local tags vary /);
$t->leave('no module without features for this nginx, see make without')
    if $t->{static} || !$t->loads($other);

$t->write_file('secret', "0123456789abcdef0123456789abcdef\n");

my $m = $t->memcached('m', memory => 128);
my $text = "all work and no play makes Jack a dull boy\n" x 400;
my $large = pack 'N*', map { $_ * 7919 } 1 .. 600_000;

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my @headers = ('Cache-Control' => 'max-age=60',
        'Content-Type' => 'text/html');

    push @headers, Vary => 'Accept-Language' if $req->{path} =~ m{^/vary};

    return { headers => \@headers, $req->{path} =~ m{^/large}
        ? (body => $large) : $req->{path} =~ m{^/compress}
        ? (body => $text) : () };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 2s; }
    mcds_cache on;
    mcds_cache_max_size 8m;
    server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-Cache $mcds_cache_status always;
        mcds_purge_api method=DELETE;
        location /compress { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /hmac { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /tags { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

my $full = $conf =~ s/(\/compress \{)/$1 mcds_cache_compress gzip;/r
    =~ s/(\/hmac \{)/$1 mcds_cache_hmac_key %%TMP%%\/secret;/r
    =~ s/(\/tags \{)/$1 mcds_cache_tag news;/r;

my $a = $t->nginx('a', $full);
my $b = do {
    local $t->{so} = $other;
    $t->nginx('b', $conf);
};


# each directive of what is left out is one that nginx does not know

for my $line ('mcds_lock a', 'mcds_lock_api on', 'mcds_log a combined',
    'mcds_log_api a', 'mcds_array_api a', 'mcds_array_push a b',
    'mcds_table_api a', 'mcds_table_lookup $a b c', 'mcds_status',
    'mcds_status_host a /b', 'mcds_counter_writeback /a',
    'mcds_cache_compress gzip', 'mcds_cache_hmac_key a', 'mcds_cache_tag a',
    'mcds_cache_local validated', 'mcds_cache_max_variants 2')
{
    local $t->{so} = $other;
    my ($name) = $line =~ /(\w+)/;

    like($t->conf_error(location => "$line;"),
        qr/unknown directive "$name"/, "$name is unknown");
}

{
    local $t->{so} = $other;

    like($t->conf_error(http => 'mcds_counter_top a;'),
        qr/unknown directive "mcds_counter_top"/,
        'mcds_counter_top is unknown');
    like($t->conf_error(location => 'mcds_counter $n top=a;'),
        qr/invalid parameter "top=a"/, 'top= is no parameter');
}


# plain pages are shared, both ways

is(ask($a, '/plain/a'), 'MISS', 'plain: built by the whole one');
is(ask($b, '/plain/a'), 'HIT', 'plain: and served by the other');
is(ask($b, '/plain/b'), 'MISS', 'plain: built by the other');
is(ask($a, '/plain/b'), 'HIT', 'plain: and served by the whole one');


# what needs a feature is a miss, and stays

for my $feature (qw/ compress hmac tags vary large /) {
    my $uri = "/$feature/page";

    is(ask($a, $uri), 'MISS', "$feature: built");
    my $first = $a->get($uri)->header('X-Answer');
    is(ask($a, $uri), 'HIT', "$feature: and served");

    my %before = items();

    # requests at the same time may share a page that their host has built

    my @b = (many(5, sub { [$b->port(), $uri] }), map { $b->get($uri) } 1 .. 3);

    is(scalar(grep { $_->status() == 200 && $_->header('X-Answer') ne $first
        && $_->body() eq expected($uri, $_) } @b), 8,
        "$feature: not served without it");
    cmp_ok($o->count($uri), '>', 2, "$feature: the origin is asked");

    my %after = items();
    is_deeply(\%after, \%before, "$feature: and it stays as it is");

    is(ask($a, $uri), 'HIT', "$feature: the whole one still has it");
}


# without a list of variants nothing that varies is stored

is(ask($b, '/vary/new'), 'MISS', 'vary: not stored');
is(ask($b, '/vary/new'), 'MISS', 'vary: nor the next time');

# byte 5 is the kind: 1, a mark that requests need not wait for each other

my ($key) = grep { m{/vary/new} } $m->keys();

is(ord substr($m->get($key), 5, 1), 1, 'vary: a mark at most');
is(ask($a, '/vary/new'), 'MISS', 'vary: which the whole one replaces');
is(ask($a, '/vary/new'), 'HIT', 'vary: by its page');
is(ask($b, '/vary/new'), 'MISS', 'vary: that the other does not serve');

is(ask($b, '/large/new'), 'MISS', 'large: built');
is(scalar(grep { m{/large/new} && ord(substr $m->get($_), 5, 1) == 0 }
    $m->keys()), 0, 'large: and not stored');


# a purge by key counts on both, whatever the page needs

for my $feature (qw/ compress tags /) {
    my $uri = "/$feature/page";

    is($b->get($uri, method => 'DELETE')->status(), 200, "$feature: purged");
    isnt(ask($a, $uri), 'HIT', "$feature: on the whole one, too");
}

$t->done();


# the status of a request in the cache; its body is whole, and its own

sub ask {
    my ($host, $uri) = @_;
    my $r = $host->get($uri);

    is($r->body(), expected($uri, $r), "$uri is right");

    return $r->header('X-Cache');
}


sub expected {
    my ($uri, $r) = @_;

    return $uri =~ m{^/large} ? $large : $uri =~ m{^/compress} ? $text
        : 'answer ' . ($r->header('X-Answer') // '') . " of $uri\n";
}


# all items of pages, with their CAS

sub items {
    return map { $_ => $m->mc("mg $_ c v") =~ s/ t-?\d+//r }
        grep { !/lock|mcds:/ } $m->keys();
}
