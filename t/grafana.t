#!/usr/bin/perl

# Copyright (C) mcds authors

# misc/grafana: promtool takes the alerts, and the queries of the dashboard; all
# of their metrics and labels are those that mcds_status has.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds qw/ :DEFAULT slurp /;

my $t = Test::Mcds->new();
my $dir = "$FindBin::Bin/../misc/grafana";

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'] });

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_cache on;
            mcds_counter $n key=n;
            mcds_visitor_counter $online;
            mcds_log events combined;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /no { mcds_cache on; mcds_no_cache 1;
            proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /metrics { mcds_status format=prometheus; }
    }
}
EOT

my $text;
ok(wait_for(sub {
    $h->get($_) for '/', '/no';
    $text = $h->get('/metrics')->body();
    $text =~ /^mcds_cache_not_stored_total\{/m;
}), 'a host has counted');

# of each metric, its labels with the values of each

my %metric;

for ($text =~ /^(mcds_\w+(?:\{.*\})?) /mg) {
    my ($name, $labels) = /^(\w+)\{?(.*?)\}?$/;
    $metric{$name} //= {};
    $metric{$name}{$1}{$2} = 1
        while $labels =~ /(\w+)="((?:[^"\\]|\\.)*)"/g;
}

# what Prometheus adds

my %added = map { $_ => 1 } qw/ job instance /;


my $alerts = slurp("$dir/alerts.yml");
my $dashboard = decode_json(slurp("$dir/mcds.json"));
my @queries = map { map { $_->{expr} } @{$_->{targets}} }
    @{$dashboard->{panels}};

cmp_ok(scalar @queries, '>=', 12, 'queries are there');

my (@unknown, %used);

for my $query (@queries, ($alerts =~ /^ +expr: *((?:>-)?.*?)(?=^ +for:)/msg)) {
    while ($query =~ /\b(mcds_\w+)(?:\{(.*?)\})?/g) {
        my ($name, $labels) = ($1, $2 // '');

        $used{$name} = 1;
        push @unknown, $name if !$metric{$name};

        while ($labels =~ /(\w+)(?:=~?|!=)"([^"]*)"/g) {
            my ($label, $values) = ($1, $2);
            next if $added{$label};

            push @unknown, map { "$name $label=$_" }
                grep { !$metric{$name}{$label}{$_} } split /\|/, $values;
        }
    }

    my %labels = (%added, le => 1,
        map { map { $_ => 1 } keys %{$metric{$_} // {}} }
            $query =~ /\b(mcds_\w+)/g);

    push @unknown, map { "by ($_)" }
        grep { !$labels{$_} } map { split /, */ } $query =~ /by \(([^)]*)\)/g;
}

is(join("\n", @unknown), '', 'metrics and labels are those of mcds_status');
cmp_ok(scalar keys %used, '>=', 15, 'many of them');

SKIP: {
    skip('promtool (Debian: prometheus) is not installed', 2)
        if !$t->has('promtool');

    $t->write_file('alerts.yml', $alerts);
    like($t->run('sh', '-c', 'promtool check rules ' . $t->dir()
        . '/alerts.yml 2>&1'), qr/SUCCESS: \d+ rules found/, 'the alerts');

    my $n = 0;
    $t->write_file('queries.yml', "groups:\n  - name: queries\n    rules:\n"
        . join '', map {
            "      - record: q:n" . $n++ . "\n        expr: '"
            . s/\$__rate_interval/5m/gr =~ s/\$job/mcds/gr . "'\n"
        } @queries);
    like($t->run('sh', '-c', 'promtool check rules ' . $t->dir()
        . '/queries.yml 2>&1'), qr/SUCCESS: $n rules found/,
        'the queries of the dashboard');
}

$t->done();
