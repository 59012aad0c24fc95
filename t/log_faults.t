#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_log while memcached fails: lines are kept and come later, each once,
# as many as there is room for, and what is lost is said; reloads and the end
# of workers lose none.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Log qw/ events lines frames /;

my $t = Test::Mcds->new()->not_in('many',
    'it looks at few workers');

my $m = $t->memcached('m');

# mode: a regex of commands, which are done but not answered, or refused

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;
    my ($what, $re) = split ' ', $f->mode() // '', 2;

    return if !defined $re || $line !~ /$re/;
    return "SERVER_ERROR out of memory storing object\r\n" if $what eq 'full';

    $f->default($line, $value);
    return $f->fin();
});

my $h = $t->nginx('h', <<'EOC');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        timeout 300ms;
        fail_timeout 300ms;
    }
    mcds_pool fake {
        server 127.0.0.1:%%PORT_f%%;
        timeout 1s;
        fail_timeout 300ms;
    }
    mcds_use main;

    log_format n '$arg_n';
    log_format large '$arg_n $http_x_large';

    server {
        listen 127.0.0.1:%%PORT%%;
        location = /n { mcds_log log n chunk=1h chunks=2; return 204; }
        location = /f {
            mcds_log fake n chunk=1h chunks=2 pool=fake;
            return 204;
        }
        location = /large {
            mcds_log large large chunk=1h chunks=2;
            return 204;
        }
        location = /parts {
            mcds_log parts large chunk=1h chunks=2 max_chunk=4k;
            return 204;
        }
        location = /unsized {
            mcds_log unsized large chunk=1h chunks=2 max_chunk=4k pool=fake;
            return 204;
        }
        location = /read/parts { mcds_log_api parts; }
        location = /read/n { mcds_log_api log; }
        location = /read/f { mcds_log_api fake pool=fake; }
        location = /read/large { mcds_log_api large; }
    }
}
EOC

my $n = 0;


# answers that are lost: sent again, and shown once

$h->get("/f?n=$_") for 1, 2;
ok(wait_for(sub { shown('f') eq '1 2' }, 30), 'lines');

$f->mark();
$f->tell('fin ^ms fake:\d+ ');
$h->get('/f?n=3');
ok(wait_for(sub { $f->count(qr/^ms fake:\d+ .*MA/) >= 2 }, 30),
    'an append whose answer is lost is sent again');
$f->tell('');
$h->get('/f?n=4');
ok(wait_for(sub { shown('f') eq '1 2 3 4' }, 30), 'all are shown, each once')
    or diag(shown('f'));

my @frames = frames(Keys->new($f), 'fake');

cmp_ok(scalar(grep { $_->{lines}[0] eq '3' } @frames), '>=', 2,
    'that one is stored more than once');

# ... of the add that makes the item

$f->delete($_) for Keys->new($f)->keys();
$f->tell('fin ^ms fake:\d+ .*ME');
$f->mark();
$h->get('/f?n=5');
ok(wait_for(sub { $f->count(qr/^ms fake:\d+ .*ME/) }, 30),
    'an add whose answer is lost');
$f->tell('');
ok(wait_for(sub { shown('f') =~ /5$/ }, 30), 'is shown once')
    or diag(shown('f'));

# out of memory

$f->tell('full ^ms fake:');
$f->mark();
$h->get('/f?n=6');
ok(wait_for(sub { $f->count(qr/^ms fake:/) > 1 }, 30), 'memcached is full');
$f->tell('');
ok(wait_for(sub { shown('f') =~ /5 6$/ }, 30), 'lines come when it is not')
    or diag(shown('f'));


# nobody hears how large a chunk is: a worker knows what it has written itself

$f->tell('full ^ma unsized:');
$f->mark();
many(60, sub { [$h->port(), "/unsized?n=$_[0]",
    headers => { 'X-Large' => 'x' x 1000 }] });
ok(wait_for(sub { @{[unsized()]} >= 60 }, 30), 'lines without sizes')
    or diag(scalar(@{[unsized()]}));
cmp_ok($f->count(qr/^ma unsized:/), '>', 0, 'which were refused');

my @large = grep { length($f->get($_)) > 2 * 2 * 4096 }
    grep { /^unsized:/ } Keys->new($f)->keys();

is("@large", '', 'no item is much larger than it should be');
$f->tell('');


# memcached is stopped: what it does afterwards, and what is sent again

$h->get('/n?n=' . $n++) for 1 .. 5;
ok(wait_for(sub { lines($h, '/read/n') == 5 }, 30), 'lines in memcached');

my @lines;

