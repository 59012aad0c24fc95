#!/usr/bin/perl

# Copyright (C) mcds authors

# C13: what the origin was asked for before a purge never comes back after it,
# in whatever order the store and the purge are, and however the page and the
# purge are: after the purge was answered nobody is told that the old version
# is fresh, and after a deletion nobody gets it at all.  Plain pages, pages in
# parts, pages that vary, copies on the host that are validated; and those that
# are timed, from when that time is over.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

# parts of 65000 bytes

my $m = $t->memcached('m', memory => 512, args => ['-I', '64k', '-o',
    'slab_chunk_max=65536']);
my $o = $t->origin('o');

# how long a timed copy is used unasked, seconds

my $timed = 0.05;

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
        mcds_cache on;
        mcds_cache_tag $uri;
        mcds_cache_bypass $http_x_bypass;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /validated/ {
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /timed/ {
            mcds_cache_local timed=50ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_purge_api on; }
    }
}
EOT

my (%bad, %seen, %cases);
my @shapes = grep { $_ ne 'split' || $t->has('mcds large') }
    qw/ plain split vary validated timed /;


sub some { $_[rand @_] }


# the two versions of a page

sub versions {
    my ($shape) = @_;
    my @headers = ('Cache-Control' => 'max-age=60');

    push @headers, Vary => 'X-A' if $shape eq 'vary';

    return map { { headers => \@headers,
        body => $shape eq 'split' ? "$_ " x 18000 : $_ } } 'old', 'new';
}


# the item that is the page for X-A: 1

sub item {
    my ($shape, $key) = @_;

    return $key if $shape ne 'vary';

    my $list = page_decode(page_wait($m, $key)) or return;

    return sprintf '%s:vary:%016x:%s', $key, $list->{generation},
        unpack 'H*', substr $list->{body}, 0, 16;
}


sub look {
    my ($r, $what, $c) = @_;
    my $x = $r->header('X-Cache') // 'none';
    my $body = $r->body() // '';

    $seen{$x}++;

    if ($r->status() != 200 || $body !~ /^(old|new)(?: \1)* ?$/
        || length $body != length $c->{old})
    {
        $bad{broken} .= "$c->{case}: $what: " . $r->status() . ' '
            . length($body) . "\n";

    } elsif ($body eq $c->{old}
        && ($c->{mode} eq 'delete' || $x !~ /^(?:STALE|UPDATING)$/))
    {
        $bad{old} .= "$c->{case}: $what: $x\n";
    }
}


for my $i (1 .. $t->size(60, 10000)) {
    my $shape = $shapes[$i % @shapes];
    my $uri = "/$shape/$i";
    my $key = "<>http://localhost$uri";
    my $page = some(qw/ none none expired last bypass /,
        $shape eq 'plain' ? 'mark' : 'expired');
    my $how = some(qw/ key key tag host all /);
    my $mode = some(qw/ invalidate delete /);
    my $order = some(qw/ before after /);
    my $case = "$i: $shape, $page, $how, $mode, $order";
    my %args = (key => "key=http://localhost$uri", tag => "tag=$uri",
        host => 'host=localhost', all => 'all');
    my ($a, $b, $c) = map { some(@h) } 1 .. 3;
    my %h = $shape eq 'vary' ? ('X-A' => 1) : ();
    my ($old, $new) = versions($shape);
    my %c = (case => $case, mode => $mode, old => $old->{body});
    my ($asked, @early) = (0);

    $cases{"$shape $page"}++;
    $o->mark();
    $o->set($uri, $old);

    if ($page eq 'mark') {
        $m->set($key, page_encode(key => $key, kind => 1, status => 0));

    } elsif ($page ne 'none') {
        $a->get($uri, headers => \%h);
        my $item = item($shape, $key);
        defined $item && page_wait($m, $item) or $bad{setup} .= "$case\n";
        page_expire($m, $item, $page eq 'last' ? 61000 : 1000)
            if $page ne 'bypass';
        sleep $timed if $shape eq 'timed';
        $asked++;
    }

    # somebody asks the origin, which takes the old version; and another one,
    # who gets an old page or waits

    $o->hold_path($uri);
    push @early, start_get($a->port(), $uri, headers =>
        { %h, $page eq 'bypass' ? ('X-Bypass' => 1) : () });
    $o->wait_requests(1 + $asked, $uri) or $bad{setup} .= "$case: origin\n";

    if ($page ne 'mark' && rand() < 0.5) {
        push @early, start_get($c->port(), $uri, headers => \%h);

        # a timed copy counts from when it was read, not from when it was there

        finish(pop @early) if $shape eq 'timed' && $page eq 'bypass';
    }

    $o->set($uri, $new);

    if ($order eq 'after') {
        $o->release($uri);
        finish(shift @early) if rand() < 0.5;
    }

    my $r = $b->get("/purge?$args{$how}&mode=$mode");
    $bad{purge} .= "$case: " . $r->status() . "\n"
        unless $r->status() == 200 || $r->status() == 404;

    if ($shape eq 'timed') {
        finish($_) for $order eq 'after' ? splice @early : ();

        # a timed copy counts from when its worker has read it: each worker has
        # handled what memcached answered before the purge

        $_->get('/plain/sync') for @h;
        sleep $timed;
    }

    my @late = map { start_get($_->port(), $uri, headers => \%h) } $a, $c;

    # a variant of which nothing is known yet

    push @late, start_get($b->port(), $uri, headers => { 'X-A' => 2 })
        if $shape eq 'vary' && rand() < 0.5;

    $o->release($uri);

    look(finish($_), 'late', \%c) for @late;
    finish($_) for @early;

    look($_->get($uri, headers => \%h), 'later', \%c) for @h;

    # and in the end all is new

    my $ok = wait_for(sub {
        for my $h (@h) {
            my $r = $h->get($uri, headers => \%h);
            look($r, 'last', \%c);
            return 0 if ($r->header('X-Cache') // '') ne 'HIT';
        }
        return 1;
    }, 10);

    $bad{never} .= "$case\n" unless $ok;
    $o->set($uri, undef);
}

is($bad{$_} // '', '', "no $_") for qw/ setup purge broken old never /;
ok($seen{HIT}, 'hits') or diag(explain(\%seen));
note(join ', ', map { "$_: $cases{$_}" } sort keys %cases);

$t->done();
