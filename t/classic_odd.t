#!/usr/bin/perl

# Copyright (C) mcds authors

# With "protocol classic" replies carry nothing but the key of a value: what is
# not a reply to just this command, or not quite one, ends the connection, so
# that no page and no number can reach the wrong request.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at few workers')
    ->allow(qr/memcached sent/);

my $o = $t->origin('o', { body => "page of %u\n" });

my $error = 'cannot increment or decrement non-numeric value';

# what may be said in the place of an answer to "incr": name, what is expected
# of a counter ("-": no number), whether the connection ends

my @numbers = (
    ['LF in front', '-', 1, sub { "\n$_[0]" }],
    ['LF alone', '-', 1, sub { "5\n" }],
    ['a space behind', '-', 1, sub { "5 \r\n" }],
    ['a zero in front', '-', 1, sub { "05\r\n" }],
    ['a sign', '-', 1, sub { "+5\r\n" }],
    ['more than 64 bits', '-', 1, sub { "18446744073709551616\r\n" }],
    ['all of 64 bits', '18446744073709551615', 0,
        sub { "18446744073709551615\r\n" }],
    ['a second number', '5', 1, sub { "5\r\n6\r\n" }],
    ['the start of another', '5', 1, sub { "5\r\n6" }],
    ['a value', '-', 1, sub { "VALUE count 0 1\r\n5\r\nEND\r\n" }],
    (map { my $word = $_; [$word, '-', 1, sub { "$word\r\n" }] } qw/ END
        STORED NOT_STORED EXISTS DELETED TOUCHED OK MN HD ERROR /,
        'VERSION 1.6.18', 'VA 1', 'CLIENT_ERROR bad', 'SERVER_ERROR'),
    ['too long a line', '-', 1, sub { 'x' x 5000 }],
    ['no number', '-', 0, sub { "CLIENT_ERROR $error\r\n" }],
    ['an error', '-', 0, sub { "SERVER_ERROR out of memory\r\n" }],
    ['gone for a moment', '5', 0, sub { "NOT_FOUND\r\n" }],
);

# and to "gets"

my @pages = (
    ['another key', 1, sub { $_[0] =~ s/ \S+/ other/r }],
    ['a longer key', 1, sub { $_[0] =~ s/ \S+/$&x/r }],
    ['no CAS', 1, sub { $_[0] =~ s/ \d+\r\n/\r\n/r }],
    ['a CAS too many', 1, sub { $_[0] =~ s/\r\n/ 7\r\n/r }],
    ['a byte more', 1, sub { $_[0] =~ s/\r\nEND\r\n\z/x$&/r }],
    ['a byte less', 1, sub { $_[0] =~ s/.\r\nEND\r\n\z/\r\nEND\r\n/r . 'x' }],
    ['no END', 1, sub { $_[0] =~ s/END\r\n\z/STORED/r }],
    ['a bent END', 1, sub { $_[0] =~ s/END\r\n\z/ENX\r\n/r }],
    ['LF alone at the end', 1, sub { $_[0] =~ s/END\r\n\z/END\n\n/r }],
    ['a second value', 1, sub { $_[0] =~ s/END\r\n\z/$_[0]/r }],
    ['a second answer', 1, sub { $_[0] x 2 }],
    ['a length of 2^63', 1, sub { $_[0] =~ s/(\d+)( \d+\r\n)/1 . 0 x 19
        . $2/er }],
    (map { my $word = $_; [$word, 1, sub { "$word\r\n" }] } qw/ STORED
        NOT_FOUND 5 ERROR EN /, 'EN O1', "CLIENT_ERROR $error"),
    ['flags', 0, sub { $_[0] =~ s/ 0 / 4294967295 /r }],
    ['an error', 0, sub { "SERVER_ERROR out of memory\r\n" }],
    ['too much', 0, sub { $_[0] =~ s/ \d+ (\d+)\r\n.*/' '
        . (2 * 1048576) . " $1\r\n" . 'x' x (2 * 1048576)
        . "\r\nEND\r\n"/ser }],
    ['nothing', 0, sub { "END\r\n" }],
);

