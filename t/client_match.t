#!/usr/bin/perl

# Copyright (C) mcds authors

# Replies are matched with what was asked: whatever way they are cut, in
# whatever mixture they come, each request gets its own; and an answer that
# names another operation or another key is nobody's.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new()->not_in('two many',
    'it looks at one worker')
    ->not_in('connections nofile', '64 clients at once are a batch')
    ->allow(qr/memcached sent (?:a|the) repl(?:y|ies)/);

my @sizes = (1, 700, 16000, 33000, 60000);

sub page {
    my ($path) = @_;
    my ($n) = $path =~ /(\d+)/;
    return substr("page $n " x 9000, 0, $sizes[$n % @sizes]) . " end of $n\n";
}

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { body => page($req->{path}) };
});

# "batch": answers wait until all commands of a batch are there, then they
# leave, on each connection in one piece or in random pieces

my $f = $t->fake('m', sub {
    my ($f, $c, $line, $value) = @_;

    my $mode = $f->mode();
    my ($cmd, $key) = split / /, $line;

    if ($mode eq 'batch' && $cmd =~ /^m[ag]/) {
        my ($total, $seed, $whole) = @{$f->{told}};
        my $conns = $f->{batch} //= {};

        $conns->{$c->{id}} .= $f->default($line, $value);
        return '' if ++$f->{got} < $total;

        srand $seed;

        for my $id (sort keys %$conns) {
            my $bytes = delete $conns->{$id};
            my @pieces;

            while (!$whole && @pieces < 20 && length $bytes > 1) {
                my $len = 1 + int rand(rand() < 0.5 ? 40 : length $bytes);
                push @pieces, [substr($bytes, 0, $len, ''), 0.0002];
            }

            $f->queue($f->{conns}{$id}, @pieces, $bytes);
            $f->run($f->{conns}{$id});
        }

        $f->{got} = 0;
        return '';
    }

    return if $mode !~ /^bad/ || $key !~ /:1$/ || $cmd !~ /^m[ag]/;

    my $answer = $f->default($line, $value);
    my $opaque = $f->flag($line, 'O');
    my $older = sprintf '%x', hex($opaque) - 1;
    my $other = $line =~ s/:1 /:2 /r;

    $f->{mode} = '';

    return $answer =~ s/ O$opaque/ O${opaque}1/r if $mode eq 'bad opaque';
    return $answer =~ s/ O$opaque//r if $mode eq 'bad none';
    return $answer =~ s/ O$opaque/ O$older/r if $mode eq 'bad older';
    return $answer =~ s/ k\Q$key\E/ k${key}1/r if $mode eq 'bad key';
    return $answer =~ s/ k\Q$key\E//r if $mode eq 'bad keyless';
    return $f->default($other) if $mode eq 'bad page';
    return $f->default($other =~ s/ O\w+/ O$older/r) if $mode eq 'bad late';
    return $answer =~ s/\AVA \d+(.*?\r\n).*/HD$1/sr if $mode eq 'bad kind';
    return ($f->default($other), $answer) if $mode eq 'bad two';
    return "EN\r\n" if $mode eq 'bad miss';
    return;
});

my $h = $t->nginx('h', <<'EOT');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server    127.0.0.1:%%PORT_m%%;
        timeout   10s;
        max_fails 0;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /n/ {
            mcds_counter $n key=count:$arg_k;
            mcds_return "<$n>\n";
        }
        location /p/ {
            mcds_cache on;
            mcds_cache_key page:$arg_k;
            mcds_cache_valid 1h;
            add_header X-Cache $mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my $pages = 10;

is($h->get("/p/$_?k=$_")->body, page("/p/$_"), "page $_ is made")
    for 0 .. $pages - 1;
ok(wait_for(sub { $f->count(qr/^ms <>page:\d+ /) == $pages }), 'and stored');

# twice: from now on the large ones come over the bulk connection

$h->get("/p/$_?k=$_") for 0 .. $pages - 1;


# P03

my %count = map { $_ => 0 } 1 .. 64;
my ($wrong, $asked) = (0, 0);

my $first = $t->seed(1);

for my $seed ($first .. $first - 1 + $t->size(80, 10000)) {
    srand $seed;

    my $total = 1 + int rand 64;
    my %pages = map { int(rand $pages) => 1 } 1 .. rand 6;
    my @pages = (sort keys %pages)[0 .. ($total < keys %pages ? $total
        : keys %pages) - 1];
    my @list = map { "/p/$_?k=$_" } @pages;

    push @list, map { "/n/?k=$_" } 1 .. $total - @list;
    @list = sort { rand() <=> 0.5 } @list;

    $f->tell('batch', $total, $seed, $seed % 2);

    my @res = many(scalar @list, sub { [$h->port(), $list[$_[0]]] },
        concurrency => 64);

    for my $i (0 .. $#list) {
        my ($k) = $list[$i] =~ /k=(\d+)/;
        my $want = $list[$i] =~ /^.p/ ? page("/p/$k") : '<' . ++$count{$k}
            . ">\n";

        $asked++;
        $wrong++ if $res[$i]->status != 200 || $res[$i]->body ne $want;
    }

    last if $wrong;
}

is($wrong, 0, "replies in one and in many pieces: $asked requests get their "
    . "own");
is($o->count(), $pages, 'all pages came from memcached');


# P06

$f->tell('');

for my $mode (qw/ opaque none older key keyless page late kind two miss /) {

    for my $uri ('/p/1?k=1', '/n/?k=1') {
        next if $mode eq 'miss' && $uri =~ /^.n/;

        # the number of another is far away

        $f->set('count:2', 777777);
        $h->get($uri);

        my $opened = $f->opened_count();
        my $closed = $h->log_count(qr/connection closed/);

        $f->hang_up();
        $f->tell("bad $mode");

        my $res = $h->get($uri);
        my $name = "$mode $uri";

        is($res->status, 200, "$name: answered");

        if ($uri =~ /^.p/) {
            is($res->body, page('/p/1'), "$name: the right page");
            isnt($res->header('X-Cache'), 'HIT', "$name: not the answer");

        } else {
            is($res->body, "<>\n", "$name: no number");
        }

        ok(wait_for(sub {
            $h->log_count(qr/connection closed/) == $closed + 1
        }), "$name: the connection is closed");

        $f->tell('');
        wait_for(sub { $h->get($uri)->header('X-Cache') eq 'HIT' })
            if $uri =~ /^.p/;

        $res = $h->get($uri);

        if ($uri =~ /^.p/) {
            is($res->header('X-Cache'), 'HIT', "$name: the next is a hit");
            is($res->body, page('/p/1'), "$name: and right");

        } else {
            like($res->body, qr/^<[1-9]\d{0,4}>$/, "$name: the next has one");
        }

        cmp_ok($f->opened_count(), '>', $opened, "$name: a new connection");
    }
}

$t->done();
