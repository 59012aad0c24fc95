#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_lock: one request at a time on all hosts; who waits, and in which order;
# what is said to others; the number for the backend; when it is released.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker');

my $m = $t->memcached('m');

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;

    return { headers => ['X-Accel-Redirect' => "/inner$1"] }
        if $req->{path} =~ m{^/redirect(/.*)};
    return { status => 404 } if $req->{path} eq '/failing';
    return { body => ($req->{headers}{'x-token'} // '') . "\n" };
});

my $conf = <<'EOC';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    mcds_pool away { server 127.0.0.1:%%PORT_away%%; }
    mcds_use main;
    mcds_api_methods GET POST DELETE;

    log_format lock '$uri $mcds_lock_status $mcds_lock_token';
    access_log %%DIR%%/lock.log lock;

    proxy_set_header X-Token $mcds_lock_token;
    add_header X-Lock $mcds_lock_status always;
    add_header X-Token $mcds_lock_token always;
    add_header X-Wait $mcds_lock_wait always;

    server {
        listen 127.0.0.1:%%PORT%%;

        mcds_lock $uri wait=20s;

        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }

        location /now/ {
            mcds_lock $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /says/ {
            mcds_lock $uri ttl=5s status=409 retry_after=2m;
            error_page 409 /busy;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location = /busy { return 409 "busy: $mcds_lock_status\n"; }

        location /short/ {
            mcds_lock $uri wait=100ms;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /few/ {
            mcds_lock $uri wait=20s waiters=1;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /none/ {
            mcds_lock $uri wait=20s waiters=0;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /off/ {
            mcds_lock off;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /key/ {
            mcds_lock $arg_key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /redirect/ {
            mcds_lock outer;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /inner/ {
            internal;
            mcds_lock $lock_of;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /inner/away {
            internal;
            mcds_use away;
            mcds_lock away unavailable=pass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /passes/ {
            mcds_use away;
            mcds_lock away unavailable=pass;
            try_files /none /second$uri;
        }

        location /second/ {
            mcds_use away;
            mcds_lock away;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /second/passes/too {
            mcds_use away;
            mcds_lock away unavailable=pass;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /refused/ {
            mcds_lock refused;
            deny all;
        }

        location /close/ {
            mcds_lock $uri;
            error_page 404 = @close;
            proxy_intercept_errors on;
            proxy_pass http://127.0.0.1:%%PORT_o%%/failing;
        }

        location @close { return 444; }

        location /error/ {
            error_page 404 /missing;
            proxy_intercept_errors on;
            proxy_pass http://127.0.0.1:%%PORT_o%%/failing;
        }

        location /ssi/ {
            ssi on;
            ssi_types text/plain;
            mcds_lock $uri;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }

        location /locks/ { mcds_lock off; mcds_lock_api; }
    }

    map $uri $lock_of {
        ~same   outer;
        default inner;
    }
}
EOC

my @h = map { $t->nginx($_, $conf) } qw/ a b /;
my ($h, $other) = @h;
my ($r, @p);


# one after the other, all with larger numbers

my @tokens;

for (1 .. 6) {
    $r = $h[$_ % 2]->get('/page');
    is($r->status(), 200, "request $_");
    is($r->header('X-Lock'), 'acquired', "request $_: status");
    is($r->body(), $r->header('X-Token') . "\n", "request $_: the backend");
    push @tokens, $r->header('X-Token');
}

is("@tokens", join(' ', sort { $a <=> $b } @tokens), 'tokens rise');
ok(wait_for(sub { !defined $m->get('/page') }), 'released');
like($tokens[0], qr/^\d{16}$/, 'begins with the time in microseconds');
cmp_ok($m->ttl('/page:fence'), '>', 86000, 'they are counted for a day');


# while one has it

$o->hold_path('/now/x');
push @p, start_get($h->port(), '/now/x');
$o->wait_requests(1, '/now/x');
like($m->get('/now/x'), qr/^\d{16} [0-9a-f]{32}$/, 'what lies in memcached');
cmp_ok($m->ttl('/now/x'), '>', 5, 'for 30 s');

for ($h, $other) {
    $r = $_->get('/now/x');
    is($r->status(), 423, $_->name() . ': busy');
    is($r->header('X-Lock'), 'busy', $_->name() . ': status');
    is($r->header('X-Token'), undef, $_->name() . ': no token');
    is($r->header('Retry-After'), undef, $_->name() . ': no Retry-After');
}

is($h->get('/now/y')->status(), 200, 'another key');
is($h->get('/off/x')->header('X-Lock'), undef, 'off');
is($h->get('/key/')->header('X-Lock'), undef, 'an empty key: no lock');
is($h->get('/key/?key=k')->header('X-Lock'), 'acquired', 'a key');
is($h->get('/refused/')->status(), 403, 'refused');
is($m->get('refused:fence'), undef, 'refused: has not asked');
$o->release('/now/x');
is(finish($_)->status(), 200, 'the one that had it') for @p;
ok(wait_for(sub { $other->get('/now/x')->status() == 200 }), 'then it is free');
is($o->count('/now/x'), 2, 'others were not sent to the backend');


# what is said

$o->hold_path('/says/x');
my $p = start_get($h->port(), '/says/x');
$o->wait_requests(1, '/says/x');
$r = $other->get('/says/x');
is($r->status() . ' ' . $r->body(), "409 busy: busy\n", 'an error page');
is($r->header('Retry-After'), 120, 'Retry-After');
ttl_between($m, '/says/x', 0, 7, 'ttl');
$o->release('/says/x');
finish($p);


# waiting

$o->hold_path('/short/x');
$p = start_get($h->port(), '/short/x');
$o->wait_requests(1, '/short/x');

for ($h, $other) {
    $r = $_->get('/short/x');
    is($r->status() . ' ' . $r->header('X-Lock'), '423 timeout',
        $_->name() . ': waited in vain');
    cmp_ok($r->header('X-Wait'), '>=', 0.1, $_->name() . ': for so long');
}

$o->release('/short/x');
finish($p);

$o->hold_path('/w');
@p = start_get($h->port(), '/w');
$o->wait_requests(1, '/w');
push @p, map { start_get($_->port(), '/w?' . $_->name()) } $other, ($h) x 3;
$h->get('/off/x') for 1 .. 3;

for my $n (2 .. 5) {
    is($o->held('/w'), 1, 'one at a time');
    $o->let('/w', 1);
    ok($o->wait_requests($n, '/w'), "then the next one, $n");
}

is($o->most('/w'), 1, 'never two');
$o->release('/w');
is(join(' ', map { finish($_)->status() } @p), '200 200 200 200 200',
    'all have had their turn');

my @r;

$o->mark();
@r = many(12, sub { [$h->port(), "/order?$_[0]"] });
is(join(' ', map { $_->{uri} =~ /(\d+)/ } $o->requests('/order')),
    join(' ', sort { $a <=> $b } map { $_->{uri} =~ /(\d+)/ }
        $o->requests('/order')), 'first come, first served');
is(scalar(grep { $_->status() == 200 } @r), 12, 'all of them');

$o->hold_path('/few/x');
@p = start_get($h->port(), '/few/x');
$o->wait_requests(1, '/few/x');
push @p, start_get($h->port(), '/few/x');
$h->get('/off/x');
$r = $h->get('/few/x');
is($r->status() . ' ' . $r->header('X-Lock'), '423 full', 'too many wait');
$o->release('/few/x');
is(join(' ', map { finish($_)->status() } @p), '200 200', 'others do not');

$o->hold_path('/none/x');
$p = start_get($h->port(), '/none/x');
$o->wait_requests(1, '/none/x');

for ($h, $other) {
    $r = $_->get('/none/x');
    is($r->status() . ' ' . $r->header('X-Lock'), '423 full',
        $_->name() . ': nobody may wait');
    cmp_ok($r->header('X-Wait'), '<', 15, $_->name() . ': nor does');
}

$o->release('/none/x');
finish($p);
is($h->get('/none/y')->status(), 200, 'a free lock needs no wait');


# who waits leaves; who has it leaves

$o->hold_path('/leave');
@p = start_get($h->port(), '/leave');
$o->wait_requests(1, '/leave');
push @p, map { start_get($h->port(), "/leave?$_") } 1, 2;
$h->get('/off/x');
$p[1]->close();
$p[0]->close();
ok($o->wait_requests(2, '/leave'), 'aborted: the next one has it');
is(($o->requests('/leave'))[1]{uri}, '/leave?2', 'the one that still waits');
$o->release('/leave');
is(finish($p[2])->status(), 200, 'it is answered');
ok(wait_for(sub { !defined $m->get('/leave') }), 'released');
is($o->count('/leave'), 2, 'nobody else was sent there');

for ('/close/x', '/redirect/404') {
    $h->get($_);
    ok(wait_for(sub { !grep { !/fence/ } $m->keys() }), "$_: released")
        or diag(join ' ', $m->keys());
}


$h->get('/error/x');
ok(defined $m->get('/error/x:fence'), 'a request that fails has a lock');
is($m->get('/missing:fence'), undef, 'its error page takes none');


# internal redirects, subrequests

$o->mark();
is($h->get('/redirect/same')->header('X-Lock'), 'acquired',
    'the same lock after a redirect');
$r = $h->get('/redirect/other');
is($r->status(), 200, 'another one after a redirect');
is($r->header('X-Token'), $m->get('inner:fence') =~ s/\s//gr, 'its token');
$o->hold_path('/inner/other');
$p = start_get($h->port(), '/redirect/other');
$o->wait_requests(2, '/inner/other');
ok(defined $m->get('outer') && defined $m->get('inner'), 'both are held');
is($other->get('/redirect/same')->status(), 423, 'the first one, too');
$o->release('/inner/other');
finish($p);

$r = $h->get('/redirect/away');
is($r->status() . ' ' . $r->header('X-Lock'), '200 unavailable',
    'without the second lock');
is($r->body() . ($r->header('X-Token') // ''), "\n",
    'not with the token of the first one');

is($h->get('/passes/too')->status(), 200, 'without it in both locations');
$r = $h->get('/passes/not');
is($r->status() . ' ' . $r->header('X-Lock'), '503 unavailable',
    'the second location does not let it pass');
is($o->count('/second/passes/not'), 0, 'not sent to the backend');

$o->set('/ssi/x', { headers => ['Content-Type' => 'text/plain'],
    body => '<!--# include virtual="/ssi/y" --> <!--# echo'
        . ' var="mcds_lock_status" -->' });
like($h->get('/ssi/x')->body(), qr/ acquired$/, 'in a subrequest');
is($m->get('/ssi/y:fence'), undef, 'subrequests take none');

ok(wait_for(sub {
    grep { /^\/page acquired \d{16}$/ } split /\n/,
        $t->read_file('a/lock.log') }), 'in the log');

$t->done();
