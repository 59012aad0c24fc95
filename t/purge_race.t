#!/usr/bin/perl

# Copyright (C) mcds authors

# C13: what the origin was asked for before a purge never comes back after it,
# in whatever order the store and the purge are, and however the page and the
# purge are: after the purge was answered nobody is told that the old version
# is fresh, and after a deletion nobody gets it at all.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'old' });

my @h = map { $t->nginx($_, <<'EOT') } 'one', 'two';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            mcds_cache_tag $uri;
            mcds_cache_bypass $http_x_bypass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_cache_purge on; }
    }
}
EOT

my $seed = $ENV{MCDS_SEED} // int rand 1e9;
srand $seed;
note("MCDS_SEED=$seed");

my (%bad, %seen);


sub some { $_[rand @_] }


sub look {
    my ($r, $what, $mode, $case) = @_;
    my $x = $r->header('X-Cache') // 'none';

    $seen{$x}++;

    if ($r->status() != 200) {
        $bad{"status"} .= "$case: $what: " . $r->status() . "\n";

    } elsif ($r->body() eq 'old'
        && ($mode eq 'delete' || $x !~ /^(?:STALE|UPDATING)$/))
    {
        $bad{"old"} .= "$case: $what: $x\n";
    }
}


for my $i (1 .. $t->size(60, 10000)) {
    my $uri = "/$i";
    my $key = "http://localhost$uri";
    my $page = some(qw/ none none expired last bypass mark /);
    my $how = some(qw/ key key tag host all /);
    my $mode = some(qw/ invalidate delete /);
    my $order = some(qw/ before after /);
    my $case = "$i: $page, $how, $mode, $order";
    my %args = (key => "key=$key", tag => "tag=$uri", host => 'host=localhost',
        all => 'all');
    my ($a, $b, $c) = map { some(@h) } 1 .. 3;
    my (@asked, @early);

    if ($page eq 'mark') {
        $m->set($key, page_encode(key => $key, kind => 1, status => 0));

    } elsif ($page ne 'none') {
        $a->get($uri);
        page_wait($m, $key) or $bad{setup} .= "$case\n";
        page_expire($m, $key, 1000) if $page eq 'expired';
        page_expire($m, $key, 61000) if $page eq 'last';
        $asked[0]++;
    }

    # somebody asks the origin, which takes the old version

    $o->hold_path($uri);
    push @early, start_get($a->port(), $uri,
        $page eq 'bypass' ? (headers => { 'X-Bypass' => 1 }) : ());
    $o->wait_requests(1 + @asked, $uri) or $bad{setup} .= "$case: origin\n";

    if ($page ne 'mark' && rand() < 0.5) {
        push @early, start_get($c->port(), $uri);
    }

    $o->set($uri, { body => 'new' });

    if ($order eq 'after') {
        $o->release($uri);
        finish(shift @early) if rand() < 0.5;
    }

    my $r = $b->get("/purge?$args{$how}&mode=$mode");
    $bad{purge} .= "$case: " . $r->status() . "\n"
        unless $r->status() == 200 || $r->status() == 404;

    my @late = map { start_get($_->port(), $uri) } $a, $c;

    $o->release($uri);

    look(finish($_), 'late', $mode, $case) for @late;
    finish($_) for @early;

    look($_->get($uri), 'later', $mode, $case) for @h;

    # and in the end all is new

    my $ok = wait_for(sub {
        for my $h (@h) {
            my $r = $h->get($uri);
            look($r, 'last', $mode, $case);
            return 0 if ($r->header('X-Cache') // '') ne 'HIT';
        }
        return 1;
    }, 5);

    $bad{never} .= "$case\n" unless $ok;
    $o->set($uri, undef);
}

is($bad{$_} // '', '', "no $_") for qw/ setup purge status old never /;
ok($seen{HIT}, 'hits') or diag(explain(\%seen));

$t->done();
