#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds status, and mcds without a command, say in one screen whether the site is
# healthy; mcds watch shows what happens each second.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Tool;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $n = $t->memcached('n');
my $full = $t->memcached('full', memory => 8);
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $a = $t->nginx('a', <<'EOC');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server 127.0.0.1:%%PORT_m%%;
        server 127.0.0.1:%%PORT_n%%;
        distribution ketama;
        timeout 10s;
        connect_timeout 10s;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache on;
        location = /m { mcds_cache off; mcds_status format=prometheus; }
        location /mcds { mcds_cache off; mcds_status; }
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
    }
}
EOC

my $mcds = Test::Mcds::Tool->new($t, '-c', $a->dir() . '/nginx.conf');

$a->get('/page') for 1 .. 5;

# healthy

my $r = $mcds->run();

is($r->{code}, 0, 'healthy') or diag($r->{out}, $r->{err});
like($r->{out}, qr/^healthy$/m, 'says so');
like($r->{out}, qr/^main +127\.0\.0\.1:\d+ +up +1\.\d/m, 'a server');

my $s = $mcds->json('status');

ok($s->{healthy} && !@{$s->{problems}}, 'no problem');
is(scalar(@{$s->{pools}[0]{servers}}), 2, 'two servers');
is($s->{nginx}{total}, 5, 'requests of nginx');
is($s->{nginx}{origin}, $o->count('/page'), 'and of the origin');
ok($s->{nginx}{hit_ratio} > 0.5, 'hit ratio');

# live

$r = $mcds->json('watch', '-n', 1);
ok(defined $r->{requests} && defined $r->{servers_down}, 'watch: numbers');
is($r->{hot}{pages}[0]{rate} > 0, 1, 'the hottest page');

my $w = $mcds->start('watch');
ok(wait_for(sub { grep { m{^requests/s} } $w->lines() }), 'without a terminal');
is($w->stop(), 0, 'until it is interrupted');

my $conf = Test::Mcds::Tool::slurp($a->dir() . '/nginx.conf');

# pages and counters share what evicts

$full->set("page$_", 'x' x 100_000) for 1 .. 200;

my $pools = 'mcds_pool pages { server 127.0.0.1:' . $full->port() . '; }';
my $file = $t->write_file('s.conf', "http { $pools mcds_cache pages; }");
is(Test::Mcds::Tool->new($t, '-c', $file)->run('status')->{code}, 0,
    'pages alone may be evicted');

$file = $t->write_file('s.conf', "http { $pools mcds_cache pages;"
    . ' mcds_pool other { server 127.0.0.1:' . $full->port() . '; }'
    . ' mcds_counter $c pool=other; }');
$r = Test::Mcds::Tool->new($t, '-c', $file)->run('status');
is($r->{code}, 1, 'but not with counters');
like($r->{out}, qr{has evicted \d+ items.*\n +see docs/operations\.md},
    'which is said, and where it is explained');

# metrics are no JSON: where there is nothing else, nothing is known of nginx

$file = $t->write_file('s.conf', $conf =~ s/location \/mcds .*//r);
$r = Test::Mcds::Tool->new($t, '-c', $file)->run('status');
is($r->{code}, 0, 'only metrics: healthy') or diag($r->{out});
like($r->{out}, qr/^nginx: no statistics/m, 'without nginx');
$r = Test::Mcds::Tool->new($t, '-c', $file)->run('watch', '-n', 1);
is($r->{code}, 1, 'only metrics: nothing to watch');
like($r->{err}, qr/has no mcds_status that returns JSON/, 'says so');

# one of two is dead, then nginx

$n->stop();

$r = $mcds->run('status');
is($r->{code}, 3, 'a server is down');
like($r->{out}, qr/pool main is down: Connection refused/,
    'which one, and why');
ok(!$mcds->json()->{healthy}, 'not healthy');

$a->stop();

like($mcds->run()->{out}, qr/nginx does not answer at http/, 'nor is nginx');
is($mcds->run('watch', '-n', 1)->{code}, 1, 'nothing to watch');

# nothing is to be had

$r = Test::Mcds::Tool->new($t, '-c', '/nonexistent')->run();
is($r->{code}, 2, 'no configuration');
like($r->{err}, qr{cannot read /nonexistent.*--conf}, 'says what to do');
is($mcds->run('--help')->{code}, 0, 'the usage is that of --help');

# the pages and headings that messages name

my $root = "$FindBin::Bin/..";
my %missing;

for my $source (glob "$root/tools/*.c") {
    my $text = Test::Mcds::Tool::slurp($source) =~ s/"\n\s*"//gr;

    for ($text =~ m{(docs/[\w/-]+\.md[\w#-]*)}g) {
        my ($page, $heading) = split /#/;

        my %there = map { lc() =~ s/[^\w -]//gr =~ s/ /-/gr => 1 }
            Test::Mcds::Tool::slurp("$root/$page") =~ /^##+ (.+)$/mg;

        $missing{$_} = 1 if !defined $heading || !$there{$heading};
    }
}

is(join(' ', sort keys %missing), '', 'the manual has what messages refer to');

$t->done();
