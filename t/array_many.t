#!/usr/bin/perl

# Copyright (C) mcds authors

# N11, N12: an array that 64 clients of two hosts change at once loses no
# change, and takes few attempts for it; who reads one that is replaced all the
# time sees one generation of it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

$ENV{TEST_TIMEOUT} //= 3600 if $ENV{MCDS_FULL};

my $t = Test::Mcds->new();

my $m = $t->memcached('m', memory => 256);

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    access_log off;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_api_methods GET PUT PATCH DELETE;
    server {
        listen 127.0.0.1:%%PORT%%;
        keepalive_requests 1000000;
        location / { mcds_array_api $uri; }
    }
}
EOC

my @h = map { $t->nginx($_, $conf) } qw/ a b /;


# each change removes something, so that none of them is a mere append

my $each = 1000;
my $rounds = $t->size(1, 320);
my $stats = $m->stats();
my (%status, $lost, $left) = ();

($lost, $left) = (0, 0);

sub change {
    my ($body) = @_;
    my $load = $t->load(ports => [@h], uri => '/cas', method => 'PATCH',
        body => $body, clients => 64, requests => $each, keys => $each);

    $status{$_} += $load->{status}{$_} for keys %{$load->{status}};
}

sub numbers { return join ' ', sort { $a <=> $b }
    $h[$_[0] % 2]->get('/cas')->body() =~ /\d+/g }

for my $round (1 .. $rounds) {
    change('{"add": [%n], "remove": ["none"]}');
    $lost++ if numbers($round) ne join ' ', 0 .. $each - 1;
    change('{"remove": [%n]}');
    $left++ if numbers($round) ne '';
}

my $n = 2 * $rounds * $each;

is_deeply(\%status, { 204 => $n }, "$n changes by 64 clients");
is($lost, 0, 'no addition is lost');
is($left, 0, 'no removal is');

my $failed = $m->stats()->{cas_badval} - $stats->{cas_badval};

cmp_ok($failed, '<', 2 * $n, "$failed of the attempts were too late");


# generations, of several parts each

my @text = map { my $g = $_;
    '[' . join(',', map { "\"$g-$_-" . 'y' x 4000 . '"' } 1 .. 10 + $g) . ']' }
    0 .. 2;

put(0);

my $reads = $t->size(4000, 1_000_000);
my $load = $t->load(ports => [@h], uri => '/gen', clients => 32,
    requests => $reads, expect => \@text, background => 1, timeout => 60);
my $k = 0;
my %put;

until ($load->ended()) {
    $put{put(++$k % 3)->status()}++;
}

my $r = $load->wait();

is($r->{ok}, $reads, "$reads reads");
is($r->{wrong}, 0, 'each of one generation') or diag($r->{first_wrong});
is_deeply([keys %put], [204], "$k were written meanwhile");
cmp_ok($k, '>', 10, 'and others read them');

$t->done();


sub put {
    my ($g) = @_;
    return $h[$g % 2]->get('/gen', method => 'PUT', body => $text[$g],
        headers => { 'Content-Type' => 'application/json' });
}
