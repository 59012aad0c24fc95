#!/usr/bin/perl

# Copyright (C) mcds authors

# The tool chooses the location of a URL by nginx's rules: each URL of a table
# is requested from nginx, which names the location and the key of its page, and
# the tool finds the page under this key or says that the URL does not tell it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $pass = 'proxy_pass http://127.0.0.1:' . $o->port() . ';';

# a location whose pages have a key with its name

sub location {
    my ($name, $inside, $key) = @_;

    $key //= '$uri$is_args$args';

    (my $word = $name) =~ s/[^\w\/.%\[\]]/-/g;

    return "location $name { mcds_cache_key \"$word: $key\"; $pass "
        . ($inside // '') . " }\n";
}

# nginx includes from the folder of its configuration

mkdir $t->dir() . '/h';
$t->write_file("h/one.$_.conf", location("/include/$_/")) for 'a', 'b';
$t->write_file('h/one.c.txt', location('/include/c/'));
$t->write_file('two ;{.conf', location('/quoted/'));

my %servers = (

    # what the URL tells: locations in each other, exact ones, what nginx
    # decodes and normalizes, files that are included, and names in any case

    h => [
        location('/'), location('/dir/'), location('/dir/%41/'),
        location('/outer/', location('/outer/inner/')
            . location('= /outer/inner/x') . location('^~ /outer/first/')),
        location('/outer/long/'), location('= /exact'), location('=/a.b'),
        location('= "/a b{;"'), location('/Case/'), location('^~/word/'),
        location('/variable/', '', '$URI $Args $HOST ${Arg_X}'),
        'include one.[ab].conf; include "%%TMP%%/two ;{.conf";'
            . " include %%TMP%%/nothing*.conf;\n",
        'if ($http_x = "};{") { return 400 "{;\"}"; }' . "\n",
        "# location ^~ /comment/ {\n",
    ],

    # what regular expressions do not change, and what they may

    r => [
        location('/'), location('^~ /first/'), location('^~/word/'),
        location('/first/plain/'), location('= /exact.one'),
        location('~ [.]one$'), location('~*[.]two$'),
        location('/outer/', location('= /outer/exact.one')
            . location('^~ /outer/first/') . location('~ [.]in$')),
        location('^~ /around/', location('/around/inner/')
            . location('^~ /around/first/') . location('~ [.]in$')
            . location('= /around/exact.in')),
        location('/long/', location('= /long/er/exact.one')),
        location('^~ /long/er/'),

        # nginx does not find the first two, but for a regular expression

        location('~ /regex/', location('= /regex/exact')
            . location('/regex/inner/') . location('~ [.]of$')),
    ],
);

my $h = $t->nginx('h', join '', <<'EOT',
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache on;
    add_header X-Key $mcds_cache_key always;
EOT
    map({ ("server { listen 127.0.0.1:%%PORT_$_%%; server_name $_.test;\n",
        @{$servers{$_}}, "}\n") } sort keys %servers), "}\n");

my $mcds = Test::Mcds::Tool->new($t, '-c', $h->dir() . '/nginx.conf');

# the URI of a request, the beginning of the key that nginx makes, and whether
# the tool may find more than one key

sub same {
    my ($server, $uri, $location, $several) = @_;

    my $port = $t->port($server);
    my $url = "http://\u$server.Test:$port$uri";
    my $r = Test::Mcds::Http::http_get("127.0.0.1:$port", $uri,
        host => "$server.test:$port");
    my $key = $r->header('X-Key') // '';

    like($key, qr/^\Q$location\E: /, "$server $uri: nginx: $location")
        or diag($r->body());

    my $p = $mcds->run('--json', 'get', $url);

    if ($several) {
        is($p->{code}, 1, "$server $uri: not found");
        like($p->{err}, qr/the locations that match have different keys/,
            "$server $uri: which is said");
        return;
    }

    is($p->{err}, '', "$server $uri: the key is known");

    $p = $mcds->json('get', $url)->[0];
    is($p->{key}, $key, "$server $uri: the key") or return;

    ok(wait_for(sub { $p->{state} eq 'fresh'
        || ($p = $mcds->json('get', $url)->[0], 0) }), "$server $uri: found");
}

same('h', @$_)
    for ['/', '/'], ['/none?a=1', '/'], ['/comment/x', '/'], ['/dirx', '/'],
        ['/dir/', '/dir/'], ['/dir/x', '/dir/'], ['/Dir/x', '/'],
        ['/Case/x', '/Case/'], ['/case/x', '/'], ['/exact', '--/exact'],
        ['/exact/', '/'], ['/exact?b=2', '--/exact'], ['/a.b', '-/a.b'],
        ['/word/x', '--/word/'], ['/include/a/1', '/include/a/'],
        ['/include/b/1', '/include/b/'], ['/include/c/1', '/'],
        ['/quoted/1', '/quoted/'],
        ['/variable/1?x=2&X=3', '/variable/'],
        ['/outer/', '/outer/'], ['/outer/inn', '/outer/'],
        ['/outer/inner/y', '/outer/inner/'],
        ['/outer/inner/x', '--/outer/inner/x'],
        ['/outer/first/x', '---/outer/first/'],
        ['/outer/long/x', '/outer/long/'],
        ['//dir//x', '/dir/'], ['/dir/./x', '/dir/'], ['/dir/.', '/dir/'],
        ['/x/../dir/y', '/dir/'], ['/dir/..', '/'],
        ['/dir/../exact', '--/exact'],
        ['/d%69r/x', '/dir/'], ['/%2e/dir/%2E%2e/exact', '--/exact'],
        ['/dir%2fx', '/dir/'], ['/dir/%41/', '/dir/'],
        ['/dir/%2541/', '/dir/%41/'], ['/a%20b%7b;', '---/a-b---'],
        ['/dir/%3fx?y=%2e', '/dir/'], ['/dir/.x', '/dir/'], ['/dir/+', '/dir/'],
        ['/exact?x=//../%41', '--/exact'];

same('r', @$_)
    for ['/x', '/', 1], ['/x.one', '--[.]one-', 1],
        ['/x.TWO', '--[.]two-', 1],
        ['/first/x.one', '---/first/'], ['/word/x.two', '--/word/'],
        ['/first/plain/x', '/first/plain/', 1],
        ['/first/plain/x.one', '--[.]one-', 1],
        ['/exact.one', '--/exact.one'], ['/%65xact.one', '--/exact.one'],
        ['/outer/exact.one', '--/outer/exact.one'],
        ['/outer/x.in', '--[.]in-', 1],
        ['/outer/first/x', '---/outer/first/', 1],
        ['/outer/first/x.one', '--[.]one-', 1],
        ['/around/inner/x', '/around/inner/', 1],
        ['/around/inner/x.in', '--[.]in-', 1],
        ['/around/exact.in', '--/around/exact.in'],
        ['/around/first/x.in', '---/around/first/'],
        ['/around/first/x.one', '---/around/first/'],
        ['/long/er/exact.one', '---/long/er/'],
        ['/regex/exact', '--/regex/', 1],
        ['/regex/inner/x', '--/regex/', 1],
        ['/regex/inner/x.of', '--[.]of-', 1];


# where a server has "merge_slashes off": nginx reads that of one that it
# chooses before it knows the host

$t->nginx('s', join '', <<'EOT', location('/'), location('/dir/'), "}\n}\n");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_cache on;
    add_header X-Key $mcds_cache_key always;
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name s.test;
        merge_slashes off;
EOT

$mcds = Test::Mcds::Tool->new($t, '-c', $t->dir() . '/s/nginx.conf');

same('s', @$_)
    for ['/dir/x', '/dir/'], ['/x/../dir/y', '/dir/'], ['//dir/x', '/', 1];

$t->done();
