#!/usr/bin/perl

# Copyright (C) mcds authors

# conf-examples/from-proxy-cache.conf as it is, but for ports: it does what the
# proxy_cache in its comments did, and what that could not do.  C07: headers
# that applications make links of poison no page.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT slurp /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $fresh = ['Cache-Control' => 'max-age=60'];
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $h = $q->{headers};
    my ($kind) = $q->{path} =~ m{^/\w+/(\w+)};
    my %answer = %{{
        missing => { status => 404 }, moved => { status => 301,
            headers => [Location => '/new'] },
        cookie => { headers => [@$fresh, 'Set-Cookie' => 'a=b'] },
        private => { headers => ['Cache-Control' => 'private'] },
        fresh => { headers => $fresh },
        zero => { headers => ['Cache-Control' => 'max-age=0'] },
        accel => { headers => ['X-Accel-Expires' => 60] },
        error => { status => 500 }, tag => { headers => [ETag => '"1"',
            'Cache-Control' => 'max-age=1'],
            ($h->{'if-none-match'} // '') eq '"1"' ? (status => 304) : () },
        old => { headers => ['Cache-Control' => 'max-age=1'],
            $q->{k} > 1 ? (status => 503) : () },
        slow => { delay => 0.3 },
    }->{$kind // ''} // {}};

    # what applications take for the name of the site, the way to a page, or
    # the method

    my @evil = map { "$_=$h->{$_}" } grep { ($h->{$_} // '') =~ /evil/ }
        sort keys %$h;

    return { body => "page $q->{uri} $q->{k} @evil", %answer };
});

my $new = slurp("$FindBin::Bin/../conf-examples/from-proxy-cache.conf");

# the old one: its lines come back, those of mcds go

my $old = $new =~ s/^( *)# was: ?/$1/mgr;
$old =~ s/^ *mcds_[^;{]*(?:\{[^}]*\}|;)\n//mg;
$old =~ s/^ *add_header .*mcds_cache_status.*\n//m or die;
unlike($old =~ s/^ *#.*//mgr, qr/mcds_(?!module)|was:/,
    'the old configuration has nothing of mcds');

for ($new, $old) {
    s/^load_module .*;/%%GLOBALS%%/m or die;
    s/^user .*;\n//m or die;
    s/^http \{/http {\n%%HTTP%%/m or die;
    s/listen 80;/listen 127.0.0.1:%%PORT%%;/ or die;
    s/127\.0\.0\.1:8000;/127.0.0.1:%%PORT_o%%;/ or die;
}

$new =~ s/127\.0\.0\.1:11211;/127.0.0.1:%%PORT_m%%;/ or die;
$old =~ s{/var/cache/nginx}{%%DIR%%/cache} or die;
s/worker_processes auto;/worker_processes 2;/ or die for $new, $old;

my %host = (old => $t->nginx('old', $old), new => $t->nginx('new', $new));
my $two = $t->nginx('two', $new);


# the same requests to both: page, how often, options; what the second shows

my @rows = (
    ['a page', 'plain', [200, 'HIT']],
    ['a page of the origin\'s lifetime', 'fresh', [200, 'HIT']],
    ['of nginx\'s own', 'accel', [200, 'HIT']],
    ['a page that is missing', 'missing', [404, 'HIT']],
    ['a redirect', 'moved', [301, 'HIT']],
    ['a page with a cookie', 'cookie', [200, 'MISS']],
    ['a private page', 'private', [200, 'MISS']],
    ['no lifetime', 'zero', [200, 'MISS']],
    ['an error', 'error', [qr/^50[03]$/, 'MISS']],
    ['a preview', 'plain?preview=1', [200, 'MISS']],
    ['rebuilt', 'again', [200, 'BYPASS'], headers => ['X-Rebuild' => 1]],
    ['a cookie of the client', 'cookies', [200, 'HIT'],
        headers => [Cookie => '_ga=1']],
    ['HEAD', 'head', [200, 'HIT'], method => 'HEAD'],
);

for my $row (@rows) {
    my ($name, $page, $want, %o) = @$row;

    for my $which ('old', 'new') {
        my $r;

        # the first one fills; proxy_cache does so for HEAD, too

        $host{$which}->get("/$which/$page");
        wait_for(sub {
            $r = $host{$which}->get("/$which/$page", %o);
            return $r->header('X-Cache') eq $want->[1];
        }, 3);
        like($r->status(), qr/^$want->[0]$/, "$name: $which");
        is($r->header('X-Cache'), $want->[1], "$name: $which: cache");
    }
}

for my $which ('old', 'new') {
    my $h = $host{$which};

    $h->get("/$which/$_") for 'tag', 'old';
    sleep 2;

    # behind the old page, or by who has asked: the origin is asked with the
    # tag, and its error is not shown

    my $r = $h->get("/$which/old");
    like($r->status() . $r->header('X-Cache') . $r->body(),
        qr{^200(STALE|UPDATING)page /$which/old 1}, "$which: the old page");
    $h->get("/$which/tag");
    ok(wait_for(sub { $h->get("/$which/tag")->header('X-Cache') eq 'HIT' }),
        "$which: renewed");
    ok((grep { ($_->{headers}{'if-none-match'} // '') eq '"1"' }
        $o->requests("/$which/tag")), "$which: with its tag");
}


# what is new: one origin request, whatever the host

my @r = many(40, sub { [($host{new}, $two)[$_[0] % 2]->port(),
    '/new/slow'] });
is(scalar(grep { $_->status() == 200 } @r), 40, 'two hosts: all answered');
is($o->count('/new/slow'), 1, 'two hosts: built once');


is($two->get('/new/plain', headers => [Range => 'bytes=0-3'])->body(), 'page',
    'a range of what is stored, also where the origin does not tell of any');


# C07

my @names = qw/ Host:1 X-Forwarded-Host X-Forwarded-Server X-Forwarded-Port
    X-Forwarded-Prefix X-Forwarded-Scheme X-Forwarded-Proto X-Forwarded-Ssl
    X-Forwarded-For X-Host X-Original-Host X-HTTP-Host-Override Forwarded
    X-Original-URL X-Rewrite-URL X-HTTP-Method X-HTTP-Method-Override
    X-Method-Override Front-End-Https X-Url-Scheme X-Wap-Profile /;
my @bad;

for my $i (0 .. $#names) {
    my $name = $names[$i] =~ s/:1//r;
    my $uri = "/new/poison?$i";
    my @more = $name eq 'Host' ? (host => 'evil.example')
        : (headers => [$name => 'evil']);

    $two->get($uri, @more) for 1 .. 2;

    for my $h ($host{new}, $two) {
        my $r = $h->get($uri);
        push @bad, "$name: " . $r->body() if $r->body() =~ /evil/;
    }
}

is(join("\n", @bad), '', scalar(@names) . ' headers poison nothing');
ok(!grep({ ($m->get($_) // '') =~ /=evil/ && !/evil.example/ } $m->keys()),
    'nor anything that is stored');

$t->done(keep => ['o']);
