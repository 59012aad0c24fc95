#!/usr/bin/perl

# Copyright (C) mcds authors

# A Python program with pylibmc and a PHP program with php-memcached write to
# and read from the same log as nginx.  Their classes are those of
# docs/storage.md.

use warnings;
use strict;

use Config;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Log qw/ events lines /;

my ($python) = grep { `$_ -c 'import pylibmc' 2>&1`; $? == 0 }
    qw{ /usr/bin/python3 python3 };

plan(skip_all => 'no pylibmc') if !$python;

my $output = `php -r 'new Memcached();' 2>&1`;

plan(skip_all => 'no php-memcached') if $? || $output ne '';
plan(skip_all => 'numbers of PHP have 32 bits')
    if $Config{ptrsize} == 4;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

my $m = $t->memcached('m', args => ['-I', '1m']);
my $n = $t->memcached('n', args => ['-I', '1m']);

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
events { }
http {
    %%HTTP%%

    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        server       127.0.0.1:%%PORT_n%%;
        distribution ketama;
    }

    log_format nginx escape=none 'from nginx $http_x_odd';

    server {
        listen 127.0.0.1:%%PORT%%;
        location = /write { mcds_log log nginx max_chunk=4k; return 204; }
        location = /log { mcds_log_api log; }
    }
}
EOC

open my $fh, '<', "$FindBin::Bin/../docs/storage.md"
    or die "storage.md: $!\n";
my $readme = do { local $/; <$fh> };
my ($section) = $readme =~ /^### Logs\n(.*?)^### /ms;
my %code;

$code{$1} .= $2 while $section =~ /^```(\w+)\n(.*?)^```/msg;

ok($code{python} && $code{php}, 'there are classes in docs/storage.md');

my $servers = join ', ', map { '"127.0.0.1:' . $t->port($_) . '"' } qw/ m n /;

my $py = $t->write_file('client.py', 'import os, json, socket, struct, sys, '
    . "time, zlib\nimport pylibmc\n\n$code{python}\n"
    . qq{mc = pylibmc.Client([$servers],
    behaviors={"ketama_weighted": True, "cas": True})
log = Log(mc, "log")
exec(sys.argv[1])
});

my $php = $t->write_file('client.php', "<?php\n$code{php}\n"
    . '$m = new Memcached();'
    . '$m->setOption(Memcached::OPT_COMPRESSION, false);'
    . '$m->setOption(Memcached::OPT_LIBKETAMA_COMPATIBLE, true);'
    . join('', map { '$m->addServer("127.0.0.1", ' . $t->port($_) . ');' }
        qw/ m n /) . '$log = new Log($m, "log"); eval($argv[1]);');

my $odd = "\xff\x01 x";


# all write, all read

$h->get('/write', headers => { 'X-Odd' => $odd });
ok(wait_for(sub { lines($h, '/log') == 1 }, 5), 'nginx writes');
python('log.write(b"from Python \xff\x00\n"); log.write(b"")');
php('$log->write("from PHP \xff\x00\n"); $log->write("again");');

my @seen = sort(map { $_->{line} } events($h, '/log'));

is_deeply(\@seen, ['', 'again', "from PHP \x{fffd}\0\n",
    "from Python \x{fffd}\0\n", "from nginx \x{fffd}\x01 x"], 'nginx reads');

my $want = join ',', sort map { unpack 'H*', $_ } '', 'again',
    "from PHP \xff\0\n", "from Python \xff\0\n", "from nginx $odd";

is(sorted(python('print(",".join(line.hex() for when, host, line in '
    . 'log.read(time.time() - 60, time.time() + 1)))')), $want,
    'Python reads');
is(sorted(php('echo implode(",", array_map(fn($line) => bin2hex($line["line"]),'
    . ' $log->read(time() - 60, time() + 1)));')), $want, 'so does PHP');


# many, in several items

$h->get('/write', headers => { 'X-Odd' => "$_ " . 'x' x 1000 }) for 1 .. 20;
ok(wait_for(sub { lines($h, '/log') == 25 }, 5), 'more of them');
python('for i in range(60): log.write(b"p" * 15000)');
php('for ($i = 0; $i < 60; $i++) $log->write(str_repeat("h", 15000));');

is(scalar(lines($h, '/log')), 145, 'nginx reads all');
is(python('print(len(log.read(time.time() - 100, time.time() + 1)))'), 145,
    'so does Python');
is(php('echo count($log->read(time() - 100, time() + 1));'), 145,
    'so does PHP');
cmp_ok(scalar(grep { /^log:\d+:\d+$/ } $m->keys(), $n->keys()), '>=', 2,
    'in several items');

# an interval to the millisecond, in the order of time

my @times = map { $_->{time} } events($h, '/log');

is(python("print(len(log.read($times[3], $times[9])))"),
    scalar(lines($h, "/log?first=$times[3]&last=$times[9]")), 'an interval');
is(php("echo count(\$log->read($times[3], $times[9]));"),
    scalar(lines($h, "/log?first=$times[3]&last=$times[9]")), 'in PHP');
is(join(' ', sort { $a <=> $b } @times), "@times", 'in the order of time');


# what lies between frames, and frames that are there twice

my %item = map { my $server = $_; map { /^log:[\d:]+$/
    ? ($_ => $server->get($_)) : () } $server->keys() } $m, $n;
my ($key) = sort { length $item{$a} <=> length $item{$b} } keys %item;

python(qq{item = mc.get("$key")
part = item[:(1000000 - len(item)) // 2]
mc.append("$key", b"MCDLforeign" + part + part[:-1])
});
is(python('print(len(log.read(time.time() - 100, time.time() + 1)))'), 145,
    'Python leaves out what is foreign or known');
is(php('echo count($log->read(time() - 100, time() + 1));'), 145,
    'so does PHP');
is(scalar(lines($h, '/log')), 145, 'so does nginx');

$t->done();


sub sorted { return join ',', sort split /,/, $_[0], -1 }


sub python { return run($python, $py, @_) }


sub php { return run('php', $php, @_) }


sub run {
    my (@command) = @_;

    open my $pipe, '-|', @command or die "$command[0]: $!\n";

    my $text = do { local $/; <$pipe> } // '';

    close $pipe;
    die "$command[0] failed\n" if $?;
    chomp $text;

    return $text;
}
