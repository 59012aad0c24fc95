#!/usr/bin/perl

# Copyright (C) mcds authors

# All that a request asks memcached at its start travels in one write, in
# whatever order the directives stand, and so does all that the requests of
# one turn of the event loop ask, before those that were answered go on.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

$t->needs('debug');

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if !$f->mode() || $line !~ /^mg/;
    return ($f->hold(), $f->default($line, $value));
});

my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $h = $t->nginx('h', <<'EOT', log => 'debug');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache_key $uri;
        location = /plain { mcds_return "x"; }
        location = /all {
            mcds_visitor_counter $online key=o visitor=$arg_v
                                 window=10h slots=2 interpolate=off;
            mcds_counter $views key=v;
            mcds_counter $total key=t;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /page {
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /count {
            mcds_counter $views key=w;
            mcds_return "$views";
        }
    }
}
EOT

# the page is stored, the connections are made

is($h->get("/$_")->status(), 200, $_) for 'page', 'all?v=1', 'count';
ok(wait_for(sub { 2 == grep { /^ms \S+ \d{3}/ } $f->commands() }), 'stored');
ok(wait_for(sub { $f->count(qr/^ma o:/) }), 'counted');
ok(wait_for(sub { 2 == grep { /^md / } $f->commands() }), 'locks are free');


# one request

# the line of the last write is in the log

$h->asleep();
$f->mark();
my $before = writes();

is($h->get('/all?v=2')->status(), 200, 'one request');
ok(wait_for(sub { $f->count(qr/^ma o:/) }), 'counted');

is(join(' ', sort map { /^(m\w)/ } $f->commands()), 'ma ma ma mg ms',
    'its commands');

# a line is logged when the write has been done, and perhaps been answered

wait_for(sub { writes() - $before >= 2 });
is(writes() - $before, 2, 'one write, and another when the mark is there');


# requests of one turn, the first without a counter; a page that several want
# is asked for once, a counter that several add to is one sum

my @c = map { $h->conn() } 1 .. 6;
$_->get('/plain') for @c;
$f->mark();
$before = writes();

$h->freeze();
$_->request('/page') for @c[0, 1];
$_->request('/count') for @c[2, 3];
$_->request('/all') for @c[4, 5];
$h->cont();

is(join(' ', map { $_->response()->status() } @c), '200 ' x 5 . 200,
    'six requests');
is(join(' ', sort map { /^(m\w)/ } $f->commands()), 'ma ma ma mg mg',
    'their commands');
is(writes() - $before, 1, 'one turn, one write');


# an answer and a new request in one turn

$f->tell('hold');
$f->mark();
$c[0]->request('/page');
ok(wait_for(sub { $f->count(qr/^mg/) }), 'the page is asked for');

$h->asleep();
$f->tell('');
$h->freeze();
$f->release();
$c[1]->request('/count');

my @before = steps();

$h->cont();

is($_->response()->status(), 200, 'both') for @c[0, 1];

my @steps = steps();

is(join(' ', @steps[@before .. $#steps]), 'writev resume resume',
    'asked first, then gone on');

$_->close() for @c;
$t->done();


# to memcached: lines of the debug log that belong to no request

sub writes {
    return scalar grep { $_ eq 'writev' } steps();
}


sub steps {
    return $h->log() =~ /\d+#\d+: (?:\*\d+ mcds )?(writev(?=: \d+ of)|resume)/g;
}
