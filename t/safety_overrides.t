#!/usr/bin/perl

# Copyright (C) mcds authors

# C05: each directive that takes away a guard takes away that one alone: what is
# refused for two reasons is refused still.  C01: cookies are never given to
# others, even where answers with cookies are stored.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

# what forbids to store an answer, each by itself

my %guard = (
    cookie => ['Set-Cookie' => 'a=b'],
    private => ['Cache-Control' => 'private, max-age=60'],
    store => ['Cache-Control' => 'no-store, max-age=60'],
    cache => ['Cache-Control' => 'no-cache, max-age=60'],
    vary => [Vary => '*'],
    expired => [Expires => 'Thu, 01 Jan 1970 00:00:01 GMT'],
    accel => ['X-Accel-Expires' => '0'],
);

my $m = $t->memcached('m');
my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my @names = split /-/, ($q->{uri} =~ m{^/\w+/([\w-]*)})[0] // '';
    return { headers => [map { @{$guard{$_} // []} } @names] };
});

# which of them a location does not hear; "cookie" may do harm and is warned of

my %location = (
    plain => ['', ''],
    ignore_cookie => ['mcds_ignore_headers Set-Cookie;', 'cookie'],
    ignore_control => ['mcds_ignore_headers Cache-Control;',
        'private store cache'],
    ignore_expires => ['mcds_ignore_headers Expires;', 'expired'],
    ignore_accel => ['mcds_ignore_headers X-Accel-Expires;', 'accel'],
    ignore_vary => ['mcds_ignore_headers Vary;', ''],
    hide => ['proxy_hide_header Set-Cookie; proxy_hide_header Cache-Control;',
        ''],
    proxy => ['proxy_ignore_headers Set-Cookie Cache-Control Expires Vary
        X-Accel-Expires;', ''],
    methods => ['mcds_cache_methods GET;', ''],
    lock => ['mcds_cache_lock off;', ''],
    grace => ['mcds_cache_background_update on; mcds_cache_grace on;', ''],
    heuristic => ['mcds_cache_heuristic 50%;', ''],
    sort => ['mcds_cache_key_args sort;', ''],
    stale => ['mcds_cache_use_stale error timeout http_500 http_403;', ''],
    revalidate => ['mcds_cache_revalidate on;', ''],
    control => ['mcds_cache_request_control on;', ''],
    sessions => ['mcds_cache_session_cookies off;', ''],
);

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; }
    add_header X-Cache $mcds_cache_status always;
    mcds_cache on;
    mcds_cache_valid 200 1m;
    server {
        listen 127.0.0.1:%%PORT%%;
        %%LOCATIONS%%
    }
}
EOT

my $locations = join '', map {
    "location /$_/ { $location{$_}[0] proxy_pass http://127.0.0.1:%%PORT_o%%; }"
} sort keys %location;

my $h = $t->nginx('h', $conf =~ s/%%LOCATIONS%%/$locations/r);

is($h->log_count(qr/\[warn\].*Set-Cookie/), 1,
    'nginx warns of the one that stores answers with cookies');


# whether the answer for some guards is stored, and what it then shows others

sub stored {
    my ($where, @guards) = @_;

    my $uri = "/$where/" . join '-', @guards;
    my $r;

    $h->get($uri);

    for (1 .. 2) {
        $r = $h->get($uri);
        last if $r->header('X-Cache') =~ /HIT/;
    }

    return ($r->header('X-Cache') =~ /HIT/ ? 1 : 0,
        defined $r->header('Set-Cookie') ? 1 : 0);
}

my @names = sort keys %guard;

for my $where (sort keys %location) {
    my %off = map { $_ => 1 } split ' ', $location{$where}[1];
    my (@open, @shut, @cookies);

    for my $i (0 .. $#names) {
        for my $j ($i .. $#names) {
            my @guards = $i == $j ? $names[$i] : @names[$i, $j];

            my ($hit, $cookie) = stored($where, @guards);
            my $may = !grep { !$off{$_} } @guards;

            push @open, "@guards" if $hit && !$may;
            push @shut, "@guards" if !$hit && $may;
            push @cookies, "@guards" if $hit && $cookie;
        }
    }

    is(join(', ', @open), '', "$where: no guard but its own is gone");
    is(join(', ', @shut), '', "$where: its own is");
    is(join(', ', @cookies), '', "$where: no cookie for others");
}


# Authorization: no directive that is about answers lets its answer out

my @out = grep {
    my $uri = "/$_/auth";
    $h->get($uri, headers => [Authorization => 'x']) for 1 .. 2;
    $h->get($uri)->header('X-Cache') =~ /HIT/;
} sort keys %location;

is("@out", '', 'answers for Authorization stay where they are');
ok((stored('plain', 'nothing'))[0], 'what has no guard is stored');

$t->done();
