#!/usr/bin/perl

# Copyright (C) mcds authors

# Age, Date and Expires of what comes from the cache: Age is what the origin
# said and the time since, never less, never negative, and grows until the page
# is built again; the others are told as the origin told them.

use warnings;
use strict;

use POSIX qw/ strftime /;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

my $start = 1_700_000_000;
my $m = $t->memcached('m');
my $clock = Test::Mcds::Clock->new($t, $start);

sub date { strftime '%a, %d %b %Y %H:%M:%S GMT', gmtime shift }

# what the origin says; how old the page is then, and when it expires

my %says = (
    plain => [0, 60, 'Cache-Control' => 'max-age=60'],
    age => [7, 53, 'Cache-Control' => 'max-age=60', Age => 7],
    dated => [0, 60, Date => date($start - 5), Expires => date($start + 55)],
    behind => [0, 60, Date => date($start - 3600),
        'Cache-Control' => 'max-age=60'],
    ahead => [0, 60, Date => date($start + 3600),
        Expires => date($start + 3660)],
    old => [50, 10, Date => date($start), Age => 50,
        Expires => date($start + 60)],
    accel => [0, 60, 'X-Accel-Expires' => '@' . ($start + 60),
        Expires => date($start - 60)],
    valid => [0, 60],
    wrong => [0, 60, 'Cache-Control' => 'max-age=60', Age => -5],
);

my $o = $t->origin('o', sub {
    my ($name) = $_[1]{path} =~ m{/(\w+)};
    my (undef, undef, @headers) = @{$says{$name}};

    return { headers => \@headers };
});

my $h = $clock->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    server {
        listen 127.0.0.1:%%PORT%%;
        mcds_cache on;
        mcds_cache_key $uri;
        mcds_cache_background_update off;
        add_header X-Cache $mcds_cache_status;
        add_header X-Age $mcds_cache_age;
        add_header X-TTL $mcds_cache_ttl;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location = /valid {
            mcds_cache_valid 60s;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /local/ {
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%/;
        }
    }
}
EOT

for my $name (sort keys %says) {
    for my $uri ("/$name", $name eq 'valid' ? () : "/local/$name") {
        my ($old, $life, %header) = @{$says{$name}};
        my (%wrong, $r);

        $clock->put($start);
        $h->get($uri);
        ok(page_wait($m, $uri), "$uri: stored");

        for my $after (map { $_ / 2 } 0 .. 2 * $life - 1) {
            $clock->put($start + $after);
            $r = $h->get($uri);

            my $age = $r->header('Age') // 'none';

            $wrong{"$after: " . $r->header('X-Cache')}++
                if $r->header('X-Cache') ne 'HIT';
            $wrong{"$after: Age $age"}++ if $age ne int($old + $after);
            $wrong{"$after: two of them"}++ if @{[$r->all('Age')]} != 1;
            $wrong{"$after: \$mcds_cache_age"}++
                if $r->header('X-Age') ne $age;
            $wrong{"$after: \$mcds_cache_ttl " . $r->header('X-TTL')}++
                if abs($r->header('X-TTL') - ($life - $after)) > 1;

            for my $other ('Date', 'Expires') {
                my $said = $header{$other} // next;
                $wrong{"$after: $other"}++ if $r->header($other) ne $said;
            }
        }

        is_deeply(\%wrong, {}, "$uri: its age") or diag(explain(\%wrong));

        # set back, to before the page was made: its age is not known

        $clock->put($start - 30);
        isnt($h->get($uri)->header('X-Cache'), 'HIT', "$uri: set back");

        $clock->put($start + $life);
        isnt($h->get($uri)->header('X-Cache'), 'HIT', "$uri: expired");
    }
}

$t->done();
