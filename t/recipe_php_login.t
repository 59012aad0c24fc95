#!/usr/bin/perl

# Copyright (C) mcds authors

# conf-examples/php-login.conf as it is, but for ports and folders, before PHP
# and an application with sessions: people log in and out, on two hosts, all at
# once; nobody ever sees a page of somebody else (C04).

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT slurp /;

my $t = Test::Mcds->new();

my ($fpm) = grep { -x } </usr/sbin/php-fpm*>;

plan(skip_all => 'PHP-FPM (php-fpm) is not installed') if !$fpm;

my $m = $t->memcached('m');
my $dir = $t->dir();

mkdir "$dir/www";
mkdir "$dir/sessions";
chmod 0777, "$dir/sessions";


# the application does not say what is private: no header tells of it

$t->write_file('www/index.php', <<'EOT');
<?php

session_cache_limiter('');
ini_set('session.lazy_write', '1');

$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
file_put_contents(__DIR__ . '/../made', "$path\n", FILE_APPEND | LOCK_EX);

if (isset($_COOKIE['PHPSESSID']) || $path == '/login') {
    session_start();
}

if ($path == '/login') {
    session_regenerate_id(true);
    $_SESSION['user'] = $_POST['user'];
    $_SESSION['basket'] = 0;
    header('Location: /', true, 303);
    exit;
}

if ($path == '/logout') {
    session_destroy();
    setcookie('PHPSESSID', '', 1, '/');
    header('Location: /', true, 303);
    exit;
}

$user = $_SESSION['user'] ?? 'nobody';

if ($path == '/buy') {
    $_SESSION['basket']++;
    setcookie('last', $user);
}

usleep(20000);

$basket = $_SESSION['basket'] ?? 0;
$made = microtime(true);

echo "<h1>$path</h1> for $user, basket of $user: $basket, made $made,",
    " token ", $user == 'nobody' ? '-' : md5(session_id()), "\n",
    str_repeat("$user ", 300);
EOT

$t->write_file('www/style.css', 'body { }');
$t->write_file('made', '');
chmod 0666, "$dir/made";

$t->write_file('fpm.conf', <<"EOT");
[global]
error_log = $dir/fpm.log
daemonize = no

[www]
@{[$> == 0 ? "user = nobody\ngroup = nogroup" : '']}
listen = $dir/php.sock
listen.mode = 0666
pm = static
pm.max_children = 8
clear_env = yes
php_admin_value[session.save_path] = $dir/sessions
php_admin_value[session.gc_probability] = 0
EOT

my $pid = $t->helper('fpm', sub { -S "$dir/php.sock" }, $fpm, '-n', '-R', '-y',
    "$dir/fpm.conf");

my $conf = slurp("$FindBin::Bin/../conf-examples/php-login.conf");

