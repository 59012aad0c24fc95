#!/usr/bin/perl

# Copyright (C) mcds authors

# conf-examples/wordpress.conf as it is, but for ports and folders, before a
# PHP site that works as WordPress does: views, views today, people online.

use warnings;
use strict;

use JSON::PP;
use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT slurp /;

my $t = Test::Mcds->new();

my ($fpm) = grep { -x } </usr/sbin/php-fpm*>;

plan(skip_all => 'PHP-FPM (php-fpm) is not installed') if !$fpm;
$t->needs('http_sub');

my $m = $t->memcached('m');
my $pages = $t->memcached('pages');
my $dir = $t->dir();


# the site: one index.php for all pages, and other scripts

mkdir "$dir/www";
mkdir "$dir/www/wp-admin";

$t->write_file('www/style.css', 'body { }');
$t->write_file('www/wp-login.php', '<?php echo "login <!--views-->";');
$t->write_file('www/wp-admin/index.php', '<?php echo "admin <!--views-->";');
$t->write_file('www/index.php', <<'EOT');
<?php

$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);

file_put_contents(__DIR__ . '/../made', "$path\n", FILE_APPEND | LOCK_EX);

if ($path == '/missing/') {
    http_response_code(404);
    header('Cache-Control: no-cache, must-revalidate, max-age=0');
}

if (preg_match('~^/(post-\d+)/~', $path, $match)) {
    header("Cache-Tag: $match[1]");
}

$user = isset($_COOKIE['wordpress_logged_in_1']) ? 'admin' : 'nobody';

echo "<h1>$path</h1> for $user,",
    " views=<!--views-->, today=<!--today-->, online=<!--online-->.",
    " again=<!--views-->\n";
EOT

$t->write_file('fpm.conf', <<"EOT");
[global]
error_log = $dir/fpm.log
daemonize = no

[www]
@{[$> == 0 ? "user = nobody\ngroup = nogroup" : '']}
listen = $dir/php.sock
listen.mode = 0666
pm = static
pm.max_children = 4
clear_env = yes
EOT

forget();

my $pid = $t->helper('fpm', sub { -S "$dir/php.sock" }, $fpm, '-n', '-R', '-y',
    "$dir/fpm.conf");


# the example listens on other ports than this test, and so on; pages live
# longer here, so that a page that is built again has been purged

my $conf = slurp("$FindBin::Bin/../conf-examples/wordpress.conf");

