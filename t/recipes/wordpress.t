#!/usr/bin/perl

# Copyright (C) mcds authors

# conf-examples/wordpress.conf and mcds-purge.php as they are, but for ports and
# folders, before Debian's WordPress with MariaDB: two hosts, a balancer before
# them that speaks TLS, visitors, robots, an editor.

use warnings;
use strict;

use JSON::PP;
use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Mcds;
use Test::Mcds::Recipe;

my $source = '/usr/share/wordpress';
my $root = "$FindBin::Bin/../..";

plan(skip_all => "WordPress of Debian is not installed: make recipes")
    if !-d $source || !-x '/usr/sbin/mariadbd';

$ENV{TEST_TIMEOUT} //= 3600;

my $t = Test::Mcds->new();
Test::Mcds::Recipe->new($t);
my $dir = $t->dir();

my $counters = $t->memcached('counters');
my $pages = $t->memcached('pages');


# the site, with files of its own beside those of the package

mkdir "$dir/www" or die;
run('sh', '-c', "cp -r $source/*.php $source/wp-admin $dir/www/"
    . " && ln -s $source/wp-includes $dir/www/wp-includes"
    . " && mkdir -p $dir/www/wp-content/themes $dir/www/wp-content/mu-plugins"
    . " $dir/www/wp-content/uploads $dir/www/wp-content/plugins"
    . " && ln -s $source/wp-content/themes/* $dir/www/wp-content/themes/"
    . " && cp $root/conf-examples/mcds-purge.php"
    . " $dir/www/wp-content/mu-plugins/");

$t->write_file('www/.htaccess', "secret\n");
$t->write_file('www/style.css', "body { }\n");
$t->write_file('www/wp-content/uploads/x.php', '<?php echo "uploaded";');
# what the theme says, and how often PHP has made a page

$t->write_file('www/wp-content/mu-plugins/footer.php', <<'EOT');
<?php
add_action('wp_footer', function () {
    echo '<p>seen <!--views-->, today <!--today-->, online <!--online-->.</p>';
});
add_action('parse_request', function () {
    file_put_contents(__DIR__ . '/../../../made', $_SERVER['REQUEST_URI']
        . "\n", FILE_APPEND | LOCK_EX);
});
EOT

my $admin = $t->port('admin_a');

