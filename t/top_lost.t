#!/usr/bin/perl

# Copyright (C) mcds authors

# Counts for the most viewed that were stored without that being known, in each
# way in which an answer can be lost: none of them is counted a second time.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/counts for the most viewed "\w+" are lost/,
        qr/memcached sent the reply to another/);

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if !$f->mode() || $line !~ /^ms @{[$f->mode()]}:top:\d/;

    my $how = $f->mode();

    $f->{mode} = '';
    $f->default($line, $value);

    return $how eq 'silent' ? $f->stall() : $how eq 'closed' ? $f->fin()
        : "HD O1\r\n";
});

my @ways = qw/ silent closed odd /;
my $tops = join '', map { "mcds_counter_top $_ flush=100ms;\n" } @ways;
my $locations = join '', map { <<"EOT" } @ways;
        location /$_/ { mcds_counter \$n key=\$uri top=$_;
            mcds_return 200 "n"; }
        location = /$_.json { mcds_counter_api top=$_; }
EOT

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 500ms;
        max_fails 0; }
    $tops
    server {
        listen 127.0.0.1:%%PORT%%;
$locations
    }
}
EOT

sub total {
    my ($way) = @_;
    my $n = 0;
    $n += $_ for $h->get("/$way.json")->body() =~ /"count": ?(\d+)/g;
    return $n;
}

for my $way (@ways) {
    $h->get("/$way/a") for 1 .. 3;
    ok(wait_for(sub { total($way) == 3 }), "$way: three are counted")
        or diag($h->get("/$way.json")->body());

    my $lost = $h->log_count(qr/most viewed "$way" are lost/);

    $f->tell($way);
    $h->get("/$way/a") for 1 .. 5;
    ok(wait_for(sub {
        $h->log_count(qr/most viewed "$way" are lost/) > $lost
    }), "$way: an answer is lost, and that is said");

    # those that come later are counted

    $h->get("/$way/b") for 1 .. 2;
    ok(wait_for(sub { total($way) >= 5 }), "$way: later ones are there");
    cmp_ok(total($way), '<=', 10, "$way: none is counted twice");
}

$t->done();