for my $round (1 .. 2) {
    $m->freeze();
    $h->get('/n?n=' . $n++) for 1 .. 5;
    ok($h->wait_log(qr/has failed|is down/, 30), 'memcached hangs')
        if $round == 1;
    $h->get('/n?n=' . $n++) for 1 .. 5;
    $m->cont();
    ok(wait_for(sub { @lines = lines($h, '/read/n'); @lines == $n }, 30),
        'all lines are there when it goes on') or diag(shown('n'));
}

is(join(' ', sort { $a <=> $b } @lines), join(' ', 0 .. $n - 1), 'each once');
is(order('/read/n'), 0, 'in order');


# memcached is killed, and writers are beyond the first item of a chunk

for my $part (1 .. 3) {
    ok(wait_for(sub {
        $h->get('/parts?n=before', headers => { 'X-Large' => 'x' x 2000 })
            for 1 .. 4;
        return grep { /^parts:\d+:$part$/ } $m->keys();
    }, 30), "item $part");
}

$m->kill9();
$h->get('/n?n=' . $n++) for 1 .. 10;
$m->restart();

# what it had been sent while it hung may still be on its way once more

my @late;

ok(wait_for(sub {
    @late = grep { $_ >= $n - 10 } lines($h, '/read/n');
    return @late == 10;
}, 30), 'what happened meanwhile is written later') or diag(shown('n'));
is(join(' ', sort { $a <=> $b } @late), join(' ', $n - 10 .. $n - 1),
    'each once');

$h->get('/parts?n=after') for 1 .. 4;
ok(wait_for(sub { (grep { /^after/ } lines($h, '/read/parts')) == 4 }, 30),
    'and what happens then is found')
    or diag(join ' ', sort(grep { /^parts/ } $m->keys()));


# more than there is room for

$m->kill9();

my $size = 7000;
my $sent = 3000;

$t->load(port => $h->port(), uri => '/large?n=x', clients => 4,
    requests => $sent, header => 'X-Large: ' . 'x' x $size);
$m->restart();

my $kept;

ok(wait_for(sub {
    my $lost = 0;

    $lost += $_ for $h->log() =~ /"mcds_log large" has lost (\d+) lines/g;
    $kept = kept();
    return $lost + $kept == $sent;
}, 30), 'what is not there was said to be lost');

cmp_ok($kept, '<=', 2 * 4 * 1024 * 1024 / $size, 'so much is kept');
cmp_ok($kept, '>=', 3 * 1024 * 1024 / $size, 'and not much less');
cmp_ok($h->log_count(qr/"mcds_log large" has lost/), '<=', 6,
    'it is not said for each line');


# reloads

$t->not_in('single', 'nginx cannot reload then');

my $load = $t->load(background => 1, port => $h->port(), uri => '/n?n=r',
    requests => 2000, clients => 4, rate => 500);

for (1 .. 3) {
    $h->reload();
    wait_for(sub { lines($h, '/read/n?limit=10000') > 200 * $_ }, 30);
}

my $answered = $load->wait()->{status}{204};

ok(wait_for(sub { (grep { $_ eq 'r' } lines($h, '/read/n?limit=10000'))
    == $answered }, 30), 'reloads lose no line') or diag($answered, ' ',
    scalar(lines($h, '/read/n?limit=10000')));


# the end, without memcached

$m->stop();
$h->get('/n?n=lost') for 1 .. 3;
$h->signal('QUIT');
ok($h->wait_exit(), 'nginx ends without memcached');

my $lost = 0;

$lost += $_ for $h->log() =~ /"mcds_log log" has lost (\d+) lines/g;
is($lost, 3, 'and says what it has not written');

$t->allow(qr/memcached server .* is down|is back|timed out|Connection refused/,
    qr/open socket|worker process \d+ exited/);
$t->done();


sub kept {
    return $h->get('/read/large?limit=10000&last=0&format=text')->body()
        =~ tr/\n//;
}


sub unsized {
    return map { @{$_->{lines}} } frames(Keys->new($f), 'unsized');
}


sub shown {
    my ($what) = @_;

    return join ' ', sort(lines($h, "/read/$what"));
}


sub order {
    my ($uri) = @_;

    my (%last, $wrong);

    for my $event (events($h, "$uri?first=-3600&limit=10000")) {
        my (undef, $writer, $seq) = split /-/, $event->{id};

        $wrong++ if ($last{$writer} // 0) >= $seq;
        $last{$writer} = $seq;
    }

    return $wrong // 0;
}


# a fake lists its keys in another way than memcached

package Keys;

sub new { return bless { fake => $_[1] }, $_[0] }


sub get { return $_[0]{fake}->get($_[1]) }


sub keys {
    my ($self) = @_;

    my %keys = map { $_->{key} => 1 }
        grep { ($_->{key} // '') =~ /^(fake|unsized)(:\d+)+$/ }
        $self->{fake}->log();

    return keys %keys;
}
