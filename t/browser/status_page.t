#!/usr/bin/perl

# Copyright (C) mcds authors

# The live page in Chromium, during a load: it shows what happens, the fall of
# a memcached, its recovery and that nginx is gone, within two seconds each; it
# is well on small and large screens, and whatever is in a name or a key stays
# a text.  MCDS_IMAGES=dir puts pictures there (make browser).

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Mcds;
use Test::Mcds::Browser;
use Time::HiRes qw/ sleep time /;

my $t = Test::Mcds->new();

my $images = $ENV{MCDS_IMAGES};
my $soon = 2 * $t->slow();
my $run = $images ? 160 : 25;

my $m1 = $t->memcached('m1');
my $m2 = $t->memcached('m2');
my $o = $t->origin('o', sub { my ($o, $req) = @_; return {
    headers => ['Cache-Control' => 'max-age=' . (1 + $req->{n} % 4)],
    body => "page $req->{n} " . 'x' x 4000, delay => 0.02,
} });

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool pages {
        server 127.0.0.1:%%PORT_m1%%;
        server 127.0.0.1:%%PORT_m2%%;
        distribution ketama;
        fail_timeout 500ms;
    }
    mcds_pool "NAME" { server 127.0.0.1:%%PORT_m2%%; }
    mcds_use "NAME";
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        server_name www.example.com;
        mcds_cache pages;
        mcds_cache_key $uri$is_args$args;
        location / {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            mcds_counter $views key=views:$uri async;
        }
        location /articles/ {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            mcds_counter $articles key=articles:$uri;
            mcds_visitor_counter $online key=online visitor=$uri
                window=40s slots=20 interpolate=off;
        }
        location /shop/ {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            mcds_cache_bypass $arg_fresh;
        }
        location = /report {
            mcds_cache off;
            mcds_lock key=report;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /status {
            mcds_cache off;
            mcds_status;
            mcds_status_host www2 /www2;
        }
        location = /www2 {
            mcds_cache off;
            proxy_pass http://127.0.0.1:%%PORT_other%%/;
        }
    }
    server {
        listen 127.0.0.1:%%PORT_idle%%;
        location / { mcds_status; }
    }
}
EOT

