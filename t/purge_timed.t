#!/usr/bin/perl

# Copyright (C) mcds authors

# Timed copies of the host to which a purge or an unsafe request came: no worker
# uses its copy unasked any more once that was answered, and copies of other
# pages stay.  Without memcached the host at least forgets what it was told to
# delete.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m = $t->memcached('m');
my $f = $t->fake('f', sub {
    my ($f, $c, $line) = @_;
    return if $line !~ /^mg \S*late / || $f->mode() ne 'hold';
    return ($f->hold('mg'), $f->default($line));
});

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;

    return { headers => [Location => $q->{headers}{'x-to'} // '/nowhere'] }
        if $q->{method} eq 'POST';

    return { headers => ['Cache-Control' => 'max-age=600',
            $q->{uri} =~ /vary/ ? (Vary => 'X-A') : ()],
        body => "answer $q->{k}" };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 3;
events { }
http {
    %%HTTP%%
    keepalive_requests 10000;
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; timeout 20s; }
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 300ms; }
    mcds_use fake;
    mcds_cache on;
    mcds_cache_local timed=1h;
    add_header X-Cache $mcds_cache_status always;
    add_header X-Pid $pid always;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        proxy_redirect off;
        location / {
            mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /delete/ {
            mcds_purge_api method=PURGE mode=delete;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /tag/ {
            mcds_cache_tag tag$uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /stale/ {
            mcds_cache_invalidate stale;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /main/ {
            mcds_cache main;
            mcds_purge_api method=PURGE;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /pid { mcds_cache off; mcds_return 200 $pid; }
        location = /purge { mcds_cache off; mcds_purge_api on; }
    }
}
EOT

# a connection to each worker

my %conn;

for (1 .. 1000) {
    my $c = $h->conn();
    $conn{$c->get('/pid')->body()} //= $c;
    last if keys %conn == $t->workers(3);
}

my @conn = map { $conn{$_} } sort keys %conn;
is(scalar(@conn), $t->workers(3), 'a connection to each worker');

sub looks { my ($uri, %o) = @_; return map { $_->get($uri, %o) } @conn }
sub statuses { join ' ', map { $_->header('X-Cache') // 'none' } @_ }

# all workers have a copy of the page and do not ask for it

sub fill {
    my ($uri, %o) = @_;

    $conn[0]->get($uri, %o);
    page_wait($uri =~ /main/ ? $m : $f, key($uri)) or die "$uri: not stored\n";
    wait_for(sub { statuses(looks($uri, %o)) !~ /[^HIT ]/ });
    looks($uri, %o);

    $f->mark();
    my @r = looks($uri, %o);
    return statuses(@r) eq join(' ', ('HIT') x @conn)
        && ($uri =~ /tag/ || $f->count(qr/^mg/) == 0);
}

my $gone = qr/^(?:MISS|HIT)(?: HIT)*$/;
my $stale = qr/^(?:STALE|UPDATING)(?: (?:STALE|UPDATING|HIT))*$/;

# $how: what purges the page; $want: what its status is then, for one worker
# after the other; a hit is one of the new page

sub purged {
    my ($name, $uri, $how, $want, %o) = @_;

    ok(fill('/other'), "$name: a copy of another page");
    ok(fill($uri, %o), "$name: copies");
    my $old = $conn[0]->get($uri, %o)->body();

    my $r = $conn[-1]->get(@$how);
    cmp_ok($r->status(), '<', 400, "$name: done") or diag($r->body());

    my @r = looks($uri, %o);
    like(statuses(@r), $want, "$name: no copy is used unasked");
    is(scalar(grep { $_->header('X-Cache') =~ /HIT|MISS/
        && $_->body() eq $old } @r), 0, "$name: none is the old page");

    wait_for(sub { statuses(looks($uri, %o)) !~ /[^HIT ]/ });
    $f->mark();
    looks('/other');
    is($f->count(qr/^mg \S*other/), 0, "$name: the other copy stays")
        if $uri !~ /all/;
}

my @post = (method => 'POST', body => 'x');

purged('PURGE', '/a', ['/a', method => 'PURGE'], $stale);
purged('PURGE, delete', '/delete/a', ['/delete/a', method => 'PURGE'], $gone);
purged('key=', '/b', ['/purge?key=http://localhost/b'], $stale);
purged('key=, delete', '/c', ['/purge?key=http://localhost/c&mode=delete'],
    $gone);
purged('POST', '/d', ['/d', @post], $gone);
purged('POST, stale', '/stale/a', ['/stale/a', @post], $stale);
purged('Location', '/e', ['/post', @post, headers => { 'X-To' => '/e' }],
    $stale);

purged('tag=', '/tag/a', ['/purge?tag=tag/tag/a'], $stale);
purged('tag=, delete', '/tag/b', ['/purge?tag=tag/tag/b&mode=delete'], $gone);
purged('host=', '/tag/c', ['/purge?host=localhost'], $stale);
purged('all', '/tag/all', ['/purge?all&mode=delete'], $gone);

my @vary = (headers => { 'X-A' => 1 });
purged('a variant, PURGE', '/vary/a', ['/vary/a', method => 'PURGE'], $stale,
    @vary);
purged('a variant, POST', '/vary/b', ['/vary/b', @post], $gone, @vary);


# the page was being confirmed by a worker when it was purged

SKIP: {
    skip 'one worker does both', 3 if @conn < 2;

    my $old = $conn[0]->get('/delete/late')->body();
    page_wait($f, key('/delete/late'));

    $f->tell('hold');
    $conn[1]->request('/delete/late');
    ok(wait_for(sub { $f->held('mg') }), 'late: asked');
    $f->tell('');
    $conn[0]->get('/delete/late', method => 'PURGE');
    $f->release('mg');
    is($conn[1]->response()->body(), $old, 'late: that of before');
    is(statuses($conn[1]->get('/delete/late')), 'MISS',
        'late: but once, for the one that came before');
}


# a variant was being built; the worker that has waited for it knows a list of
# before the purge

SKIP: {
    skip 'one worker does both', 3 if @conn < 3;

    my $uri = '/vary/built';
    my @a = (headers => { 'X-A' => 2 });

    looks($uri);
    page_wait($f, key($uri));
    looks($uri);

    $o->mark();
    $o->hold_path($uri);
    $conn[0]->request($uri, @a);
    $o->wait_requests(1, $uri);

    $f->mark();
    $conn[1]->request($uri, @a);
    ok(wait_for(sub { $f->count(qr/^mg \S+:lock/) }), 'built: one waits');
    $conn[2]->get('/purge?key=http://localhost/vary/built');
    $o->release($uri);

    is(statuses(map { $_->response() } @conn[0, 1]), 'MISS HIT',
        'built: both get the page');

    # UPDATING while the lock of the build is still on its way out

    like(statuses($conn[1]->get($uri, @a)), qr/^(?:STALE|UPDATING)$/,
        'built: which has expired for those who come later');
}


# memcached does not answer

fill("/main/$_") for 1 .. 4;
$m->kill9();

is($conn[-1]->get('/main/1', method => 'PURGE')->status(), 503,
    'dead: not purged');
$conn[-1]->get('/main/2', @post);
$conn[-1]->get('/main/post', @post, headers => { 'X-To' => '/main/3' });

is(statuses(looks("/main/$_->[0]")), $_->[1] . ' HIT' x (@conn - 1),
    "dead: $_->[2]")
    for [1, 'HIT', 'a copy that was not purged is used'],
        [4, 'HIT', 'one of which nothing was said, too'],
        [3, 'HIT', 'one that was to expire, too'];

my @r = looks('/main/2');
unlike(join(' ', map { $_->body() } @r), qr/answer 1/,
    'dead: one that was to be deleted is not');

$t->allow(qr/mcds|memcached/);
$t->done();
