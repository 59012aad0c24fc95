#!/usr/bin/perl

# Copyright (C) mcds authors

# A request that asks memcached several things, one after the other, waits for
# all of them together no longer than the pool's timeout.  The server is slow,
# not dead: each answer takes three quarters of the timeout, so no operation
# fails, and two of them take longer than the request may wait.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;

my $t = Test::Mcds->new(calm => 1)->not_in('many two', 'one worker knows it')
    ->allow(qr/no longer waits|timed out|is down after/);
$t->needs('mcds vary');

my $timeout = 800 * $t->slow();
my $each = 0.75 * $timeout / 1000;

sub slowly {
    my ($f, $c, $line, $value) = @_;

    return if $f->mode() ne 'slow' || $line !~ /^m[sagd] /;
    return $f->lag($c, $line, $value, $each);
}

my @fakes = map { $t->fake($_, \&slowly) } qw/ m n p /;
my ($m, $n, $p) = @fakes;

# of the replicas the first ones say nothing

my ($silent, $mute) = map {
    $t->fake($_, sub {
        my ($f, $c, $line) = @_;
        return $f->mode() eq 'slow' && $line =~ /^m[sagd] / ? $f->stall() : ();
    })
} qw/ silent mute /;

my $quick = $t->fake('quick');

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my $path = $req->{path};

    my @vary = $path =~ /vary/ ? ('Vary' => 'X-Lang') : ();
    my @tags = $path =~ /tags/ ? ('Cache-Tag' => 'red, blue') : ();

    return {
        headers => ['Cache-Control' => 'max-age=60', 'Content-Type' =>
            'text/html', @vary, @tags],
        body => $path =~ /large/ ? "large $req->{k} " x 200_000
            : $path =~ m{^/ssi/} ? join ' ', map {
                qq{<!--# include virtual="/part/$_$path" -->} } 1 .. 2
            : $path =~ /number/ ? '1000'
            : "answer $req->{k} of $path",
    };
});

