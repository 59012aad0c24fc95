#!/usr/bin/perl

# Copyright (C) mcds authors

# A Python program with pylibmc and a PHP program with php-memcached share locks
# with nginx: each refuses the others, and the numbers of all of them rise.
# Their classes are those of docs/storage.md.

use warnings;
use strict;

use Config;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my ($python) = grep { `$_ -c 'import pylibmc' 2>&1`; $? == 0 }
    qw{ /usr/bin/python3 python3 };

plan(skip_all => 'no pylibmc') if !$python;

my $output = `php -r 'new Memcached();' 2>&1`;

plan(skip_all => 'no php-memcached') if $? || $output ne '';
plan(skip_all => 'numbers of PHP and pylibmc have 32 bits')
    if $Config{ptrsize} == 4;

my $t = Test::Mcds->new();

my @m = map { $t->memcached($_) } qw/ m n /;
my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { body => $req->{headers}{'x-token'} };
});

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%

    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        server       127.0.0.1:%%PORT_n%%;
        distribution ketama;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            mcds_lock        $arg_key;
            proxy_set_header X-Token $mcds_lock_token;
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
        }

        location = /wait {
            mcds_lock        $arg_key wait=20s;
            proxy_set_header X-Token $mcds_lock_token;
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
        }

        location /locks/ { mcds_lock_api; }
    }
}
EOC

open my $fh, '<', "$FindBin::Bin/../docs/storage.md"
    or die "storage.md: $!\n";
my $readme = do { local $/; <$fh> };
my ($section) = $readme =~ /^### Locks\n(.*?)^### /ms;
my %code;

# the second one of Python is an example

