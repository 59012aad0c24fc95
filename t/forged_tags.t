#!/usr/bin/perl

# Copyright (C) mcds authors

# An item may name as many tags as a page can have, and nothing but tags: one
# that names more, or other keys, is no page, and none of them is asked for or
# made.  The same of lists of variants, and of headers without number.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/is not used|too many or too long tags/);
$t->needs('mcds vary');

my $m = $t->memcached('m', args => ['-I', '16m'], memory => 256);
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { body => 'origin', headers => ['Cache-Control' => 'max-age=60',
        'X-Tags' => $q->{headers}{'x-tags'} // '',
        Vary => $q->{path} =~ /list/ ? 'X-A' : ''] };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    mcds_cache on;
    mcds_cache_key $uri;
    large_client_header_buffers 4 32k;
    proxy_buffer_size 32k;
    proxy_buffers 4 32k;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /tags {
            mcds_cache_tag $upstream_http_x_tags;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub tags {
    my $list = join ' ', @_;
    return pack('vVQ<', 2, 8 + length $list, 1) . $list;
}

sub forge {
    my ($uri, %e) = @_;
    $m->set("<>$uri", page_encode(key => "<>$uri", body => 'forged', %e))
        or die "not stored\n";
}

sub gets { return $m->stats()->{cmd_get} + $m->stats()->{cmd_touch} }

# tags; records that are not there are made, and so to be seen

my @good = map { "tag:a$_" } 1 .. 128;

for (['as many as there may be', 128, @good],
    ['one more', 0, @good, 'tag:b'],
    ['4096 of them', 0, ('a') x 4096],
    ['short ones', 0, map { "tag:$_" } 1 .. 1000],
    ['blanks', 0, ('') x 4000],
    ['another key', 0, 'purges'],
    ['an empty tag', 0, 'tag:'],
    ['a tag that is none', 0, 'tag:a,b'],
    ['an unknown record', 0, 'path:/a'])
{
    my ($name, $asked, @tags) = @$_;

    forge('/page', ext => tags(@tags));
    my $before = gets();
    my $r = $h->get('/page');

    is("$r->{status} $r->{body}", '200 origin', "$name: not served");
    cmp_ok(gets() - $before, $asked ? '>=' : '<=', $asked || 5,
        "$name: what is asked for");
    page_wait($m, '/page');
}

is(scalar(grep { /^<?mcds:/ && !/^<mcds:(?:purges|tag:a\d+)$/ } $m->keys()), 0,
    'no other key is made');

# what the origin says

my $r = $h->get('/tags/128', headers => ['X-Tags' => join ' ', 1 .. 126]);
is($r->header('X-Reason'), 'absent', '126 tags, all and the host: stored');
$r = $h->get('/tags/129', headers => ['X-Tags' => join ' ', 1 .. 127]);
is($r->header('X-Reason'), 'tags', 'one more: not stored');
$r = $h->get('/tags/same', headers => ['X-Tags' => join ' ', ('a') x 4000]);
is($r->header('X-Reason'), 'absent', 'one tag 4000 times: stored');

# headers and lists

for (['headers: 4096 lines', 'HIT', headers => "a: \r\n" x 4096],
    ['headers: 4097 lines', 'MISS', headers => "a: \r\n" x 4097],
    ['headers: 200 KB', 'HIT', headers => 'a: ' . 'x' x 200_000 . "\r\n"],
    ['headers: 300 KB', 'MISS', headers => 'a: ' . 'x' x 300_000 . "\r\n"],
    ['extensions: 300 KB', 'MISS', ext => pack('vV', 99, 300_000)
        . 'x' x 300_000])
{
    my ($name, $expected, %e) = @$_;

    forge('/page', %e);
    is($h->get('/page')->header('X-Cache'), $expected, $name);
    page_wait($m, '/page');
}

for (['variants: 1024', 'is one more', 1024],
    ['variants: 1025', 'begin anew', 1025])
{
    my ($name, $what, $n) = @$_;
    my $list = qr/^<>\/list$n:vary:([0-9a-f]{16}):[0-9a-f]{32}$/;
    my $generation;

    forge("/list$n", kind => 2, status => 0, generation => 5,
        ext => pack('vV', 1, 3) . 'x-a', body => 'x' x 16 x $n);
    $h->get("/list$n");
    wait_for(sub { ($generation) = map { /$list/ } $m->keys() });
    is(($generation // '') =~ /^0+5$/ ? 'is one more' : 'begin anew', $what,
        $name);
}

$t->done();