my $conf = <<"EOT";
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main  { server 127.0.0.1:%%PORT_m%%; timeout ${timeout}ms; }
    mcds_pool other { server 127.0.0.1:%%PORT_n%%; timeout ${timeout}ms; }
    mcds_pool two {
        server       127.0.0.1:%%PORT_silent%%;
        server       127.0.0.1:%%PORT_p%%;
        distribution modula;
        replicas     2;
        timeout      ${timeout}ms;
        max_fails    0;
    }
    mcds_pool three {
        server       127.0.0.1:%%PORT_silent%%;
        server       127.0.0.1:%%PORT_mute%%;
        server       127.0.0.1:%%PORT_quick%%;
        distribution modula;
        replicas     3;
        timeout      ${timeout}ms;
        max_fails    0;
    }
    mcds_use main;
    mcds_cache_key \$uri;
    mcds_cache_tag \$upstream_http_cache_tag;
    mcds_cache_status_header on;
    add_header X-Cache "\$mcds_cache_status \$mcds_cache_reason" always;
    add_header X-Views \$views always;
    add_header X-Lock \$mcds_lock_status always;
    mcds_cache on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /count/ {
            mcds_counter \$views key=views\$uri;
            mcds_counter \$reads key=reads\$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /init/ {
            mcds_counter \$views key=views\$uri;
            mcds_counter_init \$views /number timeout=${timeout}ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /number {
            internal;
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /pools/ {
            mcds_use other;
            mcds_cache main;
            mcds_counter \$views key=views\$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /uses/ {
            mcds_cache_min_uses 2;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /lock/ {
            mcds_lock \$uri unavailable=pass;
            mcds_counter \$views key=views\$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /table/ {
            mcds_table_lookup \$found table \$uri none;
            add_header X-Found \$found always;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /replicas/ {
            mcds_cache two;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /three/ {
            mcds_cache three;
            mcds_cache_tag off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /local/ {
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /ssi/ {
            ssi on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /redirect/ {
            mcds_table_lookup \$found table \$uri none;
            try_files /nothing /vary\$uri;
        }
        location = /purge { mcds_cache off; mcds_purge_api on; }
    }
}
EOT

# the first one makes pages, the other one has seen none of them

my $maker = $t->nginx('maker', $conf);
my $h = $t->nginx('h', $conf);

sub made {
    my ($uri, $where, $key) = @_;

    my $body = $maker->get($uri, headers => { 'X-Lang' => 'en' })->body();

    wait_for(sub { defined $where->get('<>' . ($key // $uri)) })
        or die "$uri is not stored\n";

    return $body;
}

my @table;

# the page comes in less than so many timeouts

sub hurried {
    my ($name, $uri, $body, %o) = @_;

    my $most = $o{most} // 1.4;

    $_->tell('slow') for @fakes, $silent, $mute;

    my $r = $h->get($uri, headers => { 'X-Lang' => 'en' });
    my $took = $r->calm() * 1000 / $timeout;

    $_->tell('') for @fakes, $silent, $mute;

    push @table, sprintf '%-34s %.2f timeouts, %s, views %s', $name, $took,
        $r->header('X-Cache') // 'none', $r->header('X-Views') // 'none';

    cmp_ok($took, '<', $most, "$name: in time");
    is($r->status(), 200, "$name: answered");
    ok($r->body() eq $body || $r->body() =~ $body, "$name: by the right page");

    # what is under way ends, so that nothing of it is left for the next one

    sleep($each + 0.1);

    return $r;
}

my $answer = qr/^answer \d+ of/;

# what is asked once may take its time: three quarters of the timeout.  On a
# busy machine memcached may take more; then something new is asked for.

sub patient {
    my ($name, $uri, $header, $want, $make) = @_;

    my ($r, $body, $told);

    for (1 .. 5) {
        $body = made("$uri$_", $m) if $make;
        $r = hurried($name, "$uri$_", $answer);
        $told = $r->header($header) // '';
        last if $told =~ $want;
    }

    like($told, $want, "$name: what memcached has said");
    is($r->body(), $body, "$name: the page that it has") if $make;
}

patient('a page', '/plain', 'X-Cache', qr/^HIT/, 1);
patient('two counters and a page', '/count/plain', 'X-Views', qr/^1$/);

my ($r, $body);

# one after the other

$body = made('/vary/a', $m);
hurried('list and variant', '/vary/a', $answer);

if ($t->has('mcds large')) {
    $body = made('/large/a', $m);
    hurried('a page in parts', '/large/a', qr/^large \d/);
}

$body = made('/tags/a', $m);
is($maker->get('/purge?tag=green')->status(), 200, 'another tag is purged');
hurried('page and tags', '/tags/a', $answer);

hurried('miss and lock', '/miss/a', $answer);
hurried('uses and lock', '/uses/a', $answer);

$r = hurried('counter, miss and lock', '/count/a', $answer);
$r = hurried('counter of another pool', '/pools/a', $answer);
$r = hurried('a counter with init', '/init/a', $answer, most => 2.4);
$r = hurried('mcds_lock, counter and page', '/lock/a', $answer);
is($r->header('X-Lock'), 'unavailable', 'mcds_lock: not known');

hurried('table, page and lock', '/table/a', $answer);

$body = made('/vary/redirect/a', $m);
hurried('table, redirect, list, variant', '/redirect/a', $answer);

$body = made('/replicas/a', $p);
$r = hurried('replicas, the first is silent', '/replicas/a', $answer);
hurried('replicas, miss and lock', '/replicas/b', $answer);

$body = made('/three/a', $quick);
$r = hurried('three replicas, the third speaks', '/three/a', $body,
    most => 0.92);
like($r->header('X-Cache'), qr/^HIT/, 'three replicas: from the third');

$body = made('/local/a', $m);
is($h->get('/local/a')->body(), $body, 'a copy of its own');
is($maker->get('/local/a')->body(), $body, 'of both');
$m->set('<>/local/a', $m->get('<>/local/a'));
$r = hurried('a copy that was replaced', '/local/a', $body);

made('/ssi/a', $m);
hurried('page with two subrequests', '/ssi/a', qr/^answer .+ answer /,
    most => 2.4);

# memcached is healthy again

made('/vary/b', $m);
$r = $h->get('/vary/b', headers => { 'X-Lang' => 'en' });
like($r->header('X-Cache'), qr/^HIT/, 'afterwards pages come from memcached');

note($_) for @table;

$t->done();