my $other = $t->nginx('other', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool pages { server 127.0.0.1:%%PORT_m2%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache_key $uri;
        location / { mcds_status; }
        location /articles/ {
            mcds_cache pages;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $h = $t->nginx('h', $conf =~ s/NAME/data/gr);

my $url = 'http://127.0.0.1:' . $h->port() . '/status?token=t&format=html';
my @loads = map { $t->load(port => $h->port(), seconds => $run,
    background => 1, keys => 40, %$_) } (
    { uri => '/articles/a%n', clients => 8, rate => 8 },
    { uri => '/shop/list?page=%n', clients => 4, rate => 6 },
    { uri => '/shop/list?fresh=1', clients => 1, rate => 5 },
    { uris => ['/', '/about', '/feed.xml', '/', '/', '/about'], clients => 4,
        rate => 8 },
    { uri => '/report', clients => 2, rate => 3 },
);

push @loads, $t->load(port => $other->port(), seconds => $run,
    background => 1, keys => 40, uri => '/articles/a%n', clients => 6,
    rate => 8);

# as the page writes into a key what it is asked for

my $evil = '%3Cimg%20src=x%20onerror=alert(1)%3E%3Cscript%3Ealert(2)'
    . '%3C/script%3E';

http_get($h->port(), "/articles/$evil") for 1 .. 20;

my $b = Test::Mcds::Browser->start($t);
my $p = $b->page($url, width => 1280, height => 900);

ok($p->wait(q(document.querySelectorAll('[data-state=well]').length >= 3), 20),
    'the page is there and servers are well');
is($p->text('#live-text'), 'Live', 'it lives');
is($p->text('#problems'), '', 'no problems');
ok($p->wait(q(/[1-9]/.test(
    document.querySelector('[data-tile=operations] .value').textContent)), 5),
    'operations are seen');
ok($p->wait(q(document.querySelectorAll('#c-latency .chart .line').length == 2
    && document.querySelector('#c-latency .chart .line').getAttribute('d')
    .length > 20), 5), 'lines are drawn');

# numbers

ok($p->wait(q([...document.querySelectorAll('#visitors b')].some(
    (e) => +e.textContent >= 40)), 20), 'visitors');
ok($p->wait(q([...document.querySelectorAll('#counters li')].some((e) =>
    /^articles:.*\D\d+\D.*\/s$/.test(e.textContent)
    && /^seen at \d/.test(e.querySelector('b').title))), 5), 'counters');
ok($p->wait(q([...document.querySelectorAll('#servers td')].some((e) =>
    / %of 64 MB/.test(e.textContent))), 5), 'memory');
ok($p->wait(q(document.querySelectorAll('#hosts [data-state=well]').length
    == 2), 5), 'two hosts');
is($p->js(q(document.querySelector('#hosts a').getAttribute('href'))), '/www2',
    'a link to the other');
is($p->js(q(document.querySelector('#hosts a').textContent)), 'www2',
    'its name');
like($p->js(q(document.querySelector('#hosts tbody tr').textContent)),
    qr/^this host.*2 of 2|^this host.*3 of 3/, 'and this one');
accessible('healthy');

# hostile keys

ok($p->wait(q([...document.querySelectorAll('#pages bdi')].some(
    (e) => e.textContent.includes('<script>alert(2)'))), 10),
    'a key is a text');
is($p->js(q(document.querySelectorAll('img, b b, iframe').length)), 0,
    'neither is HTML');
is($p->js(q(document.querySelectorAll('script').length)), 3,
    'nor a script');

# sizes

for my $width (360, 700, 1280, 1920) {
    $p->show(width => $width, height => 800, mobile => $width < 500);
    $p->js('new Promise((done) => setTimeout(done, 200))');

    cmp_ok($p->js('document.documentElement.scrollWidth'), '<=', $width,
        "$width wide: no more");
}

is($p->js(q([...document.querySelector('#cache').options].map(
    (e) => e.textContent).join(', '))), 'all, www.example.com /, '
    . 'www.example.com /articles/, www.example.com /shop/', 'caches to choose');
$p->js(q(document.querySelector('#cache').value = 'www.example.com /shop/';
    document.querySelector('#cache').dispatchEvent(new Event('change'))));
ok($p->wait(q(/[1-9]/.test(document.querySelector(
    '#c-requests .legend b').textContent)), 5), 'one is chosen');
$p->js(q(document.querySelector('#cache').value = '';
    document.querySelector('#cache').dispatchEvent(new Event('change'))));

for (['hour', 'last hour'], ['recent', 'last two minutes']) {
    my ($range, $name) = @$_;

    $p->js("document.querySelector('#range').value = '$range'; document"
        . ".querySelector('#range').dispatchEvent(new Event('change'))");
    ok($p->wait("document.querySelector('#c-requests svg[role=img]')"
        . ".getAttribute('aria-label').includes('the $name')"), $name);
}

ok($p->wait(q(performance.getEntriesByType('resource').some(
    (e) => e.name.includes('history=1'))), 5), 'the last hour is asked for');

is($p->js(q([...document.querySelectorAll('table')].filter((e) =>
    !e.querySelector('thead th[scope=col]')
    || e.querySelectorAll('tbody tr').length
        != e.querySelectorAll('tbody th[scope=row]').length).length)), 0,
    'tables have headings');
is($p->js(q([...document.querySelectorAll('.chart svg')].filter((e) =>
    !/now .*\d/.test(e.getAttribute('aria-label'))).length)), 0,
    'charts are told in words');

if ($images) {
    sleep 110;
    picture('light', height => 1180);
    picture('dark', height => 1160, dark => 1);
    picture('phone', width => 360, height => 1500, mobile => 1);
    $p->show();
}

# the fall of a memcached, and its recovery

my $down = "document.querySelector('tr[data-state=down]')";
my $start = time();

$m1->kill9();
ok($p->wait($down, 10), 'it is down');
cmp_ok(time() - $start, '<', $soon, 'which is seen soon');
like($p->text('#problems'), qr/ is\ down\ since\ \d\d:\d\d:\d\d:\ it\ .*
    again\ at\ \d\d:\d\d:\d\d\./x, 'and told, why, and when it is tried');
like($p->js("document.title"), qr/^\(1\)/, 'in the title, too');

accessible('failure');

if ($images) {
    sleep 12;
    picture('failure', height => 1160);
    $p->show();
}

$start = time();
$m1->restart();
ok($p->wait("!$down", 10), 'it is back');
cmp_ok(time() - $start, '<', $soon, 'which is seen soon');
ok($p->wait(q(document.querySelectorAll('#problems p').length == 0), 10),
    'nothing is told any more') or diag($p->text('#problems'));

is(join('; ', $p->errors()), '', 'the console is empty');

# another host is gone, and there again

$other->stop();
ok($p->wait(q(/nginx answers 502 since/.test(
    document.querySelector('#hosts').textContent)), 10), 'www2 is gone');
like($p->text('#problems'), qr/^The page of www2 cannot be read: nginx answers/,
    'which is told');
$other->up();
ok($p->wait(q(document.querySelectorAll('#hosts [data-state=well]').length
    == 2), 10), 'www2 is back');
ok($p->wait(q(document.querySelectorAll('#problems p').length == 0), 10),
    'nothing is told any more');
$p->errors();                        # of the requests that failed

# nginx is gone, and there again

$start = time();
$h->stop();
ok($p->wait(q(document.querySelector('#live').dataset.state == 'lost'), 10),
    'nginx is gone');
cmp_ok(time() - $start, '<', $soon, 'which is seen soon');
like($p->text('#problems'), qr/^nginx does not answer since \d\d:/,
    'and since when');

$h->conf($conf =~ s/NAME/<b>data<\/b>/gr)->up();
ok($p->wait(q(document.querySelector('#live').dataset.state == 'live'), 10),
    'nginx is back');
ok($p->wait(q(document.querySelector('#servers').textContent
    .includes('<b>data</b>')), 10), 'with a hostile name, which is a text');
is($p->js(q(document.querySelectorAll('img, b b, iframe, script').length)), 3,
    'and no HTML');
ok($p->wait(q(document.querySelectorAll('#problems p').length == 0), 10),
    'nothing is told any more');

# nothing to show

my $idle = $b->page('http://127.0.0.1:' . $t->port('idle')
    . '/x?format=html', width => 360, height => 800, dark => 1);

ok($idle->wait(q(document.querySelector('#live').dataset.state == 'live'), 10),
    'another place');
like($idle->text('#counters'), qr/No counter was updated|\d/, 'idle');

# asked no more while nobody looks

my $asked = q(performance.getEntriesByType('resource').length);

$idle->js(q(Object.defineProperty(document, 'hidden', { value: true,
    configurable: true });
    document.dispatchEvent(new Event('visibilitychange'))));
$idle->js('new Promise((done) => setTimeout(done, 300))');

my $before = $idle->js($asked);
$idle->js('new Promise((done) => setTimeout(done, 1500))');
is($idle->js($asked), $before, 'hidden: it does not ask');
is($idle->text('#live-text'), 'Paused', 'and says so');

$idle->js(q(delete document.hidden;
    document.dispatchEvent(new Event('visibilitychange'))));
ok($idle->wait(q(document.querySelector('#live').dataset.state == 'live'), 10),
    'seen again: it goes on');
is(join('; ', $idle->errors()), '', 'the console is empty');

$b->stop();
$_->wait() for @loads;
$t->done();


# as axe-core sees it, whose axe.min.js MCDS_AXE names

sub accessible {
    my ($name) = @_;

    my $file = $ENV{MCDS_AXE} or return;

    open my $fh, '<', $file or die "$file: $!\n";
    $p->js(do { local $/; <$fh> } . '; 1');

    for my $dark (0, 1) {
        for my $width (360, 1280) {
            $p->show(width => $width, height => 900, dark => $dark,
                mobile => $width < 500);

            is($p->js(q(axe.run().then((r) => r.violations.map((v) => v.impact
                + ' ' + v.id + ': ' + v.nodes.map((n) => n.target).join(', '))
                .join('; ')))), '', "$name, $width wide, dark $dark: axe");
        }
    }

    $p->show();
}


sub picture {
    my ($name, %o) = @_;

    my $file = "$images/status-$name.png";

    $p->shot($file, %o);
    system('pngquant', '--force', '--speed', 1, '--output', $file, $file);
    cmp_ok(-s $file, '<', 150000, "$name: the picture is small");
}