$conf =~ s/^load_module .*;/%%GLOBALS%%/m or die;
$conf =~ s/^user .*;\n//m or die;
$conf =~ s/^http \{/http {\n%%HTTP%%/m or die;
$conf =~ s/127\.0\.0\.1:11211;/127.0.0.1:%%PORT_m%%;/ or die;
$conf =~ s/127\.0\.0\.1:11212;/127.0.0.1:%%PORT_pages%%;/ or die;
$conf =~ s/listen +80;/listen 127.0.0.1:%%PORT%%;/ or die;
$conf =~ s/listen +127\.0\.0\.1:8081;/listen 127.0.0.1:%%PORT_ADMIN%%;/ or die;
$conf =~ s{/var/www/html;}{$dir/www;} or die;
$conf =~ s/200 301 10s/200 301 10m/ or die;
$conf =~ s{unix:/run/php/php-fpm\.sock}{unix:$dir/php.sock} or die;

my ($a, $b) = map {
    $t->nginx($_, $conf =~ s/PORT_ADMIN/PORT_admin_$_/r)
} qw/ a b /;


# what people see

like(look($a, '/'),
    qr{^<h1>/</h1> for nobody, views=0, today=0, online=\d+\. again=0$},
    'the first look');
like(look($b, '/'), qr/views=1, today=1/, 'another host');
like(look($a, '/'), qr/views=2, today=2/, 'from the cache');
is(made('/'), 1, 'made once');

like(look($a, '/hello-world/'), qr/views=0, today=0/, 'another page');
like(look($a, '/hello-world/?utm_source=x'), qr/views=1, today=1/,
    'the same page from a campaign');
like(look($a, '/?p=7'), qr/views=0,/, 'a page without a pretty name');
like(look($a, '/?p=8'), qr/views=0,/, 'and another one');
like(look($a, '/hello-world/', headers =>
    { Cookie => 'wordpress_logged_in_1=x' }), qr/for admin, views=2/,
    'who is logged in has his own page, and the same numbers');
like(look($a, '/hello-world/'), qr/for nobody, views=3/,
    'others do not see it');

is($a->get('/missing/', agent())->status(), 404, 'a page that is missing');
is(look($a, '/style.css'), 'body { }', 'a file');
like(look($a, '/wp-login.php'), qr/^login 0$/, 'the login is not counted');
like(look($a, '/wp-admin/'), qr/^admin 0$/, 'nor is the administration');
like($a->get('/hello-world/', method => 'POST', body => 'x',
    headers => { 'User-Agent' => 'Mozilla/5.0' })->body(), qr/views=4/,
    'nor a comment');


# people only; they all see the numbers

like($a->get('/hello-world/', headers => $_)->body(), qr/views=4, today=4/,
    'not counted: ' . join ' ', %$_) for
    { 'User-Agent' => 'Mozilla/5.0 (compatible; Googlebot/2.1)' },
    { 'User-Agent' => 'curl/7.88.1' }, { 'User-Agent' => '' },
    { 'User-Agent' => 'Mozilla/5.0', 'Sec-Purpose' => 'prefetch' };
like($a->get('/hello-world/')->body(), qr/views=4/,
    'not counted: no User-Agent');

is(join(' ', grep { /style|login|admin|missing/ } $m->keys()), '',
    'no other keys');
my ($today) = grep { m{^wp:today:/hello-world/:\d+$} } $m->keys();
ttl_between($m, $today, 0, 86400 + 60, 'views today go tomorrow');
cmp_ok($m->ttl('wp:views:/hello-world/'), '>', 365 * 86400, 'views stay');


# the most viewed

my $top;
ok(wait_for(sub {
    sleep 0.2;
    $top = decode_json($a->get('/popular.json')->body());
    ($top->{total} // 0) >= 9;
}, 30), 'the most viewed');
is_deeply([map { "$_->{key} $_->{count}" } @{$top->{keys}}],
    ['/hello-world/ 4', '/ 3', '/?p=7 1', '/?p=8 1'],
    'the most viewed: pages');


# many people at once: one of them waits for the page to be made

forget();
my $n = $t->size(200, 5000);
my @res = many($n, sub {
    my $i = shift;
    [($i % 2 ? $a : $b)->port(), '/busy/', headers =>
        { 'User-Agent' => "Mozilla/5.0 ($i)" }]
}, concurrency => 50);

my %views = map { $_->body() =~ /views=(\d+)/ ? ($1 => 1) : () } @res;
cmp_ok(scalar keys %views, '>', 3, 'busy: the numbers rise');
is(made('/busy/'), 1, 'busy: the page is made once');
ok(wait_for(sub { $m->get('wp:views:/busy/') == $n }), 'busy: all are counted');


# mcds-purge.php, as WordPress calls it in a request that changes many posts:
# the first ones are deleted, the others changed

SKIP: {
    my ($php) = grep { -x } map { "$_/php" } split /:/, $ENV{PATH};

    skip 'php is not installed', 13 if !$php;

    $t->write_file('purge.php', <<'EOT');
<?php

[, $plugin, $url, $deleted, $changed] = $argv;

define('MCDS_PURGE', $url);

function add_action($name, $function) { $GLOBALS['on'][$name] = $function; }
function get_post($id) {
    return (object) ['post_status' => $id > $GLOBALS['deleted']
        ? 'publish' : 'trash', 'post_password' => ''];
}
function wp_remote_post($url, $what) {
    $answer = file_get_contents($url, false, stream_context_create(['http' => [
        'method' => 'POST', 'content' => $what['body'],
        'header' => 'Content-Type: application/x-www-form-urlencoded',
        'ignore_errors' => true]]));
    return explode(' ', $http_response_header[0])[1];
}
function wp_remote_retrieve_response_code($answer) { return $answer; }

require $plugin;

for ($id = 1; $id <= $deleted + $changed; $id++) {
    $on['clean_post_cache']($id, (object) ['post_type' => 'post']);
}

$on['shutdown']();
EOT

    my $plugin = "$FindBin::Bin/../conf-examples/mcds-purge.php";
    my $url = 'http://127.0.0.1:' . $t->port('admin_a') . '/purge';

    for ([250, 0], [0, 60], [250, 70]) {
        my ($deleted, $changed) = @$_;
        my @posts = map { "/post-$_/" } $deleted
            ? (1, 100, 101, $deleted) : (1, $changed);

        look($a, $_) for @posts;
        forget();
        is(`$php -n $dir/purge.php $plugin $url $deleted $changed 2>&1`, '',
            "$deleted posts are deleted, $changed changed");

        for my $uri (@posts) {
            look($a, $uri);
            ok(wait_for(sub { made($uri) }), "$uri is built again");
        }
    }
}


# without memcached there are pages, and no numbers

$m->stop();
$pages->stop();
like(look($a, '/'), qr{<h1>/</h1> for nobody, views=, today=, online=\d*\.},
    'memcached is gone: no numbers');
$t->allow(qr/is down after/);

kill 'TERM', $pid;
waitpid($pid, 0);
is($? >> 8, 0, 'PHP-FPM has ended');
$t->gone($pid);

$t->done();


sub agent {
    return (headers => { 'User-Agent' => 'Mozilla/5.0' });
}


sub look {
    my ($host, $uri, %o) = @_;

    my %headers = ('User-Agent' => 'Mozilla/5.0', %{$o{headers} // {}});

    my $body = $host->get($uri, headers => \%headers)->body() =~ s/\s+\z//r;

    # it is counted behind its answer, the next one may be quicker

    if ($body =~ m{^<h1>.* views=(\d+), today=(\d+)}) {
        my ($views, $today) = ($1 + 1, $2 + 1);
        my $key = $uri =~ s/\?utm.*//r;
        wait_for(sub { ($m->get("wp:views:$key") // 0) == $views });
        wait_for(sub {
            my ($day) = grep { m{^wp:today:\Q$key\E:\d+$} } $m->keys();
            $day && $m->get($day) == $today;
        });
    }

    return $body;
}


sub forget {
    $t->write_file('made', '');
    chmod 0666, "$dir/made" or die;
}


# how often PHP has made a page

sub made {
    my ($path) = @_;

    return scalar grep { $_ eq $path } split /\n/, $t->read_file('made');
}
