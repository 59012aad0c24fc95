#!/usr/bin/perl

# Copyright (C) mcds authors

# The configuration of docs/recipes/mediawiki.md as it is, but for ports and
# folders, before Debian's MediaWiki with SQLite: two hosts, readers with
# cookies, somebody who edits.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Mcds;
use Test::Mcds::Recipe;

my $source = '/usr/share/mediawiki';
my $page = "$FindBin::Bin/../../docs/recipes/mediawiki.md";

plan(skip_all => 'MediaWiki of Debian is not installed: make recipes')
    if !-d $source;

$ENV{TEST_TIMEOUT} //= 3600;

my $t = Test::Mcds->new();
Test::Mcds::Recipe->new($t);
my $dir = $t->dir();

my $m = $t->memcached('m');


# the wiki, with the settings of the recipe

mkdir "$dir/$_" or die for qw/ data conf www /;
run('php', "$source/maintenance/install.php", '--dbtype', 'sqlite',
    '--dbpath', "$dir/data", '--confpath', "$dir/conf", '--server',
    'https://wiki.example.com', '--scriptpath', '', '--pass',
    'a long password', 'Wiki', 'Admin');
run('sh', '-c', "cd $dir/www && ln -s $source/*.php $source/resources"
    . " $source/skins $source/extensions-core . && rm -f LocalSettings.php"
    . " && ln -s ../conf/LocalSettings.php LocalSettings.php"
    . " && mkdir -p images/deleted includes"
    . " && touch images/x.php images/deleted/x includes/x.php"
    . " && chmod -R a+rwX $dir/data $dir/conf");

my ($settings) = grep { /CdnServers/ } fenced($page, 'php');
my $port = $t->port('a');

$settings =~ s/'127\.0\.0\.1:80'/'127.0.0.1:$port'/ or die;
$t->write_file('conf/LocalSettings.php',
    $t->read_file('conf/LocalSettings.php') . $settings
    . "\$wgTmpDirectory = '$dir/data';\n"
    . "\$wgCacheDirectory = '$dir/data';\n");
chmod 0644, "$dir/conf/LocalSettings.php";

my $fpm = fpm();


# two hosts

my ($conf) = fenced($page, 'nginx');

for (['127.0.0.1:11211', '127.0.0.1:%%PORT_m%%'],
    ['listen          80', 'listen 127.0.0.1:%%PORT%%'],
    ['/var/lib/mediawiki', "$dir/www"],
    ['/run/php/php-fpm.sock', "$dir/php.sock"],
    ['fastcgi_pass               php;', 'fastcgi_param MW_CONFIG_FILE '
        . "$dir/conf/LocalSettings.php; fastcgi_pass php;"])
{
    my ($what, $by) = @$_;
    $conf =~ s/\Q$what\E/$by/g or die "not in the recipe: $what\n";
}

my ($a, $b) = map {
    $t->nginx($_, "%%GLOBALS%%\nworker_processes 2;\nevents { }\n"
        . "http {\n%%HTTP%%\n$conf}\n");
} qw/ a b /;

ok(wait_for(sub { look($a, '/wiki/Special:Version')->status() == 200 }, 300),
    'MediaWiki is there');


# readers

my $r = look($a, '/wiki/Main_Page');
is($r->status(), 200, 'a page');
is($r->header('X-Cache'), 'MISS', 'the first look');
like($r->body(), qr/MediaWiki has been installed/, 'of MediaWiki');
is(look($b, '/wiki/Main_Page')->header('X-Cache'), 'HIT', 'the other host');
is(look($b, '/wiki/Main_Page', headers => { Cookie => "_ga=$_" })
    ->header('X-Cache'), 'HIT', "with a cookie of analytics, $_") for 1, 2;
is(look($b, '/wiki/Main_Page', headers => { 'Accept-Encoding' => $_ })
    ->header('X-Cache'), 'HIT', "with Accept-Encoding: $_")
    for 'gzip', 'gzip, br', 'br';
is(look($a, '/wiki/Main_Page?fbclid=x')->header('X-Cache'), 'HIT',
    'a campaign');
