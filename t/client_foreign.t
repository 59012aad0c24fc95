#!/usr/bin/perl

# Copyright (C) mcds authors

# What listens is no memcached, or one that does not know the meta commands:
# it is named in one line and not used, and no byte of a page reaches it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker')
    ->allow(qr/does not speak the meta commands/,
    qr/"127.0.0.1:\d+" of pool "(?:web|mute|twem)" is down after 3 failures/);

# the answers to each line

my %servers = (
    echo    => sub { return "$_[2]\r\n" },
    classic => sub { return $_[2] eq 'mn' ? "ERROR\r\n" : undef },
    none    => sub { return "ERROR\r\n" },
    locked  => sub { return "CLIENT_ERROR unauthenticated\r\n" },
    full    => sub { return "SERVER_ERROR too many\r\n" },
    turned  => sub { return $_[2] eq 'mn' ? "VERSION 1.6.18\r\n" : "MN\r\n" },
    web     => sub { return $_[0]->fin() if $_[2] eq 'mn';
                     return $_[0]->stall() },
    http    => sub { return ("HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n",
                     $_[0]->fin()) },
    endless => sub { return "\0" x 100000 },
    twem    => sub { return $_[0]->fin() },
    mute    => sub { return '' },
    ssh     => sub { return '' },
);

my %old = (old => '1.6.12', older => '1.4.15', short => '1.6',
    odd => 'unknown', yrmcds => '1.1.9');

my %good = (exact => '1.6.13', bare => '1.6.14', new => '1.6.45',
    newer => '2.0.0');

my %fakes;

$fakes{$_} = $t->fake($_, $servers{$_}, $_ ne 'ssh' ? () :
    (on_connect => sub { return "SSH-2.0-OpenSSH_9.2\r\n" }))
    for keys %servers;

$fakes{$_} = $t->fake($_, version => $old{$_}) for keys %old;

# before 1.6.18 a miss had no flags

$fakes{$_} = $t->fake($_, version => $good{$_}, on_command => sub {
    my ($f, $c, $line, $value) = @_;

    my $bytes = $f->default($line, $value);
    return $f->{version} lt '1.6.18' ? $bytes =~ s/\AEN .*/EN\r/r : $bytes;
}) for keys %good;

my $o = $t->origin('o', { body => "version %u\r\nflush_all\r\nquit\r\n" });

my (@pools, @places);

for (sort keys %fakes) {
    my $timeout = /^(?:web|mute)$/ ? '150ms' : '5s';

    push @pools, "mcds_pool $_ { server 127.0.0.1:%%PORT_$_%%;"
        . " timeout $timeout; fail_timeout 100ms; }";
    push @places, "location /$_/ { mcds_cache $_; mcds_use $_;"
        . ' mcds_counter $n key=$uri; proxy_pass http://o; }';
}

local $" = "\n    ";

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    upstream o { server 127.0.0.1:%%PORT_o%%; }
    mcds_cache_valid 1h;
    add_header X-Cache \$mcds_cache_status;
    add_header X-Number \$n;
    @pools
    server {
        listen 127.0.0.1:%%PORT%%;
        @places
    }
}
EOT

my $line = qr/(?:does not speak the meta commands|wants "auth_user")/;

for my $name (sort keys %servers, keys %old) {
    my $f = $fakes{$name};
    my @wrong;

    for (1 .. 5) {
        my $res = $h->get("/$name/page$_");

        push @wrong, $res->status if $res->status != 200;
        push @wrong, 'body' if $res->body !~ m{\Aversion /$name/page$_\r\n};
        push @wrong, 'number' if defined $res->header('X-Number');
    }

    is("@wrong", '', "$name: requests are answered");
}

for my $name (sort keys %servers, keys %old) {
    my $f = $fakes{$name};

    # probes find the same again

    ok(wait_for(sub { $f->opened_count() >= ($name =~ /web|mute|twem/ ? 5 : 3)
        }), "$name: is tried again");

    is(scalar(grep { !/\A(?:version|mn)\z/ } $f->commands()), 0,
        "$name: gets nothing but the greeting");

    # those that say nothing are down like any other

    is($h->log_count(qr/"$name" (?:is down|does not speak|wants)/), 1,
        "$name: one line");
    is($h->log_count(qr/"$name" $line/), 1, "$name: that tells why")
        if $name !~ /web|mute|twem/;
}

ok($h->log_has(qr/"http" $line.*it said "HTTP\/1.1 400 Bad Request"/),
    'with what it said');
ok($h->log_has(qr/"old" $line.*it said "1.6.12"/), 'or its version');

for my $name (sort keys %good) {
    my $res = $h->get("/$name/page");

    is($res->header('X-Number'), 1, "$name: counts");
    is($res->header('X-Cache'), 'MISS', "$name: a miss");
    ok(wait_for(sub { $fakes{$name}->count(qr/^ms \S+ \d\d\d/) }),
        "$name: the page is stored");
    is($h->get("/$name/page")->header('X-Cache'), 'HIT', "$name: a hit");
}

is($h->log_count($line), keys(%servers) - 3 + keys(%old), 'no more lines');


# once the server has been replaced, it is used

$fakes{old}->restart(version => '1.6.18');
ok(wait_for(sub { defined $h->get('/old/page1')->header('X-Number') }),
    'a newer version is taken');
ok($h->log_has(qr/"old" is up again/), 'and told');

$t->done();
