#!/usr/bin/perl

# Copyright (C) mcds authors

# A request that waits for a build knows which one.  With "eject on" the server
# of a page hangs, requests wait for the page on another server, and the first
# one returns with the page of before; or the reply that brought that page was
# damaged, and the next is not.  No waiting request takes that page for the one
# that it has waited for: it is judged as any page that is found, however old it
# is, and whatever the location does with its pages.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ time sleep /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Entry qw/ :DEFAULT key /;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at single workers');
$t->needs('mcds vary');

my @m = map { $t->memcached("m$_", args => ['-I', '64k', '-o',
    'slab_chunk_max=65536']) } 0, 1;

$t->write_file('key', 'a secret of some length');

my $life = 10 * $t->slow();

# a page has the version that the origin is at when it is asked

my $version = $t->write_file('version', 1);

my $o = $t->origin('o', sub {
    my ($o, $q) = @_;
    my $path = $q->{path};

    open my $f, '<', $version or die "$version: $!\n";
    my $body = 'version ' . <$f>;

    return {
        headers => ['Content-Type' => 'text/plain', 'Cache-Control' =>
            $path =~ /none/ ? 'no-store'
            : $path =~ /must/ ? "max-age=$life, must-revalidate"
            : $path =~ /plain/ ? "max-age=$life" : 'max-age=600',
            $path =~ /vary/ ? (Vary => 'X-A') : ()],
        body => $path =~ /large/ ? "$body " x 10000 : $body,
    };
});

# while the test says so the reply to a look-up is damaged; with "gone" there is
# nothing for those who ask for the page behind its lock, either

my $fake = $t->fake('f', sub {
    my ($f, $c, $line, $value) = @_;
    my $mode = $f->mode() // 'fine';
    my $behind = $c->{lock};

    $c->{lock} = $line =~ /:lock /;

    return if $mode eq 'fine' || $line !~ /^mg / || $c->{lock};
    return $f->default($line, $value) =~ s/^(VA .*).\r\n\z/$1!\r\n/sr
        if !$behind;
    return if $mode ne 'gone';

    my ($key) = $line =~ /^mg (\S+)/;
    return $f->default($line =~ s/\Q$key/${key}none/r) =~ s/none//r;
});

