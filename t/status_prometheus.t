#!/usr/bin/perl

# Copyright (C) mcds authors

# mcds_status for Prometheus: promtool has nothing to say against it, whatever
# the names are; a Prometheus scrapes two hosts, and its sums and rates are
# those of the load; it sees that a host was started anew.

use warnings;
use strict;

use Test::More;
use JSON::PP;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Status;

my $t = Test::Mcds->new();

ok($t->has($_), "there is $_") for 'promtool', 'prometheus';

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => 'page' });

my ($a, $b) = map { $t->nginx($_, <<"EOT") } 'a', 'b';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / { mcds_cache on; mcds_cache_key \$uri;
            mcds_cache_label pages; mcds_log events combined;
            mcds_counter \$n key=n;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /odd { mcds_cache on;
            mcds_cache_label "q\\"s\\\\l\\n\xff\xc3\xa9";
            mcds_cache_key \$uri; proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /lock { mcds_lock a; return 204; }
        location /push { mcds_array_push list \$uri; return 204; }
        location /get { mcds_table_lookup \$x table \$arg_k none; return 204; }
        location = /metrics { mcds_status format=prometheus; }
        location = /status { mcds_status; }
    }
}
EOT

# the text

$a->get($_) for '/', '/', '/odd', '/lock', '/push', '/get?k=a';
wait_for(sub {
    3 == sum_of({ map { $_->{name} => sum_of($_->{requests}) }
        @{status($a)->{caches}} });
});

my $res = $a->get('/metrics');
my $text = $res->body();

is($res->header('Content-Type'), 'text/plain; version=0.0.4; charset=utf-8',
    'its type');
is($t->run('sh', '-c', "promtool check metrics < "
    . $t->write_file('metrics', $text) . ' 2>&1'), '', 'promtool is content');
is($? >> 8, 0, 'and says so');
like($text, qr/^mcds_build_info\{version="[\d.]+",nginx="[\d.]+"\} 1$/m,
    'versions');
like($text, qr/^mcds_cache_requests_total\{
    cache="\xef\xbf\xbdq\\"s\\\\l\\n\\\\xff\\\\xc3\\\\xa9",
    status="miss"\}\ 1$/mx,
    'an odd name');

my %seen;
my $last = '';

for ($text =~ /^([a-z]\w*?)(?:_bucket|_sum|_count)?\{/mg) {
    $seen{$last = $_}++ if $_ ne $last;
}

is(join(' ', grep { $seen{$_} > 1 } sort keys %seen), '',
    'samples of a metric follow each other');

# a real one

my $port = $t->port('prometheus');
my $config = $t->write_file('prometheus.yml', <<"EOT");
global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs:
  - job_name: mcds
    metrics_path: /metrics
    static_configs:
      - targets: ['127.0.0.1:${\$a->port()}', '127.0.0.1:${\$b->port()}']
EOT

my $pid = $t->helper('prometheus', sub {
    my $r = eval { http_get($port, '/-/ready') };
    return $r && $r->status() == 200;
}, 'prometheus', "--config.file=$config",
    '--storage.tsdb.path=' . $t->dir() . '/tsdb', '--log.level=warn',
    "--web.listen-address=127.0.0.1:$port");

# the value of a query that has one sample, once the sub is content with it

sub query {
    my ($query, $sub) = @_;

    my $value;

    wait_for(sub {
        my $res = eval { http_get($port, '/api/v1/query?query='
            . $query =~ s/([^\w.])/sprintf '%%%02x', ord $1/ger) };
        my $answer = eval { decode_json($res->body()) };

        $value = $answer->{data}{result}[0]{value}[1];
        return defined $value && $sub->($value);
    }, 30 * $t->slow());

    return $value;
}

is(query('sum(up)', sub { $_[0] == 2 }), 2, 'it scrapes two hosts');

my $load = $t->load(ports => [$a, $b], uri => '/', clients => 4, rate => 40,
    seconds => $t->size(5, 20));
my $n = $load->{requests} + 2;
my $per = $load->{per_second};

# the first request is the first sample of a host; a window has several of them

my $rate = query('max_over_time('
    . 'sum(rate(mcds_cache_requests_total{cache="pages"}[4s]))[2m:1s])',
    sub { $_[0] > 0.6 * $per });

cmp_ok($rate, '>', 0.6 * $per, "requests a second: $rate");
cmp_ok($rate, '<', 1.5 * $per, "of $per");

for (['mcds_cache_requests_total{cache="pages"}', 'requests'],
    ['mcds_counters_operations_total{counter="$n"}', 'of the counter'],
    ['mcds_log_lines_total{result="written"}', 'lines of the log'])
{
    my ($metric, $name) = @$_;
    is(query("sum($metric)", sub { $_[0] == $n }), $n, "$name of both: $n");
}

is(query('sum(mcds_cache_origin_requests_total{cache="pages"})',
    sub { $_[0] == $o->count('/') }), $o->count('/'), 'of the origin');
is(query('sum(mcds_server_latency_seconds_count)
    - sum(mcds_server_latency_seconds_bucket{le="+Inf"})', sub { $_[0] == 0 }),
    0, 'histograms');

# what docs/operations.md advises

open my $doc, '<', "$FindBin::Bin/../docs/operations.md" or die "docs: $!\n";

my @queries = map { /^\| `(\w.*mcds_.*?)` \|/ } <$doc>;

cmp_ok(scalar @queries, '>', 5, 'queries of the documentation');

for my $query (@queries) {
    my $answer = decode_json(http_get($port, '/api/v1/query?query='
        . $query =~ s/\\\|/|/gr =~ s/([^\w.])/sprintf '%%%02x', ord $1/ger)
        ->body());

    is($answer->{status}, 'success', $query);
}

# a host is started anew

my $of = "cache=\"pages\",status=\"hit\",instance=\"127.0.0.1:"
    . $a->port() . '"';
my $before = query("mcds_cache_requests_total{$of}", sub { $_[0] > 0 });

$a->stop();
$a->up();
$a->get('/') for 1 .. 3;

is(query("mcds_cache_requests_total{$of}", sub { $_[0] == 3 }), 3,
    'from the beginning');
is(query("resets(mcds_cache_requests_total{$of}[1m])", sub { $_[0] == 1 }), 1,
    'which is known for what it is');

kill 'TERM', $pid;
waitpid $pid, 0;
$t->gone($pid);

is($t->read_file('prometheus.stderr') =~ s/^.*level=(?:warn|info).*\n//gmr, '',
    'it has no complaints');

$t->done();
