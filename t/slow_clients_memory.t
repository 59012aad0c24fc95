#!/usr/bin/perl

# Copyright (C) mcds authors

# What clients can make a worker hold is bounded: bodies of pages that are built
# by clients which do not read them, and what it remembers of URIs.  Those who
# ask for a page whose client is slow get it nevertheless; when the slow ones
# have left all is as before.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry;
use Test::Mcds::Slow;
use Test::Mcds::Status;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at one worker');
$t->needs('mcds large');

my $mb = 1024 * 1024;
my $n = $t->size(40, 300);
my $size = 7 * $mb;

my $m = $t->memcached('m', memory => 1024);
my $body = 'x' x $size;
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    return { headers => ['Cache-Control' => 'max-age=600'],
        body => $q->{path} =~ /large/ ? $body : 'small' };
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 10s; }
    add_header X-Cache $mcds_cache_status always;
    large_client_header_buffers 4 40k;
    keepalive_requests 100000;
    mcds_cache on;
    mcds_cache_key $request_uri;
    log_format reason '$uri $mcds_cache_reason';
    access_log %%DIR%%/reasons.log reason;
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=16k;
        listen 127.0.0.1:%%PORT_fast%%;
        send_timeout 1h;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /status { mcds_status; }
    }
}
EOT

sub rss {
    my ($pid) = $h->workers();
    open my $fh, '<', "/proc/$pid/statm" or die "statm: $!\n";
    return (split ' ', <$fh>)[1] * 4096;
}

# URIs that are long

my $long = 'u' x 30_000;
$h->get('/small');
my $before = rss();

my $c = $h->conn();
$c->get("/$_?$long") for 1 .. 2000;
my $used = rss() - $before;

note(sprintf '2000 long URIs: %.1f MB', $used / $mb);
$c->close();

cmp_ok($used, '<', 30 * $mb, 'what is remembered of long URIs')
    if !$t->watched();

my $memory = status($h)->{memory};
cmp_ok($memory->{pages}, '>', 10 * $mb, 'mcds_status shows it');
cmp_ok($memory->{pages}, '<=', 16 * $mb, 'and that it is bounded');

# a page is stored though its client does not read it, as long as there is room

$before = rss();

my $first = slow($h->port(), '/large/first');
ok(page_wait($m, '/large/first'), 'one slow client: its page is stored');

my @slow = map { slow($h->port(), "/large/$_") } 1 .. $n;
$used = rss() - $before;

note(sprintf '%d clients: %.1f MB', $n, $used / $mb);

# what they have not read, and what is being stored

cmp_ok($used, '<', 64 * $mb + 64 * $mb + 20 * $mb + $n * 0.1 * $mb,
    "$n slow clients: what the worker holds") if !$t->watched();

$memory = status($h)->{memory};
cmp_ok($memory->{unsent}, '>', 50 * $mb, 'mcds_status shows it');
cmp_ok($memory->{unsent}, '<=', 64 * $mb, 'and that it is bounded');
like($h->get('/status?format=prometheus')->body(),
    qr/^mcds_worker_unsent_bytes\{worker="0"\} \d{8}$/m, 'also to Prometheus');

# others wait for one of them a second, and build it themselves

my $w = slow($h->port(), '/large/wanted');
my $r = http_get($t->port('fast'), '/large/wanted', calm => 1);
ok($r->body() eq $body, 'another client gets the page of a slow one');
cmp_ok($r->calm(), '<', 20, 'in time');
ok(page_wait($m, '/large/wanted'), 'and it is stored');
is($h->get('/large/wanted')->header('X-Cache'), 'HIT', 'and served');
ok(rest($w) eq $body, 'the slow one gets all of it');
ok(wait_for(sub { $t->read_file('h/reasons.log') =~ m{/large/wanted slow} }),
    'and its log says why it was not stored');

ok(rest($slow[-1]) eq $body, 'so does the last of the others');
ok(rest($slow[0]) eq $body, 'and the first');
ok(rest($first) eq $body, 'and the one before');

close $_->[0] for @slow;
@slow = ();

my ($worker) = $h->workers();
ok(wait_for(sub { $h->fds($worker) < $n }), 'they have left');
is(status($h)->{memory}{unsent}, 0, 'and nothing is held for them');
my $last = slow($h->port(), '/large/last');
ok(page_wait($m, '/large/last'), 'there is room for the page of a slow one');
close $last->[0];

$t->done();
