#!/usr/bin/perl

# Copyright (C) mcds authors

# No memory: while pages are looked for, built, stored, served, refreshed and
# purged, each allocation of the worker fails once.  No worker dies, no request
# hangs, and the next one is answered as ever (R04).  Under make asan nothing
# may be left allocated either.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Memory;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');
$t->needs('mcds vary');

# what has no memory says so

$t->allow(qr/\[emerg\] .*(?:malloc|memalign)\(.* failed/,
    qr/\[(?:alert|crit|emerg)\] .*Cannot allocate memory/);

my $m = $t->memcached('m', memory => 512);
my $second = $t->memcached('second');
my $key = $t->write_file('key', '0123456789abcdef' x 2 . "\n");
my %size = (large => 150_000, parts => 1_200_000);

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my ($kind) = $req->{path} =~ m{^/(\w+)};
    my @head = ('Cache-Control' => 'max-age=600', ETag => '"e"',
        'Content-Type' => 'text/html', 'Cache-Tag' => 'a b',
        $kind =~ /vary|signed/ ? (Vary => 'X-Kind') : (),
        $kind eq 'hop' ? (Connection => 'X-Hop', 'X-Hop' => 'h' x 500) : ());

    return { status => 304, headers => \@head }
        if $req->{headers}{'if-none-match'};
    return { headers => \@head, body => "page of $req->{path}\n"
        . 'x' x ($size{$kind} // 0) };
});

my $limits = 'timeout 2s; max_fails 0;';
my $pass = 'proxy_pass http://127.0.0.1:%%PORT_o%%;';

# with small pools nearly each thing is an allocation of its own

my $h = $t->nginx('h', <<"EOT", memory => 1);
%%GLOBALS%%
worker_processes 1;
events { worker_connections 512; }
http {
    %%HTTP%%
    request_pool_size    112;
    connection_pool_size 112;

    mcds_pool main    { server 127.0.0.1:%%PORT_m%%; $limits }
    mcds_pool classic { server 127.0.0.1:%%PORT_m%%; $limits
                        protocol classic; prefix c:; }
    mcds_pool both    { server 127.0.0.1:%%PORT_m%%; $limits prefix b:;
                        server 127.0.0.1:%%PORT_second%%;
                        distribution modula; replicas 2; }
    mcds_use                main;
    mcds_cache              main;
    mcds_cache_key          \$uri;
    mcds_cache_lock_age     2s;

    server {
        listen 127.0.0.1:%%PORT%%;

        location / { $pass }
        location /classic { mcds_cache classic; $pass }
        location /both { mcds_cache both; $pass }
        location /local { mcds_cache_local validated; $pass }
        location /tagged {
            mcds_cache_tag           \$upstream_http_cache_tag;
            mcds_cache_status_header on;
            $pass
        }
        location /signed { mcds_cache_hmac_key $key; $pass }
        location /compressed { mcds_cache_compress gzip min_length=1; $pass }
        location /revalidated {
            mcds_cache_revalidate        on;
            mcds_cache_background_update off;
            $pass
        }
        location = /purge { mcds_purge_api on; mcds_cache_tag off; }
    }
}
EOT

my ($worker) = $h->workers();
my @gzip = (headers => ['Accept-Encoding' => 'gzip']);

exhaust($t, $h, $t->size(11, 1),
    pages('page'), pages('classic'), pages('both'), pages('vary'),
    pages('large'), pages('parts'), pages('local'), pages('signed'),
    ['signed: at once', sub { ["/signed/$_[0]"], ["/signed/$_[0]"] }],
    pages('tagged'),
    ['tagged: purged', sub { ['/purge?tag=a'], ["/tagged/$_[0]"] },
        first => sub { ["/tagged/$_[0]"] }],
    pages('compressed'),
    ['compressed: for who accepts it', sub { ["/compressed/$_[0]", @gzip] },
        first => sub { ["/compressed/$_[0]"] }],
    ['an old page', sub { ["/old/$_[0]"] }, behind => 1,
        first => sub { old("/old/$_[0]") }],
    ['a page that is revalidated', sub { ["/revalidated/$_[0]"] },
        first => sub { old("/revalidated/$_[0]") }],
    ['a build elsewhere', sub { waited("/elsewhere/$_[0]") }, behind => 1],
    ['a herd', sub { ["/herd/$_[0]"] }, at_once => 4],
    ['a range', sub { ["/page/$_[0]", headers => [Range => 'bytes=1-5']] }],
    ['a condition', sub {
        ["/page/$_[0]", headers => ['If-None-Match' => '"e"']] }],
);

# a header that the origin's Connection names is of that connection alone

exhaust($t, $h, 1, pages('hop'));

is(($h->workers())[0], $worker, 'the worker of the beginning');

my @hop = grep { m{/hop/} && !/:lock$/ } $m->keys();

cmp_ok(scalar(@hop), '>', 0, 'hop: stored');
is(scalar(grep { $m->get($_) =~ /X-Hop/ } @hop), 0, 'hop: without the header');

$t->done();


# stored, and then there

sub pages {
    my ($name) = @_;

    return ["$name: stored", sub { ["/$name/$_[0]"] }, behind => 1],
        ["$name: there", sub { ["/$name/$_[0]"] },
            first => sub { ["/$name/$_[0]"] }];
}


# somebody else had the lock, and has gone

sub waited {
    my ($uri) = @_;

    $m->set("<>$uri:lock", 'another', 60);

    my $p = start_get($h->port(), $uri);

    sleep 0.01;
    $m->delete("<>$uri:lock");
    finish($p);

    return [$uri];
}


# stored, and to be purged

sub old {
    my ($uri) = @_;

    $h->get($uri);
    wait_for(sub { defined $m->get("<>$uri") });

    return ["/purge?key=$uri"];
}
