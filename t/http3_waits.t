#!/usr/bin/perl

# Copyright (C) mcds authors

# A client of HTTP/3 that asks for no more of its answer, which browsers do when
# a page is left, while its request waits for memcached: whatever the request
# waits for, it ends at once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Http3;

my $t = Test::Mcds->new();

Test::Mcds::Http3::needed($t);

my ($crt, $key) = $t->cert('localhost');
my $wait = 3 * $t->slow();


# all commands are held while the mode says so

my $f = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;

    return if $f->mode() ne 'hold' || $line !~ /^m[gsad] /;
    return ($f->hold('all'), $f->default($line, $value));
});

my $host = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    log_format left '\$uri \$status';
    access_log %%DIR%%/left.log left;
    mcds_pool main { server 127.0.0.1:%%PORT_f%%; timeout 60s; }
    server {
        listen 127.0.0.1:%%PORT%% quic reuseport;
        ssl_certificate     $crt;
        ssl_certificate_key $key;

        location = /counter {
            mcds_counter \$number key=number;
            mcds_return 200 \$number;
        }
        location = /page { mcds_cache on; mcds_return 200 page; }
        location = /lock { mcds_lock lock; mcds_return 200 locked; }
        location = /lookup {
            mcds_table_lookup \$found table key none;
            mcds_return 200 \$found;
        }
        location = /late {
            mcds_table_lookup \$late table other none phase=preaccess;
            mcds_return 200 \$late;
        }
        location = /counters { mcds_counter_api prefix=n:; }
        location = /purge { mcds_purge_api on; }
        location = /array { mcds_array_api array; }
        location = /table { mcds_table_api table; }
        location = /locks { mcds_lock_api; }
        location = /log { mcds_log_api log; }
    }
}
EOT

my $h = Test::Mcds::Http3->new($t, $host->port());

is($h->get('/counter')->body(), 1, 'answered');

for my $uri (qw{
    /counter /page /lock /lookup /late /counters?key=a /purge?key=a
    /array /table /locks?name=a /log
}) {
    my ($path) = $uri =~ /^([^?]+)/;
    my $done = done_of($path);

    $f->tell('hold');

    my $id = $h->request($uri);

    ok(wait_for(sub { $f->held('all') }, $wait), "$uri: waits");
    $h->stop($id);
    ok(wait_for(sub { done_of($path) > $done }, $wait), "$uri: has ended");

    $f->tell('');
    1 while $f->release('all');
}

is($h->get('/counter')->status(), 200, 'the worker lives');
$h->close();

$t->done();


# lines of the access log

sub done_of {
    my ($path) = @_;
    return scalar(() = $t->read_file('h/left.log') =~ /^\Q$path\E \d+$/mg);
}
