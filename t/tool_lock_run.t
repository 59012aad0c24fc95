#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds lock run: one command at a time on all hosts, among themselves and with
# the requests of nginx.  The lock lasts as long as the command, whose signals
# and exit code are passed on, and is never taken from another owner.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $n = $t->memcached('n');

my $a = $t->nginx('a', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        timeout 10s;
        connect_timeout 10s;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /import { mcds_lock import; mcds_return 200 done; }
        location /locks/   { mcds_lock_api; }
    }
}
EOC

my $mcds = Test::Mcds::Tool->new($t, '-c', $a->dir() . '/nginx.conf');
my $dir = $t->dir();
my $serial = 0;

# a command that says that it runs, and waits until it is told to end

sub started {
    my ($tool, @args) = @_;

    my $name = "$dir/" . ++$serial;

    system('mkfifo', "$name.fifo") == 0 or die "mkfifo\n";

    my $p = $tool->start('lock', 'run', @args, '--', 'sh', '-c',
        'echo "$MCDS_LOCK_TOKEN" > "$1.tmp"; mv "$1.tmp" "$1.token";'
        . ' read -r code < "$1.fifo"; exit "$code"', 'sh', $name);

    $p->{name} = $name;

    ok(wait_for(sub { -e "$name.token" }), "it runs: @args");

    return $p;
}

sub told {
    my ($p, $code) = @_;

    open my $fifo, '>', "$p->{name}.fifo" or die "fifo: $!\n";
    print $fifo "$code\n";
    close $fifo;

    return $p->wait();
}

