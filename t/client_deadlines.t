#!/usr/bin/perl

# Copyright (C) mcds authors

# An operation has one deadline, whatever becomes of its connection: it is the
# same when a get is asked again on another connection, and it holds while a
# connection is being made that may take longer.  Which of two operations has
# ended first is told by the order of the log, on a busy machine, too.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many', 'it looks at one worker');

# again: closes the connection when told so, then says nothing; later: says
# nothing; hole: accepts no connection

my $again = $t->fake('again', sub {
    my ($f, $c, $line) = @_;

    return if $line !~ /^mg <>page/ || $f->mode() ne 'lost';
    return $f->{lost}++ ? $f->stall() : ($f->hold('lost'), $f->fin());
});

my $later = $t->fake('later', sub {
    my ($f, $c, $line) = @_;
    return $line =~ /^mg <>page/ ? $f->stall() : undef;
});

$t->fake('hole', sub { }, blackhole => 1);

my $o = $t->origin('o', { body => 'page' });
my $timeout = 2 * $t->slow();

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool again { server 127.0.0.1:%%PORT_again%%; timeout ${timeout}s; }
    mcds_pool later { server 127.0.0.1:%%PORT_later%%; timeout ${timeout}s; }
    mcds_pool hole  { server 127.0.0.1:%%PORT_hole%%; timeout 200ms;
                      connect_timeout 10m; max_fails 0; }
    mcds_cache_key page\$uri;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /again {
            mcds_use again;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /later {
            mcds_use later;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /hole {
            mcds_use hole;
            mcds_counter \$n key=n;
            mcds_return "<\$n>";
        }
    }
}
EOT

sub late { return map { /timed out.*pool: "(\w+)"/ ? $1 : () }
    $h->log_lines(qr/memcached timed out/) }


# the connection is idle, so that a get may be asked again

$h->get('/again/first');
ok(wait_for(sub { $again->count(qr/^m[ds] .*lock/) >= 2 }), 'connected');

$again->tell('lost');
$again->mark();

my @p = start_get($h->port(), '/again/a');
ok(wait_for(sub { $again->held('lost') }), 'again: the get is there');
sleep 0.05;

push @p, start_get($h->port(), '/later/a');
ok(wait_for(sub { $later->count(qr/^mg <>page/) }), 'later: the other one');
sleep 0.05;

$again->release('lost');
ok(wait_for(sub { $again->count(qr/^mg <>page/) == 2 }), 'again: once more');

is(scalar(grep { finish($_)->body() eq 'page' } @p), 2, 'both are served');
ok(wait_for(sub { late() == 2 }), 'and both operations end');
is(join(' ', late()), 'again later', 'the earlier one is the first to end');


# no connection for ten minutes, but no operation waits for that

is($h->get('/hole')->body(), '<>', 'no connection: no number');
ok($h->wait_log(qr/memcached timed out.*pool: "hole"/, 20),
    'the operation has ended, too');

$t->done();
