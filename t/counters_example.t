#!/usr/bin/perl

# Copyright (C) mcds authors

# conf-examples/counters.* as they are, but for ports and folders: what they
# say is what they do; and in a browser, if Chromium is there.

use warnings;
use strict;

use JSON::PP;
use POSIX ();
use Test::More;
use Time::HiRes qw/ sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT slurp /;

my $t = Test::Mcds->new();

my $m = $t->memcached('m');
my $dir = $t->dir();
my $examples = "$FindBin::Bin/../conf-examples";

my $conf = slurp("$examples/counters.conf");

# the example listens on other ports than this test, and so on

$conf =~ s/^load_module .*;/%%GLOBALS%%/m or die;
$conf =~ s/^user .*;\n//m or die;
$conf =~ s/^http \{/http {\n%%HTTP%%/m or die;
$conf =~ s/127\.0\.0\.1:11211;/127.0.0.1:%%PORT_m%%; timeout 5s;/ or die;
$conf =~ s/listen 80;/listen 127.0.0.1:%%PORT%%;/ or die;
$conf =~ s{/srv/www;}{$dir/www;} or die;

mkdir "$dir/www";
$t->write_file('www/index.html', slurp("$examples/counters.html"));

my $a = $t->nginx('a', $conf);


# what the comments promise

like($a->get('/')->body(), qr/Live numbers/, 'the page');
is($a->get('/numbers?key=/')->body(), qq({"online":0,"/":0}\r\n), 'shows');
like($a->get('/numbers?key=/', method => 'POST')->body(),
    qr/^\{"online":\d+,"\/":1\}/, 'counts');
is($a->get('/numbers?key=/%0a')->status(), 400, 'keys of pages only');
ok(wait_for(sub { $a->get('/popular')->body()
    =~ m!"keys":\[\{"key":"/","count":1,! }, 10), 'the most viewed');

# not more often than the example allows

ok(wait_for(sub {
    sleep 0.3;
    decode_json($a->get('/numbers?key=/')->body())->{online} == 1
}, 20), 'one visitor is online');


# the page in a browser

SKIP: {
    my $chromium = (grep { -x } map { "$_/chromium" } split /:/,
        $ENV{PATH})[0];

    skip 'Chromium is not installed', 5 if !$chromium;

    $a->get('/numbers?key=/other', method => 'POST');
    ok(wait_for(sub { $a->get('/popular')->body() =~ m{"/other"} }, 10),
        'browser: another page is there');

    # each look counts, and the page shows it at the latest when it asks again

    my ($dom, $looks) = ('', 1);

    ok(wait_for(sub {
        $dom = browse();
        $looks++;
        shown($dom, 'views') eq $looks;
    }, 60), 'browser: views') or diag($dom);

    is($m->get('views:/'), $looks, 'browser: each look counted once');
    like(shown($dom, 'online'), qr/^[0-2]$/, 'browser: people');
    like($dom, qr{<li><a href="/">/</a> \d+</li>\s*<li><a href="/other">},
        'browser: the most viewed');

    # nine seconds of the page, which do not pass while it waits for us

    sub browse {
        my $pid = open(my $fh, '-|') // die "fork: $!\n";

        if ($pid == 0) {
            open STDERR, '>', "$dir/chromium.log";
            no warnings;
            exec 'timeout', '-k', '5', '60', $chromium, qw/ --headless
                --no-sandbox --disable-gpu --disable-dev-shm-usage
                --disable-background-networking --no-first-run
                --disable-breakpad --disable-crash-reporter
                --dump-dom --virtual-time-budget=9000 /,
                "--user-data-dir=$dir/chromium",
                'http://127.0.0.1:' . $a->port() . '/';
            POSIX::_exit(127);
        }

        local $/;
        my $dom = <$fh> // '';
        close $fh;

        return $dom;
    }
}

$t->done();


sub shown {
    my ($dom, $id) = @_;

    return $dom =~ m{<b id="$id">(.*?)</b>} ? $1 : '';
}