my $f = $t->fake('m', sub {
    my ($f, $c, $line, $value) = @_;

    my ($what, $n) = split / /, $f->mode();

    if (($what // '') eq 'number' && $line =~ /^incr count /) {
        $f->{mode} = '';
        my $bytes = $f->default($line, $value);
        $f->put_item('count', 4) if $bytes ne $numbers[$n][3]->($bytes);
        return $numbers[$n][3]->($bytes);
    }

    if (($what // '') eq 'page' && $line =~ m{^gets <>/p\d+$}) {
        $f->{mode} = '';
        return $pages[$n][2]->($f->default($line, $value));
    }

    return;
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server    127.0.0.1:%%PORT_m%%;
        protocol  classic;
        timeout   1s;
        max_fails 0;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /n {
            mcds_counter $n key=count;
            mcds_return "<$n>";
        }
        location /p {
            mcds_cache on;
            mcds_cache_key $uri;
            mcds_cache_valid 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache $mcds_cache_status;
        }
    }
}
EOT


# the greeting stands alone: a proxy would close the connection on "mn"

$h->get('/n');
is(join(',', $f->commands()), 'version,incr count 1,add count 0 0 1',
    'greeting and counter');


for my $i (0 .. $#numbers) {
    my ($name, $want, $closes) = @{$numbers[$i]};
    my @wrong;

    $f->set('count', 4);

    my $closed = $h->log_count(qr/memcached sent/);

    $f->mark();
    $f->tell("number $i");

    my $res = $h->get('/n');

    $want = '' if $want eq '-';
    $closed += $closes;

    push @wrong, 'got ' . $res->body() if $res->body() ne "<$want>";
    push @wrong, 'waited' if $res->calm() > 0.7 * $t->slow();
    push @wrong, 'not closed' if $closes
        && !wait_for(sub { $h->log_count(qr/memcached sent/) >= $closed });

    $f->set('count', 77);
    $res = $h->get('/n');

    push @wrong, 'then ' . $res->body() if $res->body() ne '<78>';
    push @wrong, 'closed' if $h->log_count(qr/memcached sent/) != $closed;
    push @wrong, $f->opened_count() . ' new connections'
        if $f->opened_count() != $closes;

    is("@wrong", '', "a number: $name");
}


for my $i (0 .. $#pages) {
    my ($name, $closes, undef) = @{$pages[$i]};
    my @wrong;
    my $uri = "/p$i";

    $h->get($uri);

    push @wrong, 'not stored'
        if !wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' });

    my $closed = $h->log_count(qr/memcached sent/);

    $f->mark();
    $f->tell("page $i");

    my $res = $h->get($uri);

    push @wrong, 'got ' . $res->body() if $res->body() ne "page of $uri\n";
    push @wrong, 'waited' if $res->calm() > 0.7 * $t->slow();

    $closed += $closes;

    push @wrong, 'not closed' if $closes
        && !wait_for(sub { $h->log_count(qr/memcached sent/) >= $closed });

    for my $other ($uri, $i ? '/p' . ($i - 1) : $uri) {
        $res = $h->get($other);
        push @wrong, 'then ' . $res->body()
            if $res->body() ne "page of $other\n";
    }

    push @wrong, 'closed' if $h->log_count(qr/memcached sent/) != $closed;

    is("@wrong", '', "a page: $name");
}


# bytes that nobody asked for

for my $bytes ("5\r\n", "END\r\n", 'S', "STORED\r\n") {
    my $closed = $h->log_count(qr/memcached sent/);

    $f->hang_up();
    wait_for(sub { $f->connections() <= 1 });
    $f->push($bytes);

    ok(wait_for(sub { $h->log_count(qr/memcached sent/) > $closed }),
        'unasked: closed');
    like($h->get('/n')->body(), qr/^<\d+>$/, 'then as ever');
}

$t->done();