$code{$code{$1} ? 'with' : $1} = $2
    while ($section // '') =~ /^```(\w+)\n(.*?)^```/msg;

ok($code{python} && $code{php}, 'there are classes in docs/storage.md');

my $servers = join ', ', map { '"127.0.0.1:' . $_->port() . '"' } @m;

# each is told to go on by a line; what it prints is asked for line by line

my $py = $t->write_file('client.py', "import os, sys, time\n"
    . "import pylibmc\n\n$code{python}\n"
    . qq{mc = pylibmc.Client([$servers],
    behaviors={"ketama_weighted": True, "cas": True})
lock = Lock(mc, sys.argv[1], int(sys.argv[2]))
for line in sys.stdin:
    done = getattr(lock, line.strip())()
    print("yes" if done else "no", lock.number or 0, flush=True)
});

my $php = $t->write_file('client.php', "<?php\n$code{php}\n"
    . '$m = new Memcached();'
    . '$m->setOption(Memcached::OPT_COMPRESSION, false);'
    . '$m->setOption(Memcached::OPT_LIBKETAMA_COMPATIBLE, true);'
    . join('', map { '$m->addServer("127.0.0.1", ' . $_->port() . ');' } @m)
    . '$lock = new Lock($m, $argv[1], (int) $argv[2]);'
    . 'while (($line = fgets(STDIN)) !== false) {'
    . '$done = $lock->{trim($line)}();'
    . 'echo $done ? "yes" : "no", " ", $lock->number(), "\n"; }');

my %start = (
    Python => sub { start($python, $py, @_) },
    PHP => sub { start('php', $php, @_) },
);

# one after the other, on keys of both servers

for my $key ('import', 'export', 'orders:17') {
    my @numbers;

    for (1, 2) {
        push @numbers, $h->get("/?key=$key")->body();

        for my $name (sort keys %start) {
            my $c = $start{$name}->($key, 30);
            my ($done, $number) = $c->('acquire');

            is($done, 'yes', "$key: $name has it");
            push @numbers, $number;
            is($h->get("/?key=$key")->status(), 423, "$key: nginx does not");
            like($h->get("/locks/$key")->body(),
                qr/"owner":"[0-9a-f]{32}","token":$number,"ttl":\d/,
                "$key: nginx tells who");

            my $other = $start{$name eq 'PHP' ? 'Python' : 'PHP'}->($key, 30);

            is(($other->('acquire'))[0], 'no', "$key: the other does not");
            is(($c->('extend'))[0], 'yes', "$key: extended");
            is(($c->('release'))[0], 'yes', "$key: released");
            is(($c->('release'))[0], 'no', "$key: once");
        }
    }

    is(join(' ', @numbers), join(' ', sort { $a <=> $b } @numbers),
        "$key: numbers rise");
    is(scalar(grep { /^\d{16}$/ } @numbers), 6, "$key: all of them");
    ok(wait_for(sub { !grep { defined $_->get($key) } @m }), "$key: free");
}


# nginx has it

for my $name (sort keys %start) {
    my $c = $start{$name}->('mine', 30);

    $o->hold_path('/');
    my $p = start_get($h->port(), '/?key=mine');
    ok(wait_for(sub { $o->held('/') == 1 }), 'nginx has it');
    is(($c->('acquire'))[0], 'no', "$name is refused");
    $o->release('/');

    my $number = finish($p)->body();

    ok(wait_for(sub { !grep { defined $_->get('mine') } @m }), 'released');

    my ($done, $next) = $c->('acquire');

    is($done, 'yes', "then $name has it");
    cmp_ok($next, '>', $number, 'with a larger number');

    # nginx waits for it

    $p = start_get($h->port(), '/wait?key=mine');
    $h->get('/locks/mine');
    is($o->count('/wait'), 0, 'nginx waits');
    is(($c->('release'))[0], 'yes', "$name releases it");
    cmp_ok(finish($p)->body(), '>', $next, 'nginx has it, and a larger number');
    $o->mark();

    # whose time is over has nothing to release, nor to extend

    $c = $start{$name}->('late', 2);
    is(($c->('acquire'))[0], 'yes', "$name has it for 2 s");
    is($h->get('/wait?key=late')->status(), 200, 'then nginx has it');
    is(($c->('extend'))[0], 'no', "$name cannot extend it");
    is(($c->('release'))[0], 'no', "$name cannot release it");
    $o->mark();
}


# with: until the next line

my $with = $t->write_file('with.py', "import os, sys, time\n"
    . "import pylibmc\n\n$code{python}\n"
    . qq{mc = pylibmc.Client([$servers],
    behaviors={"ketama_weighted": True, "cas": True})

def block():
    with Lock(mc, "with", 30) as lock:
        print("in", lock.number, flush=True)
        word = sys.stdin.readline().strip()
        if word == "extend":
            print("yes" if lock.extend() else "no", flush=True)
            word = sys.stdin.readline().strip()
        if word == "fail":
            raise ValueError()

def example():
    parts = [1, 2, 3]

    def load(part, token):
        print(part, token == int(mc.get("import").split()[0]), end=" ")

@{[$code{with} =~ s/^/    /mgr]}
for line in iter(sys.stdin.readline, ""):
    try:
        example() if line == "example\\n" else block()
        print("out", flush=True)
    except Exception as e:
        print(type(e).__name__, e, flush=True)
});

my $block = start($python, $with);
my ($in, $token) = $block->('begin');

is($in, 'in', 'with: it has the lock');
like($h->get('/locks/with')->body(), qr/"token":$token,"ttl":2\d\b/,
    'which is that one');
is_deeply([start($python, $with)->('begin')],
    [qw/ LockError with has another owner /], 'another one has not');
is(($block->('extend'))[0], 'yes', 'extended');
is(($block->('end'))[0], 'out', 'the end');
is(join(' ', $block->('example')), '1 True 2 True 3 True out',
    'the example of the manual');
is($h->get('/?key=with')->status(), 200, 'released');

for my $row (['end', 'LockError with was lost'], ['fail', 'ValueError']) {
    my ($word, $said) = @$row;

    begin();

    my $server;

    wait_for(sub { ($server) = grep { defined $_->get('with') } @m });
    $server->set('with', '7 other', 30);
    is(($block->('extend'))[0], 'no', "$word: lost");
    is(join(' ', $block->($word)), $said, "$word: $said");
    is($server->get('with'), '7 other', "$word: the next owner keeps it");
    $server->delete('with');
}

begin();
is(join(' ', $block->('fail')), 'ValueError', 'an exception');
is($h->get('/?key=with')->status(), 200, 'and released');

$t->done();


# nginx releases its lock when the response is on its way

sub begin { wait_for(sub { ($block->('begin'))[0] eq 'in' }) }


# a program, as a sub that gives it a line and returns the words of its answer

sub start {
    my (@command) = @_;

    pipe my $in, my $to or die "pipe: $!\n";
    pipe my $from, my $out or die "pipe: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        open STDIN, '<&', $in;
        open STDOUT, '>&', $out;
        close $_ for $to, $from;
        exec @command or kill KILL => $$;
    }

    close $_ for $in, $out;
    $to->autoflush(1);

    return sub {
        print $to "$_[0]\n";

        my $line = <$from>;

        return split ' ', $line // 'died 0';
    };
}
