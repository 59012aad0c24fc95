#!/usr/bin/perl

# Copyright (C) mcds authors

# Replies that are no replies, or not quite: lengths that cannot be, lines
# without an end, flags that nobody asked for, errors of all kinds, bytes that
# come too early or too late, a server that reads nothing.  Each is taken as it
# was meant or not at all; what is not taken ends its connection, and nobody
# waits for that.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at one worker')
    ->allow(qr/memcached sent/);

# more than the buffers of two sockets hold

my $big = 7_000_000;

my $o = $t->origin('o', sub { return { body => $_[1]->{path} =~ /big/
    ? 'x' x $big : 'origin' } });

# what may be said in the place of an answer: name, what is expected of a
# counter ("-": no number), whether the connection ends

my $error = 'cannot increment or decrement non-numeric value';

my %number = ('6   ' => 6, 0 => 0, '07' => 7, '6' . ' ' x 30 => 6,
    '18446744073709551615' => '18446744073709551615');

my @odd = (

    # P05
    ['LF in front', '-', 1, sub { "\n$_[0]" }],
    ['CR in front', '-', 1, sub { "\r$_[0]" }],
    ['space in front', '-', 1, sub { " $_[0]" }],
    ['empty line in front', '-', 1, sub { "\r\n$_[0]" }],
    ['LF alone', '-', 1, sub { $_[0] =~ s/\r\n/\n/r }],
    ['CR CR LF', '-', 1, sub { $_[0] =~ s/\r\n/\r\r\n/r }],
    ['LF behind the value', '-', 1, sub { $_[0] =~ s/\r\n\z/\n\n/r }],
    ['no end of the value', '-', 1, sub { $_[0] =~ s/\r\n\z/xx/r }],
    ['NUL in the line', '-', 1, sub { $_[0] =~ s/ k/\0k/r }],

    # P04
    ['more behind it', '5', 1, sub { "$_[0]\0" . 'x' x 1024 . 'EXTRA' }],
    ['one byte more', '5', 1, sub { "$_[0]\0" }],
    ['a second answer', '5', 1, sub { $_[0] x 2 }],

    # P16, P17
    (map { my $len = $_; ["length \"$len\"", '-', 1,
        sub { $_[0] =~ s/^VA \d+/VA $len/r }] } '', '0', '-1', '+5', '05',
        '0x10', ' 5', '2147483647', '2147483648', '4294967296',
        '9223372036854775807', '9223372036854775808', '18446744073709551615',
        '18446744073709551616', 1 . 0 x 30, 'a', '1a', '1,0'),
    ['length without the value', '-', 1, sub { $_[0] =~ s/^VA 1/VA/r }],

    # P18
    ['64 KB without a line', '-', 1, sub { 'HD ' . 'x' x 65536 }],
    ['a line of 3 KB', '-', 1, sub { $_[0] =~ s/\r\n/' W' x 1500 . $&/er }],
    ['a key of 251', '-', 1, sub { $_[0] =~ s/ k\S+/' k' . 'x' x 251/er }],

    # P19
    ['other order', '5', 0, sub { $_[0] =~ s/( k\S+)( O\w+)/$2$1/r }],
    ['other flags', '5', 0, sub { $_[0] =~ s/ k/ c18446744073709551615 t-1 k/r
    }],
    ['W, Z and X', '5', 0, sub { $_[0] =~ s/\r\n/ W Z X\r\n/r }],
    ['a space behind', '5', 0, sub { $_[0] =~ s/\r\n/ \r\n/r }],
    ['two spaces behind', '-', 1, sub { $_[0] =~ s/\r\n/  \r\n/r }],
    ['two spaces', '-', 1, sub { $_[0] =~ s/ k/  k/r }],
    ['k twice', '-', 1, sub { $_[0] =~ s/ k\S+/$&$&/r }],
    ['O twice', '-', 1, sub { $_[0] =~ s/ O\S+/$&$&/r }],
    ['c twice', '-', 1, sub { $_[0] =~ s/\r\n/ c1 c1\r\n/r }],
    ['W twice', '-', 1, sub { $_[0] =~ s/\r\n/ W W\r\n/r }],
    ['unknown flag', '-', 1, sub { $_[0] =~ s/\r\n/ y\r\n/r }],
    ['base64 key', '-', 1, sub { $_[0] =~ s/\r\n/ b\r\n/r }],
    ['cas of 2^64', '-', 1, sub { $_[0] =~ s/\r\n/ c18446744073709551616$&/r }],
    ['cas of -1', '-', 1, sub { $_[0] =~ s/\r\n/ c-1\r\n/r }],
    ['cas of nothing', '-', 1, sub { $_[0] =~ s/\r\n/ c\r\n/r }],
    ['TTL of -2', '-', 1, sub { $_[0] =~ s/\r\n/ t-2\r\n/r }],
    ['flags of 2^32', '-', 1, sub { $_[0] =~ s/\r\n/ f4294967296\r\n/r }],
    ['opaque in upper case', '-', 1, sub { $_[0] =~ s/ O\w+/ OAB/r }],
    ['opaque with a zero', '-', 1, sub { $_[0] =~ s/ O/ O0/r }],
    ['lower case', '-', 1, sub { lcfirst $_[0] }],
    ['another code', '-', 1, sub { $_[0] =~ s/^VA/XX/r }],
    ['HD for VA', '-', 1, sub { $_[0] =~ s/^VA \d+(.*?\r\n).*/HD$1/sr }],
    ['MN', '-', 1, sub { "MN\r\n" }],
    ['VERSION', '-', 1, sub { "VERSION 1.6.18\r\n" }],
    ['the classic dialect', '-', 1, sub { "5\r\n" }],

    # P20
    (map { my $text = $_; ["number \"$text\"", $number{$text} // '-', 0,
        sub { $_[0] =~ s/^VA \d+(.*?\r\n).*/'VA ' . length($text)
            . "$1$text\r\n"/esr }] }
        sort(keys %number), '', ' ', ' 6', '-1', '+1', '6 6', "6\r\n", "6\0",
        'abc', '1e3', '0x10', '18446744073709551616', '99999999999999999999',
        1 . 0 x 24),

    # P21
    ['ERROR', '-', 1, sub { "ERROR\r\n" }],
    ['CLIENT_ERROR', '-', 1, sub { "CLIENT_ERROR bad command line\r\n" }],
    ['not a number', '-', 0, sub { "CLIENT_ERROR $error\r\n" }],
    ['SERVER_ERROR', '-', 0, sub { "SERVER_ERROR out of memory\r\n" }],
    ['too large', '-', 0,
        sub { "SERVER_ERROR object too large for cache\r\n" }],
    ['SERVER_ERROR alone', '-', 1, sub { "SERVER_ERROR\r\n" }],
    ['SERVER_ERROR with DEL', '-', 1, sub { "SERVER_ERROR \x7f\r\n" }],
);

