#!/usr/bin/perl

# Copyright (C) mcds authors

# The tool finds the page of a URL among those of several server{} blocks: it
# gives each of them the site that nginx gives it, chooses one as nginx does,
# and lists those that are left where it cannot know.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m = $t->memcached('m');
my $n = $t->memcached('n');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60',
    'Content-Type' => 'text/plain'], body => 'answer %k' });

$o->set('/vary', { headers => ['Cache-Control' => 'max-age=60',
    Vary => 'X-A'], body => 'varies %k' });

my %p = map { $_ => $t->port($_) } qw/ a x y z w v u /;
my $proxy = 'location / { proxy_pass http://127.0.0.1:' . $o->port() . '; }';
my $pools = 'mcds_pool main { server 127.0.0.1:' . $m->port()
    . '; timeout 10s; connect_timeout 10s; }';

$t->write_file('servers.conf', join '', map { "server { $_ $proxy }\n" }
    "listen 127.0.0.1:$p{a}; server_name www.example.com b.example.com;",
    "listen 127.0.0.1:$p{a}; server_name *.example.com;",
    "listen 127.0.0.1:$p{a}; server_name .example.org;",
    "listen 127.0.0.1:$p{a}; server_name mail.* *.deep.example.com;",
    "listen 127.0.0.1:$p{a}; server_name ~^(re|RE)>[.]test\$;",
    "listen 127.0.0.1:$p{a} default_server; server_name _;",
    "listen $p{x}; server_name w.test;",
    "listen 127.0.0.1:$p{y}; server_name w.test;",
    "listen 127.0.0.1:$p{y}; server_name WWW.example.com;",
    "listen 127.0.0.1:$p{u}; server_name w.test;");

my $a = $t->nginx('a', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    $pools
    map \$host \$nothing { server_name x; listen y; default 0; }
    add_header X-Cache \$mcds_cache_status always;
    mcds_cache on;
    include %%TMP%%/servers.conf;
    server {
        listen 127.0.0.1:$p{z};
        server_name shop.test;
        mcds_cache_site shop;
        mcds_cache_key "\$mcds_cache_key mobile";
        $proxy
    }
    server {
        # in front of the others
        listen 127.0.0.1:$p{w};
        server_name www.example.com *.example.org;
        mcds_cache off;
        location / {
            proxy_set_header Host \$http_host;
            proxy_pass http://127.0.0.1:%%PORT%%;
        }
    }
    server {
        listen 127.0.0.1:$p{v};
        server_name route.test;
        if (\$http_x_beta) { rewrite ^ \$uri?beta last; }
        $proxy
    }
}
EOT

my $mcds = Test::Mcds::Tool->new($t, '-c', $a->dir() . '/nginx.conf');

# what is stored, and whether the tool finds just that

