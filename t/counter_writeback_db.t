#!/usr/bin/perl

# Copyright (C) mcds authors

# conf-examples/writeback.* as they are, but for ports, folders and times: the
# database in the end has what was viewed, on two hosts, with workers killed,
# reloads, a database that is down, and batches that arrive twice.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT slurp /;

my $t = Test::Mcds->new()->not_in('single',
    'what nginx knows ends with the process');

my ($fpm) = grep { -x } </usr/sbin/php-fpm*>;
my $examples = "$FindBin::Bin/../conf-examples";

plan(skip_all => 'PHP-FPM (php-fpm) is not installed') if !$fpm;
plan(skip_all => 'SQLite for PHP (php-sqlite3) is not installed')
    if `$fpm -m` !~ /^pdo_sqlite$/m;

my $m = $t->memcached('m');
my $dir = $t->dir();

mkdir "$dir/$_" for qw/ www db /;
chmod 0777, "$dir/db";

$t->write_file('www/writeback.php', slurp("$examples/writeback.php"));
$t->write_file('www/sum.php', <<'EOT');
<?php
$db = new PDO('sqlite:' . $_SERVER['DATABASE']);
foreach ($db->query('SELECT key, views FROM counters') as $row) {
    echo "$row[0]=$row[1]\n";
}
$n = $db->query('SELECT count(*) FROM batches')->fetchColumn();
echo "batches=$n\n";
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
catch_workers_output = yes
EOT

start_php();


# the example, and a look at what the database has

my $conf = slurp("$examples/writeback.conf");

$conf =~ s/^load_module .*;/%%GLOBALS%%/m or die;
$conf =~ s/^user .*;\n//m or die;
$conf =~ s/^worker_processes auto;/worker_processes 2;/m or die;
$conf =~ s/^http \{/http {\n%%HTTP%%\nkeepalive_requests 1000000;/m or die;
$conf =~ s/127\.0\.0\.1:11211;/127.0.0.1:%%PORT_m%%;/ or die;
$conf =~ s/listen 80;/listen 127.0.0.1:%%PORT%%;/ or die;
$conf =~ s/interval=10m;/interval=200ms batch=20;/ or die;
$conf =~ s{/var/www/counters/writeback\.php}{$dir/www/\$script.php} or die;
$conf =~ s{DATABASE /var/lib/counters/}{DATABASE $dir/db/} or die;
$conf =~ s{unix:/run/php/php-fpm\.sock}{unix:$dir/php.sock} or die;
$conf =~ s{(location /internal/)}{
    set \$script writeback;
    location = /sum {
        set \$script sum;
        rewrite ^ /internal/sum last;
    }
    $1} or die;

my ($a, $b) = map { $t->nginx($_, $conf) } qw/ a b /;
my %sent;


# a first look

is(view($a, 1), 'article 1 was seen 1 times', 'the first view');
is(view($b, 1), 'article 1 was seen 2 times', 'on another host');
ok(saved(), 'both are saved') or show();
is(database()->{'views:1'}, 2, 'in the database');


# memcached is emptied, and a host that knows nothing of it comes

$m->flush();
$b->quit();
$b->up();
is(view($b, 1), 'article 1 was seen 3 times', 'begins with what was saved');


# under load: killed, replaced, and without a database

for my $round (1 .. $t->size(6, 60)) {
    my @ids = map { 10 + $_ } 1 .. 30;
    my $load = $t->load(ports => [$a, $b], clients => 8,
        uris => [map { "/articles/$_" } @ids], requests => 2000,
        expect => 'was seen', background => 1);

    sleep 0.1 + rand 0.2;

    if ($round % 3 == 0) {
        $a->kill_worker($_) for $a->workers();

    } elsif ($round % 3 == 1) {
        $_->reload(wait_old => 1) for $a, $b;

    } else {
        stop_php();
        sleep 0.5;
        start_php();
    }

    my $r = $load->wait();
    $sent{load} += $r->{ok};
    $sent{unknown} += $r->{requests} - $r->{ok};
}

ok(saved(), 'all are saved') or show();

my $db = database();
my $sum = 0;
$sum += $db->{"views:" . (10 + $_)} for 1 .. 30;

cmp_ok($sum, '>=', $sent{load}, "load: $sent{load} were answered");
cmp_ok($sum, '<=', $sent{load} + 8 * $t->size(6, 60) + $sent{unknown},
    "load: $sum are in the database");

# those of killed workers, which nobody saw, may be in one of the two alone

my $off = 0;
$off += abs($db->{"views:$_"} - $m->get("views:$_")) for 11 .. 40;
cmp_ok($off, '<=', 16 * $t->size(2, 20), "memcached: the same, but for $off");
note("$db->{batches} batches");


# the same batch again

my $body = '[{"key":"views:1","delta":1000}]';

for (1 .. 2) {
    is(post($body, '0-1'), '204', 'a batch');
}

is(database()->{'views:1'}, 1003, 'is added once');
is(post('no JSON', '0-2'), '500', 'what is no batch');
is(post('[{"key":"views:1","delta":5},{"delta":1}]', '0-3'), '500',
    'or only half a one');
is(database()->{'views:1'}, 1003, 'adds nothing');


# in the end

view($a, 1) for 1 .. 5;
$_->quit() for $a, $b;
$a->up();
is(database()->{'views:1'}, 1008, 'what was viewed before the end is saved');

$t->allow(qr/connect\(\) to unix:.* failed/, qr/mcds_counter_writeback/,
    qr/start of a counter|no start for counter/, qr/upstream|FastCGI/);
$t->done();


sub start_php {
    $t->{fpm} = $t->helper('fpm', sub { -S "$dir/php.sock" }, $fpm, '-R',
        '-y', "$dir/fpm.conf");
}


sub stop_php {
    kill 'QUIT', $t->{fpm};
    waitpid($t->{fpm}, 0);
    $t->gone($t->{fpm});
    unlink "$dir/php.sock";
}


sub view {
    my ($host, $id) = @_;
    return $host->get("/articles/$id")->body() =~ s/\n//r;
}


sub database {
    return { $a->get('/sum')->body() =~ /^(\S+)=(\d+)$/mg };
}


# until nothing more arrives

sub saved {
    my $last = '';
    return wait_for(sub {
        sleep 0.7;
        my $now = $a->get('/sum')->body();
        my $same = $now eq $last && $now =~ /views/;
        $last = $now;
        return $same;
    }, 20);
}


sub show {
    diag($a->get('/sum')->body(), $t->read_file('fpm.log'));
}


# as nginx does, past nginx

sub post {
    my ($body, $batch) = @_;

    my $h = $t->{past} //= $t->nginx('past', <<"EOT");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            fastcgi_pass  unix:$dir/php.sock;
            fastcgi_param SCRIPT_FILENAME $dir/www/writeback.php;
            fastcgi_param DATABASE $dir/db/counters.db;
            fastcgi_param REQUEST_METHOD \$request_method;
            fastcgi_param CONTENT_TYPE \$content_type;
            fastcgi_param CONTENT_LENGTH \$content_length;
        }
    }
}
EOT
    return http_post($h->port(), '/', $body,
        headers => { 'X-Mcds-Batch' => $batch })->status();
}
