#!/usr/bin/perl

# Copyright (C) mcds authors

# No memory: in each of the things that mcds does for applications, each
# allocation of the worker fails once.  No worker dies, no request hangs, and
# the next one is answered as ever (R04).  Under make asan nothing may be left
# allocated either.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Memory;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

$t->leave('freenginx itself follows the body of a request that has got none')
    if $t->nginx_name() eq 'freenginx';

# what has no memory says so

$t->allow(qr/\[emerg\] .*(?:malloc|memalign)\(.* failed/,
    qr/\[(?:alert|crit|emerg)\] .*Cannot allocate memory/);

my $m = $t->memcached('m');
my $second = $t->memcached('second');
my $o = $t->origin('o', sub { $_[1]{uri} =~ /save/ ? { status => 204 }
    : { body => '7' } });

my $limits = 'timeout 2s; max_fails 0;';

# with small pools nearly each thing is an allocation of its own

my $h = $t->nginx('h', <<"EOT", memory => 1);
%%GLOBALS%%
worker_processes 1;
events { worker_connections 512; }
http {
    %%HTTP%%
    request_pool_size    112;
    connection_pool_size 112;

    mcds_pool main    { server 127.0.0.1:%%PORT_m%%; $limits }
    mcds_pool classic { server 127.0.0.1:%%PORT_m%%; $limits
                        protocol classic; prefix c:; }
    mcds_pool both    { server 127.0.0.1:%%PORT_m%%; $limits prefix b:;
                        server 127.0.0.1:%%PORT_second%%;
                        distribution modula; replicas 2; }
    mcds_pool down    { server 127.0.0.1:%%PORT_none%%; }
    mcds_use         main;
    mcds_api_methods GET POST PUT PATCH DELETE;
    mcds_counter_top popular flush=100ms keys=10;
    log_format       line \$uri;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /count {
            mcds_counter \$n key=count;
            mcds_return  "\$n";
            location /count/classic { mcds_use classic; mcds_return "\$n"; }
            location /count/both { mcds_use both; mcds_return "\$n"; }
            location /count/none { mcds_use down; mcds_return "\$n"; }
        }
        location /async {
            mcds_counter \$n key=async top=popular async=1ms;
            mcds_return  "\$n";
        }
        location /end {
            mcds_counter \$n key=end statuses=any;
            mcds_counter_durable \$n on;
            mcds_counter_buffer \$n on;
            mcds_return  "\$n";
        }
        location /begin {
            mcds_counter \$n key=\$uri;
            mcds_counter_init \$n /origin;
            mcds_return  "\$n";
        }
        location /back {
            mcds_counter \$n key=back;
            mcds_counter_writeback /origin/save interval=100ms;
            mcds_return  "\$n";
        }
        location /origin { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /people {
            mcds_visitor_counter \$v visitor=\$uri window=4s slots=4
                                 interpolate=off;
            mcds_return "\$v";
        }
        location /numbers {
            mcds_counter_api prefix=numbers: count=on top=popular;
        }
        location /popular { mcds_counter_api top=popular; }
        location /array { mcds_array_api array max=20 unique; }
        location /push {
            mcds_array_push pushed \$uri max=20;
            mcds_array_push unique \$uri max=20 unique;
            return 204;
        }
        location /table/ { mcds_table_api table ttl=1m; }
        location /look {
            mcds_table_lookup \$a table one remember=off;
            mcds_table_lookup \$b table two none remember=1s;
            mcds_return "\$a \$b";
        }
        location /locked {
            mcds_lock   \$uri ttl=2s wait=1s;
            mcds_return "\$mcds_lock_status";
        }
        location /locks/ { mcds_lock_api; }
        location /log {
            mcds_log log line chunk=1s;
            return 204;
        }
        location /lines { mcds_log_api log; }
        location /status { mcds_status; }
    }
}
EOT

my ($worker) = $h->workers();

exhaust($t, $h, $t->size(7, 1),
    ['a counter', sub { ['/count'] }],
    ['a counter, classic', sub { ['/count/classic'] }],
    ['a counter on two servers', sub { ['/count/both'] }],
    ['a counter on none', sub { ['/count/none'] }],
    ['an asynchronous counter', sub { ['/async'] }, behind => 1],
    ['a counter at the end', sub { ['/end'] }, behind => 1],
    ['where a counter begins', sub { ["/begin/$_[0]"] }, behind => 1],
    ['write-back', sub { ['/back'] }, behind => 1],
    ['visitors', sub { ["/people/$_[0]"] }],
    ['numbers', sub { ["/numbers?key=a&key=$_[0]"],
        ['/numbers?key=a&key=b', method => 'POST'] }],
    ['the most viewed', sub { ['/popular'] }],
    ['an array', sub { json('POST', '/array', qq(["$_[0]", {"a": [1]}])),
        json('PATCH', '/array', qq({"remove": ["$_[0]"], "add": [1]})),
        ['/array?format=text'], ['/array'], json('PUT', '/array', '[1, 2]') }],
    ['pushes', sub { ["/push/$_[0]"] }, behind => 1],
    ['a table', sub { json('PUT', '/table/three', '"value"'),
        ['/table/three'], json('POST', '/table/', '{"one": "1", "two": null}'),
        ['/table/'], ['/table/?values=1'] }],
    ['a table without', sub { ["/table/$_[0]", method => 'DELETE'] },
        first => sub { json('PUT', "/table/$_[0]", '1') }],
    ['elements', sub { ['/look'], json('PUT', '/table/two', '2'), ['/look'] }],
    ['a lock', sub { ["/locked/$_[0]"] }],
    ['a lock that was held', sub { waited("/locked/$_[0]") }, behind => 1],
    ['a follower', sub { followed() }, behind => 1],
    ['locks', sub { json('POST', "/locks/$_[0]", '{"owner": "me"}'),
        ["/locks/$_[0]"] }],
    ['a lock, ended', sub {
        ["/locks/$_[0]?owner=me&ttl=5s", method => 'PUT'],
        ["/locks/$_[0]?owner=me", method => 'DELETE'] },
        first => sub { json('POST', "/locks/$_[0]", '{"owner": "me"}') }],
    ['a log', sub { ["/log/$_[0]"] }, behind => 1],
    ['lines', sub { ['/lines?limit=10'], ['/lines?first=-5&format=text'] }],
    ['lines of programs', sub { json('POST', '/lines',
        '["a", {"line": "b", "time": -5}]') }],
    ['status', sub { ['/status'] }],
);

is(($h->workers())[0], $worker, 'the worker of the beginning');

$t->done();


sub json {
    my ($method, $uri, $body) = @_;

    return [$uri, method => $method, body => $body,
        headers => ['Content-Type' => 'application/json']];
}


# somebody else had the lock, and has gone

sub waited {
    my ($uri) = @_;

    $m->set($uri, '1 another', 60);

    my $p = start_get($h->port(), $uri);

    sleep 0.01;
    $m->delete($uri);
    finish($p);

    return [$uri];
}


sub followed {
    my $p = start_get($h->port(), '/lines?follow=1&limit=3');

    $p->fill(0.3);
    $p->close();

    return ['/status'];
}
