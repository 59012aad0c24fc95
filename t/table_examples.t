#!/usr/bin/perl

# Copyright (C) mcds authors

# conf-examples/ that are about tables and arrays, as they are but for ports:
# what they say is what they do.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');

$t->origin('o', { status => 200 }, paths => { '/gone' => { status => 404 } });
$t->origin('p', { status => 200 });


# a ban list

my $h = example('banlist');

is($h->get('/')->status(), 200, 'banlist: not banned');
is($h->get('/admin/bans/127.0.0.1', method => 'PUT', body => 'a reason')
    ->status(), 204, 'banlist: ban');
ok(wait_for(sub { $h->get('/')->status() == 403 }, 5), 'banlist: banned');
is($h->get('/admin/bans/?values=1')->body(), qq({"127.0.0.1":"a reason"}\n),
    'banlist: the list');
cmp_ok($m->ttl('bans:127.0.0.1'), '>', 3500, 'banlist: for an hour');
is(json($h, 'POST', '/admin/bans/?ttl=1d', '["192.0.2.8", "192.0.2.9"]')
    ->status(), 204, 'banlist: several');
cmp_ok($m->ttl('bans:192.0.2.9'), '>', 86000, 'banlist: for a day');
is($h->get('/admin/bans/127.0.0.1', method => 'DELETE')->status(), 204,
    'banlist: no longer');
ok(wait_for(sub { $h->get('/')->status() == 200 }, 5), 'banlist: not banned');
is($h->get('/admin/bans/', local => '127.0.0.2')->status(), 403,
    'banlist: not for all');


# switches

$h = example('switches');

is($h->get('/')->header('X-Shop'), 'old', 'switches: the default');
$h->get('/admin/switches/shop', method => 'PUT', body => 'new');
ok(wait_for(sub { $h->get('/')->header('X-Shop') eq 'new' }, 5),
    'switches: new');
$h->get('/admin/switches/shop', method => 'PUT', body => '20%');
ok(wait_for(sub {
    my %n;

    $n{$h->get('/', local => "127.0.0.$_")->header('X-Shop')}++ for 1 .. 60;
    ($n{old} // 0) > 30 && ($n{new} // 0) > 1;
}, 10), 'switches: for some');
is($h->get('/admin/switches/?values=1')->body(), qq({"shop":"20%"}\n),
    'switches: the list');


# maintenance

$h = example('maintenance');

my $admin = $t->port('maintenance_admin');

is($h->get('/')->status(), 200, 'maintenance: open');
is(http_request($admin, '/maintenance/localhost?ttl=30m', method => 'PUT',
    body => 'back at 10')->status(), 204, 'maintenance: close');

# each worker remembers for a second that there was no message

ok(wait_for(sub { !grep { $h->get('/')->status() != 503 } 1 .. 20 }, 10),
    'maintenance: closed');
is($h->get('/x')->body(), "We are at work: back at 10\n",
    'maintenance: the message');
is($h->get('/')->header('Retry-After'), 60, 'maintenance: when to come back');
is($h->get('/', headers => { Cookie => 'admin=secret' })->status(), 200,
    'maintenance: not for administrators');
is($h->get('/', host => 'other')->status(), 200, 'maintenance: another site');
http_request($admin, '/maintenance/localhost', method => 'DELETE');
ok(wait_for(sub { $h->get('/')->status() == 200 }, 5), 'maintenance: open');


# redirects

$h = example('redirects');

json($h, 'POST', '/admin/redirects',
    '{"/old": "/new", "/a b": "https://example.com/"}');
is($h->get('/old')->header('Location'),
    'http://localhost:' . $h->port() . '/new', 'redirects: a page');
is($h->get('/a%20b')->header('Location'), 'https://example.com/',
    'redirects: another site');
is($h->get('/new')->status(), 200, 'redirects: none');
is($h->get('/admin/redirects?name=/old', method => 'DELETE')->status(), 204,
    'redirects: delete');
is($h->get('/admin/redirects?values=1')->body(),
    qq({"/a b":"https://example.com/"}\n), 'redirects: the list');

$h->get('/gone') for 1 .. 3;
ok(wait_for(sub { $h->get('/admin/missing?format=text')->body()
    eq "/gone\n" }, 5), 'redirects: what was not found');

$t->done();


sub example {
    my ($name) = @_;

    my $path = "$FindBin::Bin/../conf-examples/$name.conf";

    open my $fh, '<', $path or die "$path: $!\n";
    my $conf = do { local $/; <$fh> };

    $conf =~ s/^load_module .*;/%%GLOBALS%%/m or die;
    $conf =~ s/^user .*;\n//m or die;
    $conf =~ s/^http \{/http {\n%%HTTP%%/m or die;
    $conf =~ s/127\.0\.0\.1:11211;/127.0.0.1:%%PORT_m%%;/ or die;
    $conf =~ s/127\.0\.0\.1:8000;/127.0.0.1:%%PORT_o%%;/ or die;
    $conf =~ s/127\.0\.0\.1:8001;/127.0.0.1:%%PORT_p%%;/;
    $conf =~ s/listen 80;/listen 127.0.0.1:%%PORT%%;/ or die;
    $conf =~ s/127\.0\.0\.1:8080;/127.0.0.1:%%PORT_maintenance_admin%%;/;

    $conf =~ s/worker_processes auto;/worker_processes 2;/;

    return $t->nginx($name, $conf);
}


sub json {
    my ($h, $method, $uri, $body) = @_;

    return $h->get($uri, method => $method, body => $body,
        headers => { 'Content-Type' => 'application/json' });
}
