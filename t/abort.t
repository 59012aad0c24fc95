#!/usr/bin/perl

# Copyright (C) mcds authors

# Clients that leave, with FIN, RST and RST_STREAM, whatever their request is
# just doing: nothing crashes, nothing is left over, who stayed is answered,
# and what others need goes on (H03).

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Http2;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker')->needs('http_v2');
my $n = 10;
my $rounds = $t->size(1, 100);


# commands that match the mode are held

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;
    my $held = $f->mode();

    return if !length $held || $line !~ $held;
    return ($f->hold($held), $f->default($line, $value));
});

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

# few connections, so that one that is lost is missed

my $a = $t->nginx('a', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { worker_connections 40; }
http {
    %%HTTP%%
    mcds_pool main {
        server    127.0.0.1:%%PORT_f%%;
        timeout   20s;
        max_fails 0;
    }
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=16k;
        listen 127.0.0.1:%%PORT_h2%% http2;
        mcds_counter $here key=here:$uri;

        location /barrier { mcds_return 200 "$here"; }
        location /count/ { mcds_return 200 "$here"; }

        location / {
            mcds_cache                   on;
            mcds_cache_key               $uri;
            mcds_cache_lock_timeout      20s;
            mcds_cache_background_update on;
            add_header                   X-Cache $mcds_cache_status;
            proxy_pass                   http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my ($worker) = $a->workers();
is($a->get('/barrier')->body, '1', 'it counts');


# its connection may be closed a moment after its answer

my $fds;

ok(wait_for(sub {
    my $tcp = $a->count_fds($worker)->{tcp};

    delete $tcp->{$t->port('f')};
    $fds = idle_fds();

    return !%$tcp;
}), 'nobody is connected');


# of all rounds of refresh/, while the others run

my @stale = map { my $w = $_; map { "/refresh/$w/$_" } 1 .. $n * $rounds }
    qw/ fin rst h2 /;
my @short = (headers => ['Cache-Control' => 'max-age=1']);

$o->set($_, { @short }) for @stale;
is(scalar(grep { $_->status() == 200 } many(scalar @stale,
    sub { [$a->port(), $stale[$_[0]]] }, concurrency => 8)),
    scalar @stale, 'pages that will expire');
my $expired = time() + 1.1;
$o->set($_, undef) for @stale;


my @states = (
    ['a counter\'s answer', \&count], ['the lookup', \&lookup],
    ['the lock', \&lock], ['a build in this worker', \&wait_here],
    ['a build elsewhere', \&wait_elsewhere], ['the origin', \&build],
    ['the rest of the answer', \&half], ['a hit being sent', \&sending],
    ['the store', \&store], ['a refresh behind', \&refresh],
);

for my $state (@states) {
    my ($name, $code) = @$state;

    for my $way (qw/ fin rst h2 /) {
        my %failed;

        for my $i (1 .. $rounds) {
            $f->mark();
            $o->mark();

            my %r = $code->($way, "$way/$i", $i);

            $r{'nothing is left'} = wait_for(sub { idle_fds() == $fds }, 8);
            $r{'the next works'} = $a->get('/barrier')->status() == 200;
            $r{'the same worker'} = ($a->workers())[0] == $worker;
            !$r{$_} and $failed{$_}++ for keys %r;
        }

        ok(!%failed, "$way while waiting for $name")
            or diag(map { "$_: failed in $failed{$_} of $rounds rounds\n" }
                sort keys %failed);
    }
}

# descriptors of the worker; connections to memcached are two at most

sub idle_fds {
    my $now = $a->count_fds($worker);
    my $mc = @{delete $now->{tcp}{$t->port('f')} // []};

    return $now->{files} + $now->{unix}
        + ($mc > 2 ? $mc : 0) + map { @$_ } values %{$now->{tcp}};
}


# requests that will be left alone

sub clients {
    my ($way, $uris, %o) = @_;

    if ($way eq 'h2') {
        my $h = Test::Mcds::Http2->new($t->port('h2'), %o);
        return { h2 => $h, ids => [map { $h->request($_) } @$uris] };
    }

    return { way => $way,
        list => [map { start_get($a->port(), $_) } @$uris] };
}


sub leave {
    my ($them) = @_;

    if (my $h = $them->{h2}) {
        $h->rst($_) for @{$them->{ids}};
        my $ok = $h->ping(5 * $t->slow());
        $h->close();
        return $ok;
    }

    for my $c (@{$them->{list}}) {
        $them->{way} eq 'fin' ? $c->close() : $c->reset();
    }

    # the worker has heard of it

    return 1;
}


# that many requests under a part of the uri have sent their first commands

sub arrived {
    my ($part, $want) = @_;

    return wait_for(sub {
        my $sum = 0;

        for my $line ($f->commands(qr/^ma here:\S*\Q$part\E/)) {
            $sum += $line =~ / D(\d+)/ ? $1 : 1;
        }

        return $sum >= $want;
    }, 5 * $t->slow());
}


# what was held goes on, also what comes while it does

sub let_go {
    $f->tell('');
    1 while $f->release();
}


sub settled {
    my ($open) = @_;
    return wait_for(sub { idle_fds() <= $fds + $open }, 5 * $t->slow());
}


sub good {
    my ($c) = @_;

    my $r = finish($c, 10 * $t->slow());

    return $r->status() == 200 && $r->complete();
}


sub count {
    my ($way, $tag) = @_;

    $f->tell('^ma here:/count/');
    my $them = clients($way, [map { "/count/$tag/$_" } 1 .. $n]);
    my $stays = start_get($a->port(), "/count/$tag/1");

    my %r = ('all arrived' => arrived($tag, $n + 1));
    $r{left} = leave($them) && settled(1);
    let_go();
    $r{'who stayed is answered'} = good($stays);
    $r{'all were counted'} = !grep {
        $f->get("here:/count/$tag/$_") != ($_ == 1 ? 2 : 1)
    } 1 .. $n;

    return %r;
}


sub lookup {
    my ($way, $tag) = @_;

    $f->tell('^mg <>/look');
    my $them = clients($way, [map { "/look/$tag/" . ($_ / 2 | 0) } 1 .. $n]);
    my $stays = start_get($a->port(), "/look/$tag/1");

    my %r = ('all arrived' => arrived($tag, $n + 1));
    $r{left} = leave($them) && settled(1);
    let_go();
    $r{'who stayed is answered'} = good($stays);
    $r{'the others ask nothing'} = $o->count() == 1;

    return %r;
}


# lookups are held until all are there, else their answers are behind the
# first lock's

sub lock {
    my ($way, $tag) = @_;

    $f->tell('^mg <>/lock');
    my @uris = map { "/lock/$tag/" . ($_ / 2 | 0) } 2 .. $n;
    my $them = clients($way, \@uris);
    my $stays = start_get($a->port(), $uris[0]);
    my %r = ('all arrived' => arrived($tag, $n));

    $f->tell('^ms \S+:lock');
    1 while $f->release('^mg <>/lock');

    my %uris = map { $_ => 1 } @uris;
    $r{'all ask for a lock'} = wait_for(sub {
        $f->count(qr/^ms \S+:lock/) == keys %uris;
    });

    $r{left} = leave($them) && settled(1);
    let_go();
    $r{'who stayed is answered'} = good($stays);
    $r{'the others build nothing'} = $o->count() == 1;

    return %r;
}


sub wait_here {
    my ($way, $tag) = @_;

    my $uri = "/here/$tag";

    $o->hold_path($uri);
    my $builds = start_get($a->port(), $uri);
    my %r = ('one builds' => $o->wait_requests(1, $uri));

    my $them = clients($way, [($uri) x $n]);
    my $stays = start_get($a->port(), $uri);

    $r{'all arrived'} = arrived($tag, $n + 2);
    $a->get('/barrier');
    $r{left} = leave($them) && settled(3);
    $o->release($uri);
    $r{'who built is answered'} = good($builds);
    $r{'who stayed is answered'} = good($stays);
    $r{'one build'} = $o->count($uri) == 1;

    return %r;
}


sub wait_elsewhere {
    my ($way, $tag) = @_;

    my $uri = "/there/$tag";

    $f->set("<>$uri:lock", 'another', 60);
    my $them = clients($way, [($uri) x $n]);
    my $stays = start_get($a->port(), $uri);

    my %r = ('all arrived' => arrived($tag, $n + 1));
    $r{'they poll'} = wait_for(sub { $f->count(qr/^mg \S+:lock/) });
    $a->get('/barrier');
    $r{left} = leave($them) && settled(1);
    $f->delete("<>$uri:lock");
    $r{'who stayed is answered'} = good($stays);
    $r{'one build'} = $o->count($uri) == 1;

    return %r;
}


sub build {
    my ($way, $tag) = @_;

    my $first = "/build/$tag/1";

    $o->hold_path('*');
    my $them = clients($way, [map { "/build/$tag/$_" } 1 .. $n]);
    my %r = ('all build' => $o->wait_requests($n));

    my $stays = start_get($a->port(), $first);
    $r{'all arrived'} = arrived($tag, $n + 1);
    $a->get('/barrier');
    leave($them);
    $r{'who stayed builds'} = $o->wait_requests(2, $first);
    $r{left} = settled(2);
    $o->release('*');
    $r{'who stayed is answered'} = good($stays);
    $r{'the others are not asked again'} = $o->count() == $n + 1;

    return %r;
}


# the origin has sent half of its answer

sub half {
    my ($way, $tag) = @_;

    my @uris = map { "/half/$tag/$_" } 1 .. $n;

    $o->set('*', { parts => ['x' x 60000, ['y' x 60000, 60]],
                   headers => ['Cache-Control' => 'max-age=60'] });
    my $them = clients($way, \@uris);
    my %r = ('all build' => $o->wait_requests($n));

    if ($them->{h2}) {
        $them->{h2}->begun($_, 5) for @{$them->{ids}};

    } else {
        $_->fill(5) for @{$them->{list}};
    }

    my $stays = start_get($a->port(), $uris[0]);
    $r{'all arrived'} = arrived($tag, $n + 1);
    $a->get('/barrier');
    $o->set('*', undef);
    leave($them);
    $r{'who stayed is answered'} = good($stays);
    $r{'half a page is not stored'} = !grep {
        defined $f->get("<>$_")
    } @uris[1 .. $n - 1];

    return %r;
}


# more than the sockets hold, and than a window

sub sending {
    my ($way, $tag, $round) = @_;

    my $uri = "/large/$tag";

    $o->set($uri, { body => 'x' x 900000, headers =>
        ['Cache-Control' => 'max-age=60'] });

    my %r = (stored => good(start_get($a->port(), $uri)));

    my $them = clients($way, [($uri) x $n], window => 1000);

    if ($them->{h2}) {
        $them->{h2}->begun($_, 5) for @{$them->{ids}};

    } else {
        $_->fill(5) for @{$them->{list}};
    }

    leave($them);
    my $next = $a->get($uri);
    $r{'the next is answered'} = $next->complete()
        && $next->header('X-Cache') eq 'HIT' && $next->body() eq 'x' x 900000;
    $r{'one build'} = $o->count($uri) == 1;

    return %r;
}


# they have their answer, and its store is not answered

sub store {
    my ($way, $tag) = @_;

    my @uris = map { "/store/$tag/$_" } 1 .. $n;

    $o->hold_path('*');
    my $them = clients($way, \@uris);
    my %r = ('all build' => $o->wait_requests($n));

    $f->tell('^ms <>/store/(?!\S*:lock)');
    $o->release('*');
    $r{'all store'} = wait_for(sub {
        $f->count(qr/^ms <>\/store\S+\d /) == $n;
    }, 5 * $t->slow());

    my $stays = start_get($a->port(), $uris[0]);
    $r{'another arrived'} = arrived($tag, $n + 1);
    leave($them);
    $r{left} = settled(1);
    let_go();
    $r{'who stayed is answered'} = good($stays);

    $r{'all are stored'} = wait_for(sub {
        $f->count(qr/^md \S*store\S*:lock/) == $n;
    }) && !grep { !defined $f->get("<>$_") } @uris;
    $r{'one build each'} = $o->count() == $n;

    return %r;
}


sub refresh {
    my ($way, $tag, $round) = @_;

    my @uris = map { "/refresh/$way/" . (($round - 1) * $n + $_) } 1 .. $n;

    sleep 0.05 while time() < $expired;

    $o->hold_path('*');
    my $them = clients($way, \@uris);
    my %r = ('all refresh' => $o->wait_requests($n));

    $r{left} = leave($them) && settled($n);
    $o->release('*');

    $r{'all are stored'} = wait_for(sub {
        $f->count(qr/^md \S*refresh\S*:lock/) == $n;
    });
    $r{'and served'} = !grep {
        $a->get($_)->header('X-Cache') ne 'HIT'
    } @uris;
    $r{'one refresh each'} = $o->count() == $n;

    return %r;
}


$t->done();
