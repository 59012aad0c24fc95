#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_counter_writeback and requests that end long after their worker was told
# to exit: their counts are posted, too, and soon, though the interval is an
# hour and no other request comes.

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
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_zone 1m;
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_counter_writeback /save interval=%%INTERVAL%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=$uri statuses=any;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }
        location = /save {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $stop = $t->nginx('stop', $conf =~ s/%%INTERVAL%%/1h/r);
my $load = $t->nginx('load', $conf =~ s/%%INTERVAL%%/1h/r);
my $left = $t->nginx('left', $conf =~ s/%%INTERVAL%%/200ms/r);
my $busy = $t->nginx('busy', $conf =~ s/%%INTERVAL%%/1h/r
    =~ s{writeback /save}{writeback /save/busy}r
    =~ s{= /save}{/save}r);

$o->hold_path("/$_") for qw/ stop load left busy /;

my %late = map { $_->name() => start_get($_->port(), '/' . $_->name()) }
    $stop, $load, $left, $busy;

ok($o->wait_requests(1, "/$_"), "$_: the origin is slow")
    for sort keys %late;


# a worker posts what it has counted when it is told to exit

$stop->get('/before');
$stop->signal('QUIT');
ok($o->wait_requests(1, '/save'), 'stop: its worker posts a count');
$o->mark();


# what a worker that exits is told to post fails, until it gives up: workers of
# the new configuration, which have counted nothing themselves, post it later

$o->set('/save', { status => 503 });
ok($left->reload(), 'left: reload');
ok(wait_for(sub { $left->leaving() }), 'left: the old worker leaves');
$o->release('/left');
is(finish($late{left})->status(), 204, 'left: the request ends');
ok($o->wait_requests(1, '/save'), 'left: its worker posts the count');


# other requests end when the time has passed after which an exiting worker
# gives up: it begins anew with each count

ok($load->reload(), 'load: reload');
ok(wait_for(sub { $load->leaving() }), 'load: the old worker leaves');
ok(wait_for(sub { !$left->leaving() }, 30), 'left: the worker gives up');
$o->set('/save', undef);
$o->mark();

$o->release('/load');
is(finish($late{load})->status(), 204, 'load: the request ends');
ok(wait_for(sub { sums()->{'/load'} }, 8), 'load: its worker posts');
ok(wait_for(sub { !$load->leaving() }), 'load: and exits');

$o->release('/stop');
is(finish($late{stop})->status(), 204, 'stop: the request ends');
ok($stop->wait_exit(), 'stop: nginx ends');

ok(wait_for(sub { sums()->{'/left'} }, 30),
    'left: a worker that has not counted posts what was left');

is_deeply(sums(), { map { ("/$_" => 1) } qw/ stop load left / },
    'each count, once');


# the counts of the workers of the new configuration wait for their time; this
# one posts what there is once or twice, and not what they count meanwhile

ok($busy->reload(), 'busy: reload');
ok(wait_for(sub { $busy->leaving() }), 'busy: the old worker leaves');

my $many = $t->load(ports => [$busy], uri => '/many', clients => 2,
    seconds => 4, background => 1);

ok($o->wait_requests(20, '/many'), 'busy: the new worker counts');
$o->release('/busy');
is(finish($late{busy})->status(), 204, 'busy: the request ends');
ok(wait_for(sub { !$busy->leaving() }), 'busy: the old worker exits');
$many->wait();

my @posts = $o->requests('/save/busy');

ok(scalar(grep { $_->{body} =~ m{"/busy"} } @posts), 'busy: it has posted');
cmp_ok(scalar(@posts), '<=', 3, 'busy: a few times at most');

for my $h ($stop, $load, $left, $busy) {
    ok($h->log_lacks(qr/counts are lost/), $h->name() . ': nothing is lost');
}

$t->allow(qr/answered 503/);
$t->done();


# the counts of the batches that were answered with 2xx

sub sums {
    my (%sum, %seen);

    for my $r ($o->requests('/save')) {
        next if $seen{$r->{headers}{'x-mcds-batch'}}++;
        $sum{$_->{key}} += $_->{delta} for @{decode_json($r->{body})};
    }

    return \%sum;
}
