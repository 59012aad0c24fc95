#!/usr/bin/perl

# Copyright (C) mcds authors

# Answers that come around the deadline, some before it and some after: what
# was asked for one visitor is never given to another, and no number is given
# twice.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::Mcds;

my $t = Test::Mcds->new();

my %first = (alice => 1000000, bob => 5000000000);

sub page {
    my ($user) = @_;
    return "$user " x ($user eq 'bob' ? 9000 : 300) . "bye $user\n";
}

my $o = $t->origin('o', sub {
    my ($o, $req) = @_;
    return { body => page($req->{path} =~ s{.*/}{}r) };
});

my $limit = 0.02 * $t->slow();

my $f = $t->fake('m', sub {
    my ($f, $c, $line, $value) = @_;

    return if $f->mode() ne 'late' || $line !~ /^m[ag]/;

    my $chance = rand();
    my $delay = $chance < 0.6 ? 0
        : $chance < 0.8 ? rand() * 1.5 * $limit
        : $limit * (0.8 + rand() * 0.4);

    my $bytes = $f->default($line, $value);

    return [$bytes, $delay] if rand() < 0.7;

    # some in two parts, the second of which is late

    my $cut = int rand length $bytes;

    return (substr($bytes, 0, $cut), [substr($bytes, $cut), $delay]);
});

my $msec = int($limit * 1000);

my $h = $t->nginx('h', <<"EOT");
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    mcds_pool main {
        server    127.0.0.1:%%PORT_m%%;
        timeout   ${msec}ms;
        max_fails 0;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            mcds_counter \$views key=views\$uri;
            mcds_cache on;
            mcds_cache_key page\$uri;
            mcds_cache_valid 1h;
            add_header X-Views \$views;
            add_header X-Cache \$mcds_cache_status;
            proxy_pass http://127.0.0.1:%%PORT_o%%;
        }
    }
}
EOT

for my $user (sort keys %first) {
    is($h->get("/$user")->body, page($user), "the page of $user is made");
    ok(wait_for(sub {
        defined $f->get("<>page/$user") || !$h->get("/$user");
    }), 'and stored');
    $f->set("views/$user", $first{$user});
}

$f->tell('late');

my $ops = $t->size(3000, 100000);
my (%seen, %hits, %bad, $requests);
my $asked = 0;

my $enough = $ops / 20;

while ($asked < $ops || $asked < 10 * $ops
    && grep { ($hits{$_} // 0) <= $enough } qw/ HIT number /)
{
    my @users = map { rand() < 0.5 ? 'alice' : 'bob' } 1 .. 200;
    my @gone;

    my @res = many(scalar @users, sub {

        # some visitors leave at once

        push @gone, start_get($h->port(), "/$users[rand @users]")
            if rand() < 0.1;
        (shift @gone)->reset() if @gone > 3;

        return [$h->port(), "/$users[$_[0]]"];
    }, concurrency => 6);

    $_->reset() for @gone;

    for my $i (0 .. $#users) {
        my ($user, $res) = ($users[$i], $res[$i]);
        my $number = $res->header('X-Views');

        $requests++;
        $bad{status}++ if $res->status != 200;
        $bad{body}++ if $res->body ne page($user);
        $hits{$res->header('X-Cache') // 'none'}++;

        next if !defined $number;

        $hits{number}++;
        $bad{number}++ if $number <= $first{$user}
            || $number > $first{$user} + 1000000;
        $bad{twice}++ if $seen{$number}++;
    }

    last if %bad;

    $asked += $f->count(qr/^m[ag]/);
    $f->mark();
}

my $late = $h->log_count(qr/memcached timed out/);

is($bad{status} // 0, 0, "$requests requests of $asked operations: all "
    . 'answered');
is($bad{body} // 0, 0, 'no wrong body');
is($bad{number} // 0, 0, 'no wrong number');
is($bad{twice} // 0, 0, 'no number twice');
cmp_ok($hits{HIT} // 0, '>', $enough, 'many came from memcached');
cmp_ok($hits{number} // 0, '>', $enough, 'many have a number');
cmp_ok($late, '>', 20, "deadlines were missed ($late)");

$t->done();
