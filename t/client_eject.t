#!/usr/bin/perl

# Copyright (C) mcds authors

# eject on: while a server is down its pages, and their locks, are made and
# found on the others, the pages of the others stay where they are; counters do
# not move.  When it is back, its pages are its own again.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my @m = map { $t->memcached("m$_") } 0 .. 2;
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=600'] });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        server       127.0.0.1:%%PORT_m2%%;
        distribution ketama;
        eject        %%EJECT%%;
        timeout      5s;
        fail_timeout 300ms;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=n:$uri;
            mcds_return "$n";
        }
        location /page {
            mcds_cache on;
            mcds_cache_key page:$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache $mcds_cache_status;
        }
    }
}
EOT

my @h = map { $t->nginx("h$_", $conf =~ s/%%EJECT%%/on/r) } 0 .. 1;

my @pages = map { "/page/$_" } 1 .. $t->size(90, 1000);

# where the pages are: a list of servers for each

sub where {
    my %where;

    for my $i (grep { $m[$_]->pid() } 0 .. 2) {
        push @{$where{s/^<>page://r}}, $i
            for grep { m{^<>page:/page/\d+$} } $m[$i]->keys();
    }

    return map { join ' ', @{$where{$_} // []} } @pages;
}

sub statuses {
    my %n;

    for my $i (0 .. $#pages) {
        my $r = $h[$i % 2]->get($pages[$i]);
        $n{$r->header('X-Cache')}++;
    }

    return join ' ', map { "$_ $n{$_}" } sort keys %n;
}


is(statuses(), 'MISS ' . @pages, 'pages are made');

my @before;
ok(wait_for(sub { @before = where(); !grep { !length } @before }),
    'and stored');

my $lost = grep { $_ eq 1 } @before;
cmp_ok($lost, '>', 0, "$lost of them on the second server");


# it dies

$m[1]->kill9();

ok(wait_for(sub {
    $_->get($pages[rand @pages]) for @h;
    2 == grep { $_->log() =~ /is down after/ } @h;
}), 'a server dies');

my %made = map { $_ => $o->count($_) } @pages;

for my $page (@pages) {
    $_->get($page) for @h;
}

ok(wait_for(sub { !grep { !length } where() }), 'all pages are stored');

my @now = where();

is(scalar(grep { $before[$_] ne 1 && $now[$_] ne $before[$_] } 0 .. $#pages),
    0, 'pages of the others have not moved');
is(scalar(grep { $now[$_] !~ /^[02]$/ } 0 .. $#pages), 0,
    'its pages are on the others');
cmp_ok(scalar(grep { $before[$_] eq 1 && $now[$_] eq 0 } 0 .. $#pages), '>', 0,
    'on both');
is(statuses(), 'HIT ' . @pages, 'for both hosts');

is(scalar(grep { $o->count($_) > $made{$_} + 1 } @pages), 0,
    'made once more at most');

$o->hold_path('/page/hot');

my @waiting = map { start_get($h[$_ % 2]->port(), '/page/hot') } 1 .. 8;
ok($o->wait_requests(1, '/page/hot'), 'a new page');
$o->release('/page/hot');
is(scalar(grep { !finish($_)->complete() } @waiting), 0, 'for all who wait');

my @kept;

for my $i (1 .. 60) {
    my $n = $h[0]->get("/count/$i")->body();
    push @kept, $i if $n eq '';
}

cmp_ok(scalar @kept, '>', 0, 'its counters are not there');
cmp_ok(scalar @kept, '<', 60, 'the others are');
is(scalar(grep { defined $m[0]->get("n:/count/$_")
        || defined $m[2]->get("n:/count/$_") } @kept), 0,
    'none has moved');


# it comes back, with nothing

$m[1]->restart();

ok(wait_for(sub { 2 == grep { $_->log() =~ /is up again/ } @h }, 20),
    'it is back');

statuses();

ok(wait_for(sub {
    my @w = where();
    !grep { $before[$_] eq 1 && $w[$_] !~ /1/ } 0 .. $#pages
}), 'its pages are its own again');

# what was counted while it was away may have been added by now

is(scalar(grep { $h[0]->get("/count/$_")->body() !~ /^[12]$/ } @kept), 0,
    'and its counters');

$t->done();
