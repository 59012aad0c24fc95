#!/usr/bin/perl

# Copyright (C) mcds authors

# TLS and authentication: with the right certificate and password all works,
# with wrong ones the server is not used, requests are answered all the same,
# and one line says why.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

$t->needs('http_ssl', 'openssl');

my ($crt, $key) = $t->cert('mc.local');

$t->write_file('users', "joe:secret\n");
$t->write_file('password', "secret\n");
$t->write_file('wrong', "guess\r\n");

my $plain = $t->memcached('plain');

sub server {
    my ($name, @args) = @_;
    $t->memcached($name, mute => 1, args => \@args);
}

server('tls', '-Z', '-o', "ssl_chain_cert=$crt,ssl_key=$key");
server('auth', '-Y', $t->dir() . '/users');
server('both', '-Z', '-o', "ssl_chain_cert=$crt,ssl_key=$key",
    '-Y', $t->dir() . '/users');

my %pools = (
    tls => 'server 127.0.0.1:%%PORT_tls%%; ssl on;',
    verified => "server 127.0.0.1:%%PORT_tls%%; ssl on; ssl_verify on;
        ssl_trusted_certificate $crt; ssl_name mc.local; keepalive 100ms;",
    auth => 'server 127.0.0.1:%%PORT_auth%%;
        auth_user joe; auth_password_file %%TMP%%/password;',
    both => 'server 127.0.0.1:%%PORT_both%%; ssl on;
        auth_user joe; auth_password_file %%TMP%%/password;',

    name => "server 127.0.0.1:%%PORT_tls%%; ssl on; ssl_verify on;
        ssl_trusted_certificate $crt; ssl_name other.local;",
    toplain => 'server 127.0.0.1:%%PORT_plain%%; ssl on;',
    totls => 'server 127.0.0.1:%%PORT_tls%%;',
    password => 'server 127.0.0.1:%%PORT_auth%%;
        auth_user joe; auth_password_file %%TMP%%/wrong;',
    nobody => 'server 127.0.0.1:%%PORT_auth%%;',
);

my $pools = join '', map { "mcds_pool $_ { $pools{$_} }\n" } sort keys %pools;
my $locations = join '', map { "location /$_/ {
    mcds_use $_;
    mcds_counter \$views key=$_;
    mcds_cache on;
    mcds_cache_valid 200 1m;
    add_header X-Views \$views;
    add_header X-Cache \$mcds_cache_status;
    proxy_pass http://127.0.0.1:%%PORT_o%%;
}\n" } sort keys %pools;

my $big = join '', map { chr(rand 256) } 1 .. 300_000;

$t->origin('o', sub { $big });

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

sub ask {
    my ($pool) = @_;
    my $r = $h->get("/$pool/big");
    ok($r->body() eq $big, "$pool: body");
    return join ' ', $r->status(), $r->header('X-Views') // 'none',
        $r->header('X-Cache');
}

for my $pool ('tls', 'verified', 'auth', 'both') {
    is(ask($pool), '200 1 MISS', "$pool: counted");
    ok(wait_for(sub { ask($pool) =~ /HIT/ }), "$pool: stored");
}

# an idle connection goes, the next one resumes the session

ok(wait_for(sub { select undef, undef, undef, 0.15;
    ask('verified') =~ /^200 \d+ HIT/ }), 'verified: a new connection');

# a page is shown to others as long as memcached may still take it

for my $pool ('name', 'toplain', 'totls', 'password', 'nobody') {
    is(ask($pool), '200 none MISS', "$pool: answered without");
    like(ask($pool), qr/^200 none (?:MISS|HIT)$/, "$pool: and again")
        for 1 .. 3;
}

# memcached 1.6.45 hangs up on those whom it does not know

my $hung_up = qr/is down after .* may want another "auth_user"/;

my %said = (
    name => qr/certificate is not for "other.local"/,
    toplain => qr/pool "toplain" is down after 3 failures, last: TLS hand/,
    totls => qr/pool "totls" is down after 3 failures/,
    password => qr/pool "password" (?:refuses user and password|$hung_up)/,
    nobody => qr/pool "nobody" (?:wants "auth_user" and "auth_p|$hung_up)/,
);

for my $pool (sort keys %said) {
    my @lines = grep { /\[error\]/ && /$said{$pool}/ } split /\n/, $h->log();
    is(scalar @lines, 1, "$pool: said once");
}

unlike($h->log(), qr/secret|guess/, 'no password in the log');

# what nginx -t says

my %wrong = (
    'ssl_verify on;' => qr/need "ssl on"/,
    'ssl on; ssl_verify on;' => qr/needs "ssl_trusted_certificate"/,
    'ssl yes;' => qr/must be "on" or "off" in "ssl yes"/,
    'ssl on; ssl_verify on; ssl_trusted_certificate /nowhere;'
        => qr/cannot load|cannot be used/,
    'auth_user joe;' => qr/need each other/,
    'auth_user "j e";' => qr/spaces or control/,
    'auth_password_file /nowhere;' => qr/cannot be opened/,
    'keepalive 0;' => qr/must be a time above 0/,
);

for my $line (sort keys %wrong) {
    my $out = $t->conf_error(http =>
        "mcds_pool main { server 127.0.0.1:1; $line }");
    like($out, $wrong{$line}, "refused: $line");
    like($out, qr/nginx.conf:\d+/, "with its place: $line");
}

$t->done(keep => ['tls', 'auth', 'both']);
