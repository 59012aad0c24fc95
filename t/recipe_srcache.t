#!/usr/bin/perl

# Copyright (C) mcds authors

# conf-examples/from-srcache.conf as it is, but for ports: it does what the
# srcache and memc in its comments did, where these are installed, and does not
# do what they should not have done.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT slurp /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my ($kind) = $q->{path} =~ m{^/\w+/(\w+)};
    my ($user) = ($q->{headers}{cookie} // '') =~ /PHPSESSID=(\w+)/;
    return { body => "page $q->{uri} $q->{k} " . ($user // ''), %{{
        missing => { status => 404 },
        moved => { status => 301, headers => [Location => '/new'] },
        fresh => { headers => ['Cache-Control' => 'max-age=60'] },
        private => { headers => ['Cache-Control' => 'private'] },
        store => { headers => ['Cache-Control' => 'no-store'] },
        cookie => { headers => ['Set-Cookie' => 'a=b'] },
        slow => { delay => 0.3 },
    }->{$kind // ''} // {}} };
});

my $text = slurp("$FindBin::Bin/../conf-examples/from-srcache.conf");
my $new = $text =~ s/^load_module .*;/%%GLOBALS%%/mr;

# the old one: its lines come back, those of mcds go

my $old = $text =~ s/^load_module .*\n//mr;
$old =~ s/^( *)# was: ?/$1/mg;
$old =~ s/^ *mcds_[^;{]*(?:\{[^}]*\}|;)\n//mg;
$old =~ s/^ *add_header .*mcds_cache_status.*\n//m or die;
unlike($old =~ s/^ *#.*//mgr, qr/mcds|was:/,
    'the old configuration has nothing of mcds');

my @modules = map { $t->has($_) } 'ngx_http_memc_module.so',
    'ngx_http_srcache_filter_module.so';
my $both = 2 == grep { $_ } @modules;

for ($new, $old) {
    s/^user .*;\n//m or die;
    s/^http \{/http {\n%%HTTP%%/m or die;
    s/listen 80;/listen 127.0.0.1:%%PORT%%;/ or die;
    s/127\.0\.0\.1:8000;/127.0.0.1:%%PORT_o%%;/ or die;
    s/127\.0\.0\.1:11211;/127.0.0.1:%%PORT_m%%;/g or die;
    s/worker_processes auto;/worker_processes 2;/ or die;
}

$old =~ s{modules/(ngx_http_\w+\.so)}{$t->has($1) || $1}ge;
$old =~ s/^worker_processes/%%GLOBALS%%\nworker_processes/m;

my %host = (new => $t->nginx('new', $new));
my $two = $t->nginx('two', $new);
my @which = ('new', $both ? 'old' : ());

$host{old} = $t->nginx('old', $old) if $both;
note('srcache and memc are not installed') if !$both;


# the same requests to both: page, status, whether the second is a hit

my @rows = (
    ['a page', 'plain', 200, 1],
    ['the origin\'s lifetime', 'fresh', 200, 1],
    ['a redirect', 'moved', 301, 1],
    ['a page that is missing', 'missing', 404, 0],
    ['a private page', 'private', 200, 0],
    ['no-store', 'store', 200, 0],
    ['a preview', 'plain?preview=1', 200, 0],
    ['rebuilt', 'again', 200, 0, headers => ['X-Rebuild' => 1]],
    ['HEAD', 'head', 200, 1, method => 'HEAD'],
    ['arguments', 'plain?a=b', 200, 1],
    ['a cookie', 'cookies', 200, 1, headers => [Cookie => '_ga=1']],
);

for my $row (@rows) {
    my ($name, $page, $status, $hit, %o) = @$row;

    for my $which (@which) {
        my $r;

        $host{$which}->get("/$which/$page");
        wait_for(sub {
            $r = $host{$which}->get("/$which/$page", %o);
            return !$hit || $r->header('X-Cache') eq 'HIT';
        }, 3);
        is($r->status(), $status, "$name: $which");
        is($r->header('X-Cache') eq 'HIT' ? 1 : 0, $hit,
            "$name: $which: " . ($hit ? 'a hit' : 'no hit'));
    }
}


# what is new

my $long = '/new/long?' . 'x' x 600;
$host{new}->get($long);
ok(wait_for(sub { $two->get($long)->header('X-Cache') eq 'HIT' }),
    'keys of any length');

my @r = many(40, sub { [($host{new}, $two)[$_[0] % 2]->port(),
    '/new/slow'] });
is(scalar(grep { $_->status() == 200 } @r), 40, 'a herd: all answered');
is($o->count('/new/slow'), 1, 'a herd: built once');

$host{new}->get('/new/cookie') for 1 .. 3;
is($o->count('/new/cookie'), 3, 'a page with a cookie is not stored');
$host{new}->get('/new/auth', headers => [Authorization => 'x']) for 1 .. 3;
is($o->count('/new/auth'), 3, 'nor one for who is authorized');
$host{new}->get('/new/user', headers => [Cookie => "PHPSESSID=u$_"])
    for 1 .. 3;
unlike($host{new}->get('/new/user')->body(), qr/u\d/,
    'nor one of a session');

# memcached is gone: nobody sees an error

$m->stop();
is(scalar(grep { $_->status() == 200 } map { $host{new}->get('/new/plain') }
    1 .. 10), 10, 'pages without memcached');
$t->allow(qr/is down after/);

$t->done(keep => ['o']);
