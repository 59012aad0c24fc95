#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds uses pools of every kind as nginx does: TLS, with its certificate
# checked, passwords, the classic protocol, replicas, each distribution, and a
# libmemcached string: what nginx has counted there it finds, and nginx goes on
# from what it has set.

use warnings;
use strict;

use Config;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

$t->needs('http_ssl', 'openssl');

my ($crt, $key) = $t->cert('mc.local');

$t->write_file('users', "joe:secret\n");
$t->write_file('password', "secret\n");
$t->write_file('wrong', "guess\n");

my @m = map { $t->memcached("m$_") } 1 .. 3;

sub server {
    my ($name, @args) = @_;
    $t->memcached($name, mute => 1, args => \@args);
}

server('both', '-Z', '-o', "ssl_chain_cert=$crt,ssl_key=$key",
    '-Y', $t->dir() . '/users');

my $three = join ' ', map { "server 127.0.0.1:%%PORT_m$_%%"
    . ($_ == 2 ? ' weight=3' : '') . ';' } 1 .. 3;

my $both = 'server 127.0.0.1:%%PORT_both%%; ssl on; ssl_verify on;'
    . " ssl_trusted_certificate $crt; auth_user joe;";

# libmemcached has the longer one only where a word is as long

my $hash = $Config{ptrsize} == 8 ? 'FNV1A_64' : 'FNV1A_32';

my %pools = (
    secret => "$both ssl_name mc.local; auth_password_file ../password;",
    classic => "$three distribution modula; protocol classic; prefix c:;",
    replicas => "$three replicas 2; distribution ketama; prefix r:;",
    ketama => "$three distribution ketama; prefix k:;",
    crc => "$three distribution modula_crc; prefix m:;",
    ring => "$three distribution nginx_consistent; prefix n:;",
    consistent => "$three distribution consistent; prefix o:;",
    string => 'libmemcached "'
        . join(' ', map { "--SERVER=127.0.0.1:%%PORT_m$_%%" } 1 .. 3)
        . " --HASH=$hash --DISTRIBUTION=consistent\"; prefix s:;",
);

my $pools = join '', map { "    mcds_pool $_ { $pools{$_} timeout 10s;"
    . " connect_timeout 10s; }\n" }
    sort keys %pools;
my $locations = join '', map { "        location /$_/ { mcds_use $_;"
    . " mcds_counter \$views key=\$uri; mcds_return 200 \"\$views\"; }\n" }
    sort keys %pools;

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
$pools
    server {
        listen 127.0.0.1:%%PORT%%;
$locations
    }
}
EOT

my $file = $h->dir() . '/nginx.conf';
my $mcds = Test::Mcds::Tool->new($t, '-c', $file);

for my $pool (sort keys %pools) {
    my @keys = map { "/$pool/$_" } 1 .. 12;

    $h->get($_) for @keys, @keys;

    my $list = $mcds->json('-p', $pool, 'counter', 'get', @keys);

    is(join(' ', map { $_->{value} // '' } @$list), join(' ', (2) x 12),
        "$pool: mcds reads what nginx has counted");

    $mcds->run('-p', $pool, 'counter', 'set', $_, 40) for @keys[0 .. 5];

    is(join(' ', map { $h->get($_)->body } @keys[0 .. 5]),
        join(' ', (41) x 6), "$pool: nginx goes on from what it has set");

    next if $pool =~ /secret|replicas/;

    my %prefix = $pools{$pool} =~ /(prefix) (\w:)/;
    my %at = map { $_->{key} => $_->{server} =~ s/.*://r } @$list;

    is(scalar(grep {
        my $key = $_;
        my ($m) = grep { $_->port() == $at{$key} } @m;
        !defined $m->get("$prefix{prefix}$key");
    } @keys), 0, "$pool: it names the right servers");
}


# one of two replicas is gone

my $list = $mcds->json('-p', 'replicas', 'counter', 'get', 1 .. 200);

# the second replica is on the next server

my ($there) = map { $_->{key} } grep {
    $_->{server} =~ /:@{[$m[1]->port()]}$/ } @$list;
my ($away) = map { $_->{key} } grep {
    $_->{server} =~ /:@{[$m[0]->port()]}$/ } @$list;

$m[0]->stop();

my $r = $mcds->run('-p', 'replicas', '--json', 'counter', 'get',
    map { "/replicas/$_" } 1 .. 12);

is($r->{code}, 0, 'one of the replicas is enough') or diag($r->{err});
unlike($r->{out}, qr/null,/, 'all are there');

for (['set', 3, 3], ['add', 3, '--', '-1'], ['add', 0, 5]) {
    my ($command, $code, @number) = @$_;
    my $name = "$command @number";

    is($mcds->run('-p', 'replicas', 'counter', $command, $there,
        @number)->{code}, 0, "$name: both replicas are up");

    $r = $mcds->run('-p', 'replicas', 'counter', $command, $away,
        @number);

    is($r->{code}, $code, "$name: a replica that is gone keeps a larger one");
    is($r->{err} =~ /^mcds counter: \Q$away\E: /m ? 3 : 0, $code,
        "$name: which is said");
}

is(join(' ', map { $_->{value} } @{$mcds->json('-p', 'replicas', 'counter',
    'get', $there, $away)}), '7 7', 'the others do it all the same');


# not with the wrong password, or name

for (['password', qr/refuses user and password|want another "auth_user"/,
        sub { s{\.\./password}{../wrong} }],
    ['name', qr/certificate is not for "other"/,
        sub { s{ssl_name mc\.local}{ssl_name other} }])
{
    my ($name, $re, $change) = @$_;

    local $_ = Test::Mcds::Tool::slurp($file);
    $change->();
    $t->write_file("h/$name.conf", $_);

    $r = Test::Mcds::Tool->new($t, '-c', $h->dir() . "/$name.conf",
        '-p', 'secret')->run('counter', 'get', 'x');

    is($r->{code}, 3, "wrong $name");
    like($r->{err}, $re, 'it says so');
}

$t->allow(qr/is down/);
$t->done(keep => ['both']);
