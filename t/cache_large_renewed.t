#!/usr/bin/perl

# Copyright (C) mcds authors

# A page in parts that the origin says has not changed: it is renewed, and its
# parts, which are those of before, stay.  What storing takes is given back.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Status;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');
$t->needs('mcds large');

# the last part is small: it takes more memory than it holds bytes

my $size = 2_600_001;
my $body = substr join('', map { "line $_ of the page\n" } 1 .. 200_000), 0,
    $size;

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @headers = ('Cache-Control' => 'max-age=600', ETag => '"e"');

    return ($q->{headers}{'if-none-match'} // '') eq '"e"'
        ? { status => 304, headers => \@headers, body => '' }
        : { headers => \@headers, body => $body };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache_key $uri;
    mcds_cache_max_size 8m;
    add_header X-Cache $mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            mcds_cache_revalidate on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /status { mcds_status; }
    }
}
EOT

sub which {
    my ($r) = @_;
    return $r->header('X-Cache') . ($r->body() eq $body ? ' right' : ' wrong');
}

is(which($h->get('/a')), 'MISS right', 'built');

my $e = page_decode(page_wait($m, '/a'));
my @parts = map { sprintf '<>/a:part:%016x:%d', $e->{generation}, $_ }
    0 .. $e->{parts} - 1;

cmp_ok($e->{parts}, '>', 2, 'in parts');

for my $round (1, 2) {
    page_expire($m, '/a', 3600_000);
    is(which($h->get('/a')), 'HIT right', "round $round: renewed behind it");
    is($o->count('/a'), 1 + $round, "round $round: the origin was asked");
    ok(wait_for(sub { page_decode(page_wait($m, '/a'))->{expire}
        > time() * 1000 }), "round $round: stored");
    is(which($h->get('/a')), 'HIT right', "round $round: served");

    # parts to be dropped get their time before the response to the next request

    is(join(' ', grep { ($m->ttl($_) // 0) != -1 } @parts), '',
        "round $round: all of its parts stay");
}


# nothing is held for pages that are stored

is(which($h->get("/$_")), 'MISS right', "page $_") for 1 .. 3;
page_wait($m, "/$_") for 1 .. 3;
ok(wait_for(sub { status($h)->{memory}{storing} == 0 }),
    'the memory for storing is given back')
    or diag(status($h)->{memory}{storing});

$t->done();