# reads nothing of a large value but its beginning, and is already done

package Early;

our @ISA = ('Test::Mcds::Fake');

sub input {
    my ($self, $c) = @_;

    if ($self->mode() eq 'early' && $c->{in} =~ /^ms <>big\S+ \d{6,} /m) {
        my ($bytes, $end, $n) = @{$self->{told}};

        return if length $c->{in} < $bytes;

        $self->{mode} = 'was early';
        $self->put(event => 'command', line => 'early', conn => $c->{id});
        $self->queue($c, "SERVER_ERROR out of memory storing object\r\n" x $n,
            { $end => 1 });
        $self->run($c);
        return;
    }

    $self->SUPER::input($c);
}

package main;

my $f = $t->forked('Early', 'm', on_command => sub {
    my ($f, $c, $line, $value) = @_;

    my ($mode, $n) = split / /, $f->mode();

    if (($mode // '') eq 'odd' && $line =~ /^ma count /) {
        $f->{mode} = '';
        my $bytes = $f->default($line, $value);
        return $odd[$n] ? $odd[$n][3]->($bytes)
            : $bytes =~ s/^VA (\d+)/'VA ' . ($1 + 1)/er;
    }

    # errors for each command of a page

    if (($mode // '') eq 'error' && $line =~ $f->{told}[0]) {
        $f->{mode} = '';
        return $f->{told}[1];
    }

    return;
});

# P15, what t/client_foreign.t does not have

$t->fake('redis', sub { "-ERR unknown command '$_[2]'\r\n" });
$t->fake('tls', sub { ("\x15\x03\x01\0\x02\x02\x46", $_[0]->fin()) });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server    127.0.0.1:%%PORT_m%%;
        timeout   3s;
        max_fails 0;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /n {
            mcds_counter $n key=count;
            mcds_counter_durable $n off;
            mcds_return "<$n>";
        }
        location /p {
            mcds_cache on;
            mcds_cache_key $uri;
            mcds_cache_valid 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /big {
            mcds_cache on;
            mcds_cache_max_size 8m;
            mcds_cache_key big$uri;
            mcds_cache_valid 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /redis {
            mcds_use redis;
            mcds_counter $n key=count;
            mcds_return "<$n>";
        }
        location /tls {
            mcds_use tls;
            mcds_counter $n key=count;
            mcds_return "<$n>";
        }
    }
    mcds_pool redis { server 127.0.0.1:%%PORT_redis%%; timeout 3s; }
    mcds_pool tls { server 127.0.0.1:%%PORT_tls%%; timeout 3s; }
    mcds_use main;
}
EOT

my ($worker) = $h->workers();

for my $i (0 .. $#odd) {
    my ($name, $want, $closes) = @{$odd[$i]};
    my @wrong;

    $f->set('count', 4);
    $h->get('/p/warm') if !$i;

    my $closed = $h->log_count(qr/memcached sent/);

    $f->mark();
    $f->tell("odd $i");

    my $res = $h->get('/n');

    $want = '' if $want eq '-';

    push @wrong, 'got ' . $res->body() if $res->body() ne "<$want>";
    push @wrong, 'status ' . $res->status() if $res->status() != 200;
    push @wrong, 'waited' if $res->calm() > 0.7;

    $closed += $closes;

    push @wrong, 'not closed' if $closes
        && !wait_for(sub { $h->log_count(qr/memcached sent/) >= $closed });

    $f->set('count', 77);
    $res = $h->get('/n');

    push @wrong, 'then ' . $res->body() if $res->body() ne '<78>';
    push @wrong, 'closed' if $h->log_count(qr/memcached sent/) != $closed;
    push @wrong, $f->opened_count() . ' new connections'
        if $f->opened_count() != $closes;

    is("@wrong", '', $name);
}


# an announced length of one more: its end is waited for, up to the deadline

$f->tell('odd ' . @odd);
my $long = $h->get('/n');
is($long->body(), '<>', 'one byte too few: no number');
cmp_ok($long->calm(), '<', 3 + 0.3 * $t->slow(), 'one byte too few: in time');
like($h->get('/n')->body(), qr/^<\d+>$/, 'one byte too few: then as ever');


# P21: errors of each kind to each command of a page

my $page = 0;

# a worker that has not learnt of lengths that are refused, and has asked for
# what a refused store has removed, which goes by a connection of its own

sub anew {
    $h->reload(wait_old => 1);
    ($worker) = $h->workers();
    $f->mark();
    $f->tell('error', qr/^ms \S+\d /, "SERVER_ERROR out of memory\r\n");
    $h->get('/p/' . $page++);
    wait_for(sub { 2 == $f->count(qr/^ms \S+\d /) && $f->count(qr/^md/) });
}

for my $cmd (qw/ mg ms:lock ms md /) {
    anew();

    for my $text ('ERROR', 'CLIENT_ERROR bad data chunk',
        'SERVER_ERROR out of memory storing object',
        "CLIENT_ERROR $error", 'SERVER_ERROR object too large for cache')
    {
        my $uri = '/p/' . $page++;
        my $re = $cmd eq 'ms:lock' ? qr/^ms \S+:lock / : $cmd eq 'ms'
            ? qr/^ms \S+\d / : qr/^$cmd /;
        my @wrong;

        $f->mark();
        $f->tell('error', $re, "$text\r\n");

        my $res = $h->get($uri);

        push @wrong, $res->status() if $res->body() ne 'origin';
        push @wrong, 'waited' if $res->calm() > 0.7;
        push @wrong, 'no ' . $cmd if !wait_for(sub { $f->count($re) });
        my $ends = $text =~ /^SERVER/ ? 0 : 1;

        # the next one is made by who needs it, once the answer has been read

        push @wrong, $f->opened_count() . ' new connections'
            if !wait_for(sub {
                return 1 if $f->opened_count() == $ends;
                $h->get('/n') if $ends;
                return 0;
            });

        push @wrong, 'then' if $h->get('/n')->body() !~ /^<\d+>$/;

        is("@wrong", '', "$cmd: $text");
    }
}


anew();
$f->close_all();
wait_for(sub { $f->connections() <= 1 });
$h->get('/n');


# P09: bytes that nobody asked for

for my $bytes ("VA 1 kcount Off\r\n9\r\n", "EN\r\n", "\n", "\0", "MN\r\n",
    "ERROR\r\n", "SERVER_ERROR x\r\n", 'H', 'VA 1 k', 'x' x 5000)
{
    my $closed = $h->log_count(qr/memcached sent/);
    my $name = $bytes =~ s/[^ -~]+/~/gr;

    $f->hang_up();
    wait_for(sub { $f->connections() <= 1 });
    $f->mark();
    $f->push($bytes);

    ok(wait_for(sub { $f->connections() == 0 }), "idle, $name: closed");
    is($h->log_count(qr/memcached sent/), $closed + 1, 'and told');
    like($h->get('/n')->body(), qr/^<\d+>$/, "idle, $name: then as ever");
}


# P08: answers to stores that have hardly begun, also to those that have not

# a page of this size is stored in parts

my $large = $t->has('mcds large');

for my $end ($large ? qw/ fin rst stall deaf / : ()) {
    for my $bytes (1, 1000, 65000) {
        # on a connection of its own

        $f->close_all();
        $f->hang_up();
        wait_for(sub { $f->connections() == 0 });

        $f->mark();
        $f->tell('early', $bytes, $end, 100);

        my $name = "early, $bytes bytes, $end";
        my @p = map { start_get($h->port(), "/big/$_/$end$bytes") } 1 .. 4;

        is(join(' ', map { length(finish($_)->body()) } @p),
            join(' ', ($big) x 4), "$name: served");
        ok(wait_for(sub { $f->count(qr/^early/) }), "$name: it was");
        like($h->get('/n')->body(), qr/^<\d+>$/, "$name: counted");
        is($h->get('/p/warm')->body(), 'origin', "$name: a page");
    }
}

# more than what the kernel takes at once, sooner or later

my $before = qr/memcached sent a reply before the command was sent/;

ok(wait_for(sub {
    $f->tell('early', 65000, 'rst', 100);
    my @p = map { start_get($h->port(), "/big/$_/" . $page++) } 1 .. 6;
    finish($_) for @p;
    return $h->log_has($before);
}, 30 * $t->slow()), 'early: some were told so') if $large;
$f->tell('');


# P15

is($h->get('/redis')->body(), '<>', 'redis: no number') for 1 .. 2;
ok($h->log_has(qr/does not speak the meta.*"-ERR unknown command/),
    'redis: told');
is($h->get('/tls')->body(), '<>', 'TLS: no number') for 1 .. 3;
ok($h->log_has(qr/"tls" is down/), 'TLS: down');


# P14: a server that never reads

my $rss = rss();

for my $n ($large ? 1 .. 3 : ()) {
    $f->close_all();
    $f->hang_up();
    wait_for(sub { $f->connections() == 0 });

    $f->mark();
    $f->tell('early', 1, 'deaf', 1);
    is(length($h->get("/big/never$n")->body()), $big, "deaf $n: served");
    ok(wait_for(sub { $f->count(qr/^early/) }), "deaf $n: it was");
}

SKIP: {
    skip 'sanitizers keep what is freed', 1 if $t->watched();
    cmp_ok(rss() - $rss, '<', $big / 500, 'deaf: memory is bounded');
}

$f->tell('');
$f->close_all();
$f->hang_up();
like($h->get('/n')->body(), qr/^<\d+>$/, 'deaf: counted');

$t->done();


sub rss {
    my ($pages) = (split / /, $t->run('cat', "/proc/$worker/statm"))[1];
    return $pages * 4;
}
