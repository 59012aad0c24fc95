#!/usr/bin/perl

# Copyright (C) mcds authors

# memcached is stopped, as by SIGSTOP, and goes on: the first requests wait for
# one deadline, then nobody waits; what it says of its own accord later is
# nobody's answer.  The worker waits for nothing but its events.

use warnings;
use strict;

use Test::More;
use Time::HiRes qw/ sleep time /;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;
use Test::Mcds::Strace;

my $t = Test::Mcds->new(calm => 1)->not_in('two many',
    'it looks at one worker');

my $m = $t->memcached('m');
my $o = $t->origin('o', { headers => ['Cache-Control' => 'max-age=60'],
    body => "page of %u, " x 400 . "end of %u\n" });

my $limit = 150 * $t->slow();

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server       127.0.0.1:%%PORT_m%%;
        timeout      ${limit}ms;
        max_fails    3;
        fail_timeout 300ms;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter \$n key=n:\$uri;
            mcds_cache on;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
            add_header X-Cache \$mcds_cache_status;
            add_header X-Number \$n;
        }
        location /n {
            mcds_counter \$n key=n:\$arg_k;
            mcds_return "<\$n>";
        }
        location /plain {
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

my @uris = map { "/page$_" } 1 .. 8;
my ($worker) = $h->workers();

# what each counter has been told to be, so that an answer to another shows

my %base = map { $uris[$_] => ($_ + 1) * 1000000 } 0 .. $#uris;

$m->set("n:$_", $base{$_}) for @uris;

sub seen {
    my ($uri) = @_;

    my $res = $h->get($uri);
    my $n = $res->header('X-Number');
    my @wrong;

    push @wrong, $res->status() if $res->status() != 200;
    push @wrong, 'body' if $res->body() !~ /^page of $uri, .*end of $uri\n\z/s;
    push @wrong, "number $n" if defined $n
        && ($n <= $base{$uri} || $n > $base{$uri} + 100000);

    return ($res->calm() * 1000, "@wrong", $n, $res->header('X-Cache'));
}

seen($_) for @uris;
ok(wait_for(sub { (seen($uris[0]))[3] eq 'HIT' }), 'cached');

my $trace = Test::Mcds::Strace->start($t, $worker);

for my $round (1 .. 2) {

    my $downs = $h->log_count(qr/is down/);
    my (@waited, @late, @wrong);

    # under load, from now on

    my $load = $t->load(port => $h->port(), uris => \@uris, clients => 20,
        rate => 20, seconds => $t->size(1.2, 32), expect => 'end of /',
        background => 1);
    my $lost = $t->lost();

    sleep 0.2;
    $m->freeze();

    for (1 .. 12) {
        my ($ms, $wrong) = seen($uris[rand @uris]);
        push @wrong, $wrong if length $wrong;
        push @waited, $ms;
        last if $h->log_count(qr/is down/) > $downs;
    }

    is("@wrong", '', "stop $round: the right answers");
    is($h->log_count(qr/is down after 3 failures/), $downs + 1,
        "stop $round: the breaker opens after 3 failures");
    cmp_ok((sort { $b <=> $a } @waited)[0], '<', $limit * 2 + 50 * $t->slow(),
        "stop $round: one deadline for each step, at most");

    for (1 .. 60) {
        my ($ms, $wrong, $n) = seen($uris[rand @uris]);
        push @wrong, $wrong if length $wrong;
        push @late, $ms;
    }

    @late = sort { $a <=> $b } @late;

    is("@wrong", '', "stop $round: the right answers, later");
    cmp_ok($late[30], '<', 30 * $t->slow(), "stop $round: nobody waits later");
    cmp_ok($late[-1], '<', $limit * 0.8, "stop $round: not even for a probe");

    # beside the same without memcached, in turn

    my ($more, @plain, @new);

    for my $try (1 .. 3) {
        @plain = @new = ();

        for my $i (1 .. 60) {
            push @plain, $h->get("/plain$i")->calm() * 1000;
            push @new, $h->get("/new$i")->calm() * 1000;
        }

        $more = median(@new) - median(@plain);
        last if $more < $t->slow();
    }

    cmp_ok($more, '<', $t->slow(), "stop $round: it costs less than 1 ms");

    sleep 27 if $t->full();

    # it goes on, with what it had read

    $m->cont();

    ok(wait_for(sub { defined((seen($uris[0]))[2]) }, 3 * $t->slow()),
        "stop $round: used again");

    # a busy machine may miss the short deadline again: no number then

    my (%n, $numbers);

    for (1 .. 200) {
        my $uri = $uris[rand @uris];
        my (undef, $wrong, $n) = seen($uri);
        push @wrong, $wrong if length $wrong;
        next if !defined $n;
        push @wrong, "$uri went back from $n{$uri} to $n"
            if $n <= ($n{$uri} // 0);
        $n{$uri} = $n;
        $numbers++;
    }

    is("@wrong", '', "stop $round: no answer of before");
    cmp_ok($numbers, '>=', 100, "stop $round: numbers again");

    my $r = $load->wait();
    $lost = 1000 * ($t->lost() - $lost);

    is($r->{ok}, $r->{requests}, "stop $round: load: all answered");
    is($r->{wrong} + $r->{errors}, 0, "stop $round: load: with their page");
    cmp_ok($r->{max} - $lost, '<', $limit * 2 + 100 * $t->slow(),
        "stop $round: load: none waits longer");
}

SKIP: {
    skip 'cannot trace', 2 if !$trace;

    my @calls = $trace->end();
    my @waiting = Test::Mcds::Strace::waiting(\@calls);

    cmp_ok(scalar(grep { /\bconnect\(/ } @calls), '>', 0, 'it was traced');
    is(scalar @waiting, 0, 'no call waits')
        or diag(map { "$_\n" } @waiting);
}

$t->done();


sub median {
    my @sorted = sort { $a <=> $b } @_;
    return $sorted[$#sorted / 2];
}
