#!/usr/bin/perl

# Copyright (C) mcds authors

# Wrong pools are found by nginx -t, which names the parameter, its value, the
# pool, and the file and line.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

# lines of a block, each with what is said about the last one of them

my $host = 'server 127.0.0.1:11211;';
my @many = map { "server 127.0.0.1:$_;" } 1 .. 101;
my $string = '--SERVER=127.0.0.1:11211';

my @blocks = (
    [$host, 'server;' => 'invalid number of arguments of "server"'],
    ['server 127.0.0.1 weight=2 down x;' => 'invalid number of arguments'],
    ['server 127.0.0.1 weight=2 x;' => 'must be weight=number or "down" in '
        . '"server 127.0.0.1 weight=2 x"'],
    ['server 127.0.0.1 Down;' => 'must be weight=number or "down"'],
    ['server 127.0.0.1 down down;' => '"down" is duplicate'],
    ['server 127.0.0.1 weight=1 weight=1;' => '"weight" is duplicate'],
    ['server 127.0.0.1:0 down;' => 'invalid port in server "127.0.0.1:0"'],
    ['server unix: down;' => 'no path in the unix domain socket'],
    ['server "";' => '"server "'],
    ['server unix:;' => 'no path in the unix domain socket in server "unix:"'],
    ['server 127.0.0.1:0;' => 'invalid port in server "127.0.0.1:0"'],
    ['server 127.0.0.1:70000;' => 'invalid port in server'],
    ['server 127.0.0.1:;' => 'invalid port in server'],
    ['server 127.0.0.1:x;' => 'invalid port in server'],
    ['server 127.0.0.1:-1;' => 'invalid port in server'],
    ['server [::1;' => 'invalid host in server'],
    ['server 127.0.0.1:11211/x;' => 'invalid host in server'],
    ['server :11211;' => 'no host in server'],
    ['server 999.999.999.999;' => 'host not found in server'],
    [$host, $host => 'duplicate server "127.0.0.1:11211"'],
    [$host, 'server 127.0.0.1;' => 'duplicate server "127.0.0.1"'],
    ['server [::1];', 'server [::1]:11211;'
        => 'duplicate server "\[::1\]:11211"'],
    ['server 127.0.0.1 weight=0;' => 'weight must be a number from 1 to 1000'],
    ['server 127.0.0.1 weight=-1;' => 'weight must be a number'],
    ['server 127.0.0.1 weight=1001;' => 'weight must be a number'],
    ['server 127.0.0.1 weight=99999999999999999999;' => 'weight must be'],
    ['server 127.0.0.1 weight=x;' => 'weight must be a number'],
    ['server 127.0.0.1 weight=;' => 'must be weight=number'],
    ['server 127.0.0.1 wight=2;' => 'must be weight=number'],
    [@many => 'more than 100 servers'],
    ['distribution;' => 'invalid number of arguments of "distribution"'],
    ['distribution random;' => 'must be "modula"'],
    ['distribution KETAMA;' => 'must be "modula", "modula_crc", "ketama", '
        . '"consistent" or "nginx_consistent"'],
    ['distribution nginx_consistent 1;' => 'invalid number of arguments'],
    ['distribution "";' => 'must be "modula"'],
    ['distribution ketama;', 'distribution modula;' =>
        '"distribution" is duplicate'],
    ['prefix ' . 'p' x 129 . ';' => 'at most 128 printable'],
    ['prefix "a b";' => 'without spaces'],
    ["prefix \"a\tb\";" => 'printable'],
    ["prefix \"\xc3\xa4\";" => 'printable'],
    ['prefix a;', 'prefix b;' => '"prefix" is duplicate'],
    (map {
        ["$_;" => "invalid number of arguments of \"$_\""],
        ["$_ 1 2;" => "invalid number of arguments of \"$_\""],
        ["$_ 0;" => 'must be a time above 0'],
        ["$_ -1;" => 'must be a time'],
        ["$_ 1w2x;" => 'must be a time'],
        ["$_ \"\";" => 'must be a time'],
        ["$_ 99999999999999999999;" => 'must be a time'],
        ["$_ 1s;", "$_ 2s;" => "\"$_\" is duplicate"],
    } qw/ timeout connect_timeout fail_timeout /),
    (map {
        ["$_ -1;" => 'invalid number'],
        ["$_ 1k;" => 'invalid number'],
        ["$_ 99999999999999999999;" => 'invalid number'],
        ["$_ \"\";" => 'invalid number'],
        ["$_ 1;", "$_ 1;" => "\"$_\" is duplicate"],
    } qw/ max_fails max_pending /),
    ['max_pending 0;' => 'invalid number'],
    (map { ["replicas $_;" => 'must be a number from 1 to 4'] }
        0, 5, -1, 'two', '""'),
    ['eject yes;' => 'must be "on" or "off"'],
    ['max_pending 10 0;' => 'invalid size'],
    ['max_pending 10 1z;' => 'invalid size'],
    ['max_pending 10 1k 1k;' => 'invalid number of arguments'],
    ['keepalives 8;' => 'unknown parameter "keepalives"'],
    ['Server 127.0.0.1;' => 'unknown parameter "Server"'],
    [$host, "libmemcached $string;" => 'cannot be combined with "server"'],
    ["libmemcached $string;", $host =>
        'cannot be combined with "libmemcached"'],
    ["libmemcached $string;", 'distribution ketama;' =>
        'must be set in the string'],
    (map { ["distribution $_;", "libmemcached $string;" =>
        'cannot be combined with "distribution"'] } 'ketama', 'modula'),
    ["libmemcached $string;", "libmemcached $string;" => 'is duplicate'],
);

