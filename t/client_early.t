#!/usr/bin/perl

# Copyright (C) mcds authors

# A server that answers a command of which it has read a part: the answer is
# right in all but its time, and is taken for none.  Only an answer that comes
# when the whole command has left is one.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/memcached sent a reply before the command was sent/);

# more than the kernel holds of it, which is little for a unix socket

my $size = 900_000;
my $o = $t->origin('o', { body => 'x' x $size });

package Early;

our @ISA = ('Test::Mcds::Fake');

sub input {
    my ($self, $c) = @_;

    my ($read, $answer) = @{$self->{told} // []};

    # not the page of the round before, which is tried once more

    if ($self->mode() eq 'early'
        && $c->{in} =~ m{^(ms <>page/$read \d{6,} .*)\r}m)
    {
        my ($line) = ($1);

        return if length $c->{in} < $read;

        $self->{mode} = '';
        $self->put(event => 'command', line => 'early', conn => $c->{id});
        $self->queue($c, $answer // $self->default($line, 'x'), { deaf => 1 });
        $self->run($c);
        return;
    }

    $self->SUPER::input($c);
}

package main;

my $f = $t->forked('Early', 'm', unix => 1);

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server    unix:%%SOCK_m%%;
        timeout   20s;
        max_fails 0;
    }
    mcds_use main;
    add_header X-Cache $mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache       on;
            mcds_cache_key   page$uri;
            mcds_cache_valid 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $before = qr/sent a reply before the command was sent, connection closed/;

for my $read (200, 10_000, 100_000) {
    my $n = $h->log_count($before);

    $f->mark();
    $f->tell('early', $read);

    is(length($h->get("/$read")->body()), $size, "$read bytes: served");
    ok(wait_for(sub { $f->count(qr/^early/) }), "$read bytes: answered");
    ok(wait_for(sub { $h->log_count($before) == $n + 1 }),
        "$read bytes: the answer is too early");
    $f->close_all();
    $f->hang_up();
}

# memcached 1.4 says so before it has read the value

my $read = 20_000;

for my $why ('out of memory storing object', 'object too large for cache') {
    my $n = $h->log_count($before);

    $f->mark();
    $f->tell('early', ++$read, "SERVER_ERROR $why\r\n");

    is(length($h->get("/$read")->body()), $size, "$why: served");
    ok(wait_for(sub { $f->count(qr/^early/) }), "$why: answered");
    ok(wait_for(sub { $h->log_has(qr{its answer before the value had left}) }),
        "$why: the connection is left");
    is($h->log_count($before), $n, "$why: an answer");
    $f->close_all();
}

# once all of it has left an answer is one

$f->tell('');
$f->mark();
is($h->get('/whole')->header('X-Cache'), 'MISS', 'whole: the origin');
ok(wait_for(sub { $h->get('/whole')->header('X-Cache') eq 'HIT' }),
    'whole: stored') if $t->has('mcds large');

$t->done();
