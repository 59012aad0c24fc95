#!/usr/bin/perl

# Copyright (C) mcds authors

# RFC 9111, 4.2.3: the time that the origin takes for a page counts to its age,
# and is taken off the lifetime that the origin gives it.  A page that takes
# longer than it lives is built once for all who have waited for it, unless it
# must not be used stale; mcds_cache_valid counts from the answer.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('many', 'it looks at few workers');

my $m = $t->memcached('m');
my $o = $t->origin('o');

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 1024; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_background_update off;
    mcds_cache_wait 30s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /valid/ {
            mcds_cache_valid 1s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /asked/ {
            mcds_cache_revalidate on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';

# the first case waits, the others have hosts whose clock is moved

my $clock;

sub move_clock {
    $clock = Test::Mcds::Clock->new($t, time());
    $m = $clock->memcached('moved');
    @hosts = map {
        $clock->nginx($_, $conf =~ s/%%PORT_m%%/%%PORT_moved%%/r)
    } 'three', 'four';
}

# clients of both hosts ask for a page that takes the origin longer than it
# lives: half of them at once, half of them when it has expired already

sub herd {
    my ($uri, %answer) = @_;

    $o->set($uri, { body => 'page %k', %answer });
    $o->mark();
    $o->hold_path($uri);

    my @p = ask($uri, 10);
    my $start = time();

    $o->wait_requests(1, $uri);

    if ($clock) {
        $clock->pass(1.2);

    } else {
        sleep(0.05) while time() - $start < 1.2;
    }

    push @p, ask($uri, 10);
    $o->let($uri);

    return @p;
}

sub ask {
    my ($uri, $n) = @_;

    my @p = map { start_get($hosts[$_ % 2]->port(), $uri) } 1 .. $n;

    # all of them have been looked up

    $_->handled('/other') for @hosts;

    return @p;
}

sub which {
    my ($r) = @_;
    return join ' ', $r->status(), $r->body();
}

$o->set('/other', { headers => ['Cache-Control' => 'no-store'] });

my %short = (
    'max-age' => ['Cache-Control' => 'max-age=1'],
    's-maxage, stale-while-revalidate' =>
        ['Cache-Control' => 's-maxage=1, stale-while-revalidate=600'],
    'mcds_cache_valid' => [],
);

for my $name ('max-age', sort grep { $_ ne 'max-age' } keys %short) {
    my $uri = (@{$short{$name}} ? '/short/' : '/valid/')
        . $name =~ s/\W+/-/gr;
    my @p = herd($uri, headers => $short{$name});
    my @r = map { finish($_) } @p;

    is(scalar(grep { which($_) eq '200 page 1' } @r), 20,
        "$name: all get what was built");
    is($o->count($uri), 1, "$name: it was built once");
    is(scalar(grep { $_->header('X-Cache') eq 'HIT'
        && $_->header('Age') >= 1 } @r), 19, "$name: Age counts the build");

    my $e = page_decode(page_wait($m, key($uri)));
    my $life = $e->{expire} - $e->{created};

    is($life, 1000 - ($name =~ /age/ ? $e->{took} : 0), "$name: $life ms");
    cmp_ok($e->{took}, '>=', 1000, "$name: took $e->{took} ms");
    is($e->{age}, 0, "$name: the Age that it had");

    next if $clock;

    # a page that has expired is built once as well, by those who come next

    @r = map { finish($_) } herd($uri, headers => $short{'max-age'});

    is($o->count($uri), 1, 'expired: it was built once');
    is(scalar(grep { which($_) =~ /^200 page/ } @r), 20, 'expired: for all');

    move_clock();
}

# what must not be used stale is not

for my $must ('must-revalidate', 'proxy-revalidate', 's-maxage=1',
    's-maxage=1, stale-if-error=600') {
    my $uri = '/must/' . $must =~ s/\W+/-/gr;
    my @p = herd($uri, headers => ['Cache-Control' => "max-age=1, $must"]);

    ok($o->wait_requests(20, $uri), "$must: each asks the origin");
    $o->release($uri);

    my %body = map { $_->body() => 1 } map { finish($_) } @p;

    is(scalar(keys %body), 20, "$must: and gets its own answer");
}

# "not modified" took its time as well

{
    my $uri = '/asked/1';
    my @life = ('Cache-Control' => 'max-age=1', ETag => '"1"');

    $o->set($uri, { headers => [@life], body => 'page %k' });
    $hosts[0]->get($uri);
    page_wait($m, key($uri));
    page_expire($m, key($uri), 100_000);

    my @p = herd($uri, status => 304, headers => [@life], body => '');
    my @r = map { finish($_) } @p;

    is(scalar(grep { which($_) eq '200 page 1' && $_->header('Age') >= 1 } @r),
        20, '304: all get the page');
    is($o->count($uri), 1, '304: the origin was asked once');
}

$t->done();
