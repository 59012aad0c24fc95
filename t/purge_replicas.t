#!/usr/bin/perl

# Copyright (C) mcds authors

# replicas 2: a purge is as good as its worst server.  One that hangs, or resets
# the connection while the command is on its way, makes it 503, which says what
# was not reached; the other server has done it nevertheless.  What is answered
# 200 is done on both.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new();

# what a test tells a fake to do with the next writes of a page

my $script = sub {
    my ($f, $c, $line) = @_;
    my $mode = $f->mode() // '';

    return if $line !~ /^ms \S*(?:page:|mcds:tag)/;
    return $f->rst() if $mode eq 'reset';
    return $f->stall() if $mode eq 'hang';
    return ["SERVER_ERROR out of memory storing object\r\n"]
        if $mode eq 'full';
    return;
};

my @fake = map { $t->fake("f$_", $script) } 0 .. 1;
my @real = map { $t->memcached("m$_") } 0 .. 1;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600',
    'X-Tag' => 'red'] });

my @h = map { $t->nginx("h$_", <<'EOT', patience => 0) } 0 .. 1;
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool fake {
        server          127.0.0.1:%%PORT_f0%%;
        server          127.0.0.1:%%PORT_f1%%;
        distribution    modula;
        replicas        2;
        timeout         1s;
        connect_timeout 1s;
        max_fails       0;
    }
    mcds_pool real {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution modula;
        replicas     2;
        timeout      300ms;
        fail_timeout 300ms;
    }
    add_header X-Cache $mcds_cache_status;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache     fake;
            mcds_cache_key page:$uri;
            mcds_purge_api method=PURGE mode=delete;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location /invalidate/ {
            mcds_cache     fake;
            mcds_cache_key page:$uri;
            mcds_purge_api method=PURGE;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location /tag/ {
            mcds_cache       fake;
            mcds_cache_key   page:$uri;
            mcds_cache_tag   $upstream_http_x_tag;
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
        }
        location /real/ {
            mcds_cache     real;
            mcds_cache_key page:$uri;
            mcds_purge_api method=PURGE mode=delete;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge {
            mcds_use         fake;
            mcds_purge_api   on mode=delete;
            mcds_cache_label purge;
        }
        location = /status {
            mcds_status;
        }
    }
}
EOT

$t->allow(qr/purge failed/);

sub purge { return http_request($_[0]->port(), $_[1], method => 'PURGE') }


# a page that is stored on both, and which of them is asked first

my $n = 0;

sub page {
    my ($where, $servers) = @_;
    my $uri = $where . ++$n;

    $h[0]->get($uri);
    wait_for(sub {
        2 == grep { defined $_->get("<>page:$uri") } @$servers
    }) or die "$uri is not stored\n";

    return $uri;
}

sub first {
    my ($uri) = @_;

    $_->mark() for @fake;
    $h[0]->get($uri);

    return $fake[0]->count(qr/^mg \S*page:\Q$uri\E /) ? 0 : 1;
}


# kind 3: purged

sub kind { return unpack 'x5C', $_[0]->get("<>page:$_[1]") // '' }


# all is well: when it is answered, both servers have done it

my $uri = page('/', \@fake);
my $r = purge($h[0], $uri);

is($r->status(), 200, 'a purge');
is(join(' ', map { kind($_, $uri) } @fake), '3 3', 'is done on both');


for my $where ('/', '/invalidate/') {
    for my $how (qw/ reset hang full /) {
        for my $leads (0, 1) {

            do {
                $uri = page($where, \@fake);
            } while (first($uri) != 0);

            my $name = "$where, " . ($leads ? 'the first' : 'the second')
                . " server: $how";
            my ($bad, $good) = @fake[$leads ? (0, 1) : (1, 0)];
            my $old = $h[1]->get($uri)->body();

            $bad->tell($how);

            $r = purge($h[0], $uri);

            is($r->status(), 503, $name);
            like($r->body(), qr/"missed":\[\{"key":"page:\Q$uri\E"\}\]/,
                'it says what was missed');

            # where the first one has said no the second is not asked

            $good->get("<>page:$uri") eq ($bad->get("<>page:$uri") // '')
                and $how ne 'full'
                and fail('the other one has done it');

            $bad->tell('');

            is(purge($h[0], $uri)->status() =~ /200|404/, 1, 'once more');

            # delete leaves a mark, invalidate a page that has expired

            my @left = map { $_->get("<>page:$uri") } @fake;

            is(join(' ', map { unpack('x8V', $_) & 4 || unpack('x5C', $_) }
                @left), $where eq '/' ? '3 3' : '4 4', 'done on both');

            isnt($h[1]->get($uri)->header('X-Cache'), 'HIT',
                'it is not fresh on the other host');
        }
    }
}


# a tag: its record is written twice, too

$uri = page('/tag/', \@fake);
my $old = $h[0]->get($uri)->body();

for my $bad (@fake) {
    $bad->tell('reset');

    $r = $h[0]->get('/purge?tag=red');

    is($r->status(), 503, 'a tag');
    like($r->body(), qr/"missed":\[\{"tag":"red"\}\]/, 'which was missed');

    $bad->tell('');
    is($h[0]->get('/purge?tag=red')->status(), 200, 'once more');

    my @records = map { $_->get('<mcds:tag:red') // '' } @fake;
    is($records[0], $records[1], 'the records are the same');
}

isnt($h[1]->get($uri)->body(), $old, 'its pages are gone');


# of what one request purges, the statistics have what is done

my $before = entry($h[0], 'caches', 'purge')->{purges};

$fake[0]->tell('full');
$r = $h[0]->get('/purge?key=a&tag=red&key=b');
$fake[0]->tell('');

is($r->status(), 503, 'a tag among keys');
like($r->body(), qr/"missed":\[\{"tag":"red"\}\]/, 'which alone was missed');
is(entry($h[0], 'caches', 'purge')->{purges}, $before + 2, 'two are counted');


# one of them hangs for long: each purge says so, until it is back

my @uris = map { page('/real/', \@real) } 1 .. 6;
my %old = map { $_ => $h[1]->get($_)->body() } @uris;

$real[0]->freeze();

my %status;

for my $uri (@uris) {
    $status{purge($h[0], $uri)->status()}++;
    $status{purge($h[0], $uri)->status()}++;
}

is(join(' ', %status), '503 12', 'a server hangs: 503');
is(join(' ', map { kind($real[1], $_) } @uris), '3 3 3 3 3 3',
    'the other one has purged');

$real[0]->cont();

ok(wait_for(sub {
    !grep { purge($h[0], $_)->status() !~ /200|404/ } @uris
}), 'it is back: done');

is(join(' ', map { kind($real[0], $_) } @uris), '3 3 3 3 3 3', 'there as well');

for my $i (0, 1) {
    is(scalar(grep { $h[$i]->get($_)->body() eq $old{$_} } @uris), 0,
        "nothing comes back to host $i");
}

$t->done();
