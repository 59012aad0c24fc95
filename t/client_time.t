#!/usr/bin/perl

# Copyright (C) mcds authors

# What memcached's clock says is nobody's business: times on the wire are
# relative, up to the 30 days beyond which memcached takes them for dates, and
# how long a page may be used is not left to memcached at all.  So it may be set
# to another day or year, run fast, or have slept, without a page or a number
# coming to harm.

use warnings;
use strict;

use Config;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Clock;
use Test::Mcds::Entry;

my $t = Test::Mcds->new();

# where seconds have 32 bits, nginx takes no date after 2038, and memcached has
# none

my $narrow = ($Config{ptrsize} == 4);

my $month = 30 * 86400;
my $far = 'Fri, 01 Jan 2100 00:00:00 GMT';

my @ages = map { "max-age=$_" } 1, $month - 1, $month, $month + 1, 365 * 86400,
    2 ** 31 - 1, 2 ** 31, 2 ** 32;

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    my ($kind, $n) = $req->{path} =~ m{/(\w+?)(\d*)$};

    return { status => 503 } if $kind eq 'broken' && $req->{k} > 1;

    return { body => "page of $req->{path}", headers => [
        $kind eq 'date' ? (Expires => $far)
        : ('Cache-Control' => $kind eq 'age' ? $ages[$n]
            : $kind eq 'private' ? 'private' : 'max-age=60')] };
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main { server 127.0.0.1:%%PORT_M%%; timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter $n key=n:$uri;
            mcds_visitor_counter $v key=v visitor=$arg_u slots=1
                                 window=1295999s interpolate=off;
            mcds_visitor_counter $w key=w visitor=$arg_u slots=2 window=10s
                                 interpolate=off;
            mcds_cache on;
            mcds_cache_key page:$uri;
            mcds_cache_lock_age 30d;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache $mcds_cache_status;
            add_header X-Number $n;
        }
    }
}
EOT

sub host {
    my ($m) = @_;
    return $t->nginx("h$m", $conf =~ s/%%PORT_M%%/%%PORT_$m%%/r);
}

my @uris = ((map { "/age$_" } 0 .. $#ages), '/date', '/private', '/broken');


# what is said to memcached

my $f = $t->fake('f');
my $h = host('f');

for my $uri (@uris) {
    $h->get("$uri?u=$uri");
    $h->get("$uri?u=me") if $uri ne '/age0';    # it lives for a second
}

ok(wait_for(sub { $f->count(qr/^ms <>page:\S+ \d{3,} /) == @uris
    && $f->count(qr/^md /) == @uris }), 'pages are stored');

# an old page whose origin fails: nobody tries again for a while

page_wait($f, 'page:/broken');
page_expire($f, 'page:/broken', 5000);
$h->get('/broken') for 1 .. 2;
ok(wait_for(sub { $o->count('/broken') == 2 }), 'it fails');
ok(wait_for(sub { $f->count(qr/^ms <>page:.broken:lock /) >= 3 }),
    'which is told to others');

my (%times, @wrong);

for my $line ($f->commands(qr/^m[sagd] .* O\w+$/)) {
    for my $flag ('T', 'N') {
        my $time = $f->flag($line, $flag) // next;

        $times{$line =~ /:lock / ? 'lock' : $1}{$time} = 1
            if $line =~ /^\w+ (?:<>)?(\w+)/;

        # the mark of a counter that is meant to stay, far away

        push @wrong, $line if $time !~ /^\d+$/ || $time > $month
            && !($line =~ /^ma n:/ && $time >= 2113929215);
    }
}

is("@wrong", '', 'times are relative, and of 30 days at most');
ok($times{v}{1296000}, 'a visitor has his window and a second');
cmp_ok((sort { $b <=> $a } keys %{$times{v}})[0], '>', 1296000,
    'a slot has two windows, as far as they are left');
is(join(' ', sort keys %{$times{page}}), '0 10', 'a page has none, but a mark');
is(join(' ', sort { $a <=> $b } keys %{$times{lock}}), "14 $month",
    'a lock has what it is told, or what is left after a failure');

# pages of a month, or of many years

is($h->get($_)->header('X-Cache'), $_ eq '/age0' ? 'EXPIRED' : 'HIT', $_)
    for grep { /age[1-9]/ || (/date/ && !$narrow) } @uris;

for (["mcds_cache_lock_age ${month}s", ''],
    ['mcds_cache_lock_age ' . ($month + 1) . 's', 'to 30d'],
    ['mcds_visitor_counter $v key=v window=1295999s slots=1 interpolate=off',
        ''],
    ['mcds_visitor_counter $v key=v window=1296000s slots=1', '30 days'],
    ["mcds_visitor_counter \$v key=v window=${month}s slots=30", '30 days'],
    ['mcds_visitor_counter $v key=v window=31d slots=31', 'window=31d'])
{
    my ($line, $error) = @$_;
    my $said = $t->conf_error(
        http => 'mcds_pool main { server 127.0.0.1; }',
        location => ($line =~ /visitor/ ? "$line visitor=\$arg_u" : $line)
            . ';');

    like($said, $error ? qr/\Q$error\E.*nginx\.conf:\d+/ : qr/\A\z/, $line);
}


# memcached on other days; or it slept for a while

my $start = time();
my $clock = Test::Mcds::Clock->new($t, $start);
my $day = 86400;
my $id = 0;

for my $case (['a hundred days asleep', 0, 100 * $day], ['a day late', -$day],
    ['a day ahead', $day], ['in 1976', -50 * 365 * $day],
    $narrow ? () : ['in 2060', 34 * 365 * $day])
{
    my ($name, $offset, $sleep) = @$case;
    my $m = 'm' . $id++;

    $clock->put($start + $offset);

    my $mc = $clock->memcached($m);
    my $h = host($m);

    is($mc->stats()->{time}, $start + $offset, "$name: it is");

    $h->get($_) for @uris;
    ok(wait_for(sub { (grep { /^<>page:[^:]*$/ } $mc->keys()) >= @ages + 2 }),
        "$name: pages are stored");
    ok(wait_for(sub { !grep { /:lock/ && ($mc->get($_) // '') !~ /^kept/ }
        $mc->keys() }), "$name: and unlocked");

    $h->get('/date?u=me');
    is($mc->ttl('v:v:me'), 1296000, "$name: a visitor is known")
        if !$sleep;

    # what had a time is gone now

    $clock->add($sleep) if $sleep;

    my (%cache, %n);

    for my $uri (grep { /age[1-9]/ } @uris) {
        my $res = $h->get("$uri?u=me");
        $cache{$res->header('X-Cache')}++;
        $n{$res->header('X-Number')}++;
    }

    is_deeply(\%cache, { HIT => @ages - 1 }, "$name: pages are used");
    is_deeply(\%n, { 2 => @ages - 1 }, "$name: counters count");
    ok($mc->ttl('n:/date') == -1 || $mc->ttl('n:/date') > 300 * 86400,
        "$name: and stay");

    for my $ttl ($month - 1, $month) {
        $mc->set('x', 1, $ttl);
        is($mc->ttl('x'), $ttl, "$name: $ttl s are relative");
    }

    $h->quit();
    $mc->stop();
}

$t->done();
