#!/usr/bin/perl

# Copyright (C) mcds authors

# What becomes of a request that no longer waits for memcached, and of what
# memcached answers after that: the late lock is released, the late page is not
# taken, the page is built once in the host and stored, clients may leave, and
# workers end.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new(calm => 1)
    ->allow(qr/timed out|prematurely closed|client canceled/);

my $timeout = 500 * $t->slow();
my $each = 0.7 * $timeout / 1000;

# none of the commands times out

my $m = $t->fake('m', sub {
    my ($f, $c, $line, $value) = @_;

    return if $f->mode() ne 'slow' || $line !~ /^m[sagd] /;
    return $f->lag($c, $line, $value, $each);
});

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return {
        headers => ['Cache-Control' => 'max-age=60'],
        delay => $req->{path} =~ /herd/ ? 0.3 : 0,
        body => "answer $req->{k} of $req->{path}",
    };
});

my $conf = <<"EOT";
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout ${timeout}ms; }
    mcds_cache on;
    mcds_cache_key \$uri;
    mcds_cache_status_header on;
    add_header X-Cache "\$mcds_cache_status \$mcds_cache_reason" always;
    add_header X-Views \$views always;
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_h2%% %%H2%%;
        location / {
            mcds_table_lookup \$found table \$uri none;
            mcds_counter \$views key=views\$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /plain/ {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /lock/ {
            mcds_lock \$uri unavailable=pass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $http2 = $t->has('http_v2') && $t->has('curl');

$conf =~ s/%%H2%%/$http2 ? 'http2' : ''/e;

my $h = $t->nginx('h', $conf);

sub late { return sprintf '%.2f', $_[0]->calm() * 1000 / $timeout }

sub slowly {
    my ($code) = @_;

    $m->tell('slow');
    my @r = $code->();
    $m->tell('');

    return wantarray ? @r : $r[0];
}

# until memcached has answered all of it, and nothing of it is left

sub settle {
    sleep(2 * $each + 0.1);
}

# the lock comes while the page is built; on a busy machine it may come in time,
# and is released when the page is built

my ($p, $held, $late);

for (1 .. 5) {
    $held = "/plain/a$_";
    $o->hold_path($held);

    $p = slowly(sub {
        my $p = start_get($h->port(), $held);
        $o->wait_requests(1, $held);
        wait_for(sub { $m->count(qr{^ms <>$held:lock }) });
        return $p;
    });

    $late = wait_for(sub { $m->count(qr{^md <>$held:lock }) }, 3);
    last if $late;

    $o->release($held);
    finish($p);
}

ok($late, 'the lock that comes late is released');

my $q = start_get($h->port(), $held);
settle();
$o->release($held);

is(finish($p)->body(), "answer 1 of $held", 'the page is built');

# without "local", nothing but a lock tells of a build

my $builds = $t->has('mcds local') ? 1 : 2;

is(finish($q)->body(), "answer $builds of $held",
    'another request waits for it');
is($o->count($held), $builds, 'it is built once');
ok(wait_for(sub { defined $m->get("<>$held") }), 'and stored');
ok(!defined $m->get("<>$held:lock"), 'no lock is left');
like($h->get($held)->header('X-Cache'), qr/^HIT/, 'and found');

# the build has ended before the lock comes

my $r = slowly(sub { $h->get('/plain/b') });

is($r->body(), 'answer 1 of /plain/b', 'built at once');
cmp_ok(late($r), '<', 1.4, 'in time');
settle();
ok(wait_for(sub { defined $m->get('<>/plain/b') }), 'stored');
ok(!defined $m->get('<>/plain/b:lock'), 'no lock is left');
like($h->get('/plain/b')->header('X-Cache'), qr/^HIT/, 'found');

# a page that was found meanwhile, and had been purged when it was built

$m->delete('<>/plain/b');
$r = slowly(sub { $h->get('/plain/b') });
is($r->body(), 'answer 2 of /plain/b', 'built once more');
settle();
like($h->get('/plain/b')->body(), qr/answer 2/, 'and that is what is stored');

# many requests for one page

my @r = slowly(sub { many(20, sub { [$h->port(), '/plain/herd'] }) });

is(scalar(grep { $_->body() =~ /^answer \d+ of/ } @r), 20, 'a herd: answered');
my $built = $o->count('/plain/herd');
ok($built >= 1 && $built <= $builds, 'a herd: the page was built once')
    or diag($built);
my ($last) = sort { $b <=> $a } map { late($_) } @r;
cmp_ok($last, '<', 3, "a herd: the last one in $last timeouts");
settle();

# a keepalive connection: each request has its own time

my $c = conn($h->port());

@r = slowly(sub { map { $c->get("/keep/$_") } 1 .. 2 });

is(scalar(grep { $_->body() =~ /^answer 1 of/ } @r), 2, 'keepalive: answered');
cmp_ok(late($_), '<', 1.4, 'keepalive: in time') for @r;
$c->close();
settle();

SKIP: {
    skip 'no HTTP/2', 3 if !$http2;

    my $lost = $t->lost();
    my ($out, $took) = split /\n/, slowly(sub {
        return $t->curl('-s', '-w', '\n%{time_total}',
            '--http2-prior-knowledge',
            'http://127.0.0.1:' . $t->port('h2') . '/h2/1');
    });

    $took -= $t->lost() - $lost;

    is($out, 'answer 1 of /h2/1', 'HTTP/2: answered');
    cmp_ok($took * 1000 / $timeout, '<', 1.4, 'HTTP/2: in time');
    settle();
    is($h->get('/h2/1')->header('X-Views'), 2, 'HTTP/2: counted');
}

# clients leave, at any of the steps

for my $wait (0.3, 0.8, 0.95, 1.05, 1.5) {
    slowly(sub {
        my @p = map { start_get($h->port(), $_) } "/left/$wait",
            "/plain/left/$wait", "/lock/left/$wait";
        sleep($wait * $timeout / 1000);
        $_->reset() for @p;
    });
    settle();
}

for my $uri (map { ("/left/$_", "/plain/left/$_", "/lock/left/$_") } 0.3, 1.5) {
    $r = $h->get($uri);
    like($r->body(), qr{^answer \d+ of \Q$uri\E}, "$uri: answered");
}

# a lock that comes late is released, so that the next one has it

$r = slowly(sub { $h->get('/lock/a') });
is($r->status(), 200, 'mcds_lock: passed');
cmp_ok(late($r), '<', 1.4, 'mcds_lock: in time');
ok(wait_for(sub { !defined $m->get('/lock/a') }), 'mcds_lock: released');

# workers that end finish what they have begun

slowly(sub {
    my @p = map { start_get($h->port(), "/reload/$_") } 1 .. 4;
    wait_for(sub { $m->count(qr{^mg .*/reload/4}) });
    $h->reload();
    @r = map { finish($_) } @p;
});

is(scalar(grep { $_->body() =~ /^answer 1 of/ } @r), 4, 'reload: answered');
ok(wait_for(sub { !$h->leaving() }), 'reload: the old workers end');

is($h->get('/after')->body(), 'answer 1 of /after', 'the new ones answer');

$t->done();
