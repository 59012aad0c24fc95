#!/usr/bin/perl

# Copyright (C) mcds authors

# Two hosts whose mcds is not of the same version share everything, as while a
# site is upgraded host by host: nobody gets another page than the one asked
# for, no page from before a purge, and numbers count what both have counted.
#
# The other version is the module TEST_NGINX_MODULE_B, see make mixed; without
# it both are this one.  What the other does not know yet it does without.

use warnings;
use strict;

use Compress::Zlib qw/ memGunzip /;
use Digest::MD5 qw/ md5_hex /;
use Test::More;
use Time::HiRes qw/ time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();
$t->needs('mcds vary');

my $m = $t->memcached('m', memory => 256);
my $other = $ENV{TEST_NGINX_MODULE_B};
my %without;
my $end = time() + $t->size(0, 600);

note('the other version: ' . ($other // 'none'));

# a body says what it is of, when it was made, and whether it is whole

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my ($kind) = $req->{path} =~ m{^/(\w+)};
    my $language = $kind eq 'vary'
        ? $req->{headers}{'accept-language'} // '' : '';

    my $head = join ' ', $req->{uri}, $language || '-', time();
    my $size = { text => 20000, large => 2_500_000 }->{$kind} // 200;
    my $text = $kind eq 'large' ? pack 'L*', map { $req->{n} * 7919 + $_ }
        1 .. $size / 4 : 'all work and no play ' x ($size / 21);

    return { body => "$head\n$text" . md5_hex("$head\n$text"),
        headers => ['Cache-Control' => 'max-age=' . ($kind eq 'short' ? 1 : 60),
            'Content-Type' => 'text/html', $kind eq 'vary'
                ? (Vary => 'Accept-Language') : ()] };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_m%%; timeout 2s; }
    mcds_cache on;
    mcds_purge_api method=DELETE mode=delete;
    mcds_cache_tag $uri site;
    server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-Cache $mcds_cache_status always;
        add_header X-Number $n;
        location / {
            mcds_counter $n key=views;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /text {
            mcds_counter $n key=views;
            mcds_cache_compress gzip;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /local {
            mcds_counter $n key=views;
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location = /purge { mcds_purge_api on mode=delete; }
        location = /log { mcds_log_api views; }
        location = /logged { mcds_log views combined; return 204; }
    }
}
EOT

my @h = ($t->nginx('a', $conf), other());

my @uris = map { ("/plain/$_", "/text/$_", "/vary/$_", "/local/$_",
    "/short/$_") } 0 .. 3;
my @languages = ('en', 'de', 'fr');
my (%wrong, %status);
my ($requests, $counted) = (0, 0);
my %purged;

push @uris, '/large/0';

for (my $round = 1; $round <= 6 || time() < $end; $round++) {
    my (@asked, @requests);

    # all from both, at once, some of it compressed

    for my $i (0 .. 3 * @uris - 1) {
        my $uri = $uris[$i % @uris];
        my $language = $languages[rand @languages];
        my $gzip = rand() < 0.3;

        push @asked, { uri => $uri, language => $language,
            since => $purged{$uri} // 0 };
        push @requests, [$h[rand @h]->port(), $uri, headers => {
            'Accept-Language' => $language,
            $gzip ? ('Accept-Encoding' => 'gzip') : () }];
    }

    my @r = many(scalar @requests, \@requests,
        concurrency => 20, timeout => 20 * $t->slow());

    judge($asked[$_], $r[$_]) for 0 .. $#r;

    # a purge, on one of them, of a page or of all

    my $now = time();
    my $h = $h[rand @h];

    if ($round % 3) {
        my $uri = $uris[rand @uris];

        my $r = $h->get($uri, method => 'DELETE');
        $wrong{'no purge of ' . $uri . ' ' . $r->status()}++
            if $r->status() !~ /^20/ && $r->status() != 404;
        $purged{$uri} = $now;

    } else {
        my $r = $h->get('/purge?tag=site');
        $wrong{'no purge of all ' . $r->status()}++ if $r->status() != 200;
        $purged{$_} = $now for @uris;
    }
}

is_deeply(\%wrong, {}, "$requests answers are right") or diag(explain(\%wrong));
cmp_ok($status{HIT} // 0, '>', $requests / 3, 'many of them are hits')
    or diag(explain(\%status));

# one build of a page for both, if they take the same pages

my $most = $other ? 2 : 1;

for my $n (1 .. 3) {
    my @r = many(16, [map { [$_->port(), "/herd/$n"] } (@h) x 8]);

    judge({ uri => "/herd/$n", language => '-', since => 0 }, $_) for @r;
    cmp_ok($o->count("/herd/$n"), '<=', $most, "herd $n is one");
}

is(counter(), $counted, 'all requests are counted');

# lines of both hosts

my @logs = grep { !$without{mcds_log} || $_ == $h[0] } @h;
my $lines = 2 * @logs;

$_->get('/logged') for @logs, @logs;

for my $h (@logs) {
    ok(wait_for(sub {
        my $body = $h->get('/log?format=text&last=0')->body();
        return $lines == (() = $body =~ /logged/g);
    }), "$h->{name} reads the lines of " . @logs);
}

$t->done();


# this configuration, without what that version does not know

sub other {
    return $t->nginx('b', $conf) if !$other;

    local $t->{so} = $other;

    while ((my $said = $t->conf_error($conf)) ne '') {
        $said =~ /unknown directive "(\w+)"/ or die $said;

        my $name = $1;

        $without{$name} = 1;
        note("the other has no $name");
        $conf =~ s/^.*\b$name\b.*\n//mg or die $said;
    }

    return $t->nginx('b', $conf);
}


sub judge {
    my ($asked, $r) = @_;

    $requests++;

    if ($r->status() ne '200' || !$r->complete()) {
        $wrong{'status ' . ($r->status() || $r->error())}++;
        return;
    }

    $counted++;
    $status{$r->header('X-Cache') // ''}++;

    my $body = $r->body();

    $body = memGunzip($body) // ''
        if ($r->header('Content-Encoding') // '') eq 'gzip';

    my $sum = substr $body, -32, 32, '';
    my ($uri, $language, $made) = $body =~ /^(\S+) (\S+) ([\d.]+)\n/;

    if (!defined $made || md5_hex($body) ne $sum) {
        $wrong{"torn $asked->{uri}"}++;

    } elsif ($uri ne $asked->{uri}) {
        $wrong{"$uri for $asked->{uri}"}++;

    } elsif ($uri =~ /vary/ && $language ne $asked->{language}) {
        $wrong{"$uri in another language"}++;

    } elsif ($made < $asked->{since}) {
        $wrong{"$uri from before the purge"}++;
    }
}


sub counter { $m->get('views') }
