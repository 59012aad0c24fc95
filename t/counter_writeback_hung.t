#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_writeback and a worker that is stopped for more than 5 seconds
# while it posts: another worker goes on from the same batch.  The first one
# posts no further batch when it runs again, and no failure of its POST delays
# the other one.

use warnings;
use strict;

use Test::More;

use JSON::PP;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('single', 'there is one process');

my $m = $t->memcached('m');
my $o = $t->origin('o', { status => 204 });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    log_format pid "$pid $status";
    mcds_zone 8m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }
    mcds_counter_writeback /save interval=100ms batch=1;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=$uri;
            mcds_return $n;
        }
        location = /save {
            internal;
            log_subrequest on;
            access_log %%DIR%%/pids pid;
            proxy_pass http://127.0.0.1:%%PORT_o%%/save/$pid;
        }
    }
}
EOT

my @hosts = map { $t->nginx($_, $conf) } qw/ good bad /;
my ($good, $bad) = @hosts;

$o->hold_path("/save/$_") for map { $_->workers() } @hosts;
$o->set("/save/$_", { status => 503 }) for $bad->workers();

my (%hung, %next);

for my $h (@hosts) {
    my $name = $h->name();

    $h->get("/$name/first");
    ok(wait_for(sub { posters($h) == 1 }), "$name: a worker posts");

    ($hung{$name}) = posters($h);
    kill 'STOP', $hung{$name};
    ok(wait_for(sub { Test::Mcds::stopped($hung{$name}) }),
        "$name: it is stopped");

    $o->set("/save/$_", undef) for grep { $_ != $hung{$name} } $h->workers();
    $h->get("/$name/$_") for 1 .. 3;
}

for my $h (@hosts) {
    my $name = $h->name();

    ok(wait_for(sub { posters($h) == 2 }, 20), "$name: another one posts");
    ($next{$name}) = grep { $_ != $hung{$name} } posters($h);

    my @ids = map { id($_) } map { $o->requests("/save/$_") } posters($h);
    is($ids[0], $ids[1], "$name: the same batch");
}


# the first worker runs again, and gets its answer, while the other one waits

for my $h (@hosts) {
    my $name = $h->name();
    my $status = ($h == $bad) ? 503 : 204;

    $o->release("/save/$hung{$name}");
    kill 'CONT', $hung{$name};
    ok(wait_for(sub { pids($h) =~ /^$hung{$name} $status$/m }),
        "$name: the first worker gets $status");
}

for my $h (@hosts) {
    my $name = $h->name();

    $o->release("/save/$next{$name}");
    ok(wait_for(sub { keys %{sums($h)} == 4 }), "$name: all is posted");
    is_deeply(sums($h), { map { ("/$name/$_" => 1) } 'first', 1 .. 3 },
        "$name: each count, once");
    is($o->count("/save/$hung{$name}"), 1,
        "$name: the first worker has posted one batch");
}

is($bad->log_count(qr/tried again/), 0,
    'bad: the batch is not put off for the first worker');

$t->done();


# the workers of a host that have posted a batch

sub posters {
    my ($h) = @_;
    return grep { $o->count("/save/$_") } $h->workers();
}


sub pids {
    my ($h) = @_;
    return $t->read_file($h->name() . "/pids");
}


sub id {
    my ($r) = @_;
    return $r->{headers}{'x-mcds-batch'};
}


# the counts of the batches of a host, by their keys

sub sums {
    my ($h) = @_;
    my (%sum, %seen);

    for my $r (map { $o->requests("/save/$_") } $h->workers()) {
        next if $seen{id($r)}++;
        $sum{$_->{key}} += $_->{delta} for @{decode_json($r->{body})};
    }

    return \%sum;
}