sub found {
    my ($where, $host, $uri, $url, $site) = @_;
    my $p;

    # nothing is stored for a host in upper case, but all find what is there

    my $r = Test::Mcds::Http::http_get($where, $uri, host => lc $host);

    wait_for(sub {
        $p = $mcds->json('get', $url)->[0];
        return ($p->{state} // '') eq 'fresh';
    }, 10);

    is_deeply([map { $_ // '' } @$p{qw/ state site memcached_key /}],
        ['fresh', $site, "<$site>$p->{key}"], "$url: $site")
        or diag($r->body());
}

my $on = "127.0.0.1:$p{a}";

found($on, $_->[0] . ":$p{a}", $_->[1], "http://$_->[0]:$p{a}$_->[1]", $_->[2])
    for ['b.example.com', '/1', "www.example.com\@$on"],
        ['A.example.com', '/1', '*.example.com'],
        ['a.b.example.com', '/1', '*.example.com'],
        ['example.org', '/1', '.example.org'],
        ['a.example.org', '/1', '.example.org'],
        ['mail.test', '/1', 'mail.*'],
        ['x.deep.example.com', '/1', 'mail.*'];

found("127.0.0.1:$p{x}", "any.test:$p{x}", '/3', "http://any.test:$p{x}/3",
    "w.test\@0.0.0.0:$p{x}");
found("127.0.0.1:$p{y}", "w.test:$p{y}", '/3', "http://w.test:$p{y}/3",
    "w.test\@127.0.0.1:$p{y}");

found("127.0.0.1:$p{u}", "w.test:$p{u}", '/3', "http://w.test:$p{u}/3",
    "w.test\@127.0.0.1:$p{u}");
ok($a->log_has(qr/\[warn\] .*servers\.conf:7 .*servers\.conf:10 .*"w\.test"/),
    'a warning names the third one, too');

found("127.0.0.1:$p{y}", "www.example.com:$p{y}", '/2',
    "http://www.example.com:$p{y}/2", "www.example.com\@127.0.0.1:$p{y}");

# behind what forwards the host as it came, and the name fits once

found("127.0.0.1:$p{w}", 'b.example.com', '/4', 'http://b.example.com/4',
    "www.example.com\@$on");
found("127.0.0.1:$p{w}", "a.example.org:$p{w}", '/4',
    "http://a.example.org:$p{w}/4", '.example.org');

# a regular expression or the default: nginx knows

my $r = $mcds->run('get', "http://re>.test:$p{a}/5");

is($r->{code}, 2, 'a regular expression: not decided');
is($r->{out}, '', 'nothing is shown');
like($r->{err}, qr/^mcds get: http.*: several sites may have this page/,
    'it says so');
like($r->{err}, qr/^ +--site='\^\(re\|RE\)![^']*\@$on' in \S+servers\.conf:5$/m,
    'one of them, with file and line');
like($r->{err}, qr/^    --site='_\@$on' in \S+servers\.conf:6$/m, 'the other');

my $url = "http://other.test:$p{a}/5";

$a->get('/5', host => "other.test:$p{a}");
ok(wait_for(sub { ($mcds->json('get', '--site', "_\@$on", $url)->[0]{state}
    // '') eq 'fresh' }, 10), '--site decides');
is($mcds->run('get', '--site', 'none', $url)->{code}, 2, 'no such site');

# purged by URL

$r = $mcds->json('purge', "http://a.example.com:$p{a}/1");
is_deeply([@{$r->[0]}{qw/ key site /}],
    ["http://a.example.com:$p{a}/1", '*.example.com'], 'purge: key and site');
ok($r->[0]{found} && $r->[0]{purged}, 'purged');
is($mcds->json('get', "http://a.example.com:$p{a}/1")->[0]{state},
    'invalidated', 'and seen');

$r = $mcds->json('purge', "http://a.example.com:$p{a}/none");
ok(!$r->[0]{found} && !$r->[0]{purged}, 'nothing to be purged');

# a key of its own

Test::Mcds::Http::http_get("127.0.0.1:$p{z}", '/6', host => 'shop.test');

ok(wait_for(sub { ($mcds->json('get', 'http://shop.test/6')->[0]{key} // '')
    eq 'http://shop.test/6 mobile' }, 10), 'the site has a key of its own');

is($mcds->run('get', '--key', 'http://shop.test/6 mobile')->{code}, 2,
    '--key alone does not tell the site');
ok(wait_for(sub { ($mcds->json('get', '--site', 'shop', '--key',
    'http://shop.test/6 mobile')->[0]{state} // '') eq 'fresh' }, 10),
    'with --site it is found');

# what nginx has chosen

sub vary {
    my ($x, @more) = @_;

    Test::Mcds::Http::http_get("127.0.0.1:$p{v}", '/vary',
        host => 'route.test', headers => { 'X-A' => $x, @more });
}

my $p;

# the list begins anew when it is found that the routes differ

ok(wait_for(sub {
    vary($_), vary($_, 'X-Beta' => 1) for 1, 2;

    $p = $mcds->json('get', 'http://route.test/vary')->[0];
    return 4 == grep { $_->{state} eq 'fresh' } @{$p->{variants} // []};
}, 10), 'variants of two routes');

is($p->{vary}, '!route,x-a', 'by the route and a header');
is($p->{listed}, 4, 'their number');
like($p->{differ}, qr/nginx\s+chooses/, 'and that nginx chooses');

my %route = map { $_->{route} => 1 } @{$p->{variants}};
is(scalar(keys %route), 2, 'two routes');

my $v = $mcds->json('get', '--header', 'X-A: 2', 'http://route.test/vary')
    ->[0]{variants};
is(scalar(@$v), 2, 'with the header: one of each route');
is($mcds->run('get', '--body', 'http://route.test/vary')->{code}, 2,
    'no body can be chosen');
like($mcds->run('get', '--body', '--site', 'route.test', '--key',
    $v->[0]{key})->{out}, qr/^varies \d$/, 'that of a variant can');


# without nginx: the site of a URL, or '?' and those that are listed

my $number = 0;

sub site {
    my ($text, @args) = @_;

    my $file = $t->write_file('s' . ++$number . '.conf',
        $text =~ /^\s*mcds_pool/ ? $text : "http { $pools $text }");
    my $tool = Test::Mcds::Tool->new($t, '-c', $file);
    my $r = $tool->run('--json', 'get', @args);

    if ($r->{code} == 2) {
        return join ' ', '?', sort map { /(?:--site=)'([^']*)'/ }
            split /\n/, $r->{err};
    }

    return JSON::PP::decode_json($r->{out})->[0]{site} // '-';
}

sub server { "server { @_ }" }

my $on80 = 'mcds_cache on;';

is(site(server('server_name a;'), 'http://a/'), '-', 'nothing caches');
is(site($on80, 'http://a/'), '-', 'no server');
is(site($on80 . server(), 'https://a/'), '-', 'one without a name');
is(site($on80 . server('server_name a b;'), 'https://x/'), 'a',
    'the only one, behind a balancer');
is(site($on80 . server('server_name a;') . server('server_name b;'),
    'https://x/'), 'a', 'the first is the default one');
is(site($on80 . server('server_name a;')
    . server('listen 80 default_server; server_name b;'), 'http://x/'), 'b',
    'or the one that says so');
is(site($on80 . server('listen 8080; server_name a;')
    . server('listen 8081; server_name b;'), 'http://x/'), '? a b',
    'the first one of each port');
is(site($on80 . server('listen 8080; server_name a;')
    . server('listen 8081; server_name b;'), 'http://b/'), 'b',
    'by its name on any port');
is(site($on80 . server('listen 8080; server_name a;')
    . server('listen 8081; server_name b;'), 'http://b:8080/'), 'a',
    'but not on that of another one');
is(site($on80 . server('listen 8080; server_name a;')
    . server('listen 8081; server_name b;'), '--key', 'x'), '? a b',
    'a key: either');
is(site($on80 . server('listen 8080-8082;') . server('listen *:8083;'),
    'http://x:8081/'), '@0.0.0.0:8080,0.0.0.0:8081,0.0.0.0:8082',
    'a range of ports');
is(site($on80 . server('listen [0::0]:8080;') . server('listen unix:/a;'),
    'http://x:8080/'), '@[::]:8080', 'IPv6, as nginx writes it');
is(site($on80 . server('') . server('listen unix:/a;'), '--site',
    '@unix:/a', 'http://x/'), '@unix:/a', 'a socket');
is(site($on80 . server('server_name a; listen 127.0.0.1;')
    . server('server_name a; listen 80;'), 'http://127.0.0.1/'),
    'a@127.0.0.1:80', 'by its address');
is(site($on80 . server('server_name a; listen 127.0.0.1;')
    . server('server_name a; listen 80;'), 'http://127.0.0.2/'),
    'a@0.0.0.0:80', 'or by all of them');
is(site($on80 . server('server_name a; listen 1.2.3.4;')
    . server('server_name a; listen 80;'), 'http://a/'),
    '? a@0.0.0.0:80 a@1.2.3.4:80', 'a name on two addresses');
is(site($on80 . join('', map { server("listen 8$_; server_name a;") } 0 .. 2),
    '--key', 'x'), '? a@0.0.0.0:80 a@0.0.0.0:81 a@0.0.0.0:82',
    'each of three servers with one name');
is(site($on80 . join('', map { server("server_name a $_;") } qw/ b c d /),
    '--key', 'x'), '? a,b@0.0.0.0:80 a,c@0.0.0.0:80 a,d@0.0.0.0:80',
    'all names of each of three');
is(site($on80 . join('', map { server('server_name a;') } 1 .. 3),
    '--key', 'x'), '? a@0.0.0.0:80#0 a@0.0.0.0:80#1 a@0.0.0.0:80#2',
    'the numbers of three');
is(site($on80 . server('server_name *.a.b *.b;') . server('server_name c;'),
    'http://x.a.b./'), '*.a.b', 'a dot at the end');
is(site($on80 . server('server_name *.b;') . server('server_name *.a.b;')
    . server('server_name x.*;'), 'http://x.a.b/'), '*.a.b',
    'the longest wildcard');
is(site($on80 . server('server_name *.b; location / { mcds_cache off; }')
    . server('listen 81; server_name *.a.b;'), 'http://x.b/'), '*.a.b',
    'a server that only forwards');
is(site($on80 . 'mcds_cache_site all;' . server('server_name a;')
    . server('server_name b;'), '--key', 'x'), 'all', 'one site for all');
is(site($on80 . server('server_name a; location / { mcds_cache_site b; }'),
    '--key', 'x'), 'b', 'of a location that has all of the server');
is(site($on80 . server('server_name a; if ($x) { return 404; } location / {'
    . ' mcds_cache_site b; }'), $_->[0], $_->[1]), 'b',
    "an \"if\" of the server has no page: $_->[0]")
    for ['--key', 'x'], ['http://a/', 'http://a/b'];
is(site($on80 . server('server_name a; location /b { mcds_cache_site b; }'),
    'http://a/b'), '? a b', 'of a location beside the server');
is(site($on80 . server('server_name a; location /b { mcds_cache_site b; }'),
    '--site', 'b', 'http://a/b'), 'b', 'which --site chooses');
is(site(server('server_name a; location /b { mcds_cache on; if ($x) { set $y'
    . ' 1; } limit_except GET { deny all; } }'), 'http://a/b'), 'a',
    'blocks in a location');
is(site('stream { server { listen 80; server_name s; } }' . $on80
    . server('server_name a;'), 'http://a/'), 'a', 'no server of http');

# pools

my $two = $pools . 'mcds_pool second { server 127.0.0.1:' . $n->port() . '; }'
    . $on80 . server('mcds_use main; listen 80;')
    . server('mcds_cache second; listen 81;');

my $file = $t->write_file('two.conf', "http { $two }");
my $tool = Test::Mcds::Tool->new($t, '-c', $file);

is_deeply([map { $tool->json('get', $_)->[0]{pool} } 'http://x/',
    'http://x:81/'], ['main', 'second'], 'the pool of each server');
is($tool->json('get', 'http://x:81/')->[0]{site}, undef,
    'which need not be told apart in two pools');
is_deeply([map { $_->{pool} } @{$tool->json('get', 'http://x/',
    'http://x:81/')}], ['main', 'second'], 'both at once');
is($tool->json('--pool', 'main', 'get', 'http://x:81/')->[0]{pool}, 'main',
    '--pool: of those in it');
like($tool->run('get', '--key', 'x')->{err},
    qr/choose one with --site and --pool\n    --site='' --pool=main in /,
    'a key may be in either');
is($tool->json('--pool', 'second', 'get', '--key', 'x')->[0]{pool}, 'second',
    'which --pool says');
is($tool->run('get', '--site=', '--key', 'x')->{code}, 2,
    'and --site alone does not');

# without a configuration

$tool = Test::Mcds::Tool->new($t, '-s', '127.0.0.1:' . $m->port());

is($tool->json('get', '--site', '*.example.com',
    "http://a.b.example.com:$p{a}/1")->[0]{state}, 'fresh',
    '--servers: the site that is said');
is($tool->json('get', 'http://x/')->[0]{memcached_key}, '<>http://x/',
    'or none');

$t->allow(qr/cache pages (?:under the same name|without a)/);
$t->done(keep => ['n']);
