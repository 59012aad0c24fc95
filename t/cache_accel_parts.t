#!/usr/bin/perl

# Copyright (C) mcds authors

# X-Accel-Redirect: the application is asked for each request, and the page of
# the location that it names is used by all of them, also by those that cannot
# replace the mark which the application's own page is: HEAD, and requests for
# ranges or with conditions.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');
$t->needs('mcds vary');

# the application, and what it names

my $m = $t->memcached('m');
my $a = $t->origin('a', sub {
    my ($o, $q) = @_;

    return { status => 403, body => 'no' } if $q->{headers}{'x-bad'};
    return { headers => ['X-Accel-Redirect' => "/inner$q->{path}",
        'Cache-Control' => $q->{path} =~ /none/ ? 'private' : 'max-age=600'],
        body => '' };
});
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => ['Cache-Control' => 'max-age=600', ETag => '"one"'],
        body => "page $q->{k} of $q->{path}" };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_background_update 10m;
    mcds_cache_uncacheable 10m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_a%%; }
        location /deaf/ {
            proxy_ignore_headers X-Accel-Redirect;
            proxy_pass http://127.0.0.1:%%PORT_a%%;
        }
        location /inner/ {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

sub ask {
    my ($uri, %o) = @_;
    my $r = $h->get($uri, %o);

    return join ' ', $r->status(), $r->header('X-Cache') // '-', $r->body();
}

sub inner { $o->count("/inner$_[0]") }

my $text = 'page 1 of /inner/page';

is(ask('/page'), "200 MISS $text", 'led on');
ok(wait_for(sub { ask('/page') =~ /^200 HIT/ }), 'stored');

my ($n, $asked) = (inner('/page'), $a->count('/page'));
$text = "page $n of /inner/page";

for my $c (
    ['GET', '200', $text],
    ['HEAD', '200', '', method => 'HEAD'],
    ['a range', '206', substr($text, 0, 4),
        headers => { Range => 'bytes=0-3' }],
    ['a condition', '304', '', headers => { 'If-None-Match' => '"one"' }],
) {
    my ($name, $status, $body, @o) = @$c;

    is(ask('/page', @o), "$status HIT $body", "$name: the page");
    is(inner('/page'), $n, "$name: its origin is not asked");
    is($a->count('/page'), ++$asked, "$name: the application is");

    my %o = @o;
    $o{headers}{'X-Bad'} = 1;
    like(ask('/page', %o), qr/^403 MISS/, "$name: refused");
    $asked++;
}

# what forbids sharing is not looked up

for my $c ([method => 'HEAD'], [headers => { Range => 'bytes=0-3' }]) {
    my $uri = "/none/$c->[0]";

    for my $n (1 .. 3) {
        is(ask($uri), '200 MISS page ' . (2 * $n - 1) . " of /inner$uri",
            "$uri: is not shared, $n");
        like(ask($uri, @$c), qr/^20[06] MISS/, "$uri: nor by @$c");
        is(inner($uri), 2 * $n, "$uri: its origin is asked");
    }
}

# a header that is ignored leads nowhere

is(ask('/deaf/page'), '200 MISS ', 'ignored: the answer of the application');
ok(page_wait($m, '<>http://localhost/deaf/page'), 'ignored: is stored');
is(ask('/deaf/page'), '200 HIT ', 'ignored: and used');
is($a->count('/deaf/page'), 1, 'ignored: the application is asked once');
is(inner('/deaf/page'), 0, 'ignored: and nobody else');

# no page of that location, and a stale one

my @parts = ([method => 'HEAD'], [headers => { Range => 'bytes=0-3' }],
    [headers => { 'If-None-Match' => '"one"' }]);

for my $i (0 .. $#parts) {
    my $uri = "/absent/$i";

    is(ask($uri), "200 MISS page 1 of /inner$uri", "$uri: led on");
    ok(wait_for(sub { ask($uri) =~ /^200 HIT/ }), "$uri: stored");

    my $status = (200, 206, 304)[$i];
    my ($key) = grep { /\Q$uri\E:vary:[^:]+:[^:]+$/ } $m->keys();

    page_expire($m, $key, 1000);
    my $n = inner($uri);

    like(ask($uri, @{$parts[$i]}), qr/^$status STALE/, "$uri: stale");
    $n++;
    ok(wait_for(sub { ask($uri) =~ /^200 HIT page $n of/ }), "$uri: refreshed");

    $m->delete($key);

    like(ask($uri, @{$parts[$i]}), qr/^$status (?:MISS|HIT)/, "$uri: absent");
    ok(wait_for(sub { ask($uri) =~ /^200 HIT/ }), "$uri: again");
    is($o->most("/inner$uri"), 1, "$uri: one at a time");
}

$t->done();