my $conf = <<'EOT';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m0%%;
        server       127.0.0.1:%%PORT_m1%%;
        distribution ketama;
        eject        on;
        timeout      1s;
        max_fails    1;
        fail_timeout 300ms;
    }
    mcds_pool fake { server 127.0.0.1:%%PORT_f%%; }
    add_header X-Cache $mcds_cache_status always;
    add_header X-Reason $mcds_cache_reason always;
    mcds_cache on;
    mcds_cache_grace off;
    mcds_use main;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass http://127.0.0.1:%%PORT_o%%; }
        location /signed/ {
            mcds_cache_hmac_key %%TMP%%/key;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /local/ {
            mcds_cache_local validated;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /packed/ {
            mcds_cache_compress zstd;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fake/ {
            mcds_use fake;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fake/own {
            mcds_use fake;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
        location /fake/other {
            mcds_use fake;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my ($a, $b) = my @hosts = map { $t->nginx($_, $conf) } 'a', 'b';

sub version { $t->write_file('version', shift) }

sub look {
    my ($r) = @_;
    return join ' ', map { $_ // 'none' } $r->header('X-Cache'),
        $r->header('X-Reason'), $r->body() =~ s/^(version \d).*/$1/sr;
}

sub is_all {
    my ($what, $want, @p) = @_;
    my %n;
    $n{look(finish($_))}++ for @p;
    is_deeply(\%n, { $want => scalar @p }, $what);
}

# pages on the server that will hang: some must not be shown when they have
# expired, one stays fresh

sub on_m1 {
    my ($kind) = @_;

    for my $i (1 .. 100) {
        my $uri = "$kind/$i";
        $a->get($uri);
        return $uri if !wait_for(sub { defined $m[0]->get(key($uri)) }, 0.2);
    }
}

my @uris = map { on_m1($_) } map { ("$_/must", "$_/plain") } '/all', '/signed',
    '/local', '/packed', $t->has('mcds large') ? '/large' : ();
my $fresh = on_m1('/fresh');
my $probe = on_m1('/probe');

my $end;

# (on a busy machine, memcached may be too late to store one of them)

for (1 .. 5) {
    for my $uri (@uris, $fresh) {
        $m[1]->delete(key($uri));
        $_->get($uri) for @hosts;
    }

    $end = time() + $life + 0.5;

    last if !grep { !page_wait($m[1], key($_), 5) } @uris, $fresh;
}

$m[1]->freeze();

ok(wait_for(sub {
    finish($_) for map { start_get($_->port(), $probe) } @hosts;
    2 == grep { $_->log() =~ /is down after/ } @hosts;
}), 'a server hangs');

version(2);
$o->mark();
$o->hold_path($_) for @uris, $fresh;

my %build = map { $_ => start_get($a->port(), $_) } @uris, $fresh;
$o->wait_requests(1, $_) || die "$_ is not asked for\n" for @uris, $fresh;
my %wait = map {
    my $uri = $_;
    $uri => [map { start_get($b->port(), $uri) } 1 .. 3];
} @uris, $fresh;
$b->handled('/none');

cmp_ok(time(), '<', $end - 0.5, 'requests wait before the pages expire');
wait_for(sub { time() > $end }, 60 * $t->slow());
is(scalar(grep { $o->count($_) != 1 } @uris, $fresh), 0,
    'each page is built once');

$m[1]->cont();
ok(wait_for(sub { 2 == grep { $_->log() =~ /is up again/ } @hosts }),
    'the server returns');

is_all('the page that is still fresh', 'HIT fresh version 1',
    @{$wait{$fresh}});


ok($o->wait_requests(2, $_, 5), "$_: has expired, and is built anew")
    for @uris;
$o->release($_) for @uris, $fresh;

for my $uri (@uris) {
    my @r = map { look(finish($_)) } $build{$uri}, @{$wait{$uri}};
    is(scalar(grep { !/ version 2$/ } @r), 0, "$uri: the new page for all")
        or diag(explain(\@r));
}

finish($build{$fresh});


# what is stored says in which build it was made: the one that has the lock,
# and the page of a variant is of the same build as its list

for my $uri ('/fake/plain', '/fake/large', '/fake/vary', '/fake/signed') {
    $fake->mark();
    $a->get($uri);
    page_wait($fake, key($uri));

    my @set = map { { key => $_->{key}, value => $_->{value} } }
        grep { $_->{cmd} eq 'ms' } $fake->log();
    my ($lock) = map { $_->{value} } grep { $_->{key} =~ /:lock$/ } @set;
    my @pages = grep { defined } map { page_decode($_->{value}) }
        grep { $_->{value} =~ /^MCDS/ } @set;

    is(scalar @pages, $uri =~ /vary/ ? 2 : 1, "$uri: is stored");
    is(scalar(grep { sprintf('%016x', $_->{build}) ne substr $lock, 16, 16 }
        @pages), 0, "$uri: names the build");
}


# a reply is damaged and the next one is not, while another host builds

sub elsewhere {
    my ($mode, $uri, %page) = @_;
    my $now = int(time() * 1000);

    $fake->set(key($uri) . ':lock', 'f' x 16 . '0000000012345678');
    $fake->set(key($uri), page_encode(key => key($uri), body => 'version 0',
        created => $now - 40_000, expire => $now + 1500, %page)) if %page;
    $fake->tell($mode);
    $fake->mark();

    my @p = map { start_get($_->port(), $uri) } (@hosts) x 3;

    if ($mode eq 'gone') {

        # both hosts have read their requests, and wait

        $_->handled('/fake/none') for @hosts;
        wait_for(sub { $fake->count(qr/^mg \Q@{[key($uri)]}\E:lock /) > 5 });
    }

    return @p;
}

# until both hosts have read that page, and know it: they ask without its value

sub seen {
    my ($uri) = @_;

    ok(wait_for(sub {
        my %conn = map { $_->{conn} => 1 }
            grep { $_->{line} =~ /^mg \Q@{[key($uri)]}\E (?!.*\bv\b)/ }
            $fake->log();
        return keys %conn >= 2;
    }), "$uri: the page is read");
}

version(3);

my @p = elsewhere('damaged', '/fake/a', expire => int(time() * 1000) + 600_000);
is_all('damaged: a page that is fresh is one that was found',
    'HIT fresh version 0', @p);

@p = elsewhere('gone', '/fake/must', flags => 2);
my $past = time() + 1.6;
wait_for(sub { time() > $past });
$fake->tell('fine');
seen('/fake/must');
$fake->delete(key('/fake/must') . ':lock');
my @r = map { look(finish($_)) } @p;
is(scalar(grep { !/ version 3$/ } @r), 0,
    'damaged: not one that must be revalidated') or diag(explain(\@r));
is($o->count('/fake/must'), 1, 'damaged: it is built once');


# the awaited build is known by its name: what the origin took longer for than
# it lives is for all who have waited, unless it is another one.  Each has a
# location of its own: a host that has seen a build of a minute asks seldom

for my $c (['/fake/own', 0x12345678, 'HIT built version 0'],
    ['/fake/other', 0x12345679, undef])
{
    my ($uri, $id, $want) = @$c;

    @p = elsewhere('gone', $uri);

    my $now = int(time() * 1000);
    $fake->tell('fine');
    $fake->set(key($uri), page_encode(key => key($uri), body => 'version 0',
        build => $id, created => $now, expire => $now - 1000, took => 60_000));

    if (!$want) {
        seen($uri);
        $fake->delete(key($uri) . ':lock');
    }

    @r = map { look(finish($_)) } @p;
    is(scalar(grep { $want ? $_ ne $want : !/ version 3$/ } @r), 0,
        "$uri: what it is") or diag(explain(\@r));
}


$t->allow(qr/still being built|memcached/);
$t->done();