$conf =~ s/^load_module .*;/%%GLOBALS%%/m or die;
$conf =~ s/^user .*;\n//m or die;
$conf =~ s/^http \{/http {\n%%HTTP%%/m or die;
$conf =~ s/127\.0\.0\.1:11211;/127.0.0.1:%%PORT_m%%;/ or die;
$conf =~ s/listen 80;/listen 127.0.0.1:%%PORT%%;/ or die;
$conf =~ s{/var/www/html;}{$dir/www;} or die;
$conf =~ s{unix:/run/php/php-fpm\.sock}{unix:$dir/php.sock} or die;
$conf =~ s/worker_processes auto;/worker_processes 2;/ or die;

my @hosts = map { $t->nginx($_, $conf) } qw/ a b /;


# those who are not logged in

like(look('/'), qr{^MISS <h1>/</h1> for nobody,}, 'the first look');
ok(wait_for(sub { look('/') =~ /^HIT/ }), 'from the cache');
my $shared = look('/', '_ga=1; last=bob; lang=de');
like($shared, qr/^(HIT|STALE|UPDATING) .*for nobody/,
    'other cookies do not matter');
is($hosts[0]->get('/style.css')->body(), 'body { }', 'a file');


# people log in: on one host, and look on both

my %session;

for my $user ('alice', 'bob', 'carol') {
    my $r = $hosts[0]->get('/login', method => 'POST', body => "user=$user",
        headers => ['Content-Type' => 'application/x-www-form-urlencoded']);
    ($session{$user}) = grep { !/deleted/ }
        map { /PHPSESSID=([^;]+)/ } reverse $r->all('Set-Cookie');

    is($r->status(), 303, "$user logs in");
    ok($session{$user}, "$user has a session");

    for my $n (0, 1) {
        like(look('/', "lang=de; PHPSESSID=$session{$user}", $n),
            qr/^BYPASS .*for $user, basket of $user: 0/, "$user: home, $n");
    }
}

like(look('/buy', "PHPSESSID=$session{alice}"), qr/^BYPASS .*: 1,/,
    'alice buys');
like(look('/', "PHPSESSID=$session{alice}", 1), qr/^BYPASS .*alice: 1,/,
    'and sees it at once');
like(look('/'), qr/for nobody/, 'others do not');
like(look('/', 'PHPSESSID=made-up'), qr/^BYPASS .*for nobody/,
    'a session that is none');


# all at once: users, and others, while pages expire

my @users = ('alice', 'bob', 'carol');
my $n = $t->size(1200, 20_000);
my @who = map { $_ % 4 ? $users[$_ % 4 - 1] : 'nobody' } 0 .. $n - 1;

$t->seed(3);
my @page = map { '/article/' . int rand 5 } 0 .. $n - 1;
my @r = many($n, sub {
    my ($i) = @_;
    my $id = $session{$who[$i]};
    return [$hosts[$i / 4 % 2]->port(), $page[$i],
        headers => [Cookie => $id ? "PHPSESSID=$id" : '_ga=2']];
}, concurrency => 24, timeout => 240 * $t->slow());

my (@wrong, %cache);

for my $i (0 .. $n - 1) {
    my $body = $r[$i]->body();
    my ($to) = $body =~ /for (\w+),/;
    $cache{$who[$i] eq 'nobody' ? 'nobody' : 'users'}{
        $r[$i]->header('X-Cache') // 'none'}++;
    next if $r[$i]->status() == 200 && ($to // '') eq $who[$i]
        && $body =~ m{^<h1>$page[$i]</h1>}
        && !grep { $body =~ /$_/ } grep { $_ ne $who[$i] } @users;
    push @wrong, "$who[$i] at $page[$i]: " . $r[$i]->status() . ' '
        . substr $body, 0, 80;
}

is(join("\n", @wrong), '', "$n looks: each sees his own page");
is(join(' ', keys %{$cache{users}}), 'BYPASS', 'users: from the application');
cmp_ok($cache{nobody}{HIT} // 0, '>', $n / 10, 'others: from the cache');


# nothing of theirs is stored

my @stored = grep { /^site:/ } $m->keys();
cmp_ok(scalar @stored, '>=', 5, 'pages are in memcached');
is(join(' ', grep { ($m->get($_) // '') =~ /alice|bob|carol|Set-Cookie/ }
    @stored), '', 'nothing of theirs among them');
is(join(' ', grep { /log|buy/ } map { $m->get($_) // '' } grep { /log/ }
    @stored), '', 'nor a login');


# and out

my $out = $hosts[1]->get('/logout',
    headers => [Cookie => "PHPSESSID=$session{alice}"]);
like($out->head(), qr/Set-Cookie: PHPSESSID=deleted/, 'alice logs out');
like(look('/', "PHPSESSID=$session{alice}"), qr/^BYPASS .*for nobody/,
    'her session has ended');
like(look('/'), qr/^(?!BYPASS).*for nobody/, 'who has no session shares again');

kill 'TERM', $pid;
waitpid($pid, 0);
is($? >> 8, 0, 'PHP-FPM has ended');
$t->gone($pid);

$t->done();


sub look {
    my ($uri, $cookie, $host) = @_;

    my $r = $hosts[$host // 0]->get($uri,
        headers => [defined $cookie ? (Cookie => $cookie) : ()]);

    return ($r->header('X-Cache') // 'none') . ' ' . $r->body();
}
