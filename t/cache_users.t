#!/usr/bin/perl

# Copyright (C) mcds authors

# People who are logged in get their own pages, all others the shared one; no
# page ever reaches somebody else.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();

# a page says whose it is, and has nothing in its headers that warns

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($user) = ($q->{headers}{cookie} // '') =~ /(?:^|[ ;])\w+=(user\d+)/;
    return {
        headers => ['Cache-Control' => 'max-age=1'],
        body => 'page of ' . ($user // 'all') . " at $q->{uri}",
    };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_session_cookies wordpress_logged_in_* PHPSESSID *_token *a*b*;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /off/ {
            mcds_cache_session_cookies off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } 'one', 'two';
my $h = $hosts[0];

sub ask {
    my ($uri, @cookies) = @_;
    my $r = $h->get($uri, headers => [map { (Cookie => $_) } @cookies]);
    return $r->header('X-Cache') . ' ' . $r->body();
}


# which names are a session

$h->get('/names');
page_expire($m, key('/names'), -600_000);

for my $cookie ('wordpress_logged_in_0123abc=x', 'wordpress_logged_in_=x',
    'PHPSESSID=x', 'PHPSESSID=', 'PHPSESSID', ' PHPSESSID =x',
    'a=b;PHPSESSID=x', 'a=b; PHPSESSID=x; c=d', "a=b;\tPHPSESSID=x",
    ';;PHPSESSID=x', 'csrf_token=x', '_token=x', 'xaxbx=1', 'ab=1',
    'aab=1', 'abab=1', 'phpsessid=x', 'a=" PHPSESSID=x"', 'PHPSESSID[]=x',
    'a=b, PHPSESSID=x', "a=b;\x0bPHPSESSID=x", 'wordpress.logged[in x=1',
    '=PHPSESSID')
{
    is(ask('/names', $cookie), 'BYPASS page of all at /names',
        "'$cookie' is a session");
}

is(ask('/names', 'a=1', 'b=2', 'PHPSESSID=3'), 'BYPASS page of all at /names',
    'in the last of three lines');

for my $cookie ('', 'a=b', 'XPHPSESSID=x', 'PHPSESSIDX=x',
    'a=PHPSESSID', 'a=b PHPSESSID', 'wordpress_logged_i=x',
    'x_wordpress_logged_in_1=x', 'token=x', '_tokens=x', 'ba=1', '_ga=1',
    'a=" PHPSESSID"')
{
    is(ask('/names', $cookie), 'HIT page of all at /names',
        "'$cookie' is none");
}

$h->get('/off/');
page_expire($m, key('/off/'), -600_000);
is(ask('/off/', 'PHPSESSID=x'), 'HIT page of all at /off/', 'off');


# nothing of theirs is stored, in any state of the page

for my $state ('missing', 'fresh', 'expired') {
    my $uri = "/$state";

    if ($state ne 'missing') {
        $h->get($uri);
        page_expire($m, key($uri), $state eq 'fresh' ? -600_000 : 1000);
    }

    my $before = $m->get(key($uri)) // '';

    is(ask($uri, "PHPSESSID=user$_"), "BYPASS page of user$_ at $uri",
        "$state: user$_") for 1 .. 3;
    is(http_head($h->port(), $uri, headers => { Cookie => 'PHPSESSID=1' })
        ->header('X-Cache'), 'BYPASS', "$state: HEAD");

    is($m->get(key($uri)) // '', $before, "$state: the page is left alone");
}


# all at once, on both hosts, while pages expire

my $n = $t->size(1500, 20_000);

$o->set($_, { delay => 0.01 }) for '/mix/1', '/mix/2';

my @who = map { $_ % 3 ? 'user' . $_ % 3 : 'all' } 0 .. $n - 1;
my @r = many($n, sub {
    my ($i) = @_;
    my @cookie = $who[$i] eq 'all' ? ()
        : (headers => { Cookie => "a=b; PHPSESSID=$who[$i]" });
    return [$hosts[$i / 3 % 2]->port(), '/mix/' . ($i % 2 + 1), @cookie];
}, concurrency => 60, timeout => 60 * $t->slow());

my $wrong = grep {
    $r[$_]->body() ne "page of $who[$_] at /mix/" . ($_ % 2 + 1)
} 0 .. $n - 1;
my %status;
$status{$_->header('X-Cache') // 'none'}++ for @r;

is($wrong, 0, 'two users and all others: each has their own page');
cmp_ok($status{BYPASS}, '>=', $n / 2, 'users: to the origin');
cmp_ok($status{HIT} // 0, '>', $n / 10, 'others: from the cache');

$t->done();
