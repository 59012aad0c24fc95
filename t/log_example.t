#!/usr/bin/perl

# Copyright (C) mcds authors

# conf-examples/log.* as they are, but for ports and folders: what they say is
# what they do, on two hosts.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT slurp /;
use Test::Mcds::Follow;
use Test::Mcds::Log qw/ lines /;

my $t = Test::Mcds->new();

$t->memcached('m');

my $dir = $t->dir();
my $examples = "$FindBin::Bin/../conf-examples";
my $conf = slurp("$examples/log.conf");

$conf =~ s/^load_module .*;/%%GLOBALS%%/m or die;
$conf =~ s/^user .*;\n//m or die;
$conf =~ s/^http \{/http {\n%%HTTP%%/m or die;
$conf =~ s/127\.0\.0\.1:11211;/127.0.0.1:%%PORT_m%%;/ or die;
$conf =~ s/listen 80;/listen 127.0.0.1:%%PORT%%;/ or die;
$conf =~ s{/srv/www;}{$dir/www;} or die;
$conf =~ s{/srv/log;}{$dir/log;} or die;

mkdir "$dir/$_" for qw/ www log /;
$t->write_file('www/index.html', "hello\n");
$t->write_file('log/index.html', slurp("$examples/log.html"));

my ($a, $b) = map { $t->nginx($_, $conf =~ s/:8081;/:%%PORT_${_}8%%;/r) }
    qw/ a b /;
my $log = Admin->new($t->port('a8'));

is($log->get('/')->status(), 200, 'the page');
like($log->get('/')->body(), qr/EventSource\("lines\?follow=1/, 'follows');

my $live = Test::Mcds::Follow->new($log, '/lines?follow=1&limit=10');

$a->get('/');
$b->get('/nothing');
ok($live->seen(2), 'lines of both hosts')
    or diag($live->text());

my $lines = join "\n", map { $_->{line} } $live->events();

like($lines, qr{"GET / HTTP/1\.\d" 200 6 }, 'one');
like($lines, qr{"GET /nothing HTTP/1\.\d" 404 }, 'another one');
is(scalar(lines($log, '/lines')), 2, 'those who look are not in it');
is(scalar(lines($log, '/failed')), 0, 'nothing has failed');
like($log->get('/lines?format=text')->body(), qr{^127\.0\.0\.1 \S+ "GET }m,
    'as text');
$live->close();

$t->done();


# a server of a host that has another port than its first one

package Admin;

sub new { return bless { port => $_[1] }, $_[0] }


sub port { return $_[0]{port} }


sub get {
    my ($self, @args) = @_;

    return Test::Mcds::http_get($self->{port}, @args);
}
