#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds check and bench say whether the servers are healthy; every command ends
# quickly, with the code that is documented, when a server is gone or hung, when
# the configuration is wrong, and when it is used wrongly; the help and the
# manual page know the same options.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my $m1 = $t->memcached('m1');
my $m2 = $t->memcached('m2', unix => 1);
my $small = $t->memcached('small', args => ['-I', '512k', '-C']);
my $full = $t->memcached('full', memory => 8);
my $old = $t->fake('old', undef, version => '1.4.0');
my $deaf = $t->fake('deaf', sub { $_[0]->stall });

my $file = $t->dir() . '/nginx.conf';
my $mcds = Test::Mcds::Tool->new($t, '-c', $file);

sub conf {
    my ($pools, $more) = @_;

    $t->write_file('nginx.conf', "events { }\nhttp {\n$pools\n"
        . ($more // '') . "\n}\n");
}

sub server { '127.0.0.1:' . shift->port() }


# healthy

conf("mcds_pool main {\n server @{[server($m1)]} weight=2;\n"
    . " server unix:@{[$t->sock('m2')]};\n"
    . " server 127.0.0.1:1 down;\n distribution ketama;\n prefix 'a:';\n}");

my $r = $mcds->run('check');
is($r->{code}, 0, 'healthy') or diag($r->{out}, $r->{err});

my $check = $mcds->json('check', $file);
my ($pool) = @{$check->{pools}};

is($pool->{distribution}, 'ketama', 'distribution');
is($pool->{prefix}, 'a:', 'prefix');
is_deeply([map { $_->{state} } @{$pool->{servers}}], [qw/ up up disabled /],
    'servers');
like($pool->{servers}[0]{version}, qr/^1\.\d/, 'version');
is($pool->{servers}[0]{weight}, 2, 'weight');
is($pool->{servers}[1]{item_size_max}, 1024 * 1024, 'of a unix socket, too');
is_deeply($pool->{servers}[0]{warnings}, [], 'no warnings');

my $before = join ' ', sort $m1->keys(), $m2->keys();
my $bench = $mcds->json('bench');

is(scalar(@$bench), 2, 'bench: both servers');
ok($bench->[0]{get_10k}{p99_ms} >= $bench->[0]{get_10k}{p50_ms}
    && $bench->[0]{get_10k}{p50_ms} > 0, 'times');
is(join(' ', sort $m1->keys(), $m2->keys()), $before, 'leaves nothing');


# not as it should be

conf("mcds_pool main { server @{[server($small)]}; }");
$r = $mcds->run('check');
is($r->{code}, 1, 'warnings');
like($r->{out}, qr/runs with -C/, 'no CAS');
like($r->{out}, qr/items of 524288 bytes/, 'small items');

# full, which is as it should be where there are only pages

$full->set("page$_", 'x' x 100_000) for 1 .. 200;

my $pools = "mcds_pool main { server @{[server($m1)]}; }\n"
    . "mcds_pool pages { server @{[server($full)]}; }\nmcds_use main;\n"
    . 'mcds_counter $a; ';

for (['mcds_cache pages;', 0, 'pages'],
    ['mcds_cache pages; server { mcds_log off; }', 0, 'pages and nothing'],
    ['mcds_cache pages; mcds_log l pool=pages;', 1, 'pages and a log'],
    ['server { mcds_use pages; mcds_cache on; mcds_lock $uri ttl=5s; }', 1,
        'pages and locks'],
    ['mcds_cache pages; server { mcds_use pages; mcds_lock_api; }', 1,
        'pages and locks of programs'],
    ['mcds_cache pages; server { mcds_log_api l pool=pages; }', 1,
        'pages and a log of programs'],
    ['server { mcds_use pages; mcds_cache on; mcds_counter_api prefix=p:; }',
        1, 'pages and counters of the API'],
    ['server { mcds_use pages; mcds_cache on; mcds_counter off;
        mcds_counter_api $a; }', 0,
        'pages, and the API shows a counter of another pool'],
    ['server { mcds_use pages; mcds_cache on; }', 1,
        'pages and an inherited counter'],
    ['server { location / { mcds_use pages; mcds_cache on; } }', 1,
        'pages and a counter, inherited by the location that has all'],
    ['', 1, 'nothing that is known'])
{
    my ($conf, $code, $name) = @$_;

    conf($pools, $conf);
    $r = $mcds->run('check');
    is($r->{code}, $code, "full, $name") or diag($r->{out}, $r->{err});
    is($r->{out} =~ /has evicted \d+ items/ ? 1 : 0, $code, "said: $name");
}

conf("mcds_pool main { server @{[server($old)]}; }");
$r = $mcds->run('check');
isnt($r->{code}, 0, 'too old') or diag($r->{out});

# one that is to control the terminal: CSI in UTF-8, text from right to left

my $text = "x\xc2\x9b2J\xe2\x80\xae";
my $rude = $t->fake('rude', sub { "$text\r\n" });

conf("mcds_pool main { server @{[server($rude)]}; }");
$r = $mcds->run('check');
like($r->{err}, qr/"x\\xc2\\x9b2J\\xe2\\x80\\xae"/,
    'its reply is shown');
unlike($r->{out} . $r->{err}, qr/[^\n\x20-\x7e]/,
    'without control characters');

conf('');
$r = $mcds->run('check');
is($r->{code}, 1, 'no pools');


# gone, or hung

my @commands = (
    ['get', 'http://a/'], ['purge', 'http://a/'], ['purge', '--tag', 'a'],
    ['counter', 'get', 'a'], ['counter', 'add', 'a', 1], ['visitors', 'a'],
    ['top', 'a'], ['log', 'read', 'a'], ['log', 'follow', 'a'],
    ['table', 'list', 'a'], ['table', 'get', 'a', 'b'],
    ['table', 'add', 'a', 'b'], ['array', 'list', 'a'],
    ['array', 'push', 'a', 'b'], ['lock', 'show', 'a'], ['lock', 'free', 'a'],
    ['check'], ['bench'],
);

my $gone = $t->port('gone');
conf("mcds_pool main { server 127.0.0.1:$gone; }");

for (@commands) {
    $r = $mcds->run(@$_);
    is($r->{code}, 3, "gone: @$_") or diag($r->{out}, $r->{err});

    # half of the timeout

    cmp_ok($r->{seconds}, '<', 10, 'at once');
}

like($r->{err}, qr/127\.0\.0\.1:$gone/, 'it names the server');

conf("mcds_pool main { server 127.0.0.1:$gone; server unix:/nonexistent;\n"
    . " server @{[server($deaf)]}; server @{[server($old)]};\n"
    . " distribution modula; }");
$r = $mcds->run('--timeout', '2s', 'check');
is($r->{code}, 3, 'four that are not up');
is(join(', ', $r->{out} =~ /^ +error +(.*)$/mg), 'Connection refused, '
    . 'No such file or directory, timed out, it does not speak the meta '
    . 'commands', 'each with its cause');
is_deeply([map { $_->{error} } @{$mcds->json('--timeout', '2s', 'check')
    ->{pools}[0]{servers}}], [$r->{out} =~ /^ +error +(.*)$/mg],
    'which programs are told, too');

conf("mcds_pool main { server @{[server($deaf)]}; }");

for (['get', 'http://a/'], ['log', 'follow', 'a'], ['bench']) {
    $r = $mcds->run('--timeout', '200ms', @$_);
    is($r->{code}, 3, "hung: @$_") or diag($r->{out}, $r->{err});
}


# the configuration

sub wrong {
    my ($text, $re, $name) = @_;

    $t->write_file('nginx.conf', $text);
    my $r = $mcds->run('get', 'http://a/');

    is($r->{code}, 2, "$name: exit code");
    like($r->{err}, $re, $name);
}

wrong("http {\n", qr/unexpected end of file.*nginx\.conf:2/, 'no end');
wrong("http {\n}\n}\n", qr/unexpected "\}".*nginx\.conf:3/, 'end too early');
wrong("http { include nothing.conf; }", qr/cannot open.*nothing\.conf/,
    'no such file');
wrong("include nginx.conf;", qr/too many files include each other/, 'a loop');
wrong("http { mcds_pool main { server a:b; } }", qr/invalid port.*conf:1/,
    'a port');
wrong("http { mcds_pool main {\nserver 127.0.0.1;\nfoo 1; } }",
    qr/unknown parameter "foo" in mcds_pool "main" in .*:3/, 'a parameter');
wrong("http { mcds_pool main { } }", qr/no servers/, 'no servers');
wrong("http { mcds_pool a { server 127.0.0.1; } mcds_pool b { server\n"
    . "127.0.0.1; } }", qr/several pools, choose one with --pool: a b$/m,
    'which pool');
wrong("http { a \"b }", qr/unexpected end of file, expecting ";" or "}"/,
    'a quote');
wrong("http { mcds_pool main; }", qr/"mcds_pool" has no opening "\{"/,
    'no block');
wrong("a\0b;\0{", qr/unexpected end of file/, 'zero bytes');

$r = Test::Mcds::Tool->new($t, '-c', '/nonexistent')->run('check');
is($r->{code}, 2, 'no configuration');
like($r->{err}, qr{/nonexistent}, 'it names it');


# what else may stand there

conf('mcds_pool main { server ' . server($m1) . '; }', <<"EOT");
# mcds_pool main {
map \$a \$b { default "x;}{"; '~a\\d{2}' \${a}b; }
content_by_lua_block { if a then b = "}" .. '\\'}' end -- }
    c = [[ } ]] --[[ }
    ]] d = { } e = [=[ " ]] } ]=]
}
location ~ a\\\${ return 404; }
server { if (\$a = "}") { return 404; } location ~ "^/x{2}" { mcds_cache on; } }
EOT

is($mcds->run('check')->{code}, 0, 'quotes, comments, Lua')
    or diag($mcds->run('check')->{err});

conf('mcds_pool a { server ' . server($m1) . "; }\nmcds_pool b { server "
    . "127.0.0.1:$gone; }", 'server { mcds_use a; mcds_log l combined; '
    . 'location / { mcds_use b; mcds_table_api t; } }');

is($mcds->run('log', 'read', 'l')->{code}, 0, 'the pool of a log');
is($mcds->run('table', 'list', 't')->{code}, 3, 'and that of a table');
is($mcds->run('counter', 'get', 'x')->{code}, 2, 'of a counter none is known');
is($mcds->run('-p', 'a', 'counter', 'get', 'x')->{code}, 1, 'but is told');


# pages and locks are where all directives have theirs

conf('mcds_pool a { server ' . server($m1) . "; }\nmcds_pool b { server "
    . "127.0.0.1:$gone; }", 'server { mcds_use a; mcds_log l combined;
    location / { mcds_cache b; }
    location /b/ { mcds_use b; mcds_cache on; }
    location /c/ { mcds_cache off; mcds_lock cron; }
    location /d/ { mcds_use b; mcds_lock off; } }');

for (['get', 'http://a/', 3], ['purge', 'http://a/', 3],
    ['lock', 'show', 'cron', 1])
{
    my @command = @$_;
    my $code = pop @command;

    is($mcds->run(@command)->{code}, $code, "the pool of: @command");
}

# a directive without an argument has a pool, too

conf('mcds_pool a { server ' . server($m1) . "; }\nmcds_pool b { server "
    . "127.0.0.1:$gone; }", 'mcds_use a; server { mcds_cache on;
    location /locks/ { mcds_use b; mcds_lock_api; } }');

is($mcds->run('lock', 'show', 'cron')->{code}, 3,
    'the pool of: a bare mcds_lock_api');
is_deeply([map { [@$_{qw/ directive name pool /}] }
    grep { ($_->{directive} // '') eq 'mcds_lock_api' }
    @{$mcds->json('check')->{directives}}], [['mcds_lock_api', undef, 'b']],
    'which check lists');
is(scalar(grep { ($_->{directive} // '') eq 'mcds_cache' }
    @{$mcds->json('check')->{directives}}), 1, 'check goes on');


# what is stored in another pool makes it unknown where the rest is

for ('mcds_lock_api;', 'mcds_lock_api ttl=5s;', 'mcds_log_api l;',
    'mcds_counter_api prefix=p:;', 'mcds_counter_top viewed;',
    'mcds_array_push list $uri;', 'mcds_lock cron;')
{
    conf('mcds_pool a { server ' . server($m1) . "; }\nmcds_pool b { server "
        . "127.0.0.1:$gone; }", "server { mcds_cache a; location /b { mcds_use"
        . " b; $_ } }");

    is($mcds->run('table', 'list', 't')->{code}, 2, "in a pool of its own: $_");
}

conf('mcds_pool a { server ' . server($m1) . "; }\nmcds_pool b { server "
    . "127.0.0.1:$gone; }", 'server { location /a { mcds_cache a; }
    location /b { mcds_cache b; } }');

is($mcds->run('get', 'http://a/')->{code}, 2, 'pages are in two pools');


# counters are looked for by their keys

conf('mcds_pool a { server ' . server($m1) . "; }\nmcds_pool b { server "
    . "127.0.0.1:$gone; }", 'server { mcds_use a; mcds_log l combined;
    location /1 { mcds_counter $n key=n; }
    location /2 { mcds_use b; mcds_counter $n key=v:$uri:${host}x; }
    location /3 { mcds_use b; mcds_counter_api prefix=p:$arg_s:; }
    location /4 { mcds_use b; mcds_visitor_counter $v key=n visitor=$arg_v; }
    location /5 { mcds_use a; mcds_visitor_counter $v visitor=$arg_v key=v; }
}');

for (['counter', 'get', 'n', 1], ['counter', 'get', 'v:/a:b:c:hx', 3],
    ['counter', 'get', 'v::x', 3], ['counter', 'get', 'v:/a:b:h', 2],
    ['counter', 'get', 'v:x', 2], ['counter', 'get', 'xn', 2],
    ['counter', 'get', 'p:s:k', 3], ['counter', 'get', 'p:k', 2],
    ['counter', 'get', 'n', 'p::', 3], ['visitors', 'n', 3],
    ['visitors', 'v', 0], ['visitors', 'w', 2])
{
    my @command = @$_;
    my $code = pop @command;

    is($mcds->run(@command)->{code}, $code, "by key: @command");
}

conf('mcds_pool a { server ' . server($m1) . "; }\nmcds_pool b { server "
    . "127.0.0.1:$gone; }", 'server { location / { mcds_use a;
    mcds_counter $m key=n; mcds_counter $n; } location /b { mcds_use b;
    mcds_counter $n key=m; } }');

is($mcds->run('counter', 'get', 'n')->{code}, 1, 'one of that very key');
is($mcds->run('counter', 'get', 'm')->{code}, 3, 'another one');
is($mcds->run('counter', 'get', 'x')->{code}, 1, 'of any key');


# the window of visitors is that of the key that tells most

conf('mcds_pool main { server ' . server($m1) . '; }', 'server {
    mcds_visitor_counter $online window=10m slots=10;
    mcds_visitor_counter $readers key=page:$host$uri window=30m slots=30;
    location /1 { mcds_visitor_counter $v key=page:a:$uri window=20m slots=4; }
    location /2 { mcds_visitor_counter $v key=$host:$uri; }
    location /3 { mcds_visitor_counter $v key=q:$uri window=1h slots=6;
        mcds_visitor_counter $w key=q:$host window=60m slots=6; }
    location /4 { mcds_visitor_counter $v key=r:$uri window=30m slots=6;
        mcds_visitor_counter $w key=r:$host window=30m;
        mcds_visitor_counter $x key=r:x window=7m slots=7; }
}');

for (['page:www.example.com/a', 1800, 30], ['www.example.com', 600, 10],
    ['page:a:/x', 1200, 4], ['www.example.com:/a', 300, 5],
    ['q:x', 3600, 6], ['r:x', 420, 7],
    ['r:a', 1800, 3, '--slots=3'], ['r:a', 60, 6, '--window=60s', '--slots=6'])
{
    my ($key, $window, $slots, @options) = @$_;
    my $v = $mcds->json('visitors', @options, $key)->[0];

    is(join(' ', map { $v->{$_} // '' } qw/ window slots /), "$window $slots",
        "visitors: @options $key");
}

for ([], ['--window=30s']) {
    $r = $mcds->run('visitors', @$_, 'r:a');

    is($r->{code}, 2, "visitors: two windows, @$_");
    like($r->{err}, qr/^mcds visitors: r:a: .*--window and --slots$/m,
        'which is said');
}


# a window that no nginx takes

conf('mcds_pool main { server ' . server($m1) . '; }',
    'mcds_visitor_counter $v key=k window=4294967296 slots=4294967296;');
is($mcds->run('visitors', 'k')->{code}, 2, 'is refused');


# as strings of libmemcached have it

conf("mcds_pool main { libmemcached '--SERVER=@{[server($m1)]} "
    . "--SERVER=@{[server($small)]} --DISTRIBUTION=consistent'; }");
is($mcds->json('check')->{pools}[0]{distribution}, 'consistent',
    'distribution of a string');


# a list whose slots lie on several servers, one of which is gone

conf("mcds_pool main { server @{[server($m1)]}; server 127.0.0.1:$gone;\n"
    . ' distribution modula; }');
is($mcds->run('top', 'a')->{code}, 3, 'a part of the list may be missing');


# no configuration

my $s = Test::Mcds::Tool->new($t, '-s', server($m1) . ',' . server($small));

is($s->run('counter', 'add', $_, 7)->{code}, 0, "counter $_") for 1 .. 8;
ok((grep { /^\d$/ } $m1->keys()) && (grep { /^\d$/ } $small->keys()),
    'on both servers');

$s = Test::Mcds::Tool->new($t, '-s', '--SERVER=' . server($m1)
    . ' --SERVER=' . server($small));
is(join(' ', map { $s->json('counter', 'get', $_)->[0]{value} // '' } 1 .. 8),
    '7 7 7 7 7 7 7 7', 'the same as a string of libmemcached');
is(Test::Mcds::Tool->new($t, '-s', server($m1), '-P', 'x:')
    ->run('counter', 'set', 'k', 3)->{code}, 0, 'with a prefix');
is($m1->get('x:k'), 3, 'which is used');


# wrong usage

for (['foo'], ['get'], ['get', 'foo'], ['get', 'http://'],
    ['get', 'http://u:p@a/'], ['get', '--tag', 'a', 'http://a/'],
    ['purge'], ['purge', '--tag', 'a b'], ['counter', 'get'],
    ['counter', 'set', 'a'], ['counter', 'set', 'a', 'b'],
    ['counter', 'add', 'a', '1x'], ['table', 'foo', 'a', 'b'],
    ['table', 'get', 'a'], ['log', 'read', 'a', '--after', 'x'],
    ['--timeout', 'x', 'check'], ['--foo'], ['array', 'push', 'a'],
    ['counter', 'get', ''], ['get', '--key', ''], ['purge', '--tag='],
    ['log', 'read', 'a', '--after='], ['log', 'read', 'a', '--chunk=1ms'],
    ['counter', 'set', 'a', 1, '--ttl=4294967297'],
    ['visitors', 'a', '--window=4294967596'],
    ['counter', 'get', 'a', '--ttl=1s'], ['table', 'list', 'a', '--ttl=1s'],
    ['table', 'get', 'a', 'b', '--values'], ['table', 'foo', 'a'],
    ['table', 'add', 'a', "b\e"], ['table', 'add', 'a', "b\xff"],
    ['array', 'push', 'a', 'b', '--limit=1'], ['array', 'push', 'a', "\xff"],
    ['get', '--body', '--json', 'http://a/'], ['check', $file],
    ['-c', $file, 'check'], ['-p', 'nothing', 'check'])
{
    $r = $s->run(@$_);
    is($r->{code}, 2, "usage: @$_");
    isnt($r->{err}, '', 'says what is wrong');
}


$r = $s->run('counter', 'get', "a\x9b\xc2\x9b\e");
unlike($r->{out} . $r->{err}, qr/[^\n\x20-\x7e]/,
    'an error has no control characters');
is($s->run('check', '/dev/null')->{code}, 2, 'one source of servers');

SKIP: {
    skip 'no /dev/full', 11 if !-w '/dev/full';

    $m1->set($_, 1) for my @many = map { "full$_" } 1 .. 400;

    my $full = Test::Mcds::Tool->new($t)->to('/dev/full');
    my @servers = ('-s', server($m1));

    for ([@servers, 'counter', 'get', @many],
        [@servers, 'counter', 'get', $many[0], 'none'], ['help'], ['--version'],
        ['version'])
    {
        my $r = $full->run(@$_);

        is($r->{code}, 1, "what cannot be written is told: $$_[-1]");
        like($r->{err}, qr/cannot write to standard output/, 'in words');
    }

    is($full->run(@servers, 'lock', 'run', 'full', '--', 'true')->{code}, 0,
        'nothing is to be written');
}


# the bounds of a time are named as they are

for (['lock', 'run', 'a', '--wait=61m', '--', 'true', 'from 0 to 1h'],
    ['check', '--timeout=0', 'from 1ms to 1h'],
    ['log', 'read', 'a', '--chunk=1ms', 'from 1s to 1h'],
    ['log', 'read', 'a', '--since=0', 'from 1ms to 30d'],
    ['counter', 'set', 'a', 1, '--ttl=-5s', 'from 1s to 30d'])
{
    my $bounds = pop @$_;
    my $r = $s->run(@$_);

    is($r->{code}, 2, "wrong time: @$_");
    like($r->{err}, qr/must be a time $bounds,/, $bounds);
}

is($s->run('lock', 'run', 'a', '--wait=0', '--', 'true')->{code}, 0,
    '--wait=0');


# URLs that are none

for (['http://:80/', 'has no host'], ['http:///a', 'has no host'],
    ['http://u@a/', 'must not have a user'],
    ['http://a:80a/', 'has no port from 1 to 65535'],
    ['http://a:0/', 'has no port from 1 to 65535'],
    ['http://a:65536/', 'has no port from 1 to 65535'],
    ['http://[::1]:99999999999999999999/', 'has no port from 1 to 65535'],
    ['http://a b/', 'must not have spaces'],
    ['http://a/b c', 'must not have spaces'],
    ["http://a/b?c\x7f", 'must not have spaces'],
    ["http://a/b\r\nget x", 'must not have spaces'])
{
    my ($url, $why) = @$_;

    for my $command ('get', 'purge') {
        my $r = $s->run($command, $url);

        is($r->{code}, 2, "$command: no URL: " . $url =~ s/[^!-~]/_/gr);
        like($r->{err}, qr/the URL $why/, 'and why');
    }
}

is($s->run('get', $_)->{code}, 1, "a URL: $_")
    for 'http://a:/', 'http://a:65535/', 'http://[::1]/', 'HTTP://A?b',
        "http://a/\xc3\xa9#b c";


# the help and the manual page; of completions see tool_completion.t

my $help = $s->run('--help')->{out};
my $root = "$FindBin::Bin/..";
my $man = Test::Mcds::Tool::slurp("$root/tools/mcds.1") =~ s/\\-/-/gr;
my @options = $help =~ /--([a-z-]+)/g;
my @names = $help =~ /^  ([a-z]+) /mg;

cmp_ok(@options, '>', 20, 'options');

is(join(' ', grep { $man !~ /--$_\b/ } @options), '', 'man: all options');
is(join(' ', grep { $man !~ /^\.B[IR]? "?$_\b/m } @names), '',
    'man: all commands');

$t->done();
