#!/usr/bin/perl

# Copyright (C) mcds authors

# A dead server is used again soon when its name leads elsewhere.  When the
# first of several addresses cannot be reached, the next one is tried.  IPv6,
# the connection for large values, servers out of a string, and many servers at
# once move alike; servers that are marked down are not asked about.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Dns;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

$t->needs('IO::Socket::IP');

my $d = $t->forked('Test::Mcds::Dns', 'd');

$d->names('localhost', '127.0.0.1');

# on one port, with nobody at 127.0.0.2; in the second a large store can be
# held

my $m1 = $t->fake('m1');

$t->{ports}{$_} = $t->port('m1') for qw/ m3 m6 /;

my $m3 = $t->fake('m3', sub {
    my ($f, $c, $line) = @_;

    return if $line !~ /^ms <>page \d{5}/;
    return ($f->hold('store'), $f->default($line, 'page'));
}, addr => '127.0.0.3');

my $m6 = eval { $t->forked('Fake6', 'm6') };
my $o = $t->origin('o', { body => 'a page ' x 8000 });

my $many = join "\n", map { "server localhost:$_;" } 1001 .. 1060;

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    resolver 127.0.0.1:%%PORT_d%%;
    mcds_pool one {
        server       localhost:%%PORT_m1%%;
        max_fails    1;
        fail_timeout 60s;
        timeout      10s;
    }
    mcds_pool string { libmemcached "--SERVER=localhost:%%PORT_m1%%";
                       timeout 10s; }
    mcds_pool many {
        $many
        server       localhost down;
        server       nowhere.invalid down;
        server       [::1]:1000;
        distribution modula;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_use one;
            mcds_counter \$n key=n;
            mcds_counter_durable \$n off;
            mcds_counter_buffer \$n off;
            mcds_return "<\$n>\\n";
        }
        location /string {
            mcds_use string;
            mcds_counter \$n key=n;
            mcds_counter_durable \$n off;
            mcds_counter_buffer \$n off;
            mcds_return "<\$n>\\n";
        }
        location /many {
            mcds_use many;
            mcds_counter \$n key=n;
            mcds_counter_durable \$n off;
            mcds_counter_buffer \$n off;
            mcds_return "<\$n>\\n";
        }
        location /page {
            mcds_cache one;
            mcds_cache_key page;
            mcds_cache_valid 1h;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

is($h->get('/')->body, "<1>\n", 'a count');

# the server dies, the name leads to two others, of which one is alive

$m1->refuse();
$m1->reset_all();
is($h->get('/')->body, "<>\n", 'no count');
ok(wait_for(sub { $h->log_has(qr/pool "one" is down/) }), 'it is down');

$d->names('localhost', '127.0.0.2', '127.0.0.3');

ok(wait_for(sub { $h->log_has(qr/pool "one" is up again/) }, 20 * $t->slow()),
    'it is up again');
is($h->get('/')->body, "<1>\n", 'a count at the new address');
is($m3->count(qr/^ma n /), 1, 'the second of them');
is($h->log_count(changed('one', '127.0.0.1', '127.0.0.2')), 1, 'first one');
is($h->log_count(changed('one', '127.0.0.2', '127.0.0.3')), 1, 'then other');
is($h->log_count(qr/of pool "one" is/), 2, 'no other line about it');

# without a failure before: the next request has its number

ok(wait_for(sub { $h->log_has(changed('string', '127.0.0.1', '127.0.0.2')) }),
    'the server of a string moves');
is($h->get('/string')->body, "<>\n", 'the first address is dead');
is($h->get('/string')->body, "<2>\n", 'the next one is tried');
is($h->log_count(changed('string', '127.0.0.2', '127.0.0.3')), 1, 'is told');

ok(wait_for(sub {
    $h->log_count(changed('many', '127.0.0.1', '127.0.0.2')) == 60
}), 'many servers move');
is($h->log_count(qr/changed.*pool "many"|pool "many".*changed/), 60,
    'only those with a name that is in use');
ok(!(grep { $_->{name} && $_->{name} ne 'localhost' } $d->records()),
    'no other name was asked for');

# a large value is under way, and lost: that is not the new one's fault

SKIP: {
    skip 'no IPv6', 7 if !$m6;

    is($h->get('/page')->status, 200, 'a page');
    ok(wait_for(sub { $m3->held('store') }), 'is being stored');
    $d->names('localhost', '::1');
    ok(wait_for(sub { $h->log_has(changed('one', '127.0.0.3', '[::1]')) }),
        'IPv6');
    is($h->get('/')->body, "<1>\n", 'a count there');
    $m3->reset_all();
    ok(wait_for(sub { $m3->connections() == 0 }), 'the old one is lost');
    is($h->get('/page')->status, 200, 'another page');
    ok(wait_for(sub { $m6->count(qr/^ms <>page \d{5}/) }), 'is stored');
}

is($h->log_count(qr/of pool "one" is/), 2, 'nothing was a failure');

$t->done();


sub changed {
    my ($pool, $from, $to) = @_;

    my $of = qr/address of memcached server "localhost:\d+" of pool "$pool"/;

    return qr/$of has changed from \Q$from\E:(\d+) to \Q$to\E:\1$/m;
}


package Fake6;

use base qw/ Test::Mcds::Fake /;


sub open_listener {
    my ($self) = @_;

    return IO::Socket::IP->new(Listen => 128, ReuseAddr => 1, V6Only => 1,
        LocalHost => '::1', LocalPort => $self->{port})
        // die "cannot listen for $self->{name}: $!\n";
}