$t->write_file('www/wp-config.php', <<"EOT");
<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:$dir/mysql.sock');
define('WP_HOME', 'https://www.example.com');
define('WP_SITEURL', 'https://www.example.com');
define('DISABLE_WP_CRON', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('WP_ACCESSIBLE_HOSTS', '127.0.0.1');
define('MCDS_PURGE', 'http://127.0.0.1:$admin/purge');
define('AUTH_KEY', 'a'); define('SECURE_AUTH_KEY', 'b');
define('LOGGED_IN_KEY', 'c'); define('NONCE_KEY', 'd');
define('AUTH_SALT', 'e'); define('SECURE_AUTH_SALT', 'f');
define('LOGGED_IN_SALT', 'g'); define('NONCE_SALT', 'h');
\$table_prefix = 'wp_';
if ((\$_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '') == 'https') {
    \$_SERVER['HTTPS'] = 'on';
}
require_once ABSPATH . 'wp-settings.php';
EOT

$t->write_file('install.php', <<"EOT");
<?php
define('WP_INSTALLING', true);
\$_SERVER += ['HTTP_HOST' => 'www.example.com', 'REQUEST_URI' => '/',
    'HTTPS' => 'on', 'SERVER_PROTOCOL' => 'HTTP/1.1',
    'REQUEST_METHOD' => 'GET'];
require '$dir/www/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
function wp_new_blog_notification() { }
wp_install('A site', 'admin', 'admin\@example.com', true, '', 'password');
switch_theme('twentytwentythree');
\$wp_rewrite->set_permalink_structure('/%postname%/');
\$wp_rewrite->flush_rules();
update_option('comment_moderation', '1');
EOT

my $mariadb = mariadb('wordpress');
run('php', "$dir/install.php");
forget();
my $fpm = fpm();


# two hosts with the example's file; pages live longer here, so that what is new
# has been purged

sub conf {
    my ($name) = @_;

    my $conf = slurp("$root/conf-examples/wordpress.conf");

    # one of them with the location for the directories of Debian's package

    if ($name eq 'b') {
        my ($location) = grep { /wp-content/ }
            fenced("$root/docs/recipes/wordpress.md", 'nginx');

        $location =~ s{/var/lib/wordpress}{$dir/www} or die;
        $conf =~ s{^ *location / \{}{$location$&}m or die;
    }

    return places($conf,
        '127.0.0.1:11211' => '127.0.0.1:%%PORT_counters%%',
        '127.0.0.1:11212' => '127.0.0.1:%%PORT_pages%%',
        '127.0.0.1:8081' => "127.0.0.1:%%PORT_admin_$name%%",
        'listen          80' => 'listen 127.0.0.1:%%PORT%%',
        '/var/www/html' => "$dir/www",
        '/run/php/php-fpm.sock' => "$dir/php.sock",
        'window=5m slots=5' => 'window=60s slots=6',
        '200 301 10s' => '200 301 10m',
        '# set_real_ip_from  192.0.2.10' => 'set_real_ip_from 127.0.0.5',
        '# real_ip_header' => 'real_ip_header',
        '# real_ip_recursive' => 'real_ip_recursive');
}

my ($a, $b) = map { $t->nginx($_, conf($_)) } qw/ a b /;
my $lb = balancer($a, $b);

my $visitor = browser();

ok(wait_for(sub { look($a, '/wp-login.php')->status() == 200 }, 300),
    'WordPress is there');
ok(wait_for(sub { look($a, '/wp-json/')->status() == 200 }, 300), 'all of it');
forget();


# pages, and numbers, on both hosts

my $r = look($a, '/hello-world/');
is($r->header('X-Cache'), 'MISS', 'the first look');
like($r->body(), qr/Welcome to WordPress/, 'a page of WordPress');
like($r->body(), qr/seen 0, today 0, online \d+\./, 'and its numbers');
like($r->body(), qr{https://www\.example\.com/}, 'for TLS');
ok(!$r->header('Cache-Tag'), 'its tags are not shown');

$r = look($b, '/hello-world/');
is($r->header('X-Cache'), 'HIT', 'the other host: from the cache');
like($r->body(), qr/seen 1, today 1,/, 'with the next number');
is(look($a, '/hello-world/?utm_source=x&fbclid=y')->header('X-Cache'), 'HIT',
    'a campaign: from the cache');
like(look($b, '/hello-world/')->body(), qr/seen 3,/, 'it was counted');
is(made('/hello-world/'), 1, 'PHP has run once');

is(look($a, '/', headers => { 'Accept-Encoding' => 'gzip' })
    ->header('Vary'), 'Accept-Encoding', 'gzip: Vary');


# what is not counted, while 200 pages are

for my $agent ('Googlebot/2.1', 'curl/7.88', 'WordPress/6.1; x', undef) {
    $visitor->get($a, '/hello-world/', headers =>
        { %{proto()}, 'User-Agent' => $agent });
}

look($a, $_) for '/hello-world/feed/', '/?s=hello', '/wp-json/wp/v2/posts',
    '/favicon.ico', '/robots.txt', '/wp-sitemap.xml', '/hello-world/embed/',
    '/?rest_route=/wp/v2/posts', '/feed/', '/nothing-here/', '/nothing/else/',
    '/wp-login.php', '/%68ello-world/', '//hello-world/', '/style.css';
look($a, '/hello-world/', headers => { 'Sec-Purpose' => 'prefetch' });
look($a, '/hello-world/', method => 'HEAD');

is($counters->get('wp:views:/hello-world/'), 4, 'robots and HEAD are not');
is(join(' ', sort grep { /views:/ } $counters->keys()),
    'wp:views:/ wp:views:/hello-world/', 'nor what is no page');
is(look($a, '/nothing-here/')->status(), 404, 'a page that is missing');
is(join(' ', grep { /views|today|online/ } $pages->keys()), '',
    'pages are apart from counters');

is(look($a, '/wp-json/wp/v2/posts')->header('X-Cache'), 'BYPASS',
    'REST is not cached');
look($a, '/sample-page/', headers => { 'X-HTTP-Method-Override' => 'HEAD' });
like(look($a, '/sample-page/')->body(), qr/example page/,
    'X-HTTP-Method-Override leaves nothing behind');


# dotfiles, uploads, purges

is($a->get('/.htaccess')->status(), 403, 'dotfiles are not served');

for my $host ($a, $b) {
    is($host->get("/wp-content/$_")->status(), 403, "$_ is not served")
        for 'uploads/x.php', 'debug.log', 'uploads/a.sql',
            'themes/.git/config';
}

is($b->get('/wp-content/themes/twentytwentythree/style.css')->status(), 200,
    'a file of a theme');
is(purge('tag=lists')->status(), 200, 'a purge of this host');
is(purge('tag=lists', local => '127.0.0.2')->status(), 403,
    'a purge from elsewhere');
is(http_get($t->port('admin_b'), '/mcds', local => '127.0.0.2')->status(),
    403, 'the status page from elsewhere');
is($lb->get('/purge?all=1', host => 'www.example.com')->status(), 404,
    'no purge by way of the site');


# an editor, who sees pages of his own

my $editor = browser();
$r = $editor->post($lb, '/wp-login.php', { log => 'admin', pwd => 'password' });
is($r->status(), 302, 'a login');

$r = $editor->get($lb, '/hello-world/');
is($r->header('X-Cache'), 'BYPASS', 'logged in: not from the cache');
like($r->body(), qr/id="wpadminbar"/, 'but with the bar');
unlike(look($_, '/hello-world/')->body(), qr/wpadminbar/,
    'which visitors do not see') for $a, $b;

my $nonce = $editor->get($lb, '/wp-admin/admin-ajax.php?action=rest-nonce')
    ->body();
like($nonce, qr/^\w{6,}$/, 'a nonce');


# he writes

ok(wait_for(sub {
    look($a, '/');
    look($b, '/')->header('X-Cache') eq 'HIT';
}, 120), 'the front page is cached');

$r = rest('POST', '/posts/1', { title => 'A second title' });
is($r->status(), 200, 'a post is changed');
seen('/hello-world/', qr/A second title/, 'changed');
seen('/', qr/A second title/, 'changed, the front page');
is(look($a, '/sample-page/')->header('X-Cache'), 'HIT', 'other pages stay');

$r = rest('POST', '/posts', { title => 'A post that is new',
    content => 'Its text.', status => 'publish' });
is($r->status(), 201, 'a post is published');
my $id = decode_json($r->body())->{id};
seen('/', qr/A post that is new/, 'published, the front page');
seen('/a-post-that-is-new/', qr/Its text/, 'published');

$r = rest('DELETE', "/posts/$id");
is($r->status(), 200, 'it is taken back');

for my $host ($a, $b) {
    is(look($host, '/a-post-that-is-new/')->status(), 404,
        'taken back: at once');
    unlike(look($host, '/')->body(), qr/A post that is new/,
        'taken back: the front page, too');
}

# POSTs of strangers do not make visitors wait

look($a, '/sample-page/');
$visitor->post($a, '/sample-page/', { x => 1 }, headers => proto());
like(look($b, '/sample-page/')->header('X-Cache'), qr/STALE|UPDATING|HIT/,
    'a POST: the old page meanwhile');


# a comment that waits for its moderator

$r = $visitor->post($lb, '/wp-comments-post.php', { comment => 'Spam, spam',
    author => 'Someone', email => 's@example.com', comment_post_ID => 1 });
is($r->status(), 302, 'a comment');
unlike(look($_, '/hello-world/')->body(), qr/Spam, spam/, 'it is held')
    for $a, $b;

my $comments = decode_json($editor->get($lb,
    '/wp-json/wp/v2/comments?status=hold',
    headers => { 'X-WP-Nonce' => $nonce })->body());
$r = rest('POST', "/comments/$comments->[0]{id}", { status => 'approved' });
is($r->status(), 200, 'it is approved');
seen('/hello-world/', qr/Spam, spam/, 'a comment');


# the balancer: people are told apart by the addresses that it forwards, but
# not by those that they make up

my $online;

ok(wait_for(sub {
    browser(agent => "Mozilla/5.0 ($_)")->get($lb, '/') for 1 .. 7;
    browser()->get($lb, '/', local => "127.0.1.$_") for 1 .. 5;
    browser()->get($lb, '/', headers => { 'X-Forwarded-For' => "192.0.2.$_" })
        for 1 .. 5;
    sleep 1;
    $online = join ' ', map { look($_, '/')->body() =~ /online (\d+)\./ }
        $a, $b;
    return $online eq '13 13';
}, 300), 'people online') or diag($online);

like(browser()->get($lb, '/hello-world/')->header('X-Cache'),
    qr/HIT|STALE|UPDATING/, 'by way of the balancer: from the cache');

# what is most viewed

my $top = decode_json($a->get('/popular.json')->body());
is_deeply([sort map { $_->{key} } @{$top->{keys}}],
    [sort grep { /views:(.*)/ ? ($_ = $1) : 0 } $counters->keys()],
    'the most viewed pages');


stop($fpm);

$t->allow(qr/upstream timed out|connect\(\) to unix:.*failed/);
stop($mariadb);
is($t->read_file('php.log') =~ s/^.*Deprecated.*\n//mgr, '',
    'PHP has nothing to complain about') if -e "$dir/php.log";
$t->allow(qr/access forbidden by rule/);
$t->done();


# a request as the balancer sends it

sub proto {
    return { 'X-Forwarded-Proto' => 'https' };
}


sub browser {
    return Test::Mcds::Recipe::Browser->new(test => $t,
        host => 'www.example.com', @_);
}


sub look {
    my ($host, $uri, %o) = @_;

    return browser()->get($host, $uri, %o,
        headers => { %{proto()}, %{$o{headers} // {}} });
}


sub rest {
    my ($method, $uri, $what) = @_;

    return $editor->post($lb, "/wp-json/wp/v2$uri",
        $what ? encode_json($what) : '', method => $method,
        headers => { 'X-WP-Nonce' => $nonce });
}


# what is new is there at the second request of each host, at the latest

sub seen {
    my ($uri, $re, $name) = @_;

    for my $host ($a, $b) {
        look($host, $uri);
        ok(wait_for(sub { look($host, $uri)->body() =~ $re }, 120),
            "$name: seen by visitors");
    }
}


sub purge {
    my ($args, %o) = @_;

    return http_post($t->port('admin_a'), '/purge', $args, %o);
}


sub forget {
    $t->write_file('made', '');
    chmod 0666, "$dir/made" or die;
}


sub made {
    my ($path) = @_;

    return scalar grep { $_ eq $path } split /\n/, $t->read_file('made');
}