# strings of libmemcached, among them those that it takes and should not

my @strings = (
    '' => 'empty', '  ' => 'empty', '--HASH=MD5' => 'no --SERVER',
    "$string INCLUDE /etc/passwd" => 'INCLUDE.* reads another file',
    "$string include /etc/passwd" => 'include.* reads another file',
    "--CONFIGURE-FILE=/etc/passwd $string" => 'reads another file',
    "$string RESET" => '"RESET" undoes', "$string END" => '"END" ends',
    "$string end --SERVER=x" => '"end" ends',
    "$string DEBUG" => '"DEBUG" has no', "$string ERROR" => '"ERROR" has no',
    "$string --USE-UDP" => '"--USE-UDP" is not supported',
    "$string --BINARY-PROTOCOL" => 'is not supported',
    "$string --BUFFER-REQUESTS" => 'is not supported',
    "$string --POOL-MIN=2" => 'has no meaning',
    "$string --DISTRIBUTION=random" => 'cannot find a key again',
    "$string --RANDOMIZE-REPLICA-READ" => 'is not supported',
    "$string --NUMBER-OF-REPLICAS=1" => 'is not supported',
    "$string --HASH-WITH-NAMESPACE" => 'is not supported',
    "$string --REMOVE-FAILED-SERVERS=1" => 'is not supported',
    "$string --NAMESPACE=site" => 'use "prefix"',
    "$string --SERVER=127.0.0.1:70000" => 'invalid port in "--SERVER=127.0.0.1',
    "$string --SERVER=127.0.0.2:0" => 'invalid port', "$string:0" => 'port',
    '--SERVER=127.0.0.1:x' => 'invalid port',
    '--SERVER=[::1]:11211' => 'use "server"', '--SERVER=ab' => 'libmemcached',
    '--SERVER=' => 'no --SERVER', '--SERVER=999.999.999.999' => 'not found',
    "$string --NONSENSE" => 'libmemcached does not accept it: .*UNKNOWN',
    "$string --HASH=HSIEH" => 'libmemcached does not accept it: --HASH',
    "$string $string" => 'duplicate server', "$string\x01" => 'control char',
    'nonsense' => 'no --SERVER', '-SERVER=127.0.0.1' => 'no --SERVER',
    '--SOCKET=/tmp/x' => 'libmemcached does not accept it',
    join(' ', map { "--SERVER=127.0.0.1:$_" } 1 .. 101) => 'more than 100',
);

while (my ($text, $re) = splice @strings, 0, 2) {
    push @blocks, ["libmemcached \"$text\";" => $re];
}

for (@blocks) {
    my @lines = @$_;
    my $re = pop @lines;
    my ($word) = $lines[-1] =~ /^(\w+)/;
    my ($value) = $lines[-1] =~ /^server \S+ (\S+);/ ? $1
        : $lines[-1] =~ /^\w+ "?([^";]*)/;

    # the shape of a line is told without its value, as nginx does

    $value = '' if $re =~ /number of arg|is duplicate|unknown/
        || length $value > 500;

    # the block begins in line 6

    refused($lines[-1], 6 + @lines, $re, $word, $value // '',
        http => join("\n", 'mcds_pool a {', @lines, '}'));
}

my @heavy = map { "server 127.0.0.1:$_ weight=1000;" } 1 .. 11;

refused("weights of $_", 6 + @heavy + 2, 'the weights of all servers are '
    . 'more than 10000 together', 'mcds_pool', 'a', http =>
    join("\n", 'mcds_pool a {', @heavy, "distribution $_;", '}'))
    for qw/ modula_crc nginx_consistent /;

refused('no servers', 7, 'mcds_pool "a": no servers', 'mcds_pool', 'a',
    http => "mcds_pool a {\n}");
refused('no servers, but others', 8, 'no servers', 'mcds_pool', 'a',
    http => "mcds_pool a {\ntimeout 1s;\n}");
