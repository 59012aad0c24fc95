#!/usr/bin/perl

# Copyright (C) mcds authors

# H07, H12: ranges and conditions of clients on pages from the cache: the bytes
# and the statuses are those of the same file served by nginx, and no part of a
# page is ever stored for it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $body = join '', map { sprintf "%06d,", $_ } 1 .. 3000;
my $time = 1_700_000_000;
my $file = $t->write_file('file.txt', $body);
utime $time, $time, $file;

my $m = $t->memcached('m');

# the origin is nginx itself, so that both have one ETag

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /static/ { alias %%TMP%%/; }
        location /cached/ {
            mcds_cache on;
            mcds_cache_valid 200 1h;
            add_header X-Cache $mcds_cache_status always;
            proxy_pass http://127.0.0.1:%%PORT%%/static/;
        }
    }
}
EOT

my $first = $h->get('/static/file.txt');
my ($tag, $date) = map { $first->header($_) } 'ETag', 'Last-Modified';
my $before = 'Tue, 14 Nov 2023 22:13:19 GMT';
my $after = 'Tue, 14 Nov 2023 22:13:21 GMT';
my $n = length $body;

ok($tag && $date, 'the file has an ETag and a date');
ok(wait_for(sub { $h->get('/cached/file.txt')->header('X-Cache') eq 'HIT' }),
    'the page is in the cache');

my @ranges = ('0-0', '0-', '1-1', '5-9', '-1', '-5', "-$n", '-' . ($n + 1),
    '0-' . ($n - 1), "0-$n", ($n - 1) . '-', ($n - 1) . '-' . ($n - 1),
    "$n-", "$n-" . ($n + 5), '9-5', '-0', '-', '', 'x', '0', '0-x', '1-2-3',
    '0-1,3-4', '0-0,-1', ' 1 - 2 ', '1-2 , 4-5', ',1-2', '1-2,',
    '0-18446744073709551615', '18446744073709551615-',
    '0-18446744073709551616', '9223372036854775807-9223372036854775808',
    '0-9223372036854775807', '-9223372036854775808',
    '-18446744073709551615', '-9223372036854775809,0-1',
    '-' . '9' x 30, '9' x 30 . '-', join(',', ('0-') x 3),
    join(',', map { "$_-" . ($_ + 10) } 1 .. 50),
    join(',', ('0-') x 1000), join(',', map { "-$_" } 1 .. 500));

my @rows = (
    (map { [Range => "bytes=$_"] } @ranges),
    ['Range', 'chars=0-1'], ['Range', 'bytes 0-1'], ['Range', 'BYTES=0-1'],
    (map { my $if = $_; [Range => 'bytes=1-3', 'If-Range' => $if] }
        $tag, $date, '"other"', "W/$tag", $before, $after, 'nonsense', ''),
    (map { ['If-None-Match' => $_] } $tag, "W/$tag", '"other"', '*',
        "\"a\", $tag", "\"a\",$tag,\"b\"", "\"a\" , W/$tag", '', 'x', ',',
        $tag =~ tr/"//dr, "$tag$tag", "\"a\",, $tag"),
    (map { ['If-Modified-Since' => $_] } $date, $before, $after, 'x', '',
        'Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT'),
    ['If-None-Match' => '"other"', 'If-Modified-Since' => $date],
    ['If-None-Match' => $tag, Range => 'bytes=0-1'],
);

# what a cache does not evaluate, RFC 9110, 13.2.2: the page is that of a
# request without it

my @ignored = (
    (map { [['If-Match' => $_]] } $tag, "W/$tag", '"other"', '*',
        "\"a\", $tag", '', 'x'),
    (map { [['If-Unmodified-Since' => $_]] } $date, $before, $after, 'x'),
    (map { [['If-Modified-Since' => $_], 'If-None-Match' => $tag] }
        $date, $before, 'x'),
    (map { [['If-Match' => $_], 'If-None-Match' => $tag] } $tag, '"other"'),
    [['If-Match' => $tag, 'If-Unmodified-Since' => $before]],
    [['If-Match' => '"other"'], Range => 'bytes=0-1'],
);

my (@bad, %status);

for my $method ('GET', 'HEAD') {
    for my $row (@rows) {
        my %h = @$row;

        # which nginx hears in HEAD, too, RFC 9110, 14.2

        delete @h{'Range', 'If-Range'} if $method eq 'HEAD';

        my $want = show($h->get('/static/file.txt', method => $method,
            headers => [%h]));
        my $got = show($h->get('/cached/file.txt', method => $method,
            headers => [@$row]));

        $status{$want =~ /^(\d+)/ ? $1 : ''}++;
        push @bad, "$method @$row: $want, from the cache: $got" =~
            s/(.{400}).*/$1/sr if $want ne $got;
    }
}

is(join("\n", @bad), '', 2 * @rows . ' requests as of the file');
is(join(' ', sort keys %status), '200 206 304 416', 'all that there can be');

for my $row (@ignored) {
    my ($ignored, @others) = @$row;
    my $want = show($h->get('/static/file.txt', headers => [@others]));
    my $got = $h->get('/cached/file.txt', headers => [@$ignored, @others]);

    is(show($got), $want, "@$ignored, @others: without the condition");
    is($got->header('X-Cache'), 'HIT', "@$ignored, @others: from the cache");
}


# a part that comes first does not become the page

for my $i (0 .. 9) {
    my $uri = "/cached/file.txt?$i";
    my @more = @{([Range => 'bytes=0-9'], [Range => 'bytes=-1'],
        [Range => 'bytes=0-1,3-4'], [Range => 'bytes=99999999-'],
        ['If-None-Match' => $tag], ['If-Modified-Since' => $date],
        ['If-Match' => '"other"'], ['If-Range' => $tag, Range => 'bytes=0-1'],
        ['If-Unmodified-Since' => $before], [Range => 'x'])[$i]};
    my @judged = $more[0] =~ /^If-(?:Match|Unmod)/ ? () : @more;

    is(show($h->get($uri, headers => [@more])),
        show($h->get('/static/file.txt', headers => [@judged])),
        "@more: first");

    my $r;
    wait_for(sub { ($r = $h->get($uri))->header('X-Cache') eq 'HIT' }, 2);
    is($r->status() . ($r->body() eq $body), '2001',
        "@more: then the whole page");
}

$t->done();


# what of an answer must be the same; boundaries are not

sub show {
    my ($r) = @_;

    my $type = $r->header('Content-Type') // '';
    my $body = $r->body();

    if ($type =~ s/boundary=(\S+)/boundary/) {
        $body =~ s/\Q$1\E/boundary/g;
    }

    return join ' ', $r->status(), map({ $r->header($_) // '-' }
        'Content-Range', 'Content-Length', 'ETag', 'Last-Modified'), $type,
        $r->status() == 412 || $r->status() == 416 ? '' : $body;
}
