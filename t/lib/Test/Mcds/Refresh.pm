package Test::Mcds::Refresh;

# Copyright (C) mcds authors

# Stores a page, makes it expire, has it refreshed, and compares the old page
# with the new one:
#
#     $body = refresh_same($t, $m, $key, $name, sub { $host->get('/uri') })
#
# $m is the memcached, $key the key of the page, or a sub that returns it.  The
# sub that requests the page is called twice, the second time with a true
# argument, and returns a response with X-Cache.  The body of the page begins
# with "answer <n>", and the rest of both bodies must be equal.  With behind =>
# sub {}, that sub runs during the refresh.  Returns the body that the refresh
# has stored.
#
#     refresh_variant($m, $key)       the key of the first variant of a page;
#                                     that of the page if it does not vary
#     refresh_wait($m, $key, $timeout)    waits until a page is stored that has
#                                     not expired; returns its fields

use warnings;
use strict;

use Exporter qw/ import /;
use Test::More ();
use Time::HiRes qw/ time sleep /;

use Test::Mcds::Entry;

our @EXPORT = qw/ refresh_same refresh_variant refresh_wait /;


sub refresh_wait {
    my ($m, $key, $timeout) = @_;

    $key = "<>$key" if $key !~ /</;

    return Test::Mcds::wait_for(sub {
        my $e = page_decode($m->get($key));
        return $e && $e->{expire} > time() * 1000 && $e;
    }, $timeout);
}


sub refresh_variant {
    my ($m, $key) = @_;
    my $variant;

    Test::Mcds::wait_for(sub {
        ($variant) = grep { /^<>\Q$key\E:vary:/ && !/:lock$/ } $m->keys();
    });

    return $variant // $key;
}


sub refresh_same {
    my ($t, $m, $key, $name, $get, %o) = @_;

    my $filled = $get->();
    my $first = $filled->body();

    Test::More::is($filled->header('X-Cache'), 'MISS', "$name: filled");

    $key = $key->() if ref $key;

    if (!page_wait($m, $key)) {
        Test::More::fail("$name: stored");
        return '';
    }

    page_expire($m, $key, 1000);

    my $stale = $get->(1);

    Test::More::is($stale->header('X-Cache'), 'STALE', "$name: stale");
    Test::More::is($stale->body(), $first, "$name: the old page");

    $o{behind}->() if $o{behind};

    my $page = refresh_wait($m, $key);
    Test::More::ok($page, "$name: refreshed") or return '';

    my $second = $page->{body};
    my $n = $first =~ s/^answer (\d+)// ? $1 : 0;
    my $k = $second =~ s/^answer (\d+)// ? $1 : 0;

    Test::More::cmp_ok($k, '>', $n, "$name: by another answer");
    Test::More::is($second, $first, "$name: to the same question");

    return $page->{body};
}


1;
