#!/usr/bin/perl

# Copyright (C) mcds authors

# An item of any length under a key that is used is no failure of its server:
# one above 16 MB costs its connection, one that is read over too slowly as
# well, but the breaker stays closed, and the other keys of the server go on.
# So does a memcached 1.4 that says "object too large" before it has read the
# value.

use warnings;
use strict;

use IO::Select;
use IO::Socket::INET;
use Socket qw/ SOL_SOCKET SO_RCVBUF /;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/too large for memcached|takes no items/);
$t->needs('mcds large');

my $m = $t->memcached('m', memory => 256, args => ['-I', '64m']);
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'origin' }, paths => { '/old/large' => { headers =>
    ['Cache-Control' => 'max-age=60'], body => 'x' x 900_000 } });

# a value that trickles in

my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;

    return if $line !~ m{^mg <>slow/slow .*\bv\b};

    return $f->default($line) =~ s/\AVA 1/VA 10000000/r . 'x' x 1000;
});

# memcached 1.4

my $port = $t->port('old');
my (%store, $cas);
my $old = fork() // die "fork: $!\n";

if ($old == 0) {
    old($port);
    exit 0;
}

wait_for(sub { IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; max_fails 1; }
    mcds_pool slow {
        server 127.0.0.1:%%PORT_f%%;
        timeout 1s;
        max_fails 1;
    }
    mcds_pool old {
        server 127.0.0.1:%%PORT_old%%;
        timeout 5s;
        max_fails 1;
        protocol classic;
    }
    mcds_use main;
    add_header X-Cache $mcds_cache_status always;
    add_header X-Number $n;
    add_header X-Other $o;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=n;
            mcds_cache on;
            mcds_cache_key $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /counter {
            mcds_counter $o key=large;
            mcds_return "<$o>";
        }
        location /slow {
            mcds_use slow;
            mcds_cache slow;
            mcds_cache_key slow$uri;
            mcds_counter $n key=n;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /old {
            mcds_cache old;
            mcds_cache_key $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# above all limits

$m->set($_, 'x' x 17_000_000) or die "not stored\n" for '<>/large', 'large';
$h->get('/other');

for my $i (1 .. 6) {
    my $r = $h->get('/large');

    is("$r->{status} $r->{body}", '200 origin', "$i: the page is served");
    like($h->get('/counter')->body(), qr/^<\d*>$/, "$i: and the counter");
    ok(wait_for(sub { $h->get('/other')->header('X-Cache') eq 'HIT' }),
        "$i: other pages go on");
    ok($h->get('/other')->header('X-Number'), "$i: and counters");
}

ok($h->log_lacks(qr/is down after/), 'the breaker stays closed');

# within the limit, but slowly

$f->set('<>slow/slow', 'x');

for my $i (1 .. 4) {
    is($h->get('/slow')->body(), 'origin', "slow $i: served");
}

ok($h->log_lacks(qr/is down after/), 'slow: the breaker stays closed');
ok(wait_for(sub { $h->get('/slow')->header('X-Number') }),
    'slow: counters go on');

# an answer before the value was read

is(length $h->get('/old/large')->body(), 900_000, 'old: served') for 1 .. 4;

ok($h->log_lacks(qr/is down after|before the command was sent/),
    'old: the breaker stays closed');

kill 'TERM', $old;
waitpid $old, 0;

$t->done();


# as much of memcached 1.4 as this needs

sub old {
    my ($port) = @_;

    my $l = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port,
        Listen => 10, ReuseAddr => 1) or die "listen: $!\n";
    setsockopt($l, SOL_SOCKET, SO_RCVBUF, 4096) or die "setsockopt: $!\n";

    my $sel = IO::Select->new($l);
    my %in;

    while (1) {
        for my $s ($sel->can_read()) {

            if ($s == $l) {
                my $c = $l->accept() or next;
                $sel->add($c);
                $in{$c} = { text => '', skip => 0 };
                next;
            }

            my $in = $in{$s};

            if (!sysread $s, $in->{text}, 65536, length $in->{text}) {
                $sel->remove($s);
                close $s;
                next;
            }

            syswrite $s, $_ for answers($in);
        }
    }
}


sub answers {
    my ($in) = @_;

    my @answers;

    while (length $in->{text}) {

        if ($in->{skip}) {
            my $n = length substr $in->{text}, 0, $in->{skip}, '';
            $in->{skip} -= $n;
            next;
        }

        last if $in->{text} !~ /\A([^\n]*)\r\n/;
        my ($line, $taken) = ($1, $+[0]);
        my ($cmd, $key, $flags, undef, $len) = split / /, $line;
        my $value;

        if ($cmd =~ /^(?:set|add|cas)$/ && $len > 500_000) {
            $in->{skip} = $taken + $len + 2;
            push @answers, "SERVER_ERROR object too large for cache\r\n";
            next;
        }

        if ($cmd =~ /^(?:set|add|cas)$/) {
            last if length $in->{text} < $taken + $len + 2;
            $value = substr $in->{text}, $taken, $len;
            $taken += $len + 2;
        }

        substr $in->{text}, 0, $taken, '';

        if (defined $value) {
            my $stored = $cmd ne 'add' || !$store{$key};
            $store{$key} = [$flags, $value, ++$cas] if $stored;
            push @answers, $stored ? "STORED\r\n" : "NOT_STORED\r\n";

        } elsif ($cmd =~ /^gets?$/) {
            my $item = $store{$key};
            my $unique = $cmd eq 'gets' && $item ? " $item->[2]" : '';
            push @answers, ($item ? "VALUE $key $item->[0] "
                . length($item->[1]) . "$unique\r\n$item->[1]\r\n" : '')
                . "END\r\n";

        } elsif ($cmd eq 'delete') {
            push @answers, delete $store{$key} ? "DELETED\r\n"
                : "NOT_FOUND\r\n";

        } else {
            push @answers, $cmd eq 'version' ? "VERSION 1.4.39\r\n"
                : "NOT_FOUND\r\n";
        }
    }

    return @answers;
}