refused('more replicas than servers', 9, '"replicas 2" needs as many servers',
    'mcds_pool', 'a', http => "mcds_pool a {\n$host\nreplicas 2;\n}");
refused('eject without ketama', 9, '"eject" needs "distribution ketama"',
    'mcds_pool', 'a', http => "mcds_pool a {\n$host\neject on;\n}");
refused('eject and replicas', 12, '"eject" and "replicas" exclude each other',
    'mcds_pool', 'a', http => "mcds_pool a {\n$host\nserver 127.0.0.2;\n"
    . "distribution ketama;\nreplicas 2;\neject on;\n}");
refused('no name', 6, 'number of arguments', 'mcds_pool', '',
    http => "mcds_pool {\n$host\n}");
refused('two names', 6, 'number of arguments', 'mcds_pool', '',
    http => "mcds_pool a b {\n$host\n}");
refused('no block', 6, 'no opening', 'mcds_pool', '', http => 'mcds_pool a;');
refused("name $_", 6, "pool name \"$_\" is reserved", 'pool', $_,
    http => "mcds_pool $_ {\n$host\n}") for qw/ on off /;
refused('two of a name', 9, 'duplicate mcds_pool "a"', 'mcds_pool', 'a',
    http => "mcds_pool a {\n$host\n}\nmcds_pool a {\n$host\n}");
refused('in a server', 9, '"mcds_pool" directive is not allowed', 'mcds_pool',
    '', server => "mcds_pool a {\n$host\n}");
like($t->conf_error("%%GLOBALS%%\nevents { }\nhttp {\nmcds_pool a { $host\n"),
    qr/unexpected end of file, expecting "\}" in .*nginx.conf:5/, 'no end');


# and what is right

for (
    ['server 127.0.0.1;'], ['server 127.0.0.1:1 weight=1000;'],
    ['server [::1];'], ['server [::1]:11212;'], ['server unix:/tmp/x.sock;'],
    ['server localhost:11211;'],
    [@many[0 .. 99], 'distribution ketama;'],
    ['prefix ' . 'p' x 128 . ';', $host], ['prefix "";', $host],
    ['distribution ketama;', 'server 127.0.0.1 weight=2;', 'timeout 1s;',
        'connect_timeout 1;', 'fail_timeout 1h;', 'max_fails 0;',
        'max_pending 1 1m;', 'server 127.0.0.2 weight=3;'],
    ['server 127.0.0.1 down;'],
    ['server 127.0.0.2 down weight=3;', $host, 'distribution ketama;'],
    ['server no-such-host.invalid:11211 weight=2 down;', $host,
        'distribution modula;'],
    (map { ["distribution $_;", @heavy] } qw/ modula ketama consistent /),
    (map { ["distribution $_;", @heavy[0 .. 9]] }
        qw/ modula_crc nginx_consistent /),
    (map { ["distribution $_;", @many[0 .. 99]] }
        qw/ modula modula_crc ketama consistent nginx_consistent /),
    ["libmemcached \"$string\n     --SERVER=127.0.0.2:11211/?3 \";"],
    ["libmemcached '$string --HASH=MD5 --DISTRIBUTION=consistent "
        . "--POLL-TIMEOUT=300 --SOCKET=\"/tmp/x\"';", 'prefix x:;'],
) {
    is($t->conf_error(http => join("\n", 'mcds_pool a {', @$_, '}')), '',
        "right: $_->[0]" =~ s/\n.*//sr);
}

# a handle of libmemcached is given back when a later line is refused

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool a { libmemcached "$string"; }
    server {
        listen 127.0.0.1:%%PORT%%;
    }
}
EOT

my $conf = $h->{conf};

$h->conf($conf =~ s/";/"; timeout x;/r);
ok(!$h->reload(), 'a wrong reload is refused');
$h->conf($conf);
ok($h->reload(wait_old => 1), 'a right one is taken');

$t->allow(qr/must be a time above 0/);
$t->done();


sub refused {
    my ($name, $line, $re, $word, $value, %part) = @_;

    my $out = $t->conf_error(%part);
    my @emerg = $out =~ /^(.*\[emerg\].*(?:\n(?!nginx:).*)*)/mg;
    my @missing;

    $name = substr $name, 0, 60 if length $name > 60;
    $name =~ s/[^ -~]/?/g;

    push @missing, scalar(@emerg) . ' lines' if @emerg != 1;
    push @missing, 'what' if $out !~ /$re/s;
    push @missing, 'the word' if index($out, $word) < 0;
    push @missing, 'the value' if index($out, $value) < 0;
    push @missing, 'the line' if $out !~ /nginx\.conf:$line$/m;
    push @missing, 'a clean end' if $out =~ /Sanitizer|signal|->|\(0x/;

    is("@missing", '', $name) or diag($out);
}