is(look($a, '/wiki/Main_Page', headers => { Cookie => 'my_wikiUserID=1' })
    ->header('X-Cache'), 'BYPASS', 'a cookie of a login');

is(look($a, $_)->status(), 403, "$_ is not served")
    for '/includes/x.php', '/images/x.php', '/images/deleted/x',
        '/.git/config', '/LocalSettings.php', '/autoload.php';
like(look($a, $_)->body(), qr/There is currently no text in this page/,
    "$_ is a page of the wiki") for '/wiki/LocalSettings.php', '/wiki/.NET';


# an editor

my $editor = browser();

$r = api({ action => 'login', lgname => 'Admin', lgpassword =>
    'a long password', lgtoken => token('login') });
is($r->{login}{result}, 'Success', 'a login');

$r = $editor->get($a, '/wiki/Main_Page');
is($r->header('X-Cache'), 'BYPASS', 'logged in: not from the cache');
like($r->body(), qr/Special:UserLogout|pt-logout/, 'his own page');
unlike(look($_, '/wiki/Main_Page')->body(), qr/Special:UserLogout|pt-logout/,
    'which others do not see') for $a, $b;

look($_, '/wiki/Main_Page?action=history') for $a, $b;
look($_, '/wiki/Something_new') for $a, $b;

for my $text ('The first edit.', 'The second edit.') {
    $r = api({ action => 'edit', title => 'Main Page', text => $text,
        token => token('csrf') });
    is($r->{edit}{result}, 'Success', "an edit: $text");
    seen('/wiki/Main_Page', qr/\Q$text\E/, $text);
    seen('/wiki/Main_Page?action=history', qr/Main Page/, "history: $text");
}

$r = api({ action => 'edit', title => 'Something new', text => 'It is here.',
    token => token('csrf') });
is($r->{edit}{result}, 'Success', 'a new page');
seen('/wiki/Something_new', qr/It is here/, 'a new page');


# who edits without an account has a session

my $stranger = browser();

is($stranger->get($a, '/wiki/Main_Page')->header('X-Cache'), 'HIT',
    'a stranger reads from the cache');
$stranger->get($a, '/index.php?title=Special:UserLogin');
ok(scalar(grep { /_session$/ } keys %{$stranger->{jar}}), 'and has a session');
is($stranger->get($a, '/wiki/Main_Page')->header('X-Cache'), 'BYPASS',
    'not from the cache any more');


# purges

is(http_request($a->port(), '/wiki/Main_Page', method => 'PURGE',
    host => 'wiki.example.com', local => '127.0.0.2')->status(), 403,
    'a purge from elsewhere');
is(http_request($a->port(), '/wiki/Main_Page', method => 'PURGE',
    host => 'wiki.example.com')->status(), 200, 'a purge of this host');
like($t->read_file('a/access.log'), qr/"PURGE .*" 200/, 'PURGE in the log');
like($t->read_file('a/access.log'),
    qr{"PURGE http://wiki\.example\.com/wiki/Main_Page}, 'of MediaWiki');
unlike($t->read_file('a/access.log'), qr/"CONNECT/, 'no CONNECT');

stop($fpm);
$t->allow(qr/access forbidden by rule/);
$t->done();


sub browser {
    return Test::Mcds::Recipe::Browser->new(test => $t,
        host => 'wiki.example.com', @_);
}


sub look {
    my ($host, $uri, %o) = @_;
    return browser()->get($host, $uri, %o);
}


sub api {
    my ($form) = @_;
    return decode_json($editor->post($a, '/api.php',
        { %$form, format => 'json' })->body());
}


sub token {
    my ($type) = @_;

    return decode_json($editor->get($a, '/api.php?action=query&meta=tokens'
        . "&type=$type&format=json")->body())->{query}{tokens}{"${type}token"};
}


sub seen {
    my ($uri, $re, $name) = @_;

    for my $host ($a, $b) {
        look($host, $uri);
        ok(wait_for(sub { look($host, $uri)->body() =~ $re }, 120),
            "$name: seen by readers");
    }
}
