#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached resets or closes a connection: before it greets, and before, in
# the midst of and after the answer to each kind of command.  Requests go on
# without it at once, the next operation has a new connection, none is leaked.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at one worker');

sub page { return "page of $_[0] " x 100 . "end\n" }

my $o = $t->origin('o', sub { return { body => page($_[1]->{path}) } });

# the answer to one command of the kind that was told is cut off

my $f = $t->fake('m', sub {
    my ($f, $c, $line, $value) = @_;

    return if $f->mode() ne 'cut';

    my ($re, $state, $how) = @{$f->{told}};

    return if $line !~ $re;

    $f->{mode} = '';

    my $end = $how eq 'rst' ? $f->rst() : $f->fin();
    my $bytes = $f->default($line, $value);
    my $first = index($bytes, "\n") + 1;
    my $len = length $bytes;

    my %keep = (sent => 0, line => int($first / 2), trailer => $len - 1,
        body => $first + int(($len - $first) / 2), idle => $len);

    return (substr($bytes, 0, $keep{$state}), $end);

}, on_connect => sub {
    my ($f, $c) = @_;

    return if $f->mode() ne 'cut' || $f->{told}[1] ne 'connect';

    return $f->{told}[2] eq 'rst' ? $f->rst() : $f->fin();
});

my $seconds = 5 * $t->slow();

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server    127.0.0.1:%%PORT_m%%;
        timeout   ${seconds}s;
        max_fails 0;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /n {
            mcds_counter \$n key=count;
            mcds_counter_buffer \$n off;
            mcds_return "<\$n>\\n";
        }
        location /v {
            mcds_visitor_counter \$v key=online visitor=\$arg_u window=60s
                                 slots=1 interpolate=off;
            mcds_return "<\$v>\\n";
        }
        location /p {
            mcds_cache on;
            mcds_cache_key page:\$uri;
            mcds_cache_valid 1h;
            add_header X-Cache \$mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

# what to ask, the command of it that is cut off, whether that has a value

my %kinds = (
    get     => ['/p/hot', '^mg <>page:/p/hot ', 1],
    store   => ['/p/new', '^ms <>page:\S+ \d{4}', 0],
    lock    => ['/p/new', '^ms <>page:\S+:lock ', 0],
    delete  => ['/p/new', '^md <>page:\S+:lock ', 0],
    counter => ['/n', '^ma count ', 1],
    mark    => ['/v', '^ms \S+ \d+ ME T61', 0],
);

my $id = 0;

is($h->get('/p/hot')->body, page('/p/hot'), 'a page is made');
ok(wait_for(sub { defined $f->get('<>page:/p/hot') }), 'and stored');
is($h->get('/p/hot')->header('X-Cache'), 'HIT', 'and hit');

for my $how (qw/ rst fin /) {
    for my $kind (sort keys %kinds) {
        for my $state (qw/ sent line body trailer idle /) {
            next if $state eq 'body' && !$kinds{$kind}[2];
            cell("$kind $state $how", $kinds{$kind}[0], $kinds{$kind}[1],
                $state, $how);
        }
    }

    # here nothing but the greeting was sent yet

    for my $uri ('/p/hot', '/p/new', '/n', '/v') {
        cell("connect $uri $how", $uri, '^never', 'connect', $how);
        cell("greeting $uri $how", $uri, '^version', 'sent', $how);
        cell("half greeting $uri $how", $uri, '^version', 'line', $how);
        cell("greeted $uri $how", $uri, '^mn', 'trailer', $how);
    }
}


# an idle connection that goes away is no fault and is not missed

is($h->get('/n')->status, 200, 'idle');

# what was left behind by those before has been sent

quiet();

my $infos = $h->log_count(qr/closed the connection/);
$f->reset_all();
ok(wait_for(sub { $f->connections() == 0 }), 'reset');
like($h->get('/n')->body, qr/^<\d+>$/, 'the next has its number');
is($h->log_count(qr/closed the connection/), $infos, 'not a failure');


# one that goes away while commands are on their way: what only reads is asked
# once more, what counts is not, since it may have been counted

for my $how (qw/ rst fin /) {
    wait_for(sub { $h->get('/p/hot')->header('X-Cache') eq 'HIT' });

    # behind the answer to the unlock of who has stored it

    $h->get('/p/hot');

    $f->mark();
    $f->tell('cut', '^mg <>page:/p/hot ', 'sent', $how);

    is($h->get('/p/hot')->header('X-Cache'), 'HIT', "$how: read again");
    is($f->count(qr{^mg <>page:/p/hot }), 2, 'once');

    like($h->get('/n')->body, qr/^<\d+>$/, 'a number');
    $f->mark();
    $f->tell('cut', '^ma count ', 'sent', $how);

    is($h->get('/n')->body, "<>\n", "$how: not counted again");
    is($f->count(qr/^ma count /), 1, 'asked once');
}

$t->done();


# what the request before left behind, a store or an unlock, has been sent: a
# number is answered behind it, however slow the machine is; the store, the
# answer to it and the unlock are one turn of the worker each

sub quiet {
    my $size = -1;

    $h->get('/n') for 1 .. 4;

    wait_for(sub {
        (my $was, $size) = ($size, -s $f->{record});
        return $was == $size || !sleep 0.02;
    });
}


# it may have made the connection that was to be made anew: then once more

sub cell {
    my ($name, @cell) = @_;
    my @wrong;

    for (1 .. 3) {
        @wrong = shot(@cell);
        last if !grep { $_ eq 'not seen' } @wrong;
    }

    is("@wrong", '', $name);
}


sub shot {
    my ($uri, $re, $state, $how) = @_;

    quiet();

    # a fresh connection, except for those that were idle

    if ($re =~ /version|mn|never/) {
        $f->close_all();
        $f->hang_up();
        wait_for(sub { $f->connections() == 0 });
    }

    $uri .= ++$id if $uri =~ /new/;
    $uri .= '?u=' . ++$id if $uri eq '/v';

    $f->mark();
    $f->tell('cut', $re, $state, $how);

    my $res = $h->get($uri);
    my @wrong;

    push @wrong, 'status ' . $res->status if $res->status != 200;
    push @wrong, 'body' if $uri =~ /^.p/ && $res->body ne page($uri);
    push @wrong, 'number' if $uri =~ /^.n/
        && $res->body !~ ($state eq 'idle' ? qr/^<\d+>$/ : qr/^<>$/);
    push @wrong, 'slow' if $res->calm > $seconds / 2;

    # the lock's release and the like come behind the answer

    push @wrong, 'not seen' if !wait_for(sub {
        $state eq 'connect' ? $f->opened_count() : $f->count(qr/$re/)
    }, 2);

    push @wrong, 'not closed' if !wait_for(sub {
        grep { $_->{event} eq 'close' && $_->{why} eq $how } $f->records()
    }, 2);

    $f->tell('');

    push @wrong, 'next has no number' if $h->get('/n')->body !~ /^<\d+>$/;
    push @wrong, 'too many connections' if $f->connections() > 3;
    push @wrong, 'next page' if $uri =~ /^.p/
        && $h->get($uri)->body ne page($uri);

    return @wrong;
}