sub cas { ($m->mc("mg $_[0] c") =~ /c(\d+)/)[0] // 0 }


# held while the command runs

my $p = started($mcds, 'import');
my $token = Test::Mcds::Tool::slurp("$p->{name}.token") =~ s/\s//gr;
my $lock = $mcds->json('lock', 'show', 'import')->[0];

is($lock->{state}, 'held', 'the lock is held');
is($lock->{number}, $token, 'the command knows the number of its owner');
like($a->get('/locks/import')->body(), qr/"token":$token\b/, 'so does nginx');
is($a->get('/import')->status(), 423, 'a request does not get it');

my $r = $mcds->run('lock', 'run', 'import', '--', 'touch', "$dir/twice");

is($r->{code}, 75, 'nor does another command');
like($r->{err}, qr/import: another owner holds the lock/, 'which is said');
ok(!-e "$dir/twice", 'it has not run');

is(told($p, 7), 7, 'the exit code is that of the command');
is($mcds->json('lock', 'show', 'import')->[0]{state}, 'free', 'released');
is($a->get('/import')->status(), 200, 'a request gets it now');


# it waits

$p = started($mcds, 'import', '--ttl=5s');

my $w = $mcds->start('lock', 'run', 'import', '--wait', '30', '--', 'echo',
    '-n', '');

ok(wait_for(sub { $m->stats()->{cmd_set} > 10 }), 'another one asks for it');
is(told($p, 0), 0, 'the first one ends');
is($w->wait(), 0, 'then it is the turn of the second one');

$p = started($mcds, 'import');
$r = $mcds->run('lock', 'run', 'import', '--wait=50ms', '--', 'true');
is($r->{code}, 75, 'it has waited in vain');
is(told($p, 0), 0, 'the first one ends');


# it is extended; memcached has a third of the time to answer

$p = started($mcds, 'import', '--ttl', 6);

my %cas;
ok(wait_for(sub { $cas{cas('import')} = 1; keys %cas > 3 }),
    'the lock is extended again and again');
is(told($p, 0), 0, 'and held at the end');


# signals; the command looks for them again and again, as one that comes right
# before pause() would not end it

for my $signal (qw/ TERM INT HUP USR1 /) {
    my $file = "$dir/got-$signal";

    my $s = $mcds->start('lock', 'run', 'import', '--', 'perl', '-e',
        '$SIG{$ARGV[0]} = sub { exit 9 };'
        . ' open my $f, ">", $ARGV[1]; close $f;'
        . ' select undef, undef, undef, 0.1 while 1',
        $signal, $file);

    ok(wait_for(sub { -e $file }), "it runs, $signal");
    $s->kill($signal);
    is($s->wait(), 9, 'the signal is passed on, and so is the code');
}

$p = started($mcds, 'import');
$p->kill('TERM');
is($p->wait(), 128 + 15, 'ended by a signal');

# those that the tool is told to ignore, as by nohup and by "&" in a script: the
# command ignores them, too

my @ignored = qw/ HUP INT QUIT PIPE /;

for my $signal (@ignored) {
    my $file = "$dir/ignored-$signal";

    local @SIG{@ignored} = ('IGNORE') x @ignored;

    my $s = $mcds->start('lock', 'run', 'import', '--', 'perl', '-e',
        'my $file = shift; $SIG{USR1} = sub { exit 9 };'
        . ' my @other = grep { ($SIG{$_} // "") ne "IGNORE" } @ARGV;'
        . ' open my $f, ">", $file; print $f "@other"; close $f;'
        . ' select undef, undef, undef, 0.1 while 1',
        $file, @ignored);

    ok(wait_for(sub { -e $file }), "it runs, without $signal");
    $s->kill($signal);
    $s->kill('USR1');
    is($s->wait(), 9, "$signal has no effect, USR1 is passed on");
    is($t->read_file("ignored-$signal"), '', 'the command ignores them');
}

# that of a lost terminal, as when a connection of ssh breaks: the kernel sends
# it to the leader of the session alone, which the tool is

SKIP: {
    skip 'no terminal can be made', 5 if $^O ne 'linux' || !-e '/dev/ptmx';

    my ($locked, $got) = (pack('i', 0), pack('i', 0));

    open my $screen, '+<', '/dev/ptmx' or die "ptmx: $!\n";
    ioctl $screen, 0x40045431, $locked or die "TIOCSPTLCK: $!\n";
    ioctl $screen, 0x80045430, $got or die "TIOCGPTN: $!\n";

    my $terminal = '/dev/pts/' . unpack 'i', $got;
    my $file = "$dir/got-terminal";

    my $s = $mcds->on($terminal)->start('lock', 'run', 'import', '--', 'perl',
        '-e', '$SIG{HUP} = sub { open my $f, ">", "$ARGV[0]-hup"; exit 9 };'
        . ' open my $f, ">", $ARGV[0]; print $f -t STDIN ? "yes" : "no";'
        . ' close $f; select undef, undef, undef, 0.1 while 1', $file);

    ok(wait_for(sub { -s $file }), 'it runs, on a terminal');
    is($t->read_file('got-terminal'), 'yes', 'which is its input');

    close $screen;

    ok(wait_for(sub { -e "$file-hup" }), 'HUP of the terminal is passed on')
        or $s->kill('TERM');
    is($s->wait(), 9, 'and so is the code');
    is($mcds->json('lock', 'show', 'import')->[0]{state}, 'free', 'released');
}

# of one that waits

$p = started($mcds, 'import');
my $asked = $m->stats()->{cmd_set};
$w = $mcds->start('lock', 'run', 'import', '--wait=1m', '--', 'true');
ok(wait_for(sub { $m->stats()->{cmd_set} > $asked + 3 }), 'another one waits');
$w->kill('TERM');
is($w->wait(), 128 + 15, 'and need not go on');
is(told($p, 0), 0, 'the first one has not noticed');
is($mcds->json('lock', 'show', 'import')->[0]{state}, 'free', 'it is free');

# killed

SKIP: {
    skip 'the command is not told', 2 if $^O ne 'linux';

    my $alive = "$dir/alive";

    my $s = $mcds->start('lock', 'run', 'import', '--', 'perl', '-e',
        '$SIG{TERM} = sub { unlink $ARGV[0]; exit }; open my $f, ">", $ARGV[0];'
        . ' close $f; select undef, undef, undef, 0.1 while 1', $alive);

    ok(wait_for(sub { -e $alive }), 'it runs');
    $s->kill('KILL');
    $s->wait();
    ok(wait_for(sub { !-e $alive }), 'mcds was killed: the command ends, too');

    is($mcds->run('lock', 'free', 'import')->{code}, 0, 'the lock is left');
}


# lost to another owner

$p = started($mcds, 'import', '--ttl=6s');
$m->set('import', '1 other');

is($p->wait(), 79, 'the lock was lost');
like($p->errors(), qr/import: the lock was lost/, 'which is said');
is($m->get('import'), '1 other', 'that of another owner stays');

$m->delete('import');

# ... at the end

$p = started($mcds, 'import', '--ttl=1h');
$m->set('import', '1 other');
is(told($p, 0), 79, 'lost, which is found out when it is released');
is($m->get('import'), '1 other', 'and it stays');


# what cannot run

$m->delete('import');

is($mcds->run('lock', 'run', 'import', '--', "$dir/nothing")->{code}, 127,
    'no such command');
$t->write_file('plain', '');
is($mcds->run('lock', 'run', 'import', '--', "$dir/plain")->{code}, 126,
    'not a program');
is($mcds->json('lock', 'show', 'import')->[0]{state}, 'free', 'it is free');

$r = $mcds->run('lock', 'run', 'import', '--', 'printf', '%s;', 'a b', '',
    '-x');
is($r->{out}, 'a b;;-x;', 'arguments are passed on as they are');

SKIP: {
    skip 'no /proc', 1 if !-d '/proc/self/fd';

    my $files = `exec ls /proc/self/fd < /dev/null 2> /dev/null`;

    is($mcds->run('lock', 'run', 'import', '--', 'ls', '/proc/self/fd')->{out},
        $files, 'connections to memcached are not passed on');
}

for (['import'], ['import', 'true'], ['--', 'import'], ['import', '--'],
    ['import', 'a', '--', 'true'], ['import', '--ttl=1s', '--', 'true'],
    ['import:fence', '--', 'true'], ['', '--', 'true'])
{
    is($mcds->run('lock', 'run', @$_)->{code}, 2, "usage: run @$_");
}

is($mcds->run('lock', 'show', 'import', '--ttl=5s')->{code}, 2,
    'usage: --ttl of another command');


# one of two servers dies

my $two = Test::Mcds::Tool->new($t, '--timeout', '3s', '-s',
    join ',', map { '127.0.0.1:' . $_->port() } $m, $n);

my ($here) = grep { !$two->run('lock', 'run', $_, '--', 'true')->{code}
    && $n->mc("mg $_:fence v") =~ /^VA/ } map { "key$_" } 1 .. 20;

$p = started($two, $here, '--ttl=6s');
$n->stop();

is($p->wait(), 79, 'the lock could not be extended');

is($two->run('lock', 'run', $here, '--', 'true')->{code}, 69,
    'memcached does not answer');
like($two->run('lock', 'run', $here, '--', 'touch', "$dir/none")->{err},
    qr/$here: /, 'which is said');
ok(!-e "$dir/none", 'the command does not run');

is(scalar(grep { !$two->run('lock', 'run', $_, '--', 'true')->{code} }
    map { "key$_" } 1 .. 20) > 0, 1, 'locks of the other server are there');

$t->done();
