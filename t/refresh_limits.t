#!/usr/bin/perl

# Copyright (C) mcds authors

# A refresh is nobody's request: what limits, refuses, counts or logs requests
# does not see it, and where there is no connection left for it, the old page
# is shown all the same.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Refresh;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker')->needs('http_auth_request', 'http_stub_status');

$t->write_file('passwords', "me:{PLAIN}secret\n");

my $m = $t->memcached('m');
my $o = $t->origin('o', {
    headers => ['Cache-Control' => 'max-age=60'],
    body    => "answer %n\n",
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { worker_connections 24; accept_mutex off; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 5s; }

    limit_req_zone  $arg_who zone=requests:1m rate=1r/m;
    limit_conn_zone $arg_who zone=connections:1m;

    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache     on;
        mcds_cache_key $uri;
        add_header     X-Cache $mcds_cache_status;

        location / {
            mcds_counter $views key=views:$uri;
            proxy_pass   http://127.0.0.1:%%PORT_o%%;
        }

        location /logged/ {
            log_subrequest on;
            proxy_pass     http://127.0.0.1:%%PORT_o%%;
        }

        location /req/ {
            limit_req  zone=requests burst=1 nodelay;
            try_files  /none @req;
        }
        location @req {
            limit_req  zone=requests burst=1 nodelay;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /conn/ {
            limit_conn connections 1;
            try_files  /none @conn;
        }
        location @conn {
            limit_conn connections 1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /auth/ {
            mcds_cache_shared on;
            auth_request     /check;
            auth_request_set $by $upstream_http_x_by;
            proxy_set_header X-By $by;
            try_files        /none @auth;
        }
        location @auth {
            mcds_cache_shared on;
            auth_request     /check;
            proxy_set_header X-By $by;
            proxy_pass       http://127.0.0.1:%%PORT_o%%;
        }
        location = /check {
            internal;
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /basic/ {
            satisfy              any;
            allow                127.0.0.2;
            deny                 all;
            auth_basic           members;
            auth_basic_user_file %%TMP%%/passwords;
            proxy_pass           http://127.0.0.1:%%PORT_o%%;
        }

        location = /stub { mcds_cache off; access_log off; stub_status; }
    }
}
EOT

my $port = $h->port();
my $wait = 5 * $t->slow();


sub expired {
    my ($uri, %o) = @_;
    $m->set("<>$uri", page_encode(key => "<>$uri", body => "old\n",
        created => int(time() * 1000) - 62000,
        expire => int(time() * 1000) - 2000, %o));
}


sub shown { ($_[0]->header('X-Cache') // 'none') . ' ' . $_[0]->body() }
sub fresh { (refresh_wait($m, $_[0], $wait) // {})->{body} // '' }


# stub_status: connections, requests, reading, writing, waiting

my $watcher = $h->conn();
my $watched = 0;

sub logged { scalar grep { /GET $_[0] / } split /\n/, $h->access_log() }
sub stub { $watched++; [$watcher->get('/stub')->body() =~ /(\d+)/g] }


# limit_req: two requests in all, the refresh is none of them

is($h->get('/req/a?who=a')->status(), 200, 'limit_req: filled');
page_wait($m, '/req/a');
page_expire($m, '/req/a', 1000);
is($h->get('/req/a?who=a')->header('X-Cache'), 'STALE', 'limit_req: stale');
like(fresh('/req/a'), qr/^answer/, 'limit_req: refreshed');
is($h->get('/req/a?who=a')->status(), 503, 'limit_req: the bound is there');


# limit_conn: the refresh holds no place, and takes none from its client's

expired('/conn/a');
$o->hold_path('/conn/a');
is(shown($h->get('/conn/a?who=a')), "STALE old\n", 'limit_conn: stale');
ok($o->wait_requests(1, '/conn/a'), 'limit_conn: the refresh runs');
is(shown($h->get('/conn/a?who=a')), "UPDATING old\n",
    'limit_conn: and is not counted');

$o->hold_path('/conn/b');
my $one = start_get($port, '/conn/b?who=a');
ok($o->wait_requests(1, '/conn/b'), 'limit_conn: a client has the place');
$o->release('/conn/a');
like(fresh('/conn/a'), qr/^answer/, 'limit_conn: refreshed');
is($h->get('/conn/c?who=a')->status(), 503, 'limit_conn: nobody else has it');
$o->release('/conn/b');
is(finish($one)->status(), 200, 'limit_conn: it is answered');


# auth_request: asked for clients alone; what it has set is there

$o->set('/check', { headers => ['X-By' => 'check%n'], status => 200 });
expired('/auth/a');
is(shown($h->get('/auth/a')), "STALE old\n", 'auth_request: stale');
like(fresh('/auth/a'), qr/^answer/, 'auth_request: refreshed');
is($o->count('/check'), 2, 'auth_request: asked once in each location');
my ($req) = $o->requests('/auth/a');
is($req->{headers}{'x-by'}, 'check%n', 'auth_request_set: is passed on');

$o->set('/check', { status => 403 });
expired('/auth/b');
is($h->get('/auth/b')->status(), 403, 'auth_request: refused');
is($o->count('/auth/b'), 0, 'auth_request: nothing is refreshed');


# auth_basic: neither who is refused nor who logs in has anything refreshed

my @login = (headers => { Authorization => 'Basic bWU6c2VjcmV0' });

expired('/basic/a', flags => 0);
is($h->get('/basic/a')->status(), 401, 'auth_basic: refused');
my $r = $h->get('/basic/a', @login);
is($r->status(), 200, 'auth_basic: let in');
like($r->body(), qr/^answer/, 'auth_basic: has an own answer');
is(page_decode($m->get('<>/basic/a'))->{body}, "old\n",
    'auth_basic: not stored');
is($o->count('/basic/a'), 1, 'auth_basic: the origin is asked once');
is(shown($h->get('/basic/a', local => '127.0.0.2')), "STALE old\n",
    'auth_basic: an address that is let in');
like(fresh('/basic/a'), qr/^answer/, 'auth_basic: refreshed');


# counters, stub_status and access log

expired('/seen');
$o->hold_path('/seen');
$m->delete('views:/seen');

my $requests = stub()->[3] - $watched;

is(shown($h->get('/seen')), "STALE old\n", 'seen: stale');
ok($o->wait_requests(1, '/seen'), 'seen: the refresh runs');
ok(wait_for(sub { stub()->[0] == 1 }, $wait),
    'stub_status: no active connection but ours');
my $now = stub();
is("@$now[0, 4 .. 6]", '1 0 1 0', 'stub_status: nobody reads, writes, waits');
$o->release('/seen');
like(fresh('/seen'), qr/^answer/, 'seen: refreshed');

ok(wait_for(sub { stub()->[0] == 1 }, $wait), 'stub_status: and after it');
$now = stub();
is("@$now[0, 4 .. 6]", '1 0 1 0', 'stub_status: the same');
is($now->[3] - $watched, $requests + 1, 'stub_status: one request');

is($m->get('views:/seen'), 1, 'counter: one view');
is(logged('/seen'), 1, 'access log: the client\'s request alone');

# unless subrequests are to be seen, as with proxy_cache_background_update

expired('/logged/a');
is(shown($h->get('/logged/a')), "STALE old\n", 'log_subrequest: stale');
like(fresh('/logged/a'), qr/^answer/, 'log_subrequest: refreshed');
ok(wait_for(sub { logged('/logged/a') == 2 }, $wait), 'log_subrequest: both');


# out of connections

$t->allow(qr/worker_connections are not enough/);
$h->get('/warm');
page_wait($m, '/warm');
expired('/none');
$watcher->close();

# those who have begun a request cannot be put away for a new one

my $last = $h->conn();
my $began = "GET /none HTTP/1.1\r\nHost: localhost\r\n";
$last->send($began);

my @crowd;

ok(wait_for(sub {
    my $c = $h->conn();
    $c->send("GET /");
    push @crowd, $c;
    return $h->log_has(qr/worker_connections are not enough/);
}, $wait), 'connections: all are taken');

$last->send("Connection: close\r\n\r\n");
push @{$last->{methods}}, 'GET';
$r = $last->response();
is($r->status() . $r->body(), "200old\n", 'connections: the old page is shown');
is($r->header('X-Cache'), 'UPDATING', 'connections: by one that refreshes not');
is($o->count('/none'), 0, 'connections: the origin was not asked');

$_->close() for @crowd;

ok(wait_for(sub {
    my $r = eval { $h->get('/none') };
    return $r && ($r->header('X-Cache') // '') =~ /STALE|HIT/;
}, $wait), 'connections: later it is refreshed');
like(fresh('/none'), qr/^answer/, 'connections: and new');
is($o->count('/none'), 1, 'connections: by one request');

$t->done();
