#!/usr/bin/perl

# Copyright (C) mcds authors

# No memory for a lookup of mcds_table_lookup, in each place: no variable is
# left empty, an error page can look up again, and a lookup that is under way
# does not continue a request that has gone on to its error page.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Memory;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker')
    ->allow(qr/malloc|posix_memalign|memory|refused an allocation/);

$t->leave('sanitizers have allocations of their own') if $t->watched();

# what a worker does not remember comes late

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if $line !~ /^mg t:late/;
    return ($f->pause(0.02), $f->default($line, $value));
});

my $o = $t->origin('o', sub { { delay => 0.05, body => "sorry\n" } });

# with small pools nearly each thing is an allocation of its own

my $h = $t->nginx('h', <<'EOT', memory => 1);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    request_pool_size    112;
    connection_pool_size 112;

    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 10s; max_fails 0; }

    server {
        listen 127.0.0.1:%%PORT%%;

        mcds_table_lookup $late t late none remember=off;
        mcds_table_lookup $known t known none remember=1h;
        error_page 500 /error;

        location = /all { return 200 "$late $known\n"; }
        location = /error { return 200 "sorry: $late $known\n"; }
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name location;

        error_page 500 /error;

        location = /all {
            mcds_table_lookup $late t late none remember=off;
            mcds_table_lookup $known t known none remember=1h;
            return 200 "$late $known\n";
        }
        location = /error { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOT

# values that need an allocation, too

my ($late, $known) = ('late' x 50, 'known' x 50);
my $found = qr/(?:$late|none) (?:$known|none)/;

$f->set('t:late', $late);
$f->set('t:known', $known);

for my $host (qw/ server location /) {
    my ($worker) = $h->workers();
    my $memory = Test::Mcds::Memory->of($h, $worker);
    my ($n, %seen, @wrong) = 0;

    is(get($host)->body(), "$late $known\n", "$host: found");

    while (++$n < 200) {
        $o->mark();
        $memory->fail($n);
        my $r = get($host);
        my $failed = $memory->now()->{failed};
        $memory->fail(0);

        my $status = $r->status() || 'none';
        my $pages = $o->count('/error');

        $seen{$status}++;
        push @wrong, "$n: $status, " . $r->body() . ($r->error() // '')
            . ", $pages error pages"
            if $r->body() !~ /^(?:$found|sorry|sorry: $found|)\n?$/
            || $status eq '200' && $r->body() !~ /^$found\n$/
            || ($r->error() // '') eq 'timed out'
            || $pages > 1;

        last if !$failed || ($h->workers())[0] != $worker;
    }

    note("$host: ", join ', ', map { "$seen{$_} $_" } sort keys %seen);
    cmp_ok($n, '>', 10, "$host: many are refused");
    cmp_ok($n, '<', 200, "$host: each of them");
    cmp_ok($seen{500} // 0, '>', 3, "$host: error pages");
    is(join('; ', @wrong), '', "$host: what comes of it");
    is(($h->workers())[0], $worker, "$host: the worker of the beginning");
    is(get($host)->body(), "$late $known\n", "$host: found again");
}

$t->done();


sub get {
    my ($host) = @_;

    return $h->get('/all', host => $host, timeout => 10);
}
