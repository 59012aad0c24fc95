#!/usr/bin/perl

# Copyright (C) mcds authors

# The breaker: a server that hangs or refuses costs some requests their
# deadline, later ones nothing; one line in the log tells each change; a probe
# brings it back.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at one worker')
    ->allow(qr/is down after 3 failures/,
    qr/memcached sent a reply/);

my $f = $t->fake('m', sub {
    my ($f, $c, $line, $value) = @_;

    my $mode = $f->mode();

    return $f->stall() if $mode eq 'hung' && $line eq 'version';
    return $f->stall() if $mode eq 'half' && $line =~ /^m[ags]/;
    return $f->default($line, $value) =~ s/ O\w+/ O0/r
        if $mode eq 'wrong' && $line =~ /^m[ags]/;
    return;
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        timeout      300ms;
        max_fails    3;
        fail_timeout 150ms;
    }
    mcds_pool never {
        server       127.0.0.1:%%PORT_m%%;
        timeout      100ms;
        max_fails    0;
    }
    mcds_pool patient {
        server       127.0.0.1:%%PORT_m%%;
        timeout      10s;
        max_fails    3;
    }
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-Time $request_time always;
        location / {
            mcds_counter $n key=count;
            mcds_counter_buffer $n off;
            mcds_return "<$n>\n";
        }
        location /kept {
            mcds_counter $n key=kept;
            mcds_return "<$n>\n";
        }
        location /never {
            mcds_use never;
            mcds_counter $n key=never;
            mcds_counter_buffer $n off;
            mcds_return "<$n>\n";
        }
        location /patient {
            mcds_use patient;
            mcds_counter $n key=patient;
            mcds_counter_buffer $n off;
            mcds_return "<$n>\n";
        }
        location /p {
            mcds_cache on;
            mcds_cache_valid 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

$t->origin('o');

ok(wait_for(sub { $h->get('/')->body =~ /^<\d+>$/ }), 'well');

my ($down, $up) = map { $h->log_count($_) }
    qr/is down after 3 failures/, qr/is up again/;

for my $mode (qw/ hung half wrong refused /) {

    $f->tell($mode);
    $f->refuse(1) if $mode eq 'refused';
    $f->close_all();
    $f->hang_up();
    wait_for(sub { $f->connections() == 0 });

    # the first ones may wait

    my $start = $h->log_count(qr/is down/);
    my $waited = 0;

    for (1 .. 10) {
        my $res = $h->get('/');

        # nginx measures a wait, from the beginning of the request; that no
        # request waits is measured here

        $waited++ if ($mode =~ /^h/ ? $res->header('X-Time') : $res->calm)
            > 0.24;
        is($res->body, "<>\n", "$mode: without a number");
        last if $h->log_count(qr/is down/) > $start;
    }

    $down++;
    is($h->log_count(qr/is down after 3 failures/), $down,
        "$mode: one line says so");
    is($waited, $mode =~ /^h/ ? 3 : 0, "$mode: who had to wait");

    # later ones are not delayed, nor do they send anything

    $f->mark();

    my @res = map { $h->get($_ % 2 ? '/' : '/p/' . rand()) } 1 .. 40;
    my @slow = grep { $_->calm > 0.05 * $t->slow() } @res;

    is(scalar @slow, 0, "$mode: later ones are not delayed");
    is(scalar(grep { $_->status == 200 } @res), 40, "$mode: all answered");

    # probes go on all the time, and tell nothing

    if ($mode ne 'refused') {
        ok(wait_for(sub { $f->opened_count() >= 3 }), "$mode: probes");
    }

    # nor is a count sent that the worker keeps

    $h->get('/kept') for 1 .. ($mode eq 'refused' ? 5 : 0);

    is($f->count(qr/^(?!version$|mn$|mg mcds:probe )/), 0,
        "$mode: nothing but probes is sent");
    is($h->log_count(qr/\[(?:error|warn)\]/), grown($mode),
        "$mode: no line more");

    # a probe finds it well again

    $f->tell('');
    $f->refuse(0) if $mode eq 'refused';

    ok(wait_for(sub { $h->get('/')->body =~ /^<\d+>$/ }),
        "$mode: is used again");
    is($h->log_count(qr/is up again/), ++$up, "$mode: one line says so");
}


# failures that are not in a row; a busy machine must not add one, a time-out

$f->tell('wrong');
$h->get('/patient') for 1 .. 2;
$f->tell('');
like($h->get('/patient')->body, qr/^<\d+>$/, 'two failures are no reason');
$f->tell('wrong');
$h->get('/patient') for 1 .. 2;
$f->tell('');
like($h->get('/patient')->body, qr/^<\d+>$/, 'nor two more');
is($h->log_count(qr/is down/), $down, 'the breaker stayed closed');


# without a breaker each request tries

$f->tell('half');
my @res = map { $h->get('/never') } 1 .. 5;
is(scalar(grep { $_->header('X-Time') > 0.08 } @res), 5,
    'max_fails 0: all wait');
$f->tell('');

# an open breaker would let none of them through: its first probe is after 1 s

ok((grep { $h->get('/never')->body =~ /^<\d+>$/ } 1 .. 3),
    'max_fails 0: and find it at once');
is($h->log_count(qr/is down/), $down, 'max_fails 0: no line');

$t->done();


# lines of the first failures, which "wrong" tells, and of the breaker

sub grown {
    my ($mode) = @_;
    return $down + ($mode eq 'wrong' || $mode eq 'refused' ? 1 : 0);
}
